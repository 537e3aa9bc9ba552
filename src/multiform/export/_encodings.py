"""The column encodings of `QMSClassifierCV` as ONNX: one-hot values, hinges at quantiles, and other transformers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.preprocessing import OneHotEncoder, SplineTransformer

from multiform._typing import Array
from multiform.columns import Encodings
from multiform.export._graph import Graph, is_double


def encoded(graph: Graph, encodings: Encodings, X: Any) -> str:
    """The plain columns and what each transformer makes of them, as doubles: shape (n, width)."""
    from skl2onnx._parse import _parse_sklearn

    plain = graph.cast(X.full_name, np.float64)
    # A float cannot hold 0.1 as a double can, so what is compared with a float is a float.
    precision = np.float64 if is_double(X) else np.float32
    parts = [plain]
    names = [name for name in encodings.names if name != "plain"]
    for name, transformer in zip(names, encodings.transformers, strict=True):
        if name == "enriched":
            for _, part, columns in transformer.transformers_:
                if isinstance(part, OneHotEncoder) and len(columns):
                    parts.append(_one_hot(graph, plain, columns, part, precision))
                elif isinstance(part, SplineTransformer) and len(columns):
                    parts.append(_hinges(graph, plain, columns, part, precision))
        else:
            output = _parse_sklearn(graph.scope, transformer, [X])[0]  # by its own converter
            parts.append(graph.cast(output.full_name, np.float64))
    return graph.beside(*parts)


def _one_hot(graph: Graph, X: str, columns: Array, encoder: OneHotEncoder, precision: Any) -> str:
    """1 where a column has the value of a category; a value never seen is 0 everywhere."""
    repeated = np.repeat(columns, [len(known) for known in encoder.categories_])
    values = np.concatenate(encoder.categories_).astype(precision).astype(np.float64)
    return graph.cast(graph.node("Equal", graph.columns(X, repeated), graph.constant(values[None, :])), np.float64)


def _hinges(graph: Graph, X: str, columns: Array, transformer: SplineTransformer, precision: Any) -> str:
    """Splines of degree 1: on piece r of its axis, feature c becomes ``value[c, r] + slope[c, r] (x - origin[c, r])``.

    The piece is found by counting the knots that x has reached.
    """
    if transformer.degree != 1:
        raise ValueError(f"to_onnx can export SplineTransformer of degree 1; got {transformer.degree}.")
    edges, origin, value, slope = _pieces(transformer, precision)
    n_features, n_pieces, n_splines = value.shape
    x = graph.node("Unsqueeze", graph.columns(X, columns), graph.constant([2]))
    reached = graph.cast(graph.node("GreaterOrEqual", x, graph.constant(edges[None])), np.int64)
    first = np.arange(n_features)[None, :] * n_pieces
    piece = graph.node("Add", graph.total(reached, axis=2), graph.constant(first))

    def of_piece(table: Array) -> str:
        return graph.node("Gather", graph.constant(table.reshape(n_features * n_pieces, -1)), piece)

    along = graph.node("Mul", graph.node("Sub", x, of_piece(origin)), of_piece(slope))
    whole = graph.node("Add", along, of_piece(value))
    return graph.node("Reshape", whole, graph.constant([-1, n_features * n_splines]))


def _pieces(transformer: SplineTransformer, precision: Any) -> tuple[Array, Array, Array, Array]:
    """Where the pieces of each feature begin, and the lines on them: edges, origin, value and slope.

    The lines are read off the transformer itself, at two points inside each piece, and not derived from its knots:
    scikit-learn 1.9 and older continue the features after the first from their second knot on instead of the first.
    """
    knots = [np.unique(spline.t[1:-1]) for spline in transformer.bsplines_]  # the outermost two only pad
    n_edges = max(map(len, knots))
    # Features with fewer knots have their last piece cut further, which changes nothing.
    step = np.array([[np.ptp(own) or 1.0] for own in knots])
    more = [by * (1 + np.arange(n_edges - len(own))) for own, by in zip(knots, step, strict=True)]
    edges = np.stack([np.append(own, own[-1] + further) for own, further in zip(knots, more, strict=True)])
    begin, end = np.hstack([edges[:, :1] - step, edges]), np.hstack([edges, edges[:, -1:] + step])
    origin = begin + (end - begin) / 3
    second = begin + (end - begin) * 2 / 3
    value, value_second, at_edge = (_transformed(transformer, points) for points in (origin, second, edges))
    slope = (value_second - value) / (second - origin)[..., None]
    # Equal knots make a jump; the knot itself belongs to the piece that has its value.
    from_left = value[:, :-1] + slope[:, :-1] * (edges - origin[:, :-1])[..., None]
    from_right = value[:, 1:] + slope[:, 1:] * (edges - origin[:, 1:])[..., None]
    left = np.abs(at_edge - from_left).max(axis=2) < np.abs(at_edge - from_right).max(axis=2)
    reached = edges.astype(precision)
    reached = np.where(left, np.nextafter(reached, precision(np.inf)), reached)
    return reached.astype(np.float64), origin, value, slope


def _transformed(transformer: SplineTransformer, points: Array) -> Array:
    """What becomes of the points (n_features, n_points): shape (n_features, n_points, n_splines)."""
    found = transformer.transform(points.T)
    return np.asarray(found).reshape(points.shape[1], len(points), -1).transpose(1, 0, 2)
