"""``multiform export``."""

from __future__ import annotations

import click

from multiform.cli._console import Console, speaks
from multiform.cli._options import examples, model_file


@click.command("export", epilog=examples("multiform export model.mfm --onnx model.onnx"))
@model_file
@click.option("--onnx", "onnx_path", required=True, metavar="FILE", help="The ONNX file to write.")
@click.option("--double", is_flag=True, help="The inputs are doubles instead of floats.")
@speaks
def command(model_path: str, onnx_path: str, double: bool, console: Console) -> None:
    """Write a model as ONNX, which onnxruntime reads without Python.

    The outputs are label and probabilities; loyalty and loyalty_score, or accepted and trust, where the model has
    them. What makes numbers of a table's columns is not part of it: the inputs are the numbers, in the order that
    is told.
    """
    from multiform.cli._models import opened
    from multiform.cli._output import check_output
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
