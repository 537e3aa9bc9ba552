"""Models for other runtimes: ONNX, for our classifiers on their own and inside scikit-learn's pipelines."""

from multiform.export._register import register_onnx, to_onnx

__all__ = ["register_onnx", "to_onnx"]
