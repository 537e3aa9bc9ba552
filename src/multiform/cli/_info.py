"""``multiform info`` and ``multiform export``: what is in a model file, and the model in another format."""

from __future__ import annotations

import importlib.util
import platform
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

import multiform
from multiform.cli._files import check_output, opened
from multiform.cli._shared import TABLES, Console, columns_table, command, model_file, one_line, text_table

FIGURES = {  # of a training, as people say them
    "rare_classes": "classes of fewer than 5 rows",
    "classes_alike": "classes that differ only in case or blanks",
    "deciding_columns": "held-out rows that a column alone is enough to predict:",
    "repeated_identifiers": "identifiers whose values repeat",
    "group_column": "rows were held out together by the column",
    "groups": "different values of that column",
}
SAME_LABELS, LARGEST_DIFFERENCE = 0.999, 1e-3  # rows on a boundary may fall on either side of it
MOST_LETTERS = 2000  # of a note or a figure of the training


@command("multiform info model.mfm", "multiform info model.mfm --json", "multiform info")
@click.argument("model_path", metavar="[MODEL]", required=False)
def info(model_path: str | None, console: Console) -> None:
    """Say what is in a model file, or, without one, about this installation.

    It also says what the file contains of the rows that it was trained on, so that you know to whom you may give it.
    The file is checked for damage, and nothing in it is run.
    """
    if model_path is None:
        data = _installation()
        words = {"threads": "threads it uses", "kernel": "instructions (kernel)"}
        rows = [[words.get(key, key), str(value)] for key, value in data.items()]
        console.result(data, text_table([["", ""], *rows]).lstrip("\n"))
        return
    if Path(model_path).suffix.lower() in TABLES and not multiform.files.is_model_file(model_path):
        raise ValueError(
            f"{model_path} is not a model file of multiform; `multiform describe` says what is in a table."
        )
    data = multiform.files.describe(model_path)
    # "notes" of JSON are what this command has to say; those of the file have a name of their own.
    console.result(data | {"file_notes": data["notes"]}, _text(model_path, data))


@command(
    "multiform export model.mfm --onnx model.onnx", "multiform export model.mfm --onnx model.onnx --check train.csv"
)
@model_file
@click.option("--onnx", "onnx_path", required=True, metavar="FILE", help="The ONNX file to write.")
@click.option(
    "--numbers",
    is_flag=True,
    help="Take one matrix X of the numbers that the columns become, instead of the columns themselves.",
)
@click.option("--double", is_flag=True, help="With --numbers: the matrix holds doubles instead of floats.")
@click.option(
    "--check",
    metavar="FILE",
    help="Compare the answers with Python's on this table, usually that of training, before writing.",
)
def export(model_path: str, onnx_path: str, numbers: bool, double: bool, check: str | None, console: Console) -> None:
    """Write a model as ONNX, a format that other programs read without Python (by onnxruntime).

    The inputs are the columns of the table as they are: numbers as doubles, dates as seconds since 1970, all others as
    text. The outputs are label and probabilities; loyalty and loyalty_score, or accepted and trust, where the model has
    them; and unfamiliar, whether a cell of the row is unlike training.
    """
    from multiform.export import to_onnx

    check_output(onnx_path, [model_path])
    model = opened(model_path)
    of_table = isinstance(model, multiform.tables.TableClassifier) and not numbers
    if double and not numbers and isinstance(model, multiform.tables.TableClassifier):
        raise click.UsageError("--double is for --numbers; columns of numbers are doubles anyway")
    if check is not None and not of_table:
        raise click.UsageError("--check works with models that read a table's columns, and not with --numbers")
    converted = to_onnx(model if of_table else model.estimator_, None if check else onnx_path, double=double)
    outputs = [output.name for output in converted.graph.output]
    inputs = [one.name for one in converted.graph.input] if of_table else model.encoded_names()
    data: dict[str, Any] = {"output": onnx_path, "inputs": inputs, "outputs": outputs}
    if check is not None:
        data["checked"] = _checked(converted, model, check, console)
        with multiform.files.atomic_path(onnx_path) as part:
            part.write_bytes(converted.SerializeToString())
    how = "one input each" if of_table else f"in one matrix X of {'doubles' if double else 'floats'}"
    lines = [
        f"{type(model.estimator_).__name__} written to {onnx_path}",
        f"outputs: {', '.join(outputs)}",
        f"inputs: {len(inputs)} columns, {how}:",
        *(f"  {number:>4}  {one_line(name)}" for number, name in enumerate(inputs)),
    ]
    if check is not None:
        found = data["checked"]
        lines.append(
            f"checked on {found['rows']} rows of {check}: {found['same_labels']} labels as in Python, chances differ "
            f"by {found['largest_difference']:.1g} at most"
        )
    console.result(data, "\n".join(lines))


def _checked(converted: Any, model: Any, path: str, console: Console) -> dict[str, Any]:
    """How the answers of the graph differ from Python's, on rows that have no cell unlike training."""
    import numpy as np

    from multiform.export import onnx_inputs

    try:
        import onnxruntime
    except ImportError as error:
        raise ImportError('--check needs onnxruntime; install it with pip install "multiform[onnx]".') from error

    table = multiform.tables.read(multiform.tables.sources([path]), note=console.note)
    table = table.filter(multiform.columns.polars().Series(~model.familiarity(table).unfamiliar))
    if not len(table):
        raise ValueError(f"{path} has no row whose cells are all as in training, so there is nothing to compare.")
    session = onnxruntime.InferenceSession(converted.SerializeToString(), providers=["CPUExecutionProvider"])
    label, chances, *_ = session.run(["label", "probabilities"], onnx_inputs(model, table))
    same = int(np.sum(label == model.predict(table)))
    difference = float(np.abs(chances - model.predict_proba(table)).max())
    if same < SAME_LABELS * len(table) or difference > LARGEST_DIFFERENCE:
        raise ValueError(
            f"The answers of the graph differ from Python's: {len(table) - same} of {len(table)} labels, and chances "
            f"by {difference:.2g}; nothing was written. Please report it."
        )
    return {"rows": len(table), "same_labels": same, "largest_difference": difference}


def _installation() -> dict[str, Any]:
    import numpy
    import sklearn

    optional = {"polars": "cli", "safetensors": "files", "matplotlib": "plots", "jinja2": "report", "onnx": "onnx"}
    optional["starlette"] = "web"
    return {
        "multiform": multiform.__version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "scikit-learn": sklearn.__version__,
        "threads": multiform.runtime.effective_threads(None),
        "kernel": multiform.runtime.kernel_name(),
        **{
            f"extra {extra}": "installed" if importlib.util.find_spec(module) else f'pip install "multiform[{extra}]"'
            for module, extra in optional.items()
        },
    }


def _text(path: str, data: dict[str, Any]) -> str:
    versions = ", ".join(f"{_told(name)} {_told(version)}" for name, version in data["versions"].items())
    lines = [
        f"{path}: {data['kind']}, format {data['format']}, {data['bytes']:,} bytes, {data['numbers']:,} numbers",
        f"written {_told(data['written'])} by {versions}",
    ]
    if data["classes"]:
        lines.append(f"classes: {', '.join(_told(one) for one in data['classes'][:30])}")
    columns = data["columns"] or []
    if columns and isinstance(columns[0], dict):
        lines += ["", columns_table(columns), ""]
    elif columns:
        lines.append(f"columns: {', '.join(_told(one) for one in columns[:30])}")
    lines += ["what the file contains of the rows that it was trained on:"]
    lines += [f"- {_told(sentence, MOST_LETTERS)}" for sentence in data["holds"]["sentences"]] + [""]
    lines += ["how it was made:", *_made(data["notes"], data["training"])]
    return "\n".join(lines)


def _made(notes: dict[str, Any], training: dict[str, Any]) -> list[str]:
    """What is known of the training, in words; figures that there are no words for, by their names."""
    inner = training.get("estimator") if isinstance(training.get("estimator"), dict) else {}
    left = {"notes": dict(notes), "training": dict(training), "estimator": dict(inner or {})}
    left["training"].pop("estimator", None)
    lines = []
    for room, keys, told in (
        ("notes", ("command",), lambda command: f"by the command: {command}"),
        ("training", ("rows", "class_counts"), _rows),
        ("training", ("n_features",), lambda n: f"it reads {n:d} columns"),
        ("training", ("rows_without_label",), lambda n: f"{n:d} rows without a label were left out" * bool(n)),
        ("estimator", ("kind", "n_features"), lambda kind, n: f"the model is a {kind} on {n:d} columns of numbers"),
        ("notes", ("estimate",), _estimate),
        ("estimator", ("loyalty",), _types),
        ("training", ("loyalty",), _types),
        ("estimator", ("promise",), _promise),
        ("training", ("promise",), _promise),
        ("estimator", ("shares",), _shares),
        ("training", ("shares",), _shares),
        ("training", ("plan",), _plan),
        ("estimator", ("passes",), lambda n: f"{n:d} passes over the rows"),
        ("training", ("passes",), lambda n: f"{n:d} passes over the rows"),
        ("estimator", ("accuracy",), lambda share: f"accuracy on rows that were held out {share:.1%}"),
        ("training", ("accuracy",), lambda share: f"accuracy on rows that were held out {share:.1%}"),
    ):
        with suppress(LookupError, TypeError, ValueError, AttributeError, ArithmeticError):  # a file may say anything
            lines.append(_told(told(*(left[room][key] for key in keys)), MOST_LETTERS))
            for key in keys:
                del left[room][key]
    rest = _flat("", left["notes"]) + _flat("", left["training"]) + _flat("", left["estimator"])
    return [f"- {line}" for line in (*lines, *rest) if line]


def _rows(n: int, classes: dict[str, int]) -> str:
    return f"trained on {n:,d} rows: " + ", ".join(f"{label} {count:,d}" for label, count in classes.items())


def _estimate(found: dict[str, Any]) -> str:
    value, low, high = (f"{100 * found[name]:.1f}" for name in ("value", "low", "high"))
    return f"estimated accuracy on new rows {value} % (95 % interval {low} to {high}; by {found['how']})"


def _types(table: dict[str, Any]) -> str:
    told = (
        f"{multiform.metrics.type_words(level)} {row['share']:.1%} of the rows, of which "
        + (f"{row['accuracy']:.1%} are right" if row["count"] else "nothing is known")
        for level, row in table.items()
    )
    return f"how far to trust an answer: {'; '.join(told)}"


def _promise(found: dict[str, Any]) -> str:
    return (
        f"promise: at least {found['target_accuracy']:.2%} of the accepted answers are right, with confidence "
        f"{found['confidence']:.0%} ({found['guarantee']} guarantee); {found['coverage']:.1%} of the rows that "
        "were held out to prove it were accepted"
    )


def _shares(found: dict[str, float]) -> str:
    return "the ensemble is " + ", ".join(f"{name} {part:.0%}" for name, part in found.items())


def _plan(found: dict[str, Any]) -> str:
    return (
        f"order of the tests: {', '.join(found['order'])}; expected cost {found['expected_cost']:.2f} a patient, all "
        f"tests {found['panel_cost']:.2f}; accuracy to keep {found['theta']:.1%}, stopping level {found['level']:g}"
    )


def _flat(name: str, value: Any) -> list[str]:
    if isinstance(value, dict):
        return [line for key, entry in value.items() for line in _flat(f"{name} {key}".strip(), entry)]
    if value is None or value == []:
        return []
    if isinstance(value, float):
        value = f"{value:.6g}"
    if isinstance(value, list):
        value = ", ".join(" = ".join(map(str, one)) if isinstance(one, list) else str(one) for one in value)
    first, _, rest = name.partition(" ")
    told = f"{FIGURES.get(first, first.replace('_', ' '))} {rest}".strip()
    return [f"{_told(told)}: {_told(value, MOST_LETTERS)}"]


def _told(value: Any, most: int = 80) -> str:
    """A word of a file, which may be anybody's."""
    return one_line(str(value), most)
