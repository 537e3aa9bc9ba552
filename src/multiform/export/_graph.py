"""The pen that writes a graph: constants and nodes, every value known by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from multiform._typing import Array

OF_ML = {"LabelEncoder": 2, "TreeEnsembleRegressor": 1}  # operators of ONNX for learning, and their versions
OF_RUNTIME = {"Tokenizer": 1}  # of onnxruntime itself
Values = list[tuple[str, Any, Any]]  # names, types of NumPy, shapes


def is_double(variable: Any) -> bool:
    """Whether a variable of skl2onnx holds doubles."""
    from skl2onnx.common.data_types import DoubleTensorType

    return isinstance(variable.type, DoubleTensorType)


class Graph:
    """Writes nodes into skl2onnx's container; every value is known by its name.

    What a node computes stays in double precision, whatever the inputs are: ``||A x - b||^2`` cancels, and a sample
    near a boundary must fall on the side where Python puts it.
    """

    def __init__(self, scope: Any, container: Any) -> None:
        self.scope, self.container = scope, container

    def constant(self, value: Any) -> str:
        """A constant: doubles, integers, booleans or text."""
        from onnx import TensorProto
        from onnx.helper import np_dtype_to_tensor_dtype

        array = np.asarray(value)
        name: str = self.scope.get_unique_variable_name("constant")
        content: Any
        if array.dtype.kind in "UO":
            kind, content = TensorProto.STRING, [str(text).encode() for text in array.ravel()]
        else:
            array = array.astype({"b": np.bool_, "i": np.int64, "u": np.int64}.get(array.dtype.kind, np.float64))
            kind, content = np_dtype_to_tensor_dtype(array.dtype), array.ravel()
        self.container.add_initializer(name, kind, list(array.shape), content)
        return name

    def node(self, operation: str, *inputs: str, outputs: Sequence[str] = (), **attributes: Any) -> str:
        """The output of an operation, or the first of several, which are then named."""
        from onnx.defs import get_schema

        name = self.scope.get_unique_operator_name(f"multiform_{operation}")
        outputs = outputs or [self.scope.get_unique_variable_name(operation.lower())]
        if operation in OF_ML:
            domain, version = "ai.onnx.ml", OF_ML[operation]
        elif operation in OF_RUNTIME:
            domain, version = "com.microsoft", OF_RUNTIME[operation]
        else:  # the version that the target opset means
            domain, version = "", get_schema(operation, self.container.target_opset).since_version
        self.container.add_node(
            operation, list(inputs), list(outputs), op_domain=domain, op_version=version, name=name, **attributes
        )
        return outputs[0]

    def write(self, source: str, target: Any, kind: int | None = None) -> None:
        """Make a value an output of the model, cast to a type of ONNX where one is given."""
        if kind is None:
            self.node("Identity", source, outputs=[target.full_name])
        else:
            self.node("Cast", source, outputs=[target.full_name], to=kind)

    def converted(self, model: Any, X: Any) -> Any:
        """The variables that another library's model makes of X, by its own converter."""
        from skl2onnx._parse import _parse_sklearn

        return _parse_sklearn(self.scope, model, [X])

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

    def flat(self, value: str) -> str:
        """A column as a row of values, one per sample."""
        return self.node("Reshape", value, self.constant([-1]))

    def upright(self, value: str) -> str:
        """Values, one per sample, as a column."""
        return self.node("Unsqueeze", value, self.constant([1]))

    def one_hot(self, index: str, size: int) -> str:
        """Booleans of shape (n, size), true where the column is the index of the row."""
        return self.node("Equal", self.upright(index), self.constant(np.arange(size)[None, :]))

    def linear(self, value: str, weights: Array, offsets: Array) -> str:
        """``x W + c``."""
        return self.node("Add", self.node("MatMul", value, self.constant(weights)), self.constant(offsets))

    def extreme(self, value: str, count: int, largest: bool) -> str:
        """The largest or the smallest entries of each row, the most extreme first."""
        outputs = [self.scope.get_unique_variable_name(f"top_{what}") for what in ("values", "places")]
        count_of = self.constant(np.array([count]))
        return self.node("TopK", value, count_of, outputs=outputs, axis=1, largest=int(largest), sorted=1)

    def clipped(self, value: str, most: float) -> str:
        """Every entry on its own, to `most` in size; what is missing stays so."""
        return self.node("Clip", value, self.constant(np.float64(-most)), self.constant(np.float64(most)))

    def limited(self, value: str, most: float) -> str:
        """Rows of which an entry is larger than `most` in size are divided, so that it is not."""
        largest = self.extreme(self.node("Abs", value), 1, largest=True)
        factor = self.node("Max", self.node("Div", largest, self.constant(np.float64(most))), self.constant(1.0))
        return self.node("Div", value, factor)


# ------------------------------------------------------------------------------------- graphs inside an operator


class _Body:
    """A graph inside an operator, which skl2onnx's container would not keep apart: nodes and constants of its own."""

    def __init__(self, container: Any) -> None:
        self.target_opset, self.nodes, self.constants = container.target_opset, [], []  # type: ignore[var-annotated]

    def add_initializer(self, name: str, kind: int, shape: list[int], content: Any) -> None:
        from onnx.helper import make_tensor

        self.constants.append(make_tensor(name, kind, shape, content))

    def add_node(self, operation: str, inputs: Any, outputs: Any, op_version: int, op_domain: str, **more: Any) -> None:
        from onnx.helper import make_node

        self.nodes.append(make_node(operation, inputs, outputs, domain=op_domain, **more))


def body(graph: Graph, inputs: Values, write: Callable[[Graph], Values]) -> Any:
    """A graph with these inputs (name, type of NumPy, shape), and the outputs that `write` returns."""
    from onnx.helper import make_graph, make_tensor_value_info, np_dtype_to_tensor_dtype

    def told(values: Values) -> list[Any]:
        return [
            make_tensor_value_info(name, np_dtype_to_tensor_dtype(np.dtype(kind)), shape)
            for name, kind, shape in values
        ]

    inside = _Body(graph.container)
    outputs = write(Graph(graph.scope, inside))
    name = graph.scope.get_unique_operator_name("multiform_body")
    return make_graph(inside.nodes, name, told(inputs), told(outputs), inside.constants)
