"""``multiform evaluate`` and ``multiform report``: a model's answers beside the truth."""

from __future__ import annotations

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
from multiform.cli._shared import Console, command, model_file, share, strict_option, table_files, text_table

true_labels = click.option(
    "--target", "-t", metavar="NAME", help="The column with the truth, if it is not called as in training."
)


@command(
    "multiform evaluate model.mfm test.csv",
    "multiform evaluate model.mfm test.csv --require 0.9      # exit code 3 if the accuracy is lower",
    "multiform evaluate model.mfm test.csv --require promise  # exit code 3 if the promise is broken",
)
@model_file
@true_labels
@click.option("--require", metavar="ACCURACY|promise", help="End with exit code 3 unless this is reached.")
@strict_option
@table_files
def evaluate(
    model_path: str,
    files: tuple[str, ...],
    target: str | None,
    require: str | None,
    strict: bool,
    how: dict[str, Any],
    console: Console,
) -> None:
    """Compare a model's answers with the truth, on rows that it has not seen.

    Says the accuracy and what always guessing the commonest class would reach, the accuracy of each loyalty type
    beside what `fit` expected, whether a promise was kept, and what is unlike the training table.
    """
    model = opened(model_path)
    required = _required(require, model)
    judged = multiform.tables.Judgement(model, _target(model, target, model_path))
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
    "multiform report model.mfm test.csv -o report.html",
    "multiform report model.mfm test.csv -o report.html --plan plan.mfm --title 'Triage, March'",
)
@model_file
@click.option("--output", "-o", required=True, metavar="FILE", help="The HTML file to write.")
@true_labels
@click.option("--plan", "plan_path", metavar="PLAN", help="A plan to show as well, made by `multiform plan`.")
@click.option("--title", help="The title of the page.")
@click.option("--target-accuracy", type=share, help="An accuracy to mark in the risk-coverage curve.")
@click.option("--no-baselines", is_flag=True, help="Leave the other classifiers out, which take most of the time.")
@strict_option
@table_files
def report(
    model_path: str,
    files: tuple[str, ...],
    output: str,
    target: str | None,
    plan_path: str | None,
    no_baselines: bool,
    strict: bool,
    how: dict[str, Any],
    console: Console,
    **told: Any,
) -> None:
    """Write a report of a model on labelled rows that it has not seen: one HTML file that needs nothing else.

    How well it does and against which baselines, what its loyalty types are worth, which rows it is least sure of, how
    it was made.
    """
    found = multiform.tables.sources(files, **how)
    check_output(output, (model_path, *(source.path for source in found)))
    model = opened(model_path)
    plan = None if plan_path is None else opened_plan(plan_path)
    with console.progress("reading") as progress:
        name = _target(model, target, model_path)
        frame, labels = multiform.tables.labelled(model, multiform.tables.read(found, progress, console.note), name)
        if not len(labels):
            raise ValueError("No row has a label, so there is nothing to report.")
        known, overlap = model.familiarity(frame), model.overlap(frame, labels)
        refuse_shifts(known, strict)
        progress(None, "writing the report")
        judged: Any = model
        if isinstance(model, multiform.tables.MatrixModel):
            judged, frame = model.estimator_, model.named(frame)
        page = multiform.report(
            judged, frame, labels, plan=plan, command=this_command(), baselines=not no_baselines, **told
        )
        page.save(output)
    say_unfamiliar(console, model, known)
    text = f"{len(labels)} rows, accuracy {page.figures['accuracy']:.2%}; report written to {output}"
    for note in overlap.notes() if overlap is not None else []:
        console.note(note)
    data = {"output": output, **page.figures, "unfamiliar": known.as_dict()}
    data["training_rows"] = None if overlap is None else overlap.as_dict()
    console.result(data, text)


def _target(model: Any, target: str | None, path: str) -> str:
    name: str | None = target or model.target_
    if name is None:
        raise click.UsageError(f"{path} does not know what the target column is called; give --target")
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


def _text(data: dict[str, Any]) -> str:
    lines = [
        f"{data['rows']} rows, accuracy {data['accuracy']:.2%}; always answering {data['commonest_class']!r} would "
        f"reach {data['commonest_class_accuracy']:.2%}",
        f"mean chance given {data['mean_chance']:.2%}",
    ]
    if data["unknown_classes"]:
        lines.append(f"classes that the model does not know: {', '.join(map(repr, data['unknown_classes']))}")
    classes = [["class", "rows", "found", "right when said"]]
    for label, row in list(data["classes"].items())[:30]:
        classes.append([label, str(row["rows"]), _percent(row["recall"]), _percent(row["precision"])])
    lines += ["", text_table(classes, right=[1, 2, 3])]
    if "loyalty" in data:
        rows = [["loyalty", "rows", "share", "accuracy", "expected"]]
        for level, row in data["loyalty"].items():
            figures = (row["share"], row["accuracy"], row["expected_accuracy"])
            rows.append([level, f"{row['count']:g}", *map(_percent, figures)])
        lines += ["", text_table(rows, right=[1, 2, 3, 4])]
    if "accepted" in data:
        row = data["accepted"]
        kept = "no answer was accepted" if row["accuracy"] is None else "kept" if row["kept"] else "BROKEN here"
        lines += [
            "",
            f"accepted {row['rows']} answers ({row['share']:.2%}), accuracy {_percent(row['accuracy'])}, promised "
            f"{row['promised']:.2%}: {kept}",
        ]
    return "\n".join(lines)
