"""Member functions `||A x - b||^2` (Definition 3): the nonnegative quadratics that separate the classes."""

from __future__ import annotations

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from multiform._typing import Doubles

from ._arrays import EPS, check_points, finite_array, frozen
from .polynomial import QuadraticPolynomial

__all__ = ["MemberFunction"]


class MemberFunction:
    """The member function `f(x) = ||A x - b||^2` (Definition 3).

    Parameters
    ----------
    components : array-like of shape (q, p)
        A; q >= 1.
    offsets : array-like of shape (q,)
        b.

    Examples
    --------
    >>> from multiform.geometry import MemberFunction
    >>> f = MemberFunction([[1, 0], [2, 0]], [1, 2])       # (x0 - 1)^2 + (2 x0 - 2)^2
    >>> f([[1.0, 7.0], [3.0, 0.0]])
    array([ 0., 20.])
    >>> f.to_polynomial()
    <QuadraticPolynomial in 2 variables: 5 x0^2 - 10 x0 + 5>
    >>> f.reduce()
    MemberFunction(n_components=1, n_features=2)
    """

    __slots__ = ("_components", "_offsets")

    def __init__(self, components: ArrayLike, offsets: ArrayLike) -> None:
        rows = finite_array(components, "components", "MemberFunction", ndim=2)
        ends = finite_array(offsets, "offsets", "MemberFunction", ndim=1)
        if 0 in rows.shape or len(ends) != len(rows):
            raise ValueError(
                "MemberFunction needs components of shape (q, p) and offsets of shape (q,), with p, q >= 1; "
                f"got {rows.shape} and {ends.shape}."
            )
        self._components = frozen(rows)
        self._offsets = frozen(ends)

    @classmethod
    def _from_homogeneous_rows(cls, rows: Doubles) -> MemberFunction:
        """`f(x) = ||R (x, 1)||^2` of rows R, shape (q, p+1); no rows at all is the zero function."""
        if len(rows) == 0:
            rows = np.zeros((1, rows.shape[1]))
        return cls(rows[:, :-1], -rows[:, -1])

    @property
    def components(self) -> Doubles:
        """A, shape (q, p), read-only."""
        return self._components

    @property
    def offsets(self) -> Doubles:
        """b, shape (q,), read-only."""
        return self._offsets

    @property
    def n_components(self) -> int:
        """Number of rows, q."""
        return len(self._components)

    @property
    def n_features(self) -> int:
        """Number of variables, p."""
        return int(self._components.shape[1])

    def __call__(self, X: ArrayLike) -> Doubles:
        """Values on a batch, shape (n_samples,), never negative."""
        points = check_points(X, self.n_features, "MemberFunction")
        residual = points @ self._components.T - self._offsets
        return np.asarray(np.einsum("nq,nq->n", residual, residual), dtype=np.float64)

    def to_polynomial(self) -> QuadraticPolynomial:
        """The same function as `x' (A'A) x - 2 (A'b)' x + b'b`."""
        rows, ends = self._components, self._offsets
        return QuadraticPolynomial(rows.T @ rows, -2.0 * rows.T @ ends, float(ends @ ends))

    def reduce(self, tol: float | None = None) -> MemberFunction:
        """The same function with the fewest rows: as many as the rank of [A, b], at most p + 1 (Lemma 1).

        Parameters
        ----------
        tol : float, default=None
            Singular values of the column-scaled [A, b] up to `tol` times the largest count as zero; None is rounding.

        Notes
        -----
        A singular value decomposition of the rows themselves, never of A'A, so nothing is lost by squaring.
        """
        if tol is not None and not tol >= 0:
            raise ValueError(f"tol of MemberFunction.reduce must be None or a number >= 0; got {tol!r}.")
        rows = np.column_stack([self._components, -self._offsets])
        length = np.abs(rows).max(axis=0)
        # Absent features stay exactly absent; powers of two scale the other columns without rounding them.
        present = length > 0
        scale = np.exp2(np.rint(np.log2(length[present])))
        _, singular, right = np.linalg.svd(rows[:, present] / scale, full_matrices=False)
        threshold = (EPS * max(rows.shape) if tol is None else tol) * singular.max(initial=0.0)
        kept = singular > threshold
        fewest = np.zeros((int(kept.sum()), rows.shape[1]))
        fewest[:, present] = singular[kept, None] * right[kept] * scale
        return self._from_homogeneous_rows(fewest)

    def __add__(self, other: MemberFunction) -> MemberFunction:
        """The sum of two member functions is one: their rows, stacked."""
        if not isinstance(other, MemberFunction):
            return NotImplemented
        if other.n_features != self.n_features:
            raise ValueError(
                "two MemberFunction can be added only in the same number of variables; "
                f"got {self.n_features} and {other.n_features}."
            )
        return MemberFunction(
            np.vstack([self._components, other._components]), np.concatenate([self._offsets, other._offsets])
        )

    def __mul__(self, factor: float) -> MemberFunction:
        """A member function times a number >= 0 is one: rows times its root."""
        if not isinstance(factor, Real):
            return NotImplemented
        if not 0 <= factor < np.inf:
            raise ValueError(f"a MemberFunction can be scaled only by a finite number >= 0; got {factor!r}.")
        root = float(np.sqrt(factor))
        return MemberFunction(root * self._components, root * self._offsets)

    __rmul__ = __mul__

    def __sub__(self, other: MemberFunction) -> QuadraticPolynomial:
        """The difference of two member functions: a quadratic of any sign (the trivial half of Lemma 2)."""
        if not isinstance(other, MemberFunction):
            return NotImplemented
        return self.to_polynomial() - other.to_polynomial()

    def __eq__(self, other: object) -> bool:
        """Equality of A and b; two that are equal as functions compare by `to_polynomial().isclose`."""
        if not isinstance(other, MemberFunction):
            return NotImplemented
        return np.array_equal(self._components, other._components) and np.array_equal(self._offsets, other._offsets)

    def __hash__(self) -> int:
        return hash(((self._components + 0.0).tobytes(), (self._offsets + 0.0).tobytes()))

    def __repr__(self) -> str:
        return f"MemberFunction(n_components={self.n_components}, n_features={self.n_features})"
