"""A thin pen for ONNX graphs: constants and nodes by name, in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Graph", "is_double"]

Array = npt.NDArray[Any]


def is_double(variable: Any) -> bool:
    """Whether a variable of skl2onnx holds doubles."""
    from skl2onnx.common.data_types import DoubleTensorType

    return isinstance(variable.type, DoubleTensorType)


class Graph:
    """Writes nodes into skl2onnx's container; every value is known by its name.

    What a node computes stays in double precision, whatever the inputs are: ``||A x - b||^2`` cancels, and a sample
    near a boundary must fall on the side where Python puts it.

    Parameters
    ----------
    scope, container : skl2onnx's Scope and ModelComponentContainer
    """

    def __init__(self, scope: Any, container: Any) -> None:
        self.scope, self.container = scope, container

    def constant(self, value: Any) -> str:
        """A constant: doubles, integers, booleans or text."""
        from onnx import TensorProto

        array = np.asarray(value)
        name: str = self.scope.get_unique_variable_name("constant")
        content: Any
        if array.dtype.kind in "UO":
            kind, content = TensorProto.STRING, [str(text).encode() for text in array.ravel()]
        elif array.dtype == bool:
            kind, content = TensorProto.BOOL, array.ravel().tolist()
        elif array.dtype.kind in "iu":
            kind, content = TensorProto.INT64, array.astype(np.int64).ravel().tolist()
        else:
            kind, content = TensorProto.DOUBLE, array.astype(np.float64).ravel()
        self.container.add_initializer(name, kind, list(array.shape), content)
        return name

    def node(self, operation: str, *inputs: str, **attributes: Any) -> str:
        """The output of an operation with one output."""
        output: str = self.scope.get_unique_variable_name(operation.lower())
        self._add(operation, inputs, [output], attributes)
        return output

    def write(self, source: str, target: Any, kind: int | None = None) -> None:
        """Make a value an output of the model, cast to a type of ONNX where one is given."""
        if kind is None:
            self._add("Identity", [source], [target.full_name], {})
        else:
            self._add("Cast", [source], [target.full_name], {"to": kind})

    def _add(self, operation: str, inputs: Any, outputs: list[str], attributes: dict[str, Any]) -> None:
        from onnx.defs import get_schema

        name = self.scope.get_unique_operator_name(f"multiform_{operation}")
        if operation == "LabelEncoder":
            domain, version = "ai.onnx.ml", 2
        else:  # the version that the target opset means
            domain, version = "", get_schema(operation, self.container.target_opset).since_version
        self.container.add_node(
            operation, list(inputs), outputs, op_domain=domain, op_version=version, name=name, **attributes
        )

    # ------------------------------------------------------------------------------- what several converters need

    def cast(self, value: str, kind: Any) -> str:
        """To the ONNX type of a NumPy type: float64, float32, int64, bool."""
        from onnx.helper import np_dtype_to_tensor_dtype

        return self.node("Cast", value, to=int(np_dtype_to_tensor_dtype(np.dtype(kind))))

    def total(self, value: str, axis: int, keepdims: bool = False) -> str:
        """The sum along an axis."""
        return self.node("ReduceSum", value, self.constant([axis]), keepdims=int(keepdims))

    def columns(self, value: str, which: Array) -> str:
        """Some columns of a matrix."""
        return self.node("Gather", value, self.constant(np.asarray(which, dtype=np.int64)), axis=1)

    def beside(self, *values: str) -> str:
        """Matrices side by side."""
        return values[0] if len(values) == 1 else self.node("Concat", *values, axis=1)

    def one_hot(self, index: str, size: int) -> str:
        """Booleans of shape (n, size), true where the column is the index of the row."""
        column = self.node("Unsqueeze", index, self.constant([1]))
        return self.node("Equal", column, self.constant(np.arange(size)[None, :]))

    def linear(self, value: str, weights: Array, offsets: Array) -> str:
        """``x W + c``."""
        return self.node("Add", self.node("MatMul", value, self.constant(weights)), self.constant(offsets))

    def largest(self, value: str) -> str:
        """The largest entry of each row."""
        return self.node("Reshape", self._extreme(value, 1, largest=True), self.constant([-1]))

    def smallest(self, value: str, count: int) -> str:
        """The smallest entries of each row, ascending."""
        return self._extreme(value, count, largest=False)

    def _extreme(self, value: str, count: int, largest: bool) -> str:
        names: list[str] = [self.scope.get_unique_variable_name(f"top_{what}") for what in ("values", "places")]
        attributes = {"axis": 1, "largest": int(largest), "sorted": 1}
        self._add("TopK", [value, self.constant(np.array([count]))], names, attributes)
        return names[0]
