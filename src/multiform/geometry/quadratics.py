"""The functions of the paper's section 2.1, as values to compute with.

Quadratic polynomials on R^p are its h; those that are nonnegative are its member functions (Definition 3).
"""

from __future__ import annotations

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from multiform._typing import Doubles

from ._arrays import EPS, Frozen, check_points, equilibrating_scale, finite_array


class QuadraticPolynomial(Frozen):
    """The polynomial `f(x) = x' M x + v' x + c`.

    Its parameters are its attributes, and never change: every operation returns a new polynomial.

    Parameters
    ----------
    matrix : array-like of shape (p, p)
        M. Only its symmetric part matters to f, and only that part is kept.
    vector : array-like of shape (p,), default=None
        v; None is zero.
    constant : float, default=0.0
        c.

    Examples
    --------
    >>> from multiform.geometry import QuadraticPolynomial
    >>> h = QuadraticPolynomial([[1, 0], [0, -1]], [0, 2], -3)
    >>> h
    <QuadraticPolynomial in 2 variables: x0^2 - x1^2 + 2 x1 - 3>
    >>> h([[2.0, 1.0], [0.0, 0.0]])
    array([ 2., -3.])
    >>> (h + 3).is_nonnegative()
    False
    """

    matrix: Doubles
    vector: Doubles
    constant: float

    def __init__(self, matrix: ArrayLike, vector: ArrayLike | None = None, constant: float = 0.0) -> None:
        owner = type(self).__name__
        square = finite_array(matrix, "matrix", owner, ndim=2)
        if square.shape[0] != square.shape[1] or square.shape[0] == 0:
            raise ValueError(f"matrix of {owner} must be square, p x p with p >= 1; got shape {square.shape}.")
        line = np.zeros(len(square)) if vector is None else finite_array(vector, "vector", owner, ndim=1)
        if len(line) != len(square):
            raise ValueError(
                f"vector of {owner} must have {len(square)} entries, one per row of matrix; got {len(line)}."
            )
        number = float(finite_array(constant, "constant", owner, ndim=0))
        super().__init__(matrix=0.5 * square + 0.5 * square.T, vector=line, constant=number)

    @classmethod
    def from_homogeneous(cls, form: ArrayLike) -> QuadraticPolynomial:
        """The polynomial `(x, 1)' H (x, 1)` of a (p+1) x (p+1) matrix H; inverse of `homogeneous`."""
        form = finite_array(form, "form", f"{cls.__name__}.from_homogeneous", ndim=2)
        if form.shape[0] != form.shape[1] or form.shape[0] < 2:
            raise ValueError(
                f"form of {cls.__name__}.from_homogeneous must be square of size p + 1 with p >= 1; "
                f"got shape {form.shape}."
            )
        return cls(form[:-1, :-1], form[:-1, -1] + form[-1, :-1], form[-1, -1])

    @classmethod
    def affine(cls, vector: ArrayLike, constant: float = 0.0) -> QuadraticPolynomial:
        """The polynomial `v' x + c`, which has no quadratic part."""
        line = finite_array(vector, "vector", f"{cls.__name__}.affine", ndim=1)
        return cls(np.zeros((len(line), len(line))), line, constant)

    @property
    def n_features(self) -> int:
        """Number of variables, p."""
        return len(self.vector)

    def __call__(self, X: ArrayLike) -> Doubles:
        """Values on a batch, shape (n_samples,)."""
        points = check_points(X, self.n_features, type(self).__name__)
        quadratic = np.einsum("ni,ni->n", points @ self.matrix, points)
        return np.asarray(quadratic + points @ self.vector + self.constant, dtype=np.float64)

    def gradient(self, X: ArrayLike) -> Doubles:
        """Gradients `2 M x + v` on a batch, shape (n_samples, p)."""
        points = check_points(X, self.n_features, f"{type(self).__name__}.gradient")
        return 2.0 * points @ self.matrix + self.vector

    def homogeneous(self) -> Doubles:
        """The symmetric (p+1) x (p+1) matrix H with `f(x) = (x, 1)' H (x, 1)`.

        f is nonnegative on all of R^p exactly when H is positive semidefinite.
        """
        half = 0.5 * self.vector
        return np.block([[self.matrix, half[:, None]], [half[None, :], np.array([[self.constant]])]])

    def substitute(self, matrix: ArrayLike, shift: ArrayLike | None = None) -> QuadraticPolynomial:
        """The polynomial `u -> f(T u + t)` for an affine map with `matrix` T of shape (p, r) and `shift` t.

        Fixing features is a special case: take the columns of the identity that stay free, and the fixed values as t.

        Examples
        --------
        >>> from multiform.geometry import QuadraticPolynomial
        >>> f = QuadraticPolynomial([[1, 0], [0, 1]])
        >>> f.substitute([[2], [0]], shift=[0, 3])
        <QuadraticPolynomial in 1 variable: 4 x0^2 + 9>
        """
        owner = f"{type(self).__name__}.substitute"
        linear = finite_array(matrix, "matrix", owner, ndim=2)
        p = self.n_features
        origin = np.zeros(p) if shift is None else finite_array(shift, "shift", owner, ndim=1)
        if linear.shape[0] != p or linear.shape[1] == 0 or origin.shape != (p,):
            raise ValueError(
                f"the map given to {owner} must land in {p} variables: a matrix of shape ({p}, r), r >= 1, "
                f"and a shift of shape ({p},); got {linear.shape} and {origin.shape}."
            )
        at_origin = self.matrix @ origin
        return QuadraticPolynomial(
            linear.T @ self.matrix @ linear,
            linear.T @ (2.0 * at_origin + self.vector),
            float(origin @ at_origin + self.vector @ origin + self.constant),
        )

    def is_nonnegative(self, tol: float = 1e-12) -> bool:
        """Whether `f(x) >= 0` for all x (Definition 2).

        Parameters
        ----------
        tol : float, default=1e-12
            How far below zero the smallest eigenvalue of the homogeneous form may lie, relative to the largest one and
            after every variable was brought to its own scale: a change of units does not change the answer.
        """
        return self.negative_point(tol) is None

    def negative_point(self, tol: float = 1e-12) -> Doubles | None:
        """A point where f is negative, shape (p,), or None when f is nonnegative up to `tol`.

        Examples
        --------
        >>> from multiform.geometry import QuadraticPolynomial
        >>> f = QuadraticPolynomial([[1.0]], [-4.0], 3.0)      # (x - 2)^2 - 1
        >>> point = f.negative_point()
        >>> bool(f([point])[0] < 0)
        True
        """
        if not tol >= 0:
            raise ValueError(f"tol of {type(self).__name__} must be a number >= 0; got {tol!r}.")
        form = self.homogeneous()
        scale = equilibrating_scale(form)
        eigenvalues, vectors = np.linalg.eigh(form / np.outer(scale, scale))
        if eigenvalues[0] >= -max(tol, EPS * len(form)) * abs(eigenvalues).max():
            return None
        # (u, t)' H (u, t) < 0 for the lowest eigenvector; when t != 0, f(u / t) is that value over t^2.
        lowest = vectors[:, 0] / scale
        direction, t = lowest[:-1], lowest[-1]
        curvature = float(direction @ self.matrix @ direction)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            candidates = [direction / t]
            # When f curves down along u, every step far enough along it, downhill, is negative too. This
            # one serves where t is zero or so small that u / t means nothing.
            if curvature < 0:
                downhill = -1.0 if self.vector @ direction > 0 else 1.0
                reach = np.sqrt(1.0 + 2.0 * max(self.constant, 0.0) / -curvature)
                candidates.append(downhill * reach * direction)
            candidates = [point for point in candidates if np.isfinite(point).all() and self([point])[0] < 0]
        return min(candidates, key=lambda point: float(np.abs(point * scale[:-1]).max()), default=None)

    def isclose(self, other: QuadraticPolynomial, tol: float = 1e-10, atol: float = 0.0) -> bool:
        """Whether the two have equal coefficients up to rounding.

        Parameters
        ----------
        other : QuadraticPolynomial
        tol : float, default=1e-10
            Relative tolerance, with every variable on its own scale: a change of units does not change the answer.
        atol : float, default=0.0
            Coefficients this close always agree: needed where one of the two lacks a variable altogether
            and the other holds rounding errors in its place.

        Examples
        --------
        >>> from multiform.geometry import QuadraticPolynomial
        >>> f = QuadraticPolynomial([[1.0]], [2.0], 1.0)
        >>> f.isclose(f + 1e-12), f == f + 1e-12
        (True, False)
        """
        _check_same_space(self, other)
        mine, theirs = self.homogeneous(), other.homogeneous()
        scale = equilibrating_scale(np.abs(mine) + np.abs(theirs))
        return bool((np.abs(mine - theirs) <= np.maximum(tol * np.outer(scale, scale), atol)).all())

    def __eq__(self, other: object) -> bool:
        """Equality of every coefficient; `isclose` is the one with a tolerance."""
        if not isinstance(other, QuadraticPolynomial):
            return NotImplemented
        same_line = np.array_equal(self.vector, other.vector) and self.constant == other.constant
        return same_line and np.array_equal(self.matrix, other.matrix)

    def __hash__(self) -> int:
        # Adding 0.0 turns -0.0 into 0.0: equal polynomials must hash alike.
        return hash((self.constant, (self.vector + 0.0).tobytes(), (self.matrix + 0.0).tobytes()))

    def __add__(self, other: QuadraticPolynomial | float) -> QuadraticPolynomial:
        if isinstance(other, QuadraticPolynomial):
            _check_same_space(self, other)
            return QuadraticPolynomial(
                self.matrix + other.matrix, self.vector + other.vector, self.constant + other.constant
            )
        if isinstance(other, Real):
            return QuadraticPolynomial(self.matrix, self.vector, self.constant + float(other))
        return NotImplemented

    __radd__ = __add__

    def __sub__(self, other: QuadraticPolynomial | float) -> QuadraticPolynomial:
        return self + (-other)

    def __rsub__(self, other: float) -> QuadraticPolynomial:
        return -self + other

    def __neg__(self) -> QuadraticPolynomial:
        return self * -1.0

    def __mul__(self, factor: float) -> QuadraticPolynomial:
        if not isinstance(factor, Real):
            return NotImplemented
        number = float(factor)
        return QuadraticPolynomial(number * self.matrix, number * self.vector, number * self.constant)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> QuadraticPolynomial:
        if not isinstance(divisor, Real):
            return NotImplemented
        number = float(divisor)
        return QuadraticPolynomial(self.matrix / number, self.vector / number, self.constant / number)

    def __repr__(self) -> str:
        p = self.n_features
        variables = f"{p} variable{'s' * (p != 1)}"
        if p > 4:
            rank = np.linalg.matrix_rank(self.matrix, hermitian=True)
            return f"<QuadraticPolynomial in {variables}, quadratic part of rank {rank}>"
        return f"<QuadraticPolynomial in {variables}: {_written_out(self)}>"


def _written_out(polynomial: QuadraticPolynomial) -> str:
    """The polynomial as a sum of monomials, as one would write it by hand."""
    p, matrix = polynomial.n_features, polynomial.matrix
    terms = [
        (float(matrix[i, i]), f"x{i}^2") if i == j else (2.0 * float(matrix[i, j]), f"x{i} x{j}")
        for i in range(p)
        for j in range(i, p)
    ]
    terms += [(float(polynomial.vector[i]), f"x{i}") for i in range(p)]
    terms += [(polynomial.constant, "")]
    text = ""
    for coefficient, monomial in terms:
        if coefficient == 0.0:
            continue
        size = f"{abs(coefficient):.6g}"
        body = monomial if size == "1" and monomial else " ".join(part for part in (size, monomial) if part)
        sign = "-" if coefficient < 0 else "+"
        text += f" {sign} {body}" if text else sign.removeprefix("+") + body
    return text or "0"


class MemberFunction(Frozen):
    """The member function `f(x) = ||A x - b||^2` (Definition 3). Its parameters are its attributes, and never change.

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

    components: Doubles
    offsets: Doubles

    def __init__(self, components: ArrayLike, offsets: ArrayLike) -> None:
        rows = finite_array(components, "components", "MemberFunction", ndim=2)
        ends = finite_array(offsets, "offsets", "MemberFunction", ndim=1)
        if 0 in rows.shape or len(ends) != len(rows):
            raise ValueError(
                "MemberFunction needs components of shape (q, p) and offsets of shape (q,), with p, q >= 1; "
                f"got {rows.shape} and {ends.shape}."
            )
        super().__init__(components=rows, offsets=ends)

    @classmethod
    def _from_homogeneous_rows(cls, rows: Doubles) -> MemberFunction:
        """`f(x) = ||R (x, 1)||^2` of rows R, shape (q, p+1); no rows at all is the zero function."""
        if len(rows) == 0:
            rows = np.zeros((1, rows.shape[1]))
        return cls(rows[:, :-1], -rows[:, -1])

    @property
    def n_components(self) -> int:
        """Number of rows, q."""
        return len(self.components)

    @property
    def n_features(self) -> int:
        """Number of variables, p."""
        return int(self.components.shape[1])

    def __call__(self, X: ArrayLike) -> Doubles:
        """Values on a batch, shape (n_samples,), never negative."""
        points = check_points(X, self.n_features, "MemberFunction")
        residual = points @ self.components.T - self.offsets
        return np.asarray(np.einsum("nq,nq->n", residual, residual), dtype=np.float64)

    def to_polynomial(self) -> QuadraticPolynomial:
        """The same function as `x' (A'A) x - 2 (A'b)' x + b'b`."""
        rows, ends = self.components, self.offsets
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
        rows = np.column_stack([self.components, -self.offsets])
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
        _check_same_space(self, other)
        return MemberFunction(
            np.vstack([self.components, other.components]), np.concatenate([self.offsets, other.offsets])
        )

    def __mul__(self, factor: float) -> MemberFunction:
        """A member function times a number >= 0 is one: rows times its root."""
        if not isinstance(factor, Real):
            return NotImplemented
        if not 0 <= factor < np.inf:
            raise ValueError(f"a MemberFunction can be scaled only by a finite number >= 0; got {factor!r}.")
        root = float(np.sqrt(factor))
        return MemberFunction(root * self.components, root * self.offsets)

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
        return np.array_equal(self.components, other.components) and np.array_equal(self.offsets, other.offsets)

    def __hash__(self) -> int:
        return hash(((self.components + 0.0).tobytes(), (self.offsets + 0.0).tobytes()))

    def __repr__(self) -> str:
        return f"MemberFunction(n_components={self.n_components}, n_features={self.n_features})"


def _check_same_space(one: QuadraticPolynomial | MemberFunction, other: QuadraticPolynomial | MemberFunction) -> None:
    if other.n_features != one.n_features:
        raise ValueError(
            f"two {type(one).__name__} can be combined only in the same number of variables; "
            f"got {one.n_features} and {other.n_features}."
        )
