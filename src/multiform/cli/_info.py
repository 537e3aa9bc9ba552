"""``multiform info``."""

from __future__ import annotations

from typing import Any

import click

from multiform.cli._console import Console, speaks, text_table
from multiform.cli._options import examples


@click.command("info", epilog=examples("multiform info model.mfm", "multiform info model.mfm --json", "multiform info"))
@click.argument("model_path", metavar="[MODEL]", required=False)
@speaks
def command(model_path: str | None, console: Console) -> None:
    """Say what is in a model file, or, without one, about this installation.

    The file's checksum is checked. No model is made of it.
    """
    if model_path is None:
        data = _installation()
        console.result(data, text_table([["", ""], *([key, str(value)] for key, value in data.items())]).lstrip("\n"))
        return
    from multiform.files import describe

    data = describe(model_path)
    console.result(data, _text(model_path, data))


def _installation() -> dict[str, Any]:
    import importlib.util
    import platform

    import numpy
    import sklearn

    import multiform
    from multiform.runtime import effective_threads, kernel_name

    optional = {"polars": "cli", "safetensors": "files", "matplotlib": "plots", "jinja2": "report", "onnx": "onnx"}
    return {
        "multiform": multiform.__version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "scikit-learn": sklearn.__version__,
        "threads": effective_threads(None),
        "kernel": kernel_name(),
        **{
            f"extra {extra}": "installed" if importlib.util.find_spec(module) else f'pip install "multiform[{extra}]"'
            for module, extra in optional.items()
        },
    }


def _text(path: str, data: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in data["versions"].items())
    lines = [
        f"{path}: {data['kind']}, format {data['format']}, {data['bytes']:,} bytes, {data['numbers']:,} numbers",
        f"written {data['written']} by {versions}",
    ]
    if data["classes"]:
        lines.append(f"classes: {', '.join(map(str, data['classes'][:30]))}")
    columns = data["columns"] or []
    if columns and isinstance(columns[0], dict):
        rows = [["column", "taken as", "becomes", "because"]]
        rows += [[c["name"], c["role"], str(len(c["becomes"])), c["why"]] for c in columns]
        lines += ["", text_table(rows, right=[2]), ""]
    elif columns:
        lines.append(f"columns: {', '.join(map(str, columns[:30]))}")
    lines += _flat("training", data["training"])
    lines += _flat("notes", data["notes"])
    return "\n".join(lines)


def _flat(name: str, value: Any) -> list[str]:
    if isinstance(value, dict):
        return [line for key, entry in value.items() for line in _flat(f"{name} {key}", entry)]
    if isinstance(value, float):
        value = f"{value:.6g}"
    return [f"{name}: {value}"]
