"""``multiform fit``."""

from __future__ import annotations

import shlex
import time
from typing import Any

import click

import multiform
from multiform.cli._files import check_output, write_model
from multiform.cli._shared import (
    Console,
    columns_table,
    command,
    missing_words,
    names,
    one_line,
    seed_and_jobs,
    share,
    table_files,
)

MODELS = ("loyalty", "triage", "cv", "qms")
MOST_SHOWN = 60  # columns in the table for people


def _column_options(command: Any) -> Any:
    """What the user knows better of columns."""
    for option, parameter, what in (
        ("--id", "identifiers", "Columns that are identifiers: left out."),
        ("--as-text", "texts", "Columns that are free text."),
        ("--as-date", "dates", "Columns that are dates."),
        ("--as-category", "categories", "Columns that are categories."),
        ("--as-number", "numbers", "Columns that are numbers."),
        ("--drop", "drop", "Columns to leave out."),
    ):
        command = names(option, parameter, help=f"{what} Separated by commas.")(command)
    command = missing_words(command)
    return command


@command(
    "multiform fit data.csv --target label -o model.mfm",
    "multiform fit 'part-*.parquet' -t label -o model.mfm --id patient --as-category postcode",
    "multiform fit visits.csv -t label -o model.mfm --group patient_id",
    "multiform fit data.csv -t label -o model.mfm --target-accuracy 0.99",
    "multiform fit data.csv -t label -o model.mfm --model cv --partners trees",
)
@click.option("--target", "-t", required=True, metavar="NAME", help="The column to predict.")
@click.option("--output", "-o", required=True, metavar="MODEL", help="The model file to write, .mfm by custom.")
@click.option(
    "--group",
    metavar="NAME",
    help="The column that says which rows belong together, as a patient's do: whole groups are held out for estimates.",
)
@click.option("--as-classes", is_flag=True, help="The target's values are classes, however many there are.")
@click.option(
    "--merge-classes", is_flag=True, help="Classes that differ in case or blanks only are one, as spelt most often."
)
@click.option(
    "--model",
    "model_name",
    type=click.Choice(MODELS),
    help="loyalty (default): answers with loyalty types and chances. triage: also with a promise. "
    "cv: the most accurate on small tables, with trees. qms: one model, the fastest.",
)
@click.option(
    "--target-accuracy", type=share, help="The accuracy promised of accepted answers; implies --model triage."
)
@click.option(
    "--partners",
    type=click.Choice(["trees", "none"]),
    help="trees (default of --model cv): forests and boosting beside our own models; none: ours alone. Implies cv.",
)
@click.option("--confidence", type=share, help="How surely the promise holds; 0.95 if not given.")
@click.option("--noise", type=click.FloatRange(min=0), help="Regularisation; chosen by cross-validation if not given.")
@click.option("--components", "n_components", type=click.IntRange(1, 100_000), help="q, the rows of each separator.")
@click.option(
    "--alpha", type=click.FloatRange(0, 1, max_open=True), help="The loss leaves pairs alone whose ratio is below this."
)
@click.option("--solver", type=click.Choice(["adam", "cpm", "cpm-literal"]), help="How separators are found.")
@click.option("--max-iter", type=click.IntRange(min=1), help="Passes over the data.")
@click.option("--balanced", is_flag=True, help="Weigh rare classes up.")
@_column_options
@seed_and_jobs
@table_files
def fit(
    files: tuple[str, ...], target: str, output: str, how: dict[str, Any], console: Console, **options: Any
) -> None:
    """Train a model on a table and write it to a file.

    FILE is CSV, TSV, Excel (.xlsx, .ods), Parquet, Arrow or NPZ, - for standard input; several files, or a pattern,
    are one table. What each column is taken for is shown, and saved with the model; --as-number and its like overrule
    it.
    """
    model_name = _model_name(options)
    found = multiform.tables.sources(files, **how)
    check_output(output, (source.path for source in found))
    with console.progress("reading") as progress:
        frame = multiform.tables.read(found, progress, console.note)
        progress(None, "training")
        begin = time.perf_counter()
        try:
            model = _trained(frame, target, model_name, options)
        except multiform.tables.TableError as error:
            raise multiform.tables.located(error, found) from error
        seconds = time.perf_counter() - begin
        progress(None, "writing")
        write_model(model, output, seed=options["random_state"])
    for column in model.columns_:
        if (odd := multiform.tables.nearly_numbers(column, frame[column.name])) is not None:
            console.note(f"column {column.name!r} is taken as {column.role}: {odd[0]}; {odd[1]}")
    _say_notes(console, model)
    told = multiform.files.describe(output)
    data = {
        "model": output,
        "kind": type(model.estimator_).__name__,
        "seconds": seconds,
        "rows": model.training_["rows"],
        "target": target,
        "group": options["group"],
        "classes": model.training_["class_counts"],
        "columns": told["columns"],
        "training": told["training"],
        "bytes": told["bytes"],
    }
    console.result(data, _text(model, data))


def _model_name(options: dict[str, Any]) -> str:
    """The model that was asked for, or that a promise implies."""
    asked: str | None = options["model_name"]
    if options["partners"] is not None:
        if asked not in (None, "cv"):
            raise click.UsageError(f"--partners is of the ensemble that --model cv makes, and {asked} does not.")
        asked = "cv"
    promise = {"target_accuracy": "--target-accuracy", "confidence": "--confidence"}
    given = [option for name, option in promise.items() if options[name] is not None]
    if not given:
        return asked or "loyalty"
    if asked not in (None, "triage"):
        raise click.UsageError(f"{given[0]} is of a promise, which --model triage makes and {asked} does not.")
    return "triage"


def _trained(frame: Any, target: str, model_name: str, options: dict[str, Any]) -> Any:
    roles = ("drop", "numbers", "categories", "dates", "texts", "identifiers", "missing")
    table = multiform.tables.TableClassifier(
        **{name: options[name] for name in (*roles, "as_classes", "merge_classes")}
    )
    shared: dict[str, Any] = {name: options[name] for name in ("n_jobs", "random_state")}
    weight: dict[str, Any] = {"class_weight": "balanced"} if options["balanced"] else {}
    found = {name: options[name] for name in ("n_components", "alpha", "max_iter") if options[name] is not None}
    if model_name == "cv":
        if options["solver"] not in (None, "adam"):
            raise click.UsageError(f"--model cv has the solver adam only; got {options['solver']}.")
        if options["noise"] is not None:
            found["noise"] = (options["noise"],)
        found["partners"] = None if options["partners"] == "none" else "trees"
        ensemble = multiform.QMSClassifierCV(**shared, **weight, **found)
        return table.set_params(estimator=ensemble).fit(frame, target, options["group"])
    if options["solver"] is not None:
        found["solver"] = options["solver"]
    noise_level = "auto" if options["noise"] is None else options["noise"]
    model: Any = multiform.QMSClassifier(noise=noise_level, **shared, **weight, **found)
    if model_name != "qms":
        model = multiform.LoyaltyClassifier(model, random_state=options["random_state"])
    if model_name == "triage":
        promise = {name: options[name] for name in ("target_accuracy", "confidence") if options[name] is not None}
        model = multiform.TriageClassifier(model, random_state=options["random_state"], **promise)
    return table.set_params(estimator=model).fit(frame, target, options["group"])


def _say_notes(console: Console, model: Any) -> None:
    training = model.training_
    if training["rows_without_label"]:
        console.note(f"{training['rows_without_label']} rows have no label and were left out.")
    rare = training["rare_classes"]
    if rare:
        one = len(rare) == 1
        console.note(
            f"class{'' if one else 'es'} {', '.join(map(repr, rare))} {'has' if one else 'have'} fewer than 5 rows, "
            "too few to learn well or to judge; more rows, or one class for all rare ones, would help."
        )
    for same in training["classes_alike"]:
        become = "were merged" if model.merge_classes else "are classes of their own; --merge-classes makes them one"
        console.note(f"{', '.join(map(repr, same))} differ in nothing but case and blanks, and {become}.")
    for name, accuracy in training["deciding_columns"].items():
        console.note(
            f"column {name!r} alone tells the class of {accuracy:.1%} of rows that were held out: if it is known only "
            f"once the answer is, the estimates are worth nothing; --drop {shlex.quote(name)} leaves it out."
        )
    for column in model.columns_:
        if column.role == "identifier":
            console.note(
                f"column {column.name!r} was left out as an identifier ({column.why}); --as-number or "
                "--as-category keeps it."
            )
    if training["group_column"] is None:
        for name in training["repeated_identifiers"]:
            console.note(
                f"values of column {name!r} repeat: if its rows belong together, as those of one patient do, "
                f"--group {shlex.quote(name)} holds out whole groups; else the estimates are too good."
            )


def _text(model: Any, data: dict[str, Any]) -> str:
    counts = ", ".join(f"{one_line(label)} {count}" for label, count in data["classes"].items())
    counts = counts if len(counts) <= 200 else counts[:196] + " ..."
    width = len(model.encoded_names())
    lines = [
        f"{data['rows']} rows, target {data['target']!r} of {len(data['classes'])} classes: {counts}",
        "",
        columns_table(data["columns"], MOST_SHOWN),
        "",
        f"{data['kind']} on {width} column{'s' * (width != 1)} of numbers, {data['seconds']:.1f} s",
        *_estimates(model.estimator_),
        f"written to {data['model']}, {data['bytes']:,} bytes",
    ]
    return "\n".join(lines)


def _estimates(estimator: Any) -> list[str]:
    """What to expect of new rows, by rows that the models did not see."""
    if hasattr(estimator, "loyalty_table_"):
        table = estimator.loyalty_table_
        return [f"estimated accuracy on new rows {table.overall_accuracy:.2%}, by loyalty type:", str(table)]
    if hasattr(estimator, "oof_accuracy_"):
        lines = [f"estimated accuracy on new rows {estimator.oof_accuracy_:.2%}"]
        if len(estimator.shares_) > 1:
            lines.append("shares: " + ", ".join(f"{name} {part:.0%}" for name, part in estimator.shares_.items()))
        return lines
    if hasattr(estimator, "certificates_"):
        tested = sum(c.n_tested for c in estimator.certificates_)
        accepted = sum(c.n_accepted for c in estimator.certificates_)
        share = accepted / tested if tested else float("nan")
        return [
            f"promise: accepted answers are right at least {estimator.target_accuracy:.2%} of the time, "
            f"with confidence {estimator.confidence:.0%} ({estimator.guarantee_})",
            f"accepted {share:.2%} of the calibration rows; the rest is deferred",
        ]
    return []
