"""`report`: collects the evidence, and fills the template."""

from __future__ import annotations

import inspect
import os
import platform
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from multiform import progress
from multiform._typing import Array
from multiform._version import __version__
from multiform.columns import UnfamiliarWarning
from multiform.files import atomic_path, describe
from multiform.metrics import (
    accuracy_at_coverage,
    calibration,
    one_against_rest,
    pr_auc,
    proportion,
    roc_auc,
    threshold_table,
    type_words,
)
from multiform.metrics.labels import positions
from multiform.reporting import _pictures
from multiform.reporting._answers import Answers, ask, layers
from multiform.reporting._importance import Importances, importances
from multiform.reporting._privacy import LEAST_ROWS, hidden_columns
from multiform.reporting._results import Told, as_number, compare, difference, kind_of, read_columns, scores
from multiform.tables import Rule, rule_for

CHOSEN = {"noise": "noise_", "components": "n_components_", "passes": "n_iter_"}  # by training
PACKAGES = ("numpy", "scipy", "scikit-learn", "matplotlib")
IMPORTANCE_SHARE = 0.6  # of the time of a report; the baselines take the rest
MOST_COLUMNS = 40
MOST_NAMELESS = 8  # columns of a matrix say little
MOST_CELLS = 20  # unlike training, that are shown
N_SAMPLES = 8  # that are shown of the least sure, and of the mistakes


@dataclass(frozen=True)
class Report:
    """A report, ready to be saved or shown.

    Attributes
    ----------
    html : str
        The whole page; it needs nothing else, no network either.
    figures : dict
        The main figures, for programs: ``n_samples``, ``accuracy``, ``baselines`` (name to accuracy), and where they
        exist ``log_loss``, ``aurc``, ``coverage`` and ``accepted_accuracy``.
    """

    html: str
    figures: dict[str, Any]

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page, as a whole or not at all.

        Parameters
        ----------
        path : path-like
            The file, for instance ``report.html``.

        Returns
        -------
        path : Path
            The same.
        """
        with atomic_path(path) as part:
            part.write_text(self.html, encoding="utf-8")
        return Path(path)

    def __repr__(self) -> str:
        return f"Report(accuracy={self.figures['accuracy']:.4f}, n_samples={self.figures['n_samples']})"

    def _repr_html_(self) -> str:
        """In a notebook: the page in a frame of its own."""
        from markupsafe import escape

        return f'<iframe srcdoc="{escape(self.html)}" style="width:100%;height:40rem;border:1px solid #ccc"></iframe>'


def report(
    model: Any,
    X: Any,
    y: Any,
    *,
    X_train: Any = None,
    y_train: Any = None,
    plan: Any = None,
    title: str | None = None,
    command: str | Sequence[str] | None = None,
    target_accuracy: float | None = None,
    baselines: bool = True,
    positive: str | None = None,
    anonymous: bool = False,
    model_file: str | os.PathLike[str] | None = None,
    random_state: int = 0,
) -> Report:
    """What a fitted model does with labelled samples, as one page that can be forwarded.

    The page says what the data are, what in them is unlike training (where a table model knows it), how well the model
    does and against which baselines, who is found and who is missed, whether chances come true, which columns matter,
    where it errs, how its error falls when only the surest answers are kept, what its loyalty types are worth, which
    classes and rows it is least sure of, and how all this was made. Give samples that the model was not trained on.

    Values of identifiers, dates and free text are not shown, nor those of columns that a name says are about a person.

    Parameters
    ----------
    model : fitted classifier
        Any; loyalty types and promises are shown where it, the last step of a pipeline, or the estimator inside a
        triage knows them.
    X : array-like, frame or sparse matrix of shape (n_samples, n_features)
        The samples, as the model takes them.
    y : array-like of shape (n_samples,)
        Their labels.
    X_train, y_train : array-like, default=None
        What the model was trained on: then the baselines are trained on it, too. Without them they are cross-validated
        on X, y.
    plan : fitted DiagnosisPlanner, default=None
        A plan of what to measure, to be shown as well.
    title : str, default=None
        The title of the page.
    command : str or sequence of str, default=None
        The command that made the report, for the record.
    target_accuracy : float in (0, 1), default=None
        An accuracy to mark in the risk-coverage curve; that of a triage is known by itself.
    baselines : bool, default=True
        Whether to train baselines; it takes most of the time.
    positive : str, default=None
        The class that is looked for; of two it is found as :func:`multiform.tables.rule_for` says.
    anonymous : bool, default=False
        Show figures of groups alone: nothing of a single row, no value of a column, no command with names of files.
    model_file : path-like, default=None
        The file that the model was read from, which says how it was made.
    random_state : int, default=0
        Seed of the baselines, and of the samples drawn for them where there are very many.

    Returns
    -------
    report : Report
        ``report.save("report.html")`` writes the page.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import train_test_split
    >>> from multiform import LoyaltyClassifier
    >>> from multiform.reporting import report
    >>> X, X_new, y, y_new = train_test_split(*load_iris(return_X_y=True), random_state=0)
    >>> page = report(LoyaltyClassifier(random_state=0).fit(X, y), X_new, y_new, baselines=False)
    >>> page.figures["n_samples"]
    38
    >>> page.html[:15]
    '<!doctype html>'
    """
    environment = _environment()
    if (X_train is None) != (y_train is None):
        raise ValueError(
            "X_train and y_train of report must be given together; "
            f"got only {'y_train' if X_train is None else 'X_train'}."
        )
    if target_accuracy is not None and not 0 < target_accuracy < 1:
        raise ValueError(f"target_accuracy of report must be between 0 and 1, both excluded; got {target_accuracy}.")
    if plan is not None and not (hasattr(plan, "acquire") and hasattr(plan, "plan_")):
        raise ValueError(f"plan of report must be a fitted DiagnosisPlanner; got {type(plan).__name__}.")
    if plan is None and hasattr(model, "order_") and hasattr(model, "frontier_"):
        plan = model  # a planner answers, too
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnfamiliarWarning)  # the page says it
        answers = ask(model, X, y)
    familiarity = model.familiarity(X) if hasattr(model, "familiarity") else None
    made = _provenance(model, X, None if anonymous else command, model_file, anonymous)
    name = type(layers(model, X)[-1][0]).__name__
    doubts = _doubts(X, answers, anonymous)
    rule = rule_for(model, positive)
    own = IMPORTANCE_SHARE if baselines else 1.0
    with progress.part(0.0, own):
        which = importances(model, X, y, random_state=random_state)
    if hasattr(model, "typed"):  # a table is shown as its model reads it
        X, X_train = model.typed(X), None if X_train is None else model.typed(X_train)
    if answers.triage is not None and target_accuracy is None:
        target_accuracy = float(answers.triage.target_accuracy)
    comparison = None
    if baselines:
        known = None if y_train is None else positions(np.asarray(y_train), answers.classes)
        with progress.part(own, 1.0):
            comparison = compare(X, answers.truth, X_train, known, random_state)
    sections = {
        **_data(model, X, answers, anonymous),
        **_results(answers, comparison),
        **_found(answers, rule),
        **_trust(answers),
        **doubts,
        **({} if plan is None else _plan(plan, X)),
    }
    topic = f"Predicting {model.target_}: " if getattr(model, "target_", None) is not None else ""
    html = environment.get_template("template.html").render(
        title=title or f"{topic}{name} on {len(answers.truth):,} rows",
        style=(files("multiform.reporting") / "style.css").read_text(encoding="utf-8"),
        model_name=name,
        answers=answers,
        n=len(answers.truth),
        plan=plan,
        pictures=_pictures,
        proportion=proportion,
        target_accuracy=target_accuracy,
        made=made,
        familiarity=familiarity,
        most_cells=MOST_CELLS,
        anonymous=anonymous,
        importances=which,
        target=getattr(model, "target_", None),
        type_words=type_words,
        **sections,
    )
    return Report(html, _figures(answers, sections, which))


def _environment() -> Any:
    try:
        import jinja2
        import matplotlib  # noqa: F401 - the pictures need it
        from markupsafe import Markup
    except ImportError as error:
        raise ImportError(f'report needs {error.name}; install it with pip install "multiform[report]".') from error

    def printable(value: Any) -> Any:
        return _pictures.plain(value, most=2_000) if isinstance(value, str) and not isinstance(value, Markup) else value

    def percent(value: float | None, digits: int = 1) -> str:
        return "–" if value is None or np.isnan(value) else f"{value:.{digits}%}"

    def points(value: float, signed: bool = False) -> str:
        return f"{100 * value:{'+' if signed else ''}.1f}".replace("-", "\N{MINUS SIGN}")

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("multiform.reporting", ""),
        autoescape=True,
        finalize=printable,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"percent": percent, "points": points, "embedded": Markup}
    return environment


def _data(model: Any, X: Any, answers: Answers, anonymous: bool) -> dict[str, Any]:
    """What the data are."""
    columns = read_columns(X)
    hidden = hidden_columns(model, columns or {})
    told = {
        name: _described(column, "this report is anonymous" if anonymous else hidden.get(name))
        for name, column in (columns or {}).items()
    }
    has_names = hasattr(X, "columns") or isinstance(X, Mapping)
    n_columns = X.shape[1] if columns is None else len(columns)
    return {
        "columns": list(told.items())[: MOST_COLUMNS if has_names else MOST_NAMELESS],
        "roles": {column.name: f"{column.role}: {column.why}" for column in getattr(model, "columns_", [])},
        "n_columns": n_columns,
        "is_sparse": columns is None,
        "hidden": hidden,
        "missing": sum(column["n_missing"] for column in told.values()) / max(1, n_columns * len(answers.truth)),
    }


def _described(column: Array, hidden: str | None) -> dict[str, Any]:
    """What kind of column it is, how many cells are missing, how many values are distinct, and they in a few words, or
    why they are `hidden`.
    """
    kind = kind_of(column)
    if kind == "text":
        present = np.array([value for value in column if value is not None])
    else:
        numbers = as_number(column)
        present = numbers[~np.isnan(numbers)]
    names, counts = np.unique(present, return_counts=True)
    told = {"kind": kind, "n_missing": len(column) - len(present), "distinct": len(names)}
    if not len(names):
        return told | {"values": "empty"}
    if hidden is not None:
        return told | {"values": f"not shown ({hidden})"}
    if kind == "text":
        frequent = [i for i in np.argsort(-counts, kind="stable")[:3] if counts[i] >= LEAST_ROWS]
        shown = ", ".join(f"{_pictures.plain(names[i], most=24)} ({counts[i] / len(present):.0%})" for i in frequent)
        more = f" and {len(names) - len(frequent):,} more" if len(names) > len(frequent) else ""
        return told | {"values": shown + more if shown else f"not shown (each in fewer than {LEAST_ROWS} rows)"}
    least, middle, most = np.quantile(present, [0, 0.5, 1])
    if kind == "date":
        days = np.array([least, middle, most]).astype("datetime64[D]")
        return told | {"values": f"{days[0]} to {days[2]}, median {days[1]}"}
    if least == most:
        return told | {"values": f"always {least:.4g}"}
    return told | {"values": f"{least:.4g} to {most:.4g}, median {middle:.4g}"}


def _results(answers: Answers, comparison: tuple[Any, ...] | None) -> dict[str, Any]:
    """How well it does, and against which baselines."""
    own = Told("this model", answers.labels, answers.chances, np.arange(len(answers.classes)))
    rows, how, briefly, best, gain = [scores(own, answers.truth, answers.trust)], None, None, None, None
    if comparison is not None:
        others, asked, how, briefly = comparison
        truth = answers.truth[asked]
        rows += [scores(other, truth, other.chances.max(axis=1)) for other in others]
        strongest = max(range(1, len(rows)), key=lambda i: rows[i]["accuracy"].value)
        best = rows[strongest]
        gain = difference(answers.right[asked], others[strongest - 1].labels == truth)
    return {"rows": rows, "own": rows[0], "how": how, "briefly": briefly, "best": best, "gain": gain}


def _found(answers: Answers, rule: Rule | None) -> dict[str, Any]:
    """Each class against the rest, thresholds of the one that is looked for, and whether chances come true."""
    against, chances = {}, answers.chances
    known = chances is not None and not np.isnan(chances).any()
    for k, label in enumerate(answers.classes):
        own, called = answers.truth == k, answers.labels == k
        if own.any() or called.any():
            against[label] = one_against_rest(own, called) | {"roc_auc": None, "pr_auc": None}
            if known and len(answers.classes) <= _pictures.MANY_CLASSES:
                assert chances is not None
                against[label] |= {"roc_auc": roc_auc(own, chances[:, k]), "pr_auc": pr_auc(own, chances[:, k])}
    found: dict[str, Any] = {
        "against": against,
        "rule": rule,
        "thresholds": [],
        "calibrated": [],
        "calibrated_of": None,
    }
    if rule is not None and known:
        assert chances is not None
        place = int(positions(np.array([rule.positive], dtype=object), answers.classes)[0])
        own, chance = answers.truth == place, chances[:, place]
        found["thresholds"] = threshold_table(own, chance)
        found["calibrated"], found["calibrated_of"] = calibration(own, chance), rule.positive
    elif answers.trust_is_chance and answers.can_be_ranked:
        assert answers.trust is not None
        found["calibrated"] = calibration(answers.right, answers.trust)
    return found


def _trust(answers: Answers) -> dict[str, Any]:
    """How far the answers can be trusted."""
    surest: dict[float, float] = {}
    if answers.can_be_ranked:
        assert answers.trust is not None
        judged = answers.truth, answers.labels, answers.trust
        surest = {share: accuracy_at_coverage(*judged, coverage=share) for share in (0.25, 0.5, 0.75, 0.9, 1.0)}
    accepted = None
    if answers.accepted is not None and answers.accepted.any():
        right = answers.right[answers.accepted]
        accepted = proportion(int(right.sum()), len(right))
    return {"surest": surest, "accepted": accepted}


def _doubts(X: Any, answers: Answers, anonymous: bool) -> dict[str, Any]:
    """The classes that are recognised least, the rows with the least trust, and the wrong answers with the most.

    The latter are what to look at first, in the model and in the labels.
    """
    unsure, mistaken = np.empty(0, dtype=int), np.empty(0, dtype=int)
    if answers.can_be_ranked and not anonymous:
        assert answers.trust is not None
        unsure = np.argsort(answers.trust, kind="stable")
        wrong = np.flatnonzero(~answers.right)
        mistaken = wrong[np.argsort(-answers.trust[wrong], kind="stable")]
    # A row is named by a pandas frame's index, if that is of whole numbers, which are nobody's name; else by its place,
    # as people count the rows of a table and Python those of an array.
    index, first = getattr(X, "index", None), int(hasattr(X, "columns"))
    given = np.empty(0) if index is None or callable(index) else np.asarray(index)
    indexed = given.dtype.kind in "iu"
    return {
        "class_doubts": _class_doubts(answers),
        "least_sure": unsure[:N_SAMPLES].tolist(),
        "confident_mistakes": mistaken[:N_SAMPLES].tolist(),
        "rows_named": given if indexed else np.arange(first, len(answers.truth) + first),
        "rows_counted": "named by the index of the table" if indexed else f"counted from {first}",
    }


def _class_doubts(answers: Answers) -> list[dict[str, Any]]:
    """How each class that occurs fares, the one that is recognised least first."""
    found = []
    for position, label in enumerate(answers.classes):
        own, said = answers.truth == position, answers.labels == position
        if not (own.any() or said.any()):
            continue
        wrong, counts = np.unique(answers.labels[own & ~answers.right], return_counts=True)
        found.append(
            {
                "label": label,
                "count": int(own.sum()),
                "recall": float(answers.right[own].mean()) if own.any() else None,
                "precision": float(answers.right[said].mean()) if said.any() else None,
                "mean_trust": float(answers.trust[own].mean()) if own.any() and answers.trust is not None else None,
                "taken_for": answers.classes[wrong[counts.argmax()]] if len(wrong) else None,
                "taken_for_count": int(counts.max()) if len(wrong) else 0,
            }
        )
    return sorted(found, key=lambda doubt: (2.0 if doubt["recall"] is None else doubt["recall"], str(doubt["label"])))


def _plan(plan: Any, X: Any) -> dict[str, Any]:
    """What to measure (section 3.3 of the paper), by a plan; followed on the samples where these have its columns."""
    followed = plan.acquire(X) if _has_columns(plan, X) else None
    tests = [] if followed is None else followed.tests
    return {
        "steps": list(zip(plan.order_, plan.tariff_.bill(plan.order_), strict=True)),
        "followed": followed,
        "bought": {name: float(np.mean([name in bought for bought in tests])) for name in plan.order_ if tests},
    }


def _has_columns(plan: Any, X: Any) -> bool:
    """Whether the samples are what the plan was made for; a report may well be of another model."""
    names = [str(name) for name in plan.feature_names_in_]
    if hasattr(X, "columns"):
        return set(names) <= {str(name) for name in X.columns}
    return np.ndim(X) == 2 and np.shape(X)[1] == len(names)


def _figures(answers: Answers, sections: dict[str, Any], which: Importances | None) -> dict[str, Any]:
    own = sections["own"]
    figures: dict[str, Any] = {
        "n_samples": len(answers.truth),
        "accuracy": own["accuracy"].value,
        "baselines": {row["name"]: row["accuracy"].value for row in sections["rows"][1:]},
    }
    figures |= {name: own[name] for name in ("log_loss", "aurc") if own[name] is not None}
    if answers.accepted is not None:
        figures["coverage"] = float(answers.accepted.mean())
        figures["accepted_accuracy"] = None if sections["accepted"] is None else sections["accepted"].value
    figures["classes"] = {
        str(label): {name: None if one is None else one._asdict() for name, one in row.items()}
        for label, row in sections["against"].items()
    }
    if which is not None:
        figures["importance"] = which.as_dict()
    return figures


def _provenance(
    model: Any,
    X: Any,
    command: str | Sequence[str] | None,
    model_file: str | os.PathLike[str] | None,
    anonymous: bool,
) -> dict[str, Any]:
    """What somebody needs to make the report again: of the model, only parameters that are not the default, and what
    training chose.
    """
    parts = [part for part, _ in layers(model, X)]
    while (inner := getattr(parts[-1], "estimator_", None)) is not None:  # whom a loyalty alters
        parts.append(inner)
    written = None if model_file is None else describe(model_file)
    ours = type(parts[-1]).__module__.startswith("multiform.")
    seeds = [part.random_state for part in parts if getattr(part, "random_state", None) is not None]
    return {
        "day": datetime.now(UTC).strftime("%Y-%m-%d"),
        "command": command if command is None or isinstance(command, str) else " ".join(command),
        "seed": str(seeds[0]) if seeds else "none was set",
        "models": [(type(part).__name__, _changed(part)) for part in parts],
        "chosen": {
            name: f"{getattr(parts[-1], word):.4g}"
            for name, word in CHOSEN.items()
            if ours and hasattr(parts[-1], word)
        },
        "written": None if written is None else f"{written['written']}, multiform {written['versions']['multiform']}",
        "fitted_by": None if written is None or anonymous else written["notes"].get("command"),
        "shares": next((part.shares_ for part in parts if getattr(part, "partners_", None)), {}),
        "versions": [
            ("Python", platform.python_version()),
            ("multiform", __version__),
            *((package, version(package)) for package in PACKAGES),
        ],
        "machine": f"{platform.system()} {platform.machine()}",
    }


def _changed(part: Any) -> dict[str, str]:
    """The parameters that are not the default; estimators inside have an entry of their own."""
    if isinstance(part, Pipeline):
        return {"steps": ", ".join(name for name, _ in part.steps)}
    if not hasattr(part, "get_params"):
        return {}
    signature = inspect.signature(type(part)).parameters
    given = part.get_params(deep=False)
    return {
        name: repr(value)
        for name, value in given.items()
        if not hasattr(value, "fit") and repr(value) != repr(signature[name].default)
    }
