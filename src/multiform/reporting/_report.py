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

from multiform._typing import Array
from multiform._version import __version__
from multiform.columns import UnfamiliarWarning
from multiform.files import atomic_path
from multiform.metrics import accuracy_at_coverage
from multiform.metrics.labels import positions
from multiform.reporting import _pictures
from multiform.reporting._answers import Answers, ask, layers
from multiform.reporting._results import Told, as_number, compare, difference, kind_of, proportion, read_columns, scores

PACKAGES = ("numpy", "scipy", "scikit-learn", "matplotlib")
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
    random_state: int = 0,
) -> Report:
    """What a fitted model does with labelled samples, as one page that can be forwarded.

    The page says what the data are, what in them is unlike training (where a table model knows it), how well the model
    does and against which baselines, where it errs, how its error falls when only the surest answers are kept, what its
    loyalty types are worth, which classes and samples it is least sure of, and how all this was made. Give samples that
    the model was not trained on.

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
    made = _provenance(model, X, command)
    name = type(layers(model, X)[-1][0]).__name__
    doubts = _doubts(model, X, answers)
    if hasattr(model, "typed"):  # a table is shown as its model reads it
        X, X_train = model.typed(X), None if X_train is None else model.typed(X_train)
    if answers.triage is not None and target_accuracy is None:
        target_accuracy = float(answers.triage.target_accuracy)
    comparison = None
    if baselines:
        known = None if y_train is None else positions(np.asarray(y_train), answers.classes)
        comparison = compare(X, answers.truth, X_train, known, random_state)
    sections = {
        **_data(model, X, answers),
        **_results(answers, comparison),
        **_trust(answers),
        **doubts,
        **({} if plan is None else _plan(plan, X)),
    }
    topic = f"Predicting {model.target_}: " if getattr(model, "target_", None) is not None else ""
    html = environment.get_template("template.html").render(
        title=title or f"{topic}{name} on {len(answers.truth):,} samples",
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
        **sections,
    )
    return Report(html, _figures(answers, sections))


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


def _data(model: Any, X: Any, answers: Answers) -> dict[str, Any]:
    """What the data are."""
    columns = read_columns(X)
    told = {name: _described(column) for name, column in (columns or {}).items()}
    has_names = hasattr(X, "columns") or isinstance(X, Mapping)
    n_columns = X.shape[1] if columns is None else len(columns)
    return {
        "columns": list(told.items())[: MOST_COLUMNS if has_names else MOST_NAMELESS],
        "roles": {column.name: f"{column.role}: {column.why}" for column in getattr(model, "columns_", [])},
        "n_columns": n_columns,
        "is_sparse": columns is None,
        "missing": sum(column["n_missing"] for column in told.values()) / max(1, n_columns * len(answers.truth)),
    }


def _described(column: Array) -> dict[str, Any]:
    """What kind of column it is, how many cells are missing, how many values are distinct, and they in a few words."""
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
    if kind == "text":
        frequent = np.argsort(-counts, kind="stable")[:3]
        shown = ", ".join(f"{_pictures.plain(names[i], most=24)} ({counts[i] / len(present):.0%})" for i in frequent)
        return told | {"values": shown + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")}
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


def _doubts(model: Any, X: Any, answers: Answers) -> dict[str, Any]:
    """The classes that are recognised least, the samples with the least trust, and the wrong answers with the most.

    The latter are what to look at first, in the model and in the labels.
    """
    unsure, mistaken = np.empty(0, dtype=int), np.empty(0, dtype=int)
    if answers.can_be_ranked:
        assert answers.trust is not None
        unsure = np.argsort(answers.trust, kind="stable")
        wrong = np.flatnonzero(~answers.right)
        mistaken = wrong[np.argsort(-answers.trust[wrong], kind="stable")]
    # A sample is named by the index of a pandas frame, else by the number of its row, from 0; and by the column that a
    # table model has taken for an identifier.
    index = getattr(X, "index", None)
    names = [column.name for column in getattr(model, "columns_", []) if column.role == "identifier"]
    known = [name for name in names if name in getattr(X, "columns", [])]
    return {
        "class_doubts": _class_doubts(answers),
        "least_sure": unsure[:N_SAMPLES].tolist(),
        "confident_mistakes": mistaken[:N_SAMPLES].tolist(),
        "rows_named": np.arange(len(answers.truth)) if index is None or callable(index) else np.asarray(index),
        "identifiers": np.asarray(X[known[0]].to_numpy()) if known else None,
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


def _figures(answers: Answers, sections: dict[str, Any]) -> dict[str, Any]:
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
    return figures


def _provenance(model: Any, X: Any, command: str | Sequence[str] | None) -> dict[str, Any]:
    """What somebody needs to make the report again: of the model, only parameters that are not the default."""
    parts = [part for part, _ in layers(model, X)]
    seeds = [part.random_state for part in parts if getattr(part, "random_state", None) is not None]
    return {
        "day": datetime.now(UTC).strftime("%Y-%m-%d"),
        "command": command if command is None or isinstance(command, str) else " ".join(command),
        "seed": str(seeds[0]) if seeds else "none was set",
        "models": [(type(part).__name__, _changed(part)) for part in parts],
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
