"""Missing entries in a graph: what `multiform.gaps` computes, by standard operators.

With R the precision over the square roots of its diagonal, the covariance of what is missing is the inverse of R_MM,
by Gauss and Jordan. One step of that is a matrix of rank one less, at pivot k with e_k its unit vector:

    R <- R - (R e_k - e_k) (e_k^T R + e_k^T) / R_kk,

and needs no exchange of rows, as R is positive definite with a diagonal of ones. A Scan takes the rows that have gaps
one by one, as the matrix is another one for each; those without are left as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from multiform._typing import Array
from multiform.export._graph import Graph, Values, body
from multiform.gaps import FARTHEST, Gaussian


def filled(graph: Graph, rows: str, gaussian: Gaussian, A: Array) -> tuple[str, str]:
    """Rows (n, p) with the expected values of their gaps, and what these add to every f, ``tr(A S A^T)``: (n, K).

    `A` of the K separators is in the units of the rows: shape (K, q, p).
    """
    A, mean = A * gaussian.deviation, graph.constant(gaussian.mean[None, :])
    gap = graph.node("IsNaN", rows)
    if gaussian.correlation is None:
        weights = graph.constant((A**2).sum(axis=1).T)
        return graph.node("Where", gap, mean, rows), graph.node("MatMul", graph.cast(gap, np.float64), weights)
    per_deviation = np.divide(1.0, gaussian.deviation, out=np.zeros(A.shape[2]), where=gaussian.deviation > 0)
    standard = graph.node("Mul", graph.node("Sub", rows, mean), graph.constant(per_deviation[None, :]))
    standard = graph.clipped(standard, FARTHEST)
    gaps_of_row = graph.total(graph.cast(gap, np.float64), axis=1)
    which = graph.node("Transpose", graph.node("NonZero", graph.node("Greater", gaps_of_row, graph.constant(0.0))))
    # a Scan wants a row at least: one without gaps comes first, and what it says is left out
    none = graph.constant(np.zeros((1, len(per_deviation))))
    given = graph.node("Concat", none, graph.node("GatherND", standard, which), axis=0)
    of_row = _of_row(graph, gaussian.precision, A)
    outputs = [graph.scope.get_unique_variable_name(f"scan_{what}") for what in ("expected", "added")]
    graph.node("Scan", given, outputs=outputs, body=of_row, num_scan_inputs=1)
    first, last = graph.constant([1]), graph.constant([np.iinfo(np.int64).max])
    found = [graph.node("Slice", output, first, last, graph.constant([0])) for output in outputs]
    zeros, n = graph.constant(np.zeros((1, 1))), graph.node("Shape", rows)
    expected = graph.node("ScatterND", graph.node("Expand", zeros, n), which, found[0])
    expected = graph.node("Add", mean, graph.node("Mul", expected, graph.constant(gaussian.deviation[None, :])))
    height = graph.node("Gather", n, graph.constant([0]))
    shape = graph.node("Concat", height, graph.constant([len(A)]), axis=0)
    added = graph.node("ScatterND", graph.node("Expand", zeros, shape), which, found[1])
    return graph.node("Where", gap, expected, rows), added


def _of_row(graph: Graph, precision: Array, A: Array) -> Any:
    """Of one standardised row, NaN where it has a gap: the values expected there (p,), and what they add (K,)."""
    n_separators, q, p = A.shape
    root = np.sqrt(np.diag(precision))
    given = graph.scope.get_unique_variable_name("row")

    def write(inside: Graph) -> Values:
        gap = inside.node("IsNaN", given)
        missing = inside.flat(inside.node("NonZero", gap))
        here = inside.upright(missing)
        count = inside.node("Shape", missing)
        R = inside.node("Gather", inside.constant(precision / np.outer(root, root)), missing, axis=0)
        inverse = _inverse(inside, inside.node("Gather", R, missing, axis=1), count)
        per_root = inside.node("Gather", inside.constant(1 / root), missing, axis=0)
        # S P_MO x_O, with x_M = 0
        known = inside.node("Where", gap, inside.constant(0.0), given)
        pull = inside.node("Gather", inside.node("MatMul", known, inside.constant(precision)), missing, axis=0)
        step = inside.node("MatMul", inverse, inside.upright(inside.node("Mul", pull, per_root)))
        moved = inside.node("Neg", inside.node("Mul", inside.flat(step), per_root))
        expected = inside.node("ScatterND", inside.constant(np.zeros(p)), here, moved)
        # tr(A S A^T), of the columns that are missing
        read = inside.node("Gather", inside.constant((A / root).reshape(-1, p)), missing, axis=1)
        spread = inside.node("Mul", inside.node("MatMul", read, inverse), read)
        by_row = inside.node("Reshape", inside.total(spread, axis=1), inside.constant([n_separators, q]))
        added = inside.total(by_row, axis=1)
        return [(expected, np.float64, [p]), (added, np.float64, [n_separators])]

    return body(graph, [(given, np.float64, [p])], write)


def _inverse(graph: Graph, matrix: str, size: str) -> str:
    """Of a positive definite matrix with a diagonal of ones; `size` holds the number of its rows."""
    step, on, R = (graph.scope.get_unique_variable_name(name) for name in ("pivot", "on", "matrix"))

    def write(inside: Graph) -> Values:
        at = inside.node("Reshape", step, inside.constant([1]))
        column, row = (inside.node("Gather", R, at, axis=axis) for axis in (1, 0))
        pivot = inside.node("Gather", row, at, axis=1)
        places = inside.node("Range", inside.constant(0), inside.node("Size", row), inside.constant(1))
        unit = inside.cast(inside.node("Equal", places, at), np.float64)
        left = inside.node("Sub", column, inside.upright(unit))
        right = inside.node("Div", inside.node("Add", row, unit), pivot)
        after = inside.node("Sub", R, inside.node("Mul", left, right))
        return [(inside.node("Identity", on), np.bool_, []), (after, np.float64, [None, None])]

    inputs = [(step, np.int64, []), (on, np.bool_, []), (R, np.float64, [None, None])]
    times = graph.node("Reshape", size, graph.constant(np.empty(0, dtype=np.int64)))
    return graph.node("Loop", times, graph.constant(True), matrix, body=body(graph, inputs, write))
