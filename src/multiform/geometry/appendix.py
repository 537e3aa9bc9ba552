"""Property A, Lemmas 1 to 3 and Theorem 1, run as the paper's appendix proves them and as a numerical analyst would.

Lemma 1: a quadratic is nonnegative if and only if it is a member function with at most p + 1 rows.
Lemma 2: every quadratic is the difference of two member functions.
Theorem 1, Lemma 3 for three classes: quadratics h_ij with the cyclic condition `h_ij + h_jk + h_ki = 0` for all i, j, k
are exactly the differences `h_ij = f_i - f_j` of member functions. h_ij < 0 then says that class i is preferred to j.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, permutations, product
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from multiform._typing import Doubles, Indices

from ._arrays import EPS, check_points, equilibrating_scale
from .quadratics import MemberFunction, QuadraticPolynomial
from .separators import Separators

PairwiseQuadratics = Mapping[tuple[Any, Any], QuadraticPolynomial]


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

    Where f is negative somewhere, the `NotNonnegativeError` carries such a point.

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
    rows_of = spectral_rows if method == "spectral" else _monomial_rows
    plus, minus = rows_of(polynomial.homogeneous())
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
    return np.sqrt(eigenvalues[plus, None]) * rows[plus], np.sqrt(-eigenvalues[minus, None]) * rows[minus]


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


def _monomial_rows(form: Doubles) -> tuple[Doubles, Doubles]:
    """Rows of u and v, monomial by monomial, with the constant 1 as one more variable (proof of Lemma 2).

    Each variable is taken in its own unit first (powers of two): the squares that cancel are then no larger
    than the terms that remain.
    """
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


@dataclass(frozen=True)
class PropertyAReport:
    """What `property_a_report` found.

    Attributes
    ----------
    margin : float
        The smallest of `-h` over the first set and `h` over the second: positive exactly when Property A
        holds, infinite when both sets are empty.
    offending_first, offending_second : ndarray of int
        Rows of the first set where `h >= 0`, and of the second where `h <= 0`; worst first.
    """

    margin: float
    offending_first: Indices
    offending_second: Indices

    @property
    def holds(self) -> bool:
        """Whether the triplex has Property A."""
        return self.margin > 0


def property_a_report(first: ArrayLike, second: ArrayLike, h: QuadraticPolynomial) -> PropertyAReport:
    """How far the triplex {S1, S2, h} is from having, or from losing, Property A (Definition 5).

    Property A: `h(x) < 0` for all x in S1 and `h(x) > 0` for all x in S2.

    Parameters
    ----------
    first, second : array-like of shape (n_points, p)
        The finite sets S1 and S2.
    h : QuadraticPolynomial
        The quadratic that should separate them.

    Examples
    --------
    >>> from multiform.geometry import QuadraticPolynomial, property_a_report
    >>> circle = QuadraticPolynomial([[1, 0], [0, 1]], constant=-1)
    >>> report = property_a_report([[0.0, 0.0], [2.0, 0.0]], [[0.0, 3.0]], circle)
    >>> report.holds, report.margin, report.offending_first
    (False, -3.0, array([1]))
    """
    margins, offending = [], []
    for sign, points in ((-1.0, first), (1.0, second)):
        value = sign * h(check_points(points, h.n_features, "property_a_report"))
        rows = np.flatnonzero(value <= 0)
        margins.append(float(value.min(initial=np.inf)))
        offending.append(rows[np.argsort(value[rows], kind="stable")])
    return PropertyAReport(min(margins), *offending)


def has_property_a(first: ArrayLike, second: ArrayLike, h: QuadraticPolynomial) -> bool:
    """Whether `h(x) < 0` on all of `first` and `h(x) > 0` on all of `second` (Definition 5).

    `property_a_report` gives the margin and the points that offend.

    Examples
    --------
    >>> from multiform.geometry import QuadraticPolynomial, has_property_a
    >>> circle = QuadraticPolynomial([[1, 0], [0, 1]], constant=-1)
    >>> has_property_a([[0.0, 0.0]], [[0.0, 3.0]], circle)
    True
    """
    return property_a_report(first, second, h).holds


class CyclicConditionError(ValueError):
    """Pairwise quadratics that had to satisfy the cyclic condition do not.

    Attributes
    ----------
    triple : tuple
        The labels i, j, k where `h_ij + h_jk + h_ki` is farthest from zero.
    violation : float
        Its largest coefficient, relative to the largest of the quadratics, every variable on its own scale.
    """

    def __init__(self, triple: tuple[Any, Any, Any], violation: float) -> None:
        i, j, k = triple
        super().__init__(
            "the pairwise quadratics must satisfy h_ij + h_jk + h_ki = 0 for all classes (Theorem 1); "
            f"the worst is i={i!r}, j={j!r}, k={k!r}, off by {violation:.3g} of the largest coefficient. "
            "`project_to_cyclic` gives the nearest quadratics that satisfy it."
        )
        self.triple = triple
        self.violation = violation


def pairwise_from_separators(model: object) -> dict[tuple[Any, Any], QuadraticPolynomial]:
    """The boundaries `h_ij = f_i - f_j`, from every (label i, label j), i != j; negative where class i is preferred.

    Parameters
    ----------
    model : anything that `Separators.of` takes

    Examples
    --------
    >>> from multiform.geometry import MemberFunction, pairwise_from_separators
    >>> h = pairwise_from_separators({"a": MemberFunction([[1]], [0]), "b": MemberFunction([[1]], [2])})
    >>> h["a", "b"]
    <QuadraticPolynomial in 1 variable: 4 x0 - 4>
    """
    separators = Separators.of(model)
    polynomials = {label: separators[label].to_polynomial() for label in separators.classes.tolist()}
    return {(i, j): polynomials[i] - polynomials[j] for i, j in permutations(polynomials, 2)}


def cyclic_violation(h: PairwiseQuadratics) -> tuple[tuple[Any, Any, Any], float]:
    """The triple of labels where the cyclic condition fails most, and by how much.

    That is the largest coefficient of `h_ij + h_jk + h_ki`, relative to the largest of the quadratics, every variable
    on its own scale; 0 when the condition holds exactly.

    Parameters
    ----------
    h : mapping
        From (label i, label j) to a QuadraticPolynomial. One order of each pair is enough: h_ji is then -h_ij.
    """
    return _worst_triple(*_complete_forms(h, "cyclic_violation"))


def separators_from_pairwise(
    h: PairwiseQuadratics, *, method: Literal["compact", "paper"] = "compact", tol: float = 1e-9
) -> Separators:
    """Separators whose differences are the given pairwise quadratics (Theorem 1; Lemma 3 for three classes).

    They have at most p + 1 rows each. Where the condition fails, the `CyclicConditionError` carries the worst triple.

    Parameters
    ----------
    h : mapping
        As in `cyclic_violation`. Classes are numbered in the order in which they first appear.
    method : {"compact", "paper"}, default="compact"
        "paper" is the proof's construction: `h_1i = u_i - v_i` by Lemma 2, then `f_i = v_i - u_i + sum_k
        u_k`. "compact" adds to all classes a common quadratic that is grown only as far as every f_i needs
        to be nonnegative: smaller values, so less is lost when they are subtracted again.
    tol : float, default=1e-9
        Largest violation of the cyclic condition that counts as rounding; see `cyclic_violation`.

    Examples
    --------
    >>> from multiform.geometry import QuadraticPolynomial, pairwise_from_separators, separators_from_pairwise
    >>> h12 = QuadraticPolynomial([[1.0]], constant=-1.0)          # class 1 inside (-1, 1)
    >>> h23 = QuadraticPolynomial.affine([1.0])                    # class 2 left of 0
    >>> h = {(1, 2): h12, (2, 3): h23, (3, 1): -h12 - h23}
    >>> f = separators_from_pairwise(h)
    >>> f.predict([[0.5], [-3.0], [3.0]])
    array([1, 2, 3])
    >>> pairwise_from_separators(f)[1, 2].isclose(h12)
    True
    """
    if method not in ("compact", "paper"):
        raise ValueError(f'method of separators_from_pairwise must be "compact" or "paper"; got {method!r}.')
    labels, forms = _complete_forms(h, "separators_from_pairwise")
    triple, violation = _worst_triple(labels, forms)
    if violation > tol:
        raise CyclicConditionError(triple, violation)
    members = _compact_members(forms) if method == "compact" else _paper_members(forms)
    return Separators.from_members(members, labels)


def project_to_cyclic(
    h: PairwiseQuadratics, *, weights: Mapping[tuple[Any, Any], float] | None = None
) -> dict[tuple[Any, Any], QuadraticPolynomial]:
    """The cyclic quadratics nearest to arbitrary pairwise ones, so that one-vs-one models can be merged.

    Minimises `sum_(i,j) w_ij ||h_ij - (e_i - e_j)||^2` over quadratics e_1, ..., e_m, with the norm of the
    coefficients; any norm that treats the coefficients separately has the same minimiser, so units do not matter.
    The result holds every ordered pair of different labels: it is ready for `separators_from_pairwise`.

    Parameters
    ----------
    h : mapping
        From (label i, label j) to the QuadraticPolynomial h_ij. Pairs may be missing as long as the others
        connect all classes; a pair given in both orders counts twice.
    weights : mapping, default=None
        From the same keys to numbers > 0, for example the samples behind each quadratic; None is 1 for each.

    Examples
    --------
    >>> from multiform.geometry import QuadraticPolynomial, cyclic_violation, project_to_cyclic
    >>> x, one = QuadraticPolynomial.affine([1.0]), QuadraticPolynomial([[0.0]], constant=1.0)
    >>> merged = project_to_cyclic({(0, 1): x, (1, 2): x, (0, 2): x + one})
    >>> cyclic_violation(merged)[1] < 1e-12
    True
    """
    index = _positions(h, "project_to_cyclic")
    edges = [(i, j) for i, j in h if i != j]
    weight = np.array([1.0 if weights is None else float(weights[pair]) for pair in edges])
    if not (np.isfinite(weight).all() and (weight > 0).all()):
        raise ValueError("weights of project_to_cyclic must be finite numbers > 0; leave a pair out of h instead.")
    # Normal equations: (graph Laplacian of the weights) e = B' W h, one right-hand side per coefficient. Its null
    # space, the same quadratic added to every class, changes no difference: lstsq takes the solution without it.
    incidence = np.zeros((len(edges), len(index)))
    for row, (i, j) in enumerate(edges):
        incidence[row, index[i]], incidence[row, index[j]] = 1.0, -1.0
    root = np.sqrt(weight)[:, None]
    if np.linalg.matrix_rank(incidence) < len(index) - 1:
        raise ValueError(
            "h of project_to_cyclic must connect all classes through its pairs; some classes share no "
            "pair, not even through others: add a quadratic between the groups."
        )
    forms = np.array([h[pair].homogeneous() for pair in edges])
    potentials = np.linalg.lstsq(root * incidence, root * forms.reshape(len(edges), -1), rcond=None)[0]
    potentials = potentials.reshape(len(index), *forms.shape[1:])
    return {
        (a, b): QuadraticPolynomial.from_homogeneous(potentials[index[a]] - potentials[index[b]])
        for a, b in permutations(index, 2)
    }


def _positions(h: PairwiseQuadratics, owner: str) -> dict[Any, int]:
    """Labels in order of first appearance, to their positions; checks what every user of `h` needs."""
    labels = list(dict.fromkeys(label for pair in h for label in pair))
    if len(labels) < 2:
        raise ValueError(f"h of {owner} must hold quadratics between at least two classes; got {labels!r}.")
    if len({polynomial.n_features for polynomial in h.values()}) != 1:
        raise ValueError(f"all quadratics in h of {owner} must have the same number of variables.")
    return {label: position for position, label in enumerate(labels)}


def _complete_forms(h: PairwiseQuadratics, owner: str) -> tuple[list[Any], Doubles]:
    """Homogeneous forms of all h_ij, shape (m, m, p+1, p+1); a pair given in one order fills the other."""
    index = _positions(h, owner)
    size = next(iter(h.values())).n_features + 1
    forms = np.zeros((len(index), len(index), size, size))
    for (i, j), polynomial in h.items():
        forms[index[i], index[j]] = polynomial.homogeneous()
        if (j, i) not in h:
            forms[index[j], index[i]] = -forms[index[i], index[j]]
    for i, j in combinations(index, 2):
        if (i, j) not in h and (j, i) not in h:
            raise ValueError(
                f"h of {owner} must hold a quadratic for every pair of classes; {(i, j)!r} is missing. "
                "`project_to_cyclic` fills in what is missing."
            )
    return list(index), forms


def _worst_triple(labels: list[Any], forms: Doubles) -> tuple[tuple[Any, Any, Any], float]:
    """Where `h_ij + h_jk + h_ki` is largest; i = j = k says h_ii = 0, and i = j says h_ij = -h_ji."""
    scale = equilibrating_scale(np.abs(forms).sum(axis=(0, 1)))
    scaled = forms / np.outer(scale, scale)
    largest = np.abs(scaled).max(initial=0.0)
    worst, violation = (0, 0, 0), 0.0
    for i, j in product(range(len(forms)), repeat=2):
        # All k at once: the sum is linear in them.
        sums = np.abs(scaled[i, j] + scaled[j, :] + scaled[:, i]).max(axis=(1, 2))
        k = int(sums.argmax())
        if sums[k] > violation:
            worst, violation = (i, j, k), float(sums[k])
    i, j, k = worst
    return (labels[i], labels[j], labels[k]), float(violation / largest) if violation else 0.0


def _paper_members(forms: Doubles) -> list[MemberFunction]:
    """The proof of Theorem 1: `h_1i = u_i - v_i`, `f_i = v_i - u_i + sum_k u_k = v_i + sum_(k != i) u_k`."""
    pairs = [difference_of_members(QuadraticPolynomial.from_homogeneous(form)) for form in forms[0]]
    positive = [u for u, _ in pairs]
    return [sum(positive[:i] + positive[i + 1 :], start=v).reduce() for i, (_, v) in enumerate(pairs)]


def _compact_members(forms: Doubles) -> list[MemberFunction]:
    """`f_i = e_i + g` with `e_i = mean_j h_ij`, so that `f_i - f_j = h_ij`, and a common g just large enough.

    g starts at zero and grows, class by class, by the negative part of `e_i + g`; what is added is positive
    semidefinite, so a class that is nonnegative once stays so.
    """
    potentials = forms.mean(axis=1)
    scale = equilibrating_scale(np.abs(potentials).sum(axis=0))
    potentials = potentials / np.outer(scale, scale)
    common = np.zeros_like(potentials[0])
    for potential in potentials:
        eigenvalues, vectors = np.linalg.eigh(potential + common)
        common = common + (vectors * np.maximum(-eigenvalues, 0.0)) @ vectors.T
    members = []
    for potential in potentials:
        eigenvalues, vectors = np.linalg.eigh(potential + common)
        kept = eigenvalues > EPS * len(common) * max(eigenvalues[-1], 0.0)
        rows = np.sqrt(eigenvalues[kept, None]) * vectors.T[kept] * scale
        members.append(MemberFunction._from_homogeneous_rows(rows))
    return members
