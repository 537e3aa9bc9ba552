"""``multiform evaluate`` and ``multiform report``: a model's answers beside the truth."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

import multiform
from multiform.cli._app import RequirementNotMet
from multiform.cli._files import (
    check_output,
    opened,
    opened_plan,
    refuse_shifts,
    say_unfamiliar,
    this_command,
)
from multiform.cli._shared import (
    TABLES,
    Console,
    command,
    model_file,
    share,
    strict_option,
    table_files,
    text_table,
    threshold_options,
)

MOST_CLASSES = 30  # that are shown
MOST_IN_A_LINE = 12

true_labels = click.option(
    "--target", "-t", metavar="NAME", help="The column with the truth, if its name is not that of training."
)


@command(
    "multiform evaluate model.mfm test.csv",
    "multiform evaluate model.mfm test.csv --positive ill --cost-of-miss 9",
    "multiform evaluate model.mfm test.csv --require 0.9      # exit code 3 if the accuracy is lower",
    "multiform evaluate model.mfm test.csv --require promise  # exit code 3 if the promise is broken",
)
@model_file
@true_labels
@click.option("--require", metavar="ACCURACY|promise", help="End with exit code 3 unless this is reached.")
@click.option("--importance", is_flag=True, help="Also say which columns matter: what is lost without each.")
@threshold_options
@strict_option
@table_files
def evaluate(
    model_path: str,
    files: tuple[str, ...],
    target: str | None,
    require: str | None,
    importance: bool,
    strict: bool,
    how: dict[str, Any],
    console: Console,
    **asked: Any,
) -> None:
    """Compare a model's answers with the truth, on rows that it has not seen.

    Says the accuracy and what always guessing the commonest class would reach; of the class that is looked for (of
    each, where there are many) sensitivity, specificity, predictive values, ROC AUC and PR AUC with 95 % intervals;
    whether chances come true, and what other thresholds would do; the accuracy of each loyalty type beside what `fit`
    expected; whether a promise was kept; and what is unlike the training table.
    """
    model = opened(model_path)
    required = _required(require, model)
    rule = multiform.tables.rule_for(model, **asked)
    judged = multiform.tables.Judgement(model, target_of(model, target, model_path), rule)
    with console.progress("predicting") as progress:
        for batch in multiform.tables.batches(multiform.tables.sources(files, **how)):
            for sentence in batch.dialect.notes:
                console.note(sentence)
            try:
                judged.add(batch.frame)
            except multiform.tables.TableError as error:
                raise batch.located(error) from error
            progress(batch.share)
        data = judged.as_dict()
        if importance:
            progress(None, "asking which columns matter")
            data["importance"] = _importance(model, judged)
    refuse_shifts(judged.known, strict)
    for note in judged.notes():
        console.note(note)
    say_unfamiliar(console, model, judged.known)
    shortfall = None if required is None else _shortfall(data, required, vacuous=require == "promise")
    if required is not None:
        data["required"] = {"accuracy": required, "met": shortfall is None}
    console.result(data, _text(data))
    if shortfall is not None:
        raise RequirementNotMet(shortfall)


@command(
    "multiform report patients.xlsx --target ill -o report.html      # train on three quarters, report on the rest",
    "multiform report model.mfm test.csv -o report.html",
    "multiform report model.mfm test.csv -o report.html --plan plan.mfm --title 'Triage, March'",
)
@click.argument("model_path", metavar="MODEL|TABLE")
@click.option("--output", "-o", required=True, metavar="FILE", help="The HTML file to write.")
@click.option(
    "--target", "-t", metavar="NAME", help="The column with the truth; needed with a TABLE, or if its name has changed."
)
@click.option(
    "--group",
    metavar="NAME",
    help="With a TABLE: the column that says which rows belong together, for example the patient.",
)
@click.option("--plan", "plan_path", metavar="PLAN", help="A plan to show as well, made by `multiform plan`.")
@click.option("--title", help="The title of the page.")
@click.option("--target-accuracy", type=share, help="An accuracy to mark in the picture of errors.")
@click.option("--no-baselines", is_flag=True, help="Train no other classifiers to compare with, which takes long.")
@click.option("--positive", metavar="CLASS", help="The class you are looking for, for example ill.")
@click.option(
    "--anonymous", is_flag=True, help="Figures of groups alone: no single row, no value of a column, no file names."
)
@strict_option
@partial(table_files, required=False)
def report(
    model_path: str,
    files: tuple[str, ...],
    output: str,
    target: str | None,
    group: str | None,
    plan_path: str | None,
    no_baselines: bool,
    strict: bool,
    how: dict[str, Any],
    console: Console,
    **told: Any,
) -> None:
    """Write a report of a model on labelled rows that it has not seen: one HTML file that needs nothing else.

    With a TABLE instead of a model, a model is trained on three quarters of its rows, reported on the others, and not
    kept; `multiform fit` makes one to keep.

    How well it does and against which baselines, who is found and who missed, whether chances come true, which columns
    matter, what its loyalty types are worth, which rows it is least sure of, how it was made. Values of identifiers,
    names, dates and free text are not shown; rows are named by their number.
    """
    from_table = not files
    if from_table and multiform.files.is_model_file(model_path):
        raise click.UsageError(f"{model_path} is a model; name the table to report on, too")
    if not from_table and target is not None and _is_table(model_path):
        raise click.UsageError(
            f"{model_path} and {files[0]} are both tables; give a model and a table, or one table alone, of which a "
            "part is put aside for the report"
        )
    found = multiform.tables.sources((model_path,) if from_table else files, **how)
    check_output(output, (*([] if from_table else [model_path]), *(source.path for source in found)))
    plan = None if plan_path is None else opened_plan(plan_path)
    with console.progress("reading") as progress:
        whole, training = multiform.tables.read(found, progress, console.note), None
        if from_table:
            if target is None:
                raise click.UsageError(f"{model_path} is a table; say which column to predict with --target")
            progress(None, "training")
            model: Any = multiform.tables.TableClassifier(
                multiform.LoyaltyClassifier(multiform.QMSClassifier(random_state=0), random_state=0)
            )
            training, whole = multiform.tables.parted(whole, target, group)
            model.fit(training, target, group)
            console.note(f"a model was trained on {len(training)} rows, and is reported on the other {len(whole)}.")
        else:
            model = opened(model_path)
        name = target_of(model, target, model_path)
        frame, labels = multiform.tables.labelled(model, whole, name)
        if not len(labels):
            raise ValueError("No row has a label, so there is nothing to report.")
        known, overlap = model.familiarity(frame), model.overlap(frame, labels)
        refuse_shifts(known, strict)
        progress(None, "writing the report")
        judged: Any = model
        if isinstance(model, multiform.tables.MatrixModel):
            judged, frame = model.estimator_, model.named(frame)
        if training is not None:
            told |= dict(zip(("X_train", "y_train"), multiform.tables.labelled(model, training, name), strict=True))
        page = multiform.report(
            judged,
            frame,
            labels,
            plan=plan,
            command=this_command(),
            model_file=None if from_table else model_path,
            baselines=not no_baselines,
            **told,
        )
        page.save(output)
    say_unfamiliar(console, model, known)
    text = f"{len(labels)} rows, accuracy {page.figures['accuracy']:.2%}; report written to {output}"
    for note in overlap.notes() if overlap is not None else []:
        console.note(note)
    data = {"output": output, **page.figures, "unfamiliar": known.as_dict()}
    data["training_rows"] = None if overlap is None else overlap.as_dict()
    console.result(data, text)


def _is_table(path: str) -> bool:
    return Path(path).suffix.lower() in TABLES and not multiform.files.is_model_file(path)


def target_of(model: Any, target: str | None, path: str) -> str:
    name: str | None = target or model.target_
    if name is None:
        raise click.UsageError(f"{path} does not say which column holds the truth; give --target")
    return name


def _shortfall(data: dict[str, Any], required: float, vacuous: bool) -> str | None:
    """A sentence unless the (accepted) answers are accurate enough; `vacuous`: no answer breaks no promise."""
    promised = "accepted" in data
    what = "accepted answers" if promised else "answers"
    reached = data["accepted"]["accuracy"] if promised else data["accuracy"]
    if reached is None and not vacuous:
        return f"no answer was accepted, and an accuracy of {required:g} was required."
    if reached is not None and reached < required:
        return f"the accuracy of {what} is {reached:.4f}, and {required:g} was required."
    return None


def _required(require: str | None, model: Any) -> float | None:
    if require is None:
        return None
    if require == "promise":
        if not hasattr(model.estimator_, "target_accuracy"):
            raise click.UsageError("--require promise needs a model that makes one; fit with --target-accuracy")
        return float(model.estimator_.target_accuracy)
    try:
        value = float(require)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise click.UsageError(f"--require takes an accuracy from 0 to 1, or the word promise; got {require!r}")
    return value


def _percent(value: float | None) -> str:
    return "-" if value is None or value != value else f"{value:.2%}"


def with_interval(found: dict[str, float] | None, digits: int = 1) -> str:
    """As 93.1 % (90.2 to 95.3)."""
    if found is None:
        return "-"
    value, low, high = (f"{100 * found[name]:.{digits}f}" for name in ("value", "low", "high"))
    return f"{value} % ({low} to {high})"


def area(found: dict[str, float] | None) -> str:
    return "-" if found is None else f"{found['value']:.3f} ({found['low']:.3f} to {found['high']:.3f})"


def _text(data: dict[str, Any]) -> str:
    lines = [
        f"{data['rows']} rows, accuracy {with_interval(data['accuracy_interval'])}; always answering "
        f"{data['commonest_class']!r} would reach {data['commonest_class_accuracy']:.2%}",
        f"on average the model gave its answers a chance of {data['mean_chance']:.2%} of being right",
    ]
    if data["unknown_classes"]:
        lines.append(f"classes that the model does not know: {', '.join(map(repr, data['unknown_classes']))}")
    positive = data.get("positive")
    if positive is not None and not data["classes"].get(positive["class"], {}).get("rows"):
        name = f"{positive['target']} = {positive['class']!r}"
        lines.append(f"no row has {name}, which is looked for ({positive['why']}; --positive names another class)")
        positive = None
    if positive is not None:
        lines += ["", *_found_and_missed(positive, data["classes"].get(positive["class"], {}))]
    if positive is None or len(data["classes"]) > 2:
        lines += ["", "each class against all others; in brackets the 95 % interval", _class_table(data["classes"])]
    if data["confusion"] is not None and len(data["confusion"]) <= MOST_IN_A_LINE:
        names = list(data["confusion"])
        rows = [["truth \\ answer", *names]]
        rows += [[name, *(str(data["confusion"][name][other]) for other in names)] for name in names]
        lines += ["", text_table(rows, right=range(1, len(names) + 1))]
    if positive is not None:
        lines += ["", f"if rows were called {positive['class']!r} from another chance on:", _threshold_table(data)]
    if "calibration" in data:
        lines += ["", *_calibration(data["calibration"])]
    if data.get("importance") is not None:
        lines += ["", *_importance_table(data["importance"])]
    if "loyalty" in data:
        rows = [["how far to trust an answer", "rows", "share", "accuracy", "expected"]]
        for level, row in data["loyalty"].items():
            figures = (row["share"], row["accuracy"], row["expected_accuracy"])
            rows.append([multiform.metrics.type_words(level), f"{row['count']:g}", *map(_percent, figures)])
        lines += ["", text_table(rows, right=[1, 2, 3, 4])]
        if positive is not None and positive["threshold"] is not None and positive["changed"]:
            lines.append(f"the {positive['changed']} rows whose label the threshold changed have no such type")
    if "accepted" in data:
        row = data["accepted"]
        kept = "no answer was accepted" if row["accuracy"] is None else "kept" if row["kept"] else "BROKEN here"
        lines += [
            "",
            f"accepted {row['rows']} answers ({row['share']:.2%}), accuracy {_percent(row['accuracy'])}, promised "
            f"{row['promised']:.2%}: {kept}",
        ]
    return "\n".join(lines)


def _importance(model: Any, judged: Any) -> dict[str, Any] | None:
    """What is lost without each column, on up to a few thousand rows."""
    rows = multiform.columns.polars().concat(judged.rows.parts)
    labels, X = rows[judged.target].to_numpy(), rows.drop(judged.target)
    if isinstance(model, multiform.tables.MatrixModel):
        model, X = model.estimator_, model.named(X)
    found = multiform.reporting.importances(model, X, labels)
    return None if found is None else found.as_dict() | {"of": judged.n_rows}


def _importance_table(found: dict[str, Any]) -> list[str]:
    columns = found["columns"][:MOST_CLASSES]
    has_shares = bool(columns) and columns[0]["exact_contribution"] is not None
    rows = [["column", "accuracy lost, points", "chance of the true class lost, points"] + ["looked at"] * has_shares]
    for one in columns:
        told = ["-" if one[what] is None else _points(one[what]) for what in ("accuracy_lost", "chance_lost")]
        rows.append([one["column"], *told, *([f"{one['exact_contribution']:.0%}"] if has_shares else [])])
    return [
        f"what is lost if the cells of a column are shuffled among the rows (95 % interval), on {found['rows']} of "
        f"{found['of']} rows:",
        text_table(rows, right=range(1, len(rows[0]))),
        *(["looked at: the share of this column in what decides the answers, computed exactly"] if has_shares else []),
    ]


def _points(found: dict[str, float]) -> str:
    value, low, high = (f"{100 * found[name]:+.1f}" for name in ("value", "low", "high"))
    return f"{value} ({low} to {high})"


def _found_and_missed(positive: dict[str, Any], row: dict[str, Any]) -> list[str]:
    """The confusion matrix for people."""
    name, whose = repr(positive["class"]), f"{positive['target']} = {positive['class']!r}"
    lines = [f"looking for {whose} ({positive['why']}; --positive names another class); 95 % intervals in brackets:"]
    if positive["threshold"] is not None:
        lines.append(
            f"  rows are called {name} from a chance of {positive['threshold']:.3g} on, which changes the label of "
            f"{positive['changed']} rows"
        )
    sentences = (
        ("sensitivity", "of 100 with {whose}, {n} are found and {rest} missed", "sensitivity"),
        ("specificity", "of 100 others, {n} are cleared and {rest} called {name} wrongly", "specificity"),
        ("ppv", "of 100 called {name}, {n} are", "positive predictive value"),
        ("npv", "of 100 not called {name}, {n} are not", "negative predictive value"),
    )
    for key, sentence, word in sentences:
        found = row.get(key)
        if found is None:
            lines.append(f"  {word}: there are no such rows")
            continue
        n = round(100 * found["value"])
        lines.append(f"  {sentence.format(name=name, whose=whose, n=n, rest=100 - n)}: {word} {with_interval(found)}")
    return [*lines, f"  ROC AUC {area(row.get('roc_auc'))}, PR AUC {area(row.get('pr_auc'))}"]


def _class_table(classes: dict[str, Any]) -> str:
    rows = [["class", "rows", "found (sensitivity)", "others cleared (specificity)", "right when said", "ROC AUC"]]
    for label, row in list(classes.items())[:MOST_CLASSES]:
        shares = (row.get(name) for name in ("sensitivity", "specificity", "ppv"))
        rows.append([label, str(row["rows"]), *map(with_interval, shares), area(row.get("roc_auc"))])
    if len(classes) > MOST_CLASSES:
        rows.append([f"and {len(classes) - MOST_CLASSES} more", "", "", "", "", "--json has them"])
    return text_table(rows, right=[1, 2, 3, 4, 5])


def _threshold_table(data: dict[str, Any]) -> str:
    asked = data["positive"]["threshold"]
    has_cost = data["positive"]["cost_of_miss"] is not None
    head = [
        "from chance",
        "rows called",
        "found (sensitivity)",
        "others cleared (specificity)",
        "right when called",
        "right when not called",
    ]
    rows = [head + ["cost of 100 rows, in false alarms"] * has_cost]
    for row in data["thresholds"]:
        mark = " *" if row["threshold"] == asked else ""
        shares = (row[name] for name in ("sensitivity", "specificity", "ppv", "npv"))
        told = ["-" if one is None else f"{one['value']:.1%}" for one in shares]
        cost = [f"{row['cost']:.2f}"] if has_cost else []
        rows.append([f"{row['threshold']:.3g}{mark}", str(row["called"]), *told, *cost])
    return text_table(rows, right=range(1, len(rows[0])))


def _calibration(data: dict[str, Any]) -> list[str]:
    what = "its answers" if data["of"] == "answer" else repr(data["of"])
    rows = [["chance given", "came true (95 % interval)", "rows"]]
    rows += [[f"{one['chance']:.1%}", with_interval(one["share"]), str(one["rows"])] for one in data["groups"]]
    return [
        f"do chances come true? rows by the chance that the model gave {what}:",
        text_table(rows, right=[0, 1, 2]),
    ]
