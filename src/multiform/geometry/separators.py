"""Separators f_1, ..., f_m with their classes: the plain value that the rest of the geometry works on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from multiform._typing import Array, Doubles

from ._arrays import EPS, Frozen, check_points, finite_array, label_array
from .quadratics import MemberFunction


class Separators(Frozen):
    """Member functions `f_k(x) = ||A_k x - b_k||^2`, one per class; the class of x is `argmin_k f_k(x)`.

    Its parameters are its attributes, and never change.

    Parameters
    ----------
    components : array-like of shape (m, q, p)
        The matrices A_k.
    offsets : array-like of shape (m, q)
        The vectors b_k.
    classes : array-like of shape (m,), default=None
        Labels; None is 0, ..., m-1.
    feature_names : sequence of str, default=None
        Names of the p features where they have any.

    Examples
    --------
    >>> import numpy as np
    >>> from multiform.geometry import Separators
    >>> nearest = Separators(np.stack([np.eye(2)] * 2), [[0, 0], [4, 0]], ["left", "right"])
    >>> nearest.predict([[1.0, 0.0], [3.0, 9.0]])
    array(['left', 'right'], dtype='<U5')
    >>> nearest["right"].to_polynomial()
    <QuadraticPolynomial in 2 variables: x0^2 + x1^2 - 8 x0 + 16>
    """

    components: Doubles
    offsets: Doubles
    classes: Array
    feature_names: tuple[str, ...] | None

    def __init__(
        self,
        components: ArrayLike,
        offsets: ArrayLike,
        classes: Sequence[Any] | Array | None = None,
        feature_names: Sequence[str] | Array | None = None,
    ) -> None:
        matrices = finite_array(components, "components", "Separators", ndim=3)
        vectors = finite_array(offsets, "offsets", "Separators", ndim=2)
        if len(matrices) < 2 or 0 in matrices.shape or vectors.shape != matrices.shape[:2]:
            raise ValueError(
                "Separators needs components of shape (m, q, p) and offsets of shape (m, q), with m >= 2 "
                f"classes and p, q >= 1; got {matrices.shape} and {vectors.shape}."
            )
        m, _, p = matrices.shape
        labels = label_array(range(m) if classes is None else classes)
        if len(labels) != m or len(set(labels.tolist())) != m:
            raise ValueError(
                f"classes of Separators must be {m} different labels, one per separator; got {list(labels)!r}."
            )
        names = None if feature_names is None else tuple(str(name) for name in feature_names)
        if names is not None and len(names) != p:
            raise ValueError(
                f"feature_names of Separators must be {p} names, one per column of components; got {len(names)}."
            )
        super().__init__(components=matrices, offsets=vectors, classes=labels, feature_names=names)

    @classmethod
    def of(cls, model: object) -> Separators:
        """The separators of anything that has them.

        Parameters
        ----------
        model : Separators, fitted QMSClassifier, mapping, or sequence of MemberFunction
            A mapping takes each label to its MemberFunction; a sequence is labelled 0, 1, .... Of a
            classifier only the fitted `components_`, `offsets_` and `classes_` are read.
        """
        if isinstance(model, Separators):
            return model
        if isinstance(model, Mapping):
            return cls.from_members(list(model.values()), list(model))
        if isinstance(model, Sequence) and all(isinstance(member, MemberFunction) for member in model):
            return cls.from_members(model)
        components, offsets, classes = (getattr(model, name, None) for name in ("components_", "offsets_", "classes_"))
        if components is None or offsets is None or classes is None:
            raise TypeError(
                "separators can be taken from a fitted QMSClassifier, a Separators, or MemberFunction "
                f"objects in a mapping or a sequence; got {type(model).__name__} without the fitted "
                "attributes components_, offsets_ and classes_. Fit it first, or turn another model into "
                "one with `qms_from_estimator`."
            )
        return cls(components, offsets, classes, getattr(model, "feature_names_in_", None))

    @classmethod
    def from_members(
        cls, members: Sequence[MemberFunction], classes: Sequence[Any] | Array | None = None
    ) -> Separators:
        """Separators of member functions, padded with rows of zeros (which change nothing) to the same q."""
        members = list(members)
        features = {member.n_features for member in members}
        if len(members) < 2 or len(features) != 1:
            raise ValueError(
                "Separators.from_members needs at least two MemberFunction of the same number of features; "
                f"got {len(members)} with n_features in {sorted(features)}."
            )
        q, p = max(member.n_components for member in members), features.pop()
        components, offsets = np.zeros((len(members), q, p)), np.zeros((len(members), q))
        for k, member in enumerate(members):
            components[k, : member.n_components] = member.components
            offsets[k, : member.n_components] = member.offsets
        return cls(components, offsets, classes)

    @property
    def n_components(self) -> int:
        """Rows per separator, q."""
        return int(self.components.shape[1])

    @property
    def n_features(self) -> int:
        """Number of features, p."""
        return int(self.components.shape[2])

    def __len__(self) -> int:
        return len(self.components)

    def __iter__(self) -> Iterator[MemberFunction]:
        return (MemberFunction(a, b) for a, b in zip(self.components, self.offsets, strict=True))

    def __getitem__(self, label: Any) -> MemberFunction:
        """The member function of a class, by its label."""
        k = self.index(label)
        return MemberFunction(self.components[k], self.offsets[k])

    def index(self, label: Any) -> int:
        """Position of a label among the classes."""
        labels = self.classes.tolist()
        if label not in labels:
            raise KeyError(f"{label!r} is not a class of these separators; the classes are {labels!r}.")
        return int(labels.index(label))

    def columns(self, features: Iterable[Any], owner: str) -> list[int]:
        """Columns of features given by index, name or boolean mask; error messages say that `owner` asked."""
        p, names = self.n_features, self.feature_names
        wanted = list(features)
        if wanted and all(isinstance(feature, (bool, np.bool_)) for feature in wanted):
            if len(wanted) != p:
                raise ValueError(f"a boolean mask in features of {owner} needs {p} entries; got {len(wanted)}.")
            wanted = np.flatnonzero(wanted).tolist()
        found = []
        for feature in wanted:
            if isinstance(feature, str):
                if names is None or feature not in names:
                    known = "the model has no feature names" if names is None else f"the names are {list(names)}"
                    raise ValueError(f"features of {owner} holds {feature!r}, but {known}.")
                found.append(names.index(feature))
            elif isinstance(feature, Integral) and -p <= int(feature) < p:
                found.append(int(feature) % p)
            else:
                raise ValueError(f"features of {owner} must be names, or whole numbers below {p}; got {feature!r}.")
        if not found:
            raise ValueError(f"features of {owner} must hold at least one feature; got none.")
        return found

    def residuals(self, X: ArrayLike) -> Doubles:
        """`A_k x - b_k` of every sample and class, shape (n_samples, m, q)."""
        points = check_points(X, self.n_features, "Separators")
        m, q, p = self.components.shape
        projected = points @ self.components.reshape(m * q, p).T
        return projected.reshape(-1, m, q) - self.offsets

    def rounding_errors(self, X: ArrayLike) -> Doubles:
        """How far rounding may move `A_k x - b_k`: a norm per sample and class, shape (n_samples, m)."""
        # Rounding scales with the terms in absolute value: |A_k| |x| + |b_k|.
        absolute = Separators(np.abs(self.components), -np.abs(self.offsets))
        lengths = np.linalg.norm(absolute.residuals(np.abs(X)), axis=2)
        return np.asarray(EPS * (self.n_features + 1) * lengths, dtype=np.float64)

    def member_values(self, X: ArrayLike) -> Doubles:
        """`f_k(x)` of every sample and class, shape (n_samples, m)."""
        residual = self.residuals(X)
        return np.asarray(np.einsum("nmq,nmq->nm", residual, residual), dtype=np.float64)

    def predict(self, X: ArrayLike) -> Array:
        """`argmin_k f_k(x)` as labels, shape (n_samples,)."""
        return np.asarray(self.classes[self.member_values(X).argmin(axis=1)])

    def __repr__(self) -> str:
        _, q, p = self.components.shape
        return f"Separators(classes={self.classes.tolist()!r}, n_components={q}, n_features={p})"
