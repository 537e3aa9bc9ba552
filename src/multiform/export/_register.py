"""Our converters in skl2onnx's register, and the conversion of one model in one call."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from numbers import Real
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from multiform._version import __version__
from multiform.classifier import QMSClassifier
from multiform.classifier_cv import QMSClassifierCV
from multiform.export._answers import answer, judged, triaged
from multiform.export._columns import encoded, input_name, name_inputs, raw_inputs
from multiform.export._graph import Graph, is_double
from multiform.files import atomic_path
from multiform.loyalty import LoyaltyClassifier
from multiform.tables import TableClassifier
from multiform.triage import TriageClassifier

EXPORTED = (QMSClassifier, QMSClassifierCV, LoyaltyClassifier, TriageClassifier, TableClassifier)
OPTIONS = {"zipmap": [True, False, "columns"], "output_class_labels": [False, True], "nocl": [False, True]}


def register_onnx() -> None:
    """Teach skl2onnx our classifiers, so that it converts pipelines with them.

    :func:`to_onnx` does this by itself; call it when you use skl2onnx's own ``to_onnx`` or ``convert_sklearn``.

    Examples
    --------
    >>> from multiform.export import register_onnx
    >>> register_onnx()
    """
    update = _skl2onnx("register_onnx").update_registered_converter
    for kind in EXPORTED:
        parser = _parse if kind in (LoyaltyClassifier, TriageClassifier, TableClassifier) else None
        update(kind, f"Multiform{kind.__name__}", _infer_types, _convert, parser=parser, options=OPTIONS)


def to_onnx(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    initial_types: Sequence[tuple[str, Any]] | None = None,
    double: bool = False,
    target_opset: int | None = None,
) -> Any:
    """A fitted classifier of ours, or a scikit-learn pipeline with one, as an ONNX model.

    Labels and chances are those of Python: everything of ours is computed in double precision. The outputs are

    - ``label`` and ``probabilities`` of shape (n,) and (n, m), for every model;
    - ``loyalty`` and ``loyalty_score`` of shape (n,), for :class:`~multiform.LoyaltyClassifier`;
    - ``accepted`` and ``trust`` of shape (n,), for :class:`~multiform.TriageClassifier`;
    - those of its estimator and ``unfamiliar``, whether a cell is unlike training, for
      :class:`~multiform.tables.TableClassifier`.

    The inputs of a `TableClassifier` are the columns that it reads, each of shape (n, 1): doubles (NaN is missing) of
    numbers, seconds since 1970 of dates, texts of all others (empty is missing); :func:`onnx_inputs` makes them of a
    table. The metadata of the model name the version, the classes, and the columns.

    Parameters
    ----------
    model : fitted classifier, TableClassifier or Pipeline
        What stands before our classifier in a pipeline must be known to skl2onnx.
    path : path-like, default=None
        Where to write the model, as a whole or not at all.
    initial_types : sequence of (name, type), default=None
        The inputs, as skl2onnx takes them; one matrix ``X`` by default.
    double : bool, default=False
        Whether that matrix holds doubles instead of floats.
    target_opset : int, default=None
        At least 13; skl2onnx's newest by default.

    Returns
    -------
    onnx_model : onnx.ModelProto
        The model; ``onnx_model.SerializeToString()`` is what onnxruntime reads.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from multiform import QMSClassifier
    >>> from multiform.export import to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> onnx_model = to_onnx(QMSClassifier(random_state=0).fit(X, y))
    >>> [output.name for output in onnx_model.graph.output]
    ['label', 'probabilities']
    """
    skl2onnx = _skl2onnx("to_onnx")
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    check_is_fitted(model)
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    if not isinstance(last, EXPORTED):
        raise ValueError(
            "The model given to to_onnx must be one of QMSClassifier, QMSClassifierCV, LoyaltyClassifier, "
            "TriageClassifier and TableClassifier, or a scikit-learn Pipeline that ends with one; got "
            f"{type(last).__name__}."
        )
    if target_opset is not None and target_opset < 13:
        raise ValueError(f"target_opset of to_onnx must be at least 13; got {target_opset}.")
    register_onnx()
    given = initial_types
    if initial_types is None and isinstance(model, TableClassifier):
        initial_types = raw_inputs(model)
    elif initial_types is None:
        kind = DoubleTensorType if double else FloatTensorType
        initial_types = [("X", kind([None, getattr(model, "n_features_in_", None)]))]
    converted = skl2onnx.convert_sklearn(
        model,
        name=type(last).__name__,
        initial_types=list(initial_types),
        target_opset=target_opset,
        options={id(last): {"zipmap": False}},
    )
    if isinstance(model, TableClassifier) and given is None:
        name_inputs(converted, model)
    for key, value in _metadata(last).items():
        entry = converted.metadata_props.add()
        entry.key, entry.value = key, value
    if path is not None:
        with atomic_path(path) as part:
            part.write_bytes(converted.SerializeToString())
    return converted


def _metadata(model: Any) -> dict[str, str]:
    """What whoever opens the file should know: version, kind, classes, columns; JSON where it is more than a word."""
    inner = model.estimator_ if isinstance(model, TableClassifier) else model
    told: dict[str, Any] = {"multiform": __version__, "kind": type(inner).__name__, "classes": model.classes_.tolist()}
    if isinstance(model, TableClassifier):
        told["target"] = model.target_
        told["columns"] = [
            {"name": one.name, "input": input_name(one.name), "role": one.description()["role"], "why": one.why}
            for one in model.columns_
            if one.width
        ]
    elif (names := getattr(model, "feature_names_in_", None)) is not None:
        told["columns"] = [{"name": str(name)} for name in names]
    return {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for key, value in told.items()
    }


def _skl2onnx(caller: str) -> Any:
    try:
        import skl2onnx
    except ImportError as error:
        raise ImportError(f'{caller} needs skl2onnx; install it with pip install "multiform[onnx]".') from error
    return skl2onnx


def _parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """The outputs of a model that has more to say than a label and chances; these are tensors, never a ZipMap."""
    operator = scope.declare_local_operator(f"Multiform{type(model).__name__}", model)
    operator.inputs = inputs
    for name, kind in _outputs(model, inputs).items():
        operator.outputs.append(scope.declare_local_variable(name, kind()))
    return operator.outputs


def _infer_types(operator: Any) -> None:
    """The types and shapes of the outputs."""
    model, inputs = operator.raw_operator, operator.inputs
    n = inputs[0].get_first_dimension()
    for output, (name, kind) in zip(operator.outputs, _outputs(model, inputs).items(), strict=True):
        output.set_type(kind([n, len(model.classes_)] if name == "probabilities" else [n]))


def _outputs(model: Any, inputs: Any) -> dict[str, Any]:
    """The type of each output."""
    from skl2onnx.common import data_types as types

    if isinstance(model, TableClassifier):
        matrix = types.DoubleTensorType()
        return {**_outputs(model.estimator_, [SimpleNamespace(type=matrix)]), "unfamiliar": types.BooleanTensorType}
    number = types.DoubleTensorType if is_double(inputs[0]) else types.FloatTensorType
    label = types.StringTensorType if _labels(model).dtype.kind in "UO" else types.Int64TensorType
    outputs = {"label": label, "probabilities": number}
    if isinstance(model, LoyaltyClassifier):
        outputs |= {"loyalty": types.StringTensorType, "loyalty_score": number}
    if isinstance(model, TriageClassifier):
        outputs |= {"accepted": types.BooleanTensorType, "trust": number}
    return outputs


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Write the graph of one of our classifiers."""
    from onnx import TensorProto

    graph, model = Graph(scope, container), operator.raw_operator
    label, chances, *others = operator.outputs
    if isinstance(model, TableClassifier):
        X, unfamiliar = encoded(graph, model, operator.inputs)
        graph.write(unfamiliar, others.pop())
        model = model.estimator_
    else:
        X = _one_matrix(graph, operator.inputs)
    number = TensorProto.DOUBLE if is_double(X) else TensorProto.FLOAT
    if isinstance(model, LoyaltyClassifier):
        found, level, score = judged(graph, model, X)
        graph.write(graph.node("Gather", graph.constant(np.array(model.levels_)), level), others[0])
        graph.write(score, others[1], number)
    elif isinstance(model, TriageClassifier):
        found, accepted, trust = triaged(graph, model, X)
        graph.write(accepted, others[0])
        graph.write(trust, others[1], number)
    else:
        found = answer(graph, model, X)
    graph.write(graph.node("Gather", graph.constant(_labels(model)), found[0]), label)
    graph.write(found[1], chances, number)


def _labels(model: Any) -> Any:
    """The classes as ONNX can hold them: text, or whole numbers."""
    classes = np.asarray(model.classes_)
    labels = classes.tolist()
    if all(isinstance(label, str) for label in labels):
        if cut := [label for label in labels if "\0" in label]:
            raise ValueError(f"to_onnx needs labels without a NUL, where onnxruntime ends a text; got {cut[0]!r}.")
        return classes
    if all(isinstance(label, Real) and abs(whole := float(label)) < 2**63 and whole.is_integer() for label in labels):
        return classes.astype(np.int64)
    raise ValueError(f"to_onnx needs labels that are all text or all whole numbers; got {labels[:5]}: fit with such.")


def _one_matrix(graph: Any, inputs: Any) -> Any:
    """The input as one float or double matrix; columns that come one by one are put side by side."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    kinds = {type(variable.type) for variable in inputs}
    if len(inputs) == 1 and kinds <= {FloatTensorType, DoubleTensorType}:
        return inputs[0]
    kind, precision = (DoubleTensorType, np.float64) if DoubleTensorType in kinds else (FloatTensorType, np.float32)
    whole = graph.scope.declare_local_variable("columns", kind([None, None]))
    graph.write(graph.beside(*(graph.cast(variable.full_name, precision) for variable in inputs)), whole)
    return whole
