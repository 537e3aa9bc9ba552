"""Models for other runtimes: ONNX, for our classifiers on their own, behind a table's columns and in pipelines."""

from multiform.export._columns import onnx_inputs
from multiform.export._register import register_onnx, to_onnx

__all__ = ["onnx_inputs", "register_onnx", "to_onnx"]
