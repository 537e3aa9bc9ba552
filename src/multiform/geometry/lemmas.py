"""Lemmas 1 and 2 of the paper, run as its appendix proves them and as a numerical analyst would.

Lemma 1: a quadratic is nonnegative if and only if it is a member function with at most p + 1 rows.
Lemma 2: every quadratic is the difference of two member functions.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from multiform._typing import Doubles

from ._arrays import EPS, equilibrating_scale
from .quadratics import MemberFunction, QuadraticPolynomial

__all__ = ["NotNonnegativeError", "difference_of_members", "member_from_polynomial"]


class NotNonnegativeError(ValueError):
    """A quadratic that had to be nonnegative is not.

    Attributes
    ----------
    point : ndarray of shape (p,)
        A point where the quadratic is negative.
    value : float
        Its value there.
    """

    def __init__(self, point: Doubles, value: float) -> None:
        super().__init__(
            f"only a nonnegative quadratic is a member function (Lemma 1), but this one is {value:.6g} at the "
            "point kept in `point`; `difference_of_members` writes any quadratic as the difference of two."
        )
        self.point = point
        self.value = value


def member_from_polynomial(
    polynomial: QuadraticPolynomial,
    *,
    method: Literal["spectral", "elimination"] = "spectral",
    tol: float = 1e-12,
) -> MemberFunction:
    """Write a nonnegative quadratic as a member function with q <= p + 1 rows (Lemma 1).

    Parameters
    ----------
    polynomial : QuadraticPolynomial
        The quadratic f.
    method : {"spectral", "elimination"}, default="spectral"
        "spectral" factorises the homogeneous form by its eigenvectors: stable, and with the fewest rows.
        "elimination" is the paper's proof: complete the square in one variable after the other. Variables
        with no square left are skipped, and the variable with the largest square is taken first, which is
        the re-indexing that the proof allows.
    tol : float, default=1e-12
        What counts as nonnegative, as in `QuadraticPolynomial.is_nonnegative`.

    Returns
    -------
    MemberFunction

    Raises
    ------
    NotNonnegativeError
        When f is negative somewhere; the error carries such a point.

    Examples
    --------
    >>> from multiform.geometry import QuadraticPolynomial, member_from_polynomial
    >>> f = QuadraticPolynomial([[1, 1], [1, 1]], [0, 0], 4)      # (x0 + x1)^2 + 2^2
    >>> member = member_from_polynomial(f, method="elimination")
    >>> member.components
    array([[1., 1.],
           [0., 0.]])
    >>> member([[1.0, 2.0]])                                      # 3^2 + 2^2
    array([13.])
    """
    if method not in ("spectral", "elimination"):
        raise ValueError(f'method of member_from_polynomial must be "spectral" or "elimination"; got {method!r}.')
    point = polynomial.negative_point(tol)
    if point is not None:
        raise NotNonnegativeError(point, float(polynomial([point])[0]))
    form = polynomial.homogeneous()
    rows = spectral_rows(form)[0] if method == "spectral" else _elimination_rows(form)
    return MemberFunction._from_homogeneous_rows(rows)


def difference_of_members(
    polynomial: QuadraticPolynomial, *, method: Literal["spectral", "monomial"] = "spectral"
) -> tuple[MemberFunction, MemberFunction]:
    """Write any quadratic h as `u - v`, a difference of two member functions (Lemma 2).

    Parameters
    ----------
    polynomial : QuadraticPolynomial
        The quadratic h.
    method : {"spectral", "monomial"}, default="spectral"
        "spectral" is the small way: the positive and the negative eigenvalues of the homogeneous form,
        together at most p + 1 rows. "monomial" is the paper's: each monomial on its own, `x_i x_j = ((x_i +
        x_j)^2 - (x_i - x_j)^2) / 4` and `x_i = ((x_i + 1)^2 - (x_i - 1)^2) / 4`, so up to (p + 1)(p + 2) /
        2 rows each; `MemberFunction.reduce` brings them down to p + 1.

    Returns
    -------
    u, v : MemberFunction

    Examples
    --------
    >>> from multiform.geometry import QuadraticPolynomial, difference_of_members
    >>> h = QuadraticPolynomial([[0.0, 0.5], [0.5, 0.0]])          # x0 x1
    >>> u, v = difference_of_members(h, method="monomial")
    >>> u.components, v.components
    (array([[0.5, 0.5]]), array([[ 0.5, -0.5]]))
    >>> u - v == h
    True
    """
    if method not in ("spectral", "monomial"):
        raise ValueError(f'method of difference_of_members must be "spectral" or "monomial"; got {method!r}.')
    if method == "spectral":
        plus, minus = spectral_rows(polynomial.homogeneous())
    else:
        plus, minus = _monomial_rows(polynomial)
    return MemberFunction._from_homogeneous_rows(plus), MemberFunction._from_homogeneous_rows(minus)


def spectral_rows(form: Doubles) -> tuple[Doubles, Doubles]:
    """Rows P and N with `form = P'P - N'N`: its positive and its negative eigenvalues, zeros left out.

    They are the eigenvectors of the equilibrated matrix, so every feature is accurate on its own scale, scaled back:
    independent, not orthogonal. Features that are absent (rows of zeros) stay exactly absent.
    """
    present = np.abs(form).max(axis=1, initial=0.0) > 0
    block = form[np.ix_(present, present)]
    scale = equilibrating_scale(block)
    eigenvalues, vectors = np.linalg.eigh(block / np.outer(scale, scale))
    rows = np.zeros((len(block), len(form)))
    rows[:, present] = vectors.T * scale
    threshold = EPS * len(form) * np.abs(eigenvalues).max(initial=0.0)
    plus, minus = eigenvalues > threshold, eigenvalues < -threshold
    return (
        np.sqrt(eigenvalues[plus, None]) * rows[plus],
        np.sqrt(-eigenvalues[minus, None]) * rows[minus],
    )


def _elimination_rows(form: Doubles) -> Doubles:
    """The paper's decomposition `f = L_1^2 + ... + L_l^2 + a_0` of a nonnegative quadratic (Appendix A, Lemma 1).

    L_k = sqrt(a_kk) x_k + sum_j a_kj / (2 sqrt(a_kk)) x_j + a_k / (2 sqrt(a_kk)); in the homogeneous form
    that is the row of the pivot over the root of its diagonal entry, and f - L_k^2 no longer holds x_k.
    """
    p = len(form) - 1
    scale = equilibrating_scale(form)
    rest = form / np.outer(scale, scale)
    threshold = EPS * len(form) * np.abs(rest).max()
    rows = []
    left = np.ones(p, dtype=bool)
    while left.any():
        squares = np.where(left, rest.diagonal()[:p], -np.inf)
        pivot = int(squares.argmax())
        # No square left above rounding: the terms of the remaining variables are zero as well, as f is nonnegative.
        if squares[pivot] <= threshold:
            break
        row = rest[pivot] / np.sqrt(rest[pivot, pivot])
        rest = rest - np.outer(row, row)
        rest[pivot, :] = rest[:, pivot] = 0.0
        left[pivot] = False
        rows.append(row)
    if rest[p, p] > threshold:
        rows.append(np.sqrt(rest[p, p]) * np.eye(p + 1)[p])
    return np.array(rows).reshape(-1, p + 1) * scale


def _monomial_rows(polynomial: QuadraticPolynomial) -> tuple[Doubles, Doubles]:
    """Rows of u and v, monomial by monomial, with the constant 1 as one more variable (proof of Lemma 2).

    Each variable is taken in its own unit first (powers of two): the squares that cancel are then no larger
    than the terms that remain.
    """
    form = polynomial.homogeneous()
    unit = equilibrating_scale(form)
    form, identity = form / np.outer(unit, unit), np.diag(unit)
    # Squares, and the constant, are member functions (or minus one) as they stand.
    squares = form.diagonal()
    root = np.sqrt(np.abs(squares))[:, None] * identity
    # a x_i x_j = |a| / 4 [(x_i + x_j)^2 - (x_i - x_j)^2], the two exchanged where a < 0; a = 2 H_ij.
    first, second = np.nonzero(np.triu(form, k=1))
    coefficient = 2.0 * form[first, second]
    weight = 0.5 * np.sqrt(np.abs(coefficient))[:, None]
    total = weight * (identity[first] + identity[second])
    difference = weight * (identity[first] - identity[second])
    positive = coefficient > 0
    plus = np.vstack([root[squares > 0], total[positive], difference[~positive]])
    minus = np.vstack([root[squares < 0], difference[positive], total[~positive]])
    return plus, minus
