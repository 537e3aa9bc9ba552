"""``multiform fit``."""

from __future__ import annotations

import shlex
import time
from math import ceil, log
from typing import Any

import click

import multiform
from multiform.cli._files import check_output, write_model
from multiform.cli._shared import (
    Console,
    Number,
    Size,
    WholeNumber,
    columns_table,
    command,
    missing_words,
    names,
    one_line,
    seed_and_jobs,
    share,
    table_files,
    text_table,
)

MODELS = ("loyalty", "triage", "cv", "qms")
MOST_SHOWN = 60  # columns in the table for people


def _column_options(command: Any) -> Any:
    """What the user knows better of columns."""
    for option, parameter, what in (
        ("--id", "identifiers", "Columns that only name a row, to leave out."),
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
    "multiform fit big.parquet -t label -o model.mfm --memory 1GB",
)
@click.option("--target", "-t", required=True, metavar="NAME", help="The column to predict.")
@click.option("--output", "-o", required=True, metavar="MODEL", help="The model file to write, usually NAME.mfm.")
@click.option(
    "--group",
    metavar="NAME",
    help="The column that says which rows belong together, for example the patient: all rows of one patient are then "
    "held out together when the accuracy is estimated.",
)
@click.option("--as-classes", is_flag=True, help="Treat every value of the target as a class, however many.")
@click.option(
    "--merge-classes", is_flag=True, help="Treat classes that differ only in case or blanks (Yes, yes) as one."
)
@click.option(
    "--model",
    "model_name",
    type=click.Choice(MODELS),
    help="loyalty (default): answers, chances, and how far to trust each. triage: also promises an accuracy. "
    "cv: the most accurate on small tables, many models together with trees. qms: a single model, the fastest.",
)
@click.option(
    "--target-accuracy",
    type=share,
    help="Promise this accuracy of the answers that are accepted; the others are left to you.",
)
@click.option(
    "--partners",
    type=click.Choice(["trees", "forests", "none"]),
    help="With --model cv: trees (default) adds forests and boosting to our own models, forests no boosting; none uses "
    "ours alone.",
)
@click.option("--confidence", type=share, help="How sure the promise is; 0.95 if not given.")
@click.option("--noise", type=Number(min=0), help="How much to smooth; chosen by cross-validation if not given.")
@click.option(
    "--components",
    "n_components",
    type=WholeNumber(1, 100_000),
    help="For experts: how detailed boundaries may be, q.",
)
@click.option(
    "--alpha",
    type=Number(0, 1, max_open=True),
    help="For experts: pairs whose ratio is below this are left alone.",
)
@click.option("--solver", type=click.Choice(["adam", "cpm", "cpm-literal"]), help="For experts: how to train.")
@click.option("--max-iter", type=WholeNumber(min=1), help="For experts: passes over the data.")
@click.option(
    "--memory",
    type=Size(),
    help="If a table needs more memory than this, for example 1GB, its rows are not kept in memory but read again for "
    "every pass, and the model is qms; half of the machine's memory if not given.",
)
@click.option("--balanced", is_flag=True, help="Give rare classes more weight.")
@_column_options
@seed_and_jobs
@table_files
def fit(
    files: tuple[str, ...], target: str, output: str, how: dict[str, Any], console: Console, **options: Any
) -> None:
    """Train a model on a table and write it to a file.

    FILE is CSV, TSV, Excel (.xlsx, .ods), Parquet, Arrow or NPZ, - for standard input; several files, or a pattern,
    are one table. What each column is taken for is shown, and saved with the model; --as-number, --as-date and so
    on say it better.
    """
    model_name = _model_name(options)
    found = multiform.tables.sources(files, **how)
    check_output(output, (source.path for source in found))
    large = _is_larger(found, options)
    with console.progress("reading") as progress:
        frame: Any = None if large else multiform.tables.read(found, progress, console.note)
        progress(None, "training")
        begin = time.perf_counter()
        try:
            if large:
                table, seed = _described(options).set_params(estimator=_qms(options)), options["random_state"]
                model, frame = multiform.tables.fit_in_batches(table, found, target, seed, console.note)
            else:
                model = _trained(frame, target, model_name, options)
        except multiform.tables.TableError as error:
            raise multiform.tables.located(error, found) from error
        seconds = time.perf_counter() - begin
        progress(None, "estimating the accuracy")
        expected = multiform.tables.estimate(model, frame, target, options["group"], options["random_state"])
        progress(None, "writing")
        write_model(model, output, seed=options["random_state"], estimate=expected.as_dict(timed=False))
    for column in model.columns_:
        if (odd := multiform.tables.nearly_numbers(column, frame[column.name])) is not None:
            console.note(f"column {column.name!r} is taken as {column.role}, but {odd[0]}; {odd[1]}")
    _say_notes(console, model)
    told = multiform.files.describe(output)
    data = {
        "model": output,
        "kind": type(model.estimator_).__name__,
        "seconds": seconds,
        "rows": model.training_["rows"],
        "target": target,
        "group": options["group"],
        "estimate": expected.as_dict(),
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
            raise click.UsageError(f"--partners works with --model cv only, and you gave --model {asked}")
        asked = "cv"
    promise = {"target_accuracy": "--target-accuracy", "confidence": "--confidence"}
    given = [option for name, option in promise.items() if options[name] is not None]
    if not given:
        return asked or "loyalty"
    if asked not in (None, "triage"):
        raise click.UsageError(f"{given[0]} works with --model triage only, and you gave --model {asked}")
    return "triage"


def _is_larger(found: Any, options: dict[str, Any]) -> bool:
    """Whether a table is trained on in batches; what that cannot do is refused."""
    limit = options["memory"] or multiform.runtime.memory_to_use()
    needed = multiform.tables.needed_memory(found)
    if needed <= limit:
        return False
    asked = {
        "--group": options["group"],
        f"--solver {options['solver']}": options["solver"] not in (None, "adam"),
        f"--model {options['model_name']}": options["model_name"] not in (None, "qms"),
        "--target-accuracy": options["target_accuracy"],
        "--confidence": options["confidence"],
        "--partners": options["partners"],
    }
    for option, given in asked.items():
        if given:
            raise click.UsageError(
                f"a fit in memory would need about {needed / 1e9:.1f} GB, more than {limit / 1e9:.1f} GB (--memory), "
                f"and {option} is for tables that fit the memory; leave it out, or give more --memory"
            )
    return True


def _described(options: dict[str, Any]) -> Any:
    """A table without a classifier yet."""
    roles = ("drop", "numbers", "categories", "dates", "texts", "identifiers", "missing")
    return multiform.tables.TableClassifier(**{name: options[name] for name in (*roles, "as_classes", "merge_classes")})


def _qms(options: dict[str, Any]) -> Any:
    names = ("n_components", "alpha", "max_iter", "noise", "solver", "n_jobs", "random_state")
    given = {name: options[name] for name in names if options[name] is not None}
    return multiform.QMSClassifier(**given, class_weight="balanced" if options["balanced"] else None)


def _trained(frame: Any, target: str, model_name: str, options: dict[str, Any]) -> Any:
    table = _described(options)
    if model_name == "cv":
        shared: dict[str, Any] = {name: options[name] for name in ("n_jobs", "random_state")}
        weight: dict[str, Any] = {"class_weight": "balanced"} if options["balanced"] else {}
        found = {name: options[name] for name in ("n_components", "alpha", "max_iter") if options[name] is not None}
        if options["solver"] not in (None, "adam"):
            raise click.UsageError(f"--model cv works with --solver adam only, and you gave {options['solver']}")
        if options["noise"] is not None:
            found["noise"] = (options["noise"],)
        asked = options["partners"] or "trees"
        found["partners"] = None if asked == "none" else asked
        ensemble = multiform.QMSClassifierCV(**shared, **weight, **found)
        return table.set_params(estimator=ensemble).fit(frame, target, options["group"])
    model: Any = _qms(options)
    if model_name != "qms":
        model = multiform.LoyaltyClassifier(model, random_state=options["random_state"])
    if model_name == "triage":
        promise = {name: options[name] for name in ("target_accuracy", "confidence") if options[name] is not None}
        model = multiform.TriageClassifier(model, random_state=options["random_state"], **promise)
        # So many rows must be right, one after the other, before the promise is proved.
        least = ceil(log(1 - model.confidence) / log(model.target_accuracy) / model.calibration_fraction)
        if options["group"] is None and len(frame) < least:
            raise ValueError(
                f"A promise of {model.target_accuracy:g} with confidence {model.confidence:g} needs {least} rows, "
                f"of which {model.calibration_fraction:.0%} are held out to prove it; the table has {len(frame)}. Give "
                "more rows, or a lower --target-accuracy or --confidence."
            )
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
        become = "were merged" if model.merge_classes else "are different classes; --merge-classes makes them one"
        console.note(f"{', '.join(map(repr, same))} differ only in upper and lower case or blanks, and {become}.")
    for name, accuracy in training["deciding_columns"].items():
        console.note(
            f"column {name!r} alone is enough to predict {accuracy:.1%} of held-out rows. If it is filled in only once "
            f"the answer is known, the estimates mean nothing: leave it out with --drop {shlex.quote(name)}."
        )
    for column in model.columns_:
        if column.role == "identifier":
            console.note(f"column {column.name!r} was left out ({column.why}); --as-number or --as-category keeps it.")
    if training["group_column"] is None:
        for name in training["repeated_identifiers"]:
            console.note(
                f"values of column {name!r} repeat. If rows with the same value belong together, as the visits of one "
                f"patient do, say --group {shlex.quote(name)}: without it the estimated accuracy is too good."
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
        f"{_kind(data['kind'])} trained on {width} column{'s' * (width != 1)} of numbers in {data['seconds']:.1f} s",
        *_estimates(model.estimator_, data["estimate"]),
        f"written to {data['model']}, {data['bytes']:,} bytes",
    ]
    return "\n".join(lines)


def _kind(name: str) -> str:
    """A model by the word of --model, with the name that it has in Python."""
    found = [one for one in MODELS if name.lower() == f"{one}classifier"]
    found += ["cv"] * (name == "QMSClassifierCV")
    return f"{found[0]} model ({name})" if found else name


def _estimates(estimator: Any, expected: dict[str, Any]) -> list[str]:
    """What to expect of new rows, by rows that the models did not see."""
    value, low, high = (f"{100 * expected[name]:.1f}" for name in ("value", "low", "high"))
    took = f", {expected['seconds']:.1f} s" if expected["seconds"] >= 0.05 else ""
    lines = [f"estimated accuracy on new rows {value} % (95 % interval {low} to {high}; by {expected['how']}{took})"]
    judge: Any = estimator if hasattr(estimator, "loyalty_table_") else getattr(estimator, "estimator_", None)
    if hasattr(judge, "loyalty_table_"):
        rows = [["how far to trust an answer", "rows", "share", "accuracy"]]
        for level, row in judge.loyalty_table_.as_dict().items():
            told = (f"{row['share']:.1%}", f"{row['accuracy']:.1%}" if row["count"] else "-")
            rows.append([multiform.metrics.type_words(level), f"{row['count']:g}", *told])
        lines += [text_table(rows, right=[1, 2, 3])]
    if len(getattr(estimator, "shares_", {})) > 1:
        lines.append("the ensemble is " + ", ".join(f"{name} {part:.0%}" for name, part in estimator.shares_.items()))
    if hasattr(estimator, "certificates_"):
        tested = sum(c.n_tested for c in estimator.certificates_)
        accepted = sum(c.n_accepted for c in estimator.certificates_)
        share = accepted / tested if tested else float("nan")
        lines += [
            f"promise: at least {estimator.target_accuracy:.2%} of the accepted answers are right, with confidence "
            f"{estimator.confidence:.0%} ({estimator.guarantee_} guarantee)",
            f"of the rows that were held out to prove it, {share:.2%} were accepted; the others are left to a person",
        ]
    return lines
