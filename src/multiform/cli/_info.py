"""``multiform info`` and ``multiform export``: what is in a model file, and the model in another format."""

from __future__ import annotations

import importlib.util
import platform
from pathlib import Path
from typing import Any

import click

import multiform
from multiform.cli._files import check_output, opened
from multiform.cli._shared import Console, columns_table, command, model_file, one_line, text_table

TABLES = (".csv", ".tsv", ".txt", ".xlsx", ".ods", ".parquet")
MOST_LETTERS = 2000  # of a note or a figure of the training


@command("multiform info model.mfm", "multiform info model.mfm --json", "multiform info")
@click.argument("model_path", metavar="[MODEL]", required=False)
def info(model_path: str | None, console: Console) -> None:
    """Say what is in a model file, or, without one, about this installation.

    Also what it holds of the rows that it was trained on, which decides to whom it may be given. The file's checksum is
    checked. No model is made of it.
    """
    if model_path is None:
        data = _installation()
        console.result(data, text_table([["", ""], *([key, str(value)] for key, value in data.items())]).lstrip("\n"))
        return
    if Path(model_path).suffix.lower() in TABLES and not multiform.files.is_model_file(model_path):
        raise ValueError(f"{model_path} is no model file; `multiform describe` says what is in a table.")
    data = multiform.files.describe(model_path)
    # "notes" of JSON are what this command has to say; those of the file have a name of their own.
    console.result(data | {"file_notes": data["notes"]}, _text(model_path, data))


@command("multiform export model.mfm --onnx model.onnx")
@model_file
@click.option("--onnx", "onnx_path", required=True, metavar="FILE", help="The ONNX file to write.")
@click.option("--double", is_flag=True, help="The inputs are doubles instead of floats.")
def export(model_path: str, onnx_path: str, double: bool, console: Console) -> None:
    """Write a model as ONNX, which onnxruntime reads without Python.

    The outputs are label and probabilities; loyalty and loyalty_score, or accepted and trust, where the model has
    them. What makes numbers of a table's columns is not part of it: the inputs are the numbers, in the order that
    is told.
    """
    from multiform.export import to_onnx

    check_output(onnx_path, [model_path])
    model = opened(model_path)
    converted = to_onnx(model.estimator_, onnx_path, double=double)
    inputs, outputs = model.encoded_names(), [output.name for output in converted.graph.output]
    text = "\n".join(
        [
            f"{type(model.estimator_).__name__} written to {onnx_path}",
            f"outputs: {', '.join(outputs)}",
            f"input X, {'double' if double else 'float'}, {len(inputs)} columns:",
            *(f"  {number:>4}  {name}" for number, name in enumerate(inputs)),
        ]
    )
    console.result({"output": onnx_path, "inputs": inputs, "outputs": outputs}, text)


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
    lines += ["what the file holds of the rows that it was trained on:"]
    lines += [f"- {_told(sentence, MOST_LETTERS)}" for sentence in data["holds"]["sentences"]] + [""]
    lines += _flat("training", data["training"])
    lines += _flat("notes", data["notes"])
    return "\n".join(lines)


def _flat(name: str, value: Any) -> list[str]:
    if isinstance(value, dict):
        return [line for key, entry in value.items() for line in _flat(f"{name} {key}", entry)]
    if value is None or value == []:
        return []
    if isinstance(value, float):
        value = f"{value:.6g}"
    return [f"{_told(name).replace('_', ' ')}: {_told(value, MOST_LETTERS)}"]


def _told(value: Any, most: int = 80) -> str:
    """A word of a file, which may be anybody's."""
    return one_line(str(value), most)
