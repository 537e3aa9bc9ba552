"""What training finds, as values: how rows are read (`Scaling`), and the classes' member functions (`Separators`).

``f_k(x) = ||A_k x - b_k||^2``. Separators are kept as they were trained: ``A_k`` and ``b_k`` side by side, in single
precision, for scaled rows ``(x - center) / scale``. Input noise of deviation sigma, over which the loss is averaged,
adds the constant ``sigma^2 ||A_k||^2`` to ``f_k``: the noise energy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse

from multiform._typing import Array, Doubles, Floats, Indices, Ints
from multiform.runtime import on_gpu
from multiform.state import require, require_array, require_names

if TYPE_CHECKING:
    from multiform.engines import Engine

__all__ = ["LARGEST_RESIDUAL", "Rows", "Scaling", "Separators", "as_stored", "entries_of", "noise_energy"]

CHUNK_ROWS = 4096
FEW_ENTRIES = 0.25  # of a row: from so many on, the dense kernels are as fast
CHUNK_RESIDUALS = 4_000_000
LARGEST_SINGLE = 1e30  # in size; 1 / LARGEST_SINGLE the smallest: beyond, single precision has no room for products
FARTHEST, LARGEST_RESIDUAL = 1e140, 1e150  # beyond, only the direction counts, so that no square overflows


class Rows(NamedTuple):
    """A matrix as an engine reads it: float32 or uint8 with contiguous rows or CSR of float32; never copied.

    To be evaluated alone, contiguous columns do as well.
    """

    stored: Any
    scaling: Scaling

    @property
    def n_features(self) -> int:
        return int(self.stored.shape[1])

    @property
    def sparse(self) -> bool:
        """Whether a row has few entries: few are stored, and at most half of the columns are centred (see `inputs`)."""
        if entries_of(self.stored) is None:
            return False
        centred = np.count_nonzero((self.scaling.center != 0) & np.isfinite(self.scaling.scale))
        return bool(2 * centred <= self.n_features)

    def part(self, samples: Any) -> Rows:
        """Some of the rows."""
        return Rows(self.stored[samples], self.scaling)

    def scaled(self, samples: Any) -> Floats:
        """Some of the rows, dense and scaled, as the engine sees them: shape (len(samples), p)."""
        rows = self.stored[samples]
        if scipy.sparse.issparse(rows):
            rows = rows.toarray()
        center, scale = self.scaling.single
        scaled: Floats = rows.astype(np.float32)
        scaled -= center
        scaled /= scale
        return scaled

    def uncentred(self, samples: Any) -> tuple[Any, Floats]:
        """Some of the rows, scaled, and what is left to subtract from each: sparse rows stay sparse, and uncentred."""
        if not scipy.sparse.issparse(self.stored):
            return self.scaled(samples), np.zeros(self.n_features, dtype=np.float32)
        center, scale = self.scaling.single
        return (self.stored[samples] @ scipy.sparse.diags_array(1 / scale)).tocsr(), center / scale


@dataclass(frozen=True, eq=False)
class Scaling:
    """How x is read: ``(x - center) / scale``, per column.

    A column that never varies has an infinite scale: it is read as 0.

    Parameters
    ----------
    center, scale : arrays of shape (p,)
    """

    center: Doubles
    scale: Doubles

    @classmethod
    def identity(cls, n_features: int) -> Scaling:
        return cls(np.zeros(n_features), np.ones(n_features))

    @property
    def single(self) -> tuple[Floats, Floats]:
        """Center and scale in the engine's precision."""
        return self.center.astype(np.float32), self.scale.astype(np.float32)

    @property
    def fits_single(self) -> bool:
        """Whether an engine can apply it, in single precision."""
        scale = self.scale[np.isfinite(self.scale)]
        largest = max(np.abs(self.center).max(initial=0), scale.max(initial=0))
        return bool(largest <= LARGEST_SINGLE and scale.min(initial=1) >= 1 / LARGEST_SINGLE)

    def read(self, X: Any) -> Rows:
        """X as an engine reads it: as it is where it can, else scaled in double precision and copied to float32."""
        stored = as_stored(X)
        if stored is not None and (self.fits_single or on_gpu(X)):
            return Rows(stored, self)
        with np.errstate(over="ignore"):  # of a row to be predicted that is far off: see `Separators.values`
            if scipy.sparse.issparse(X):  # stays so: the engine centres it
                scaled_columns = (X.astype(np.float64) @ scipy.sparse.diags(1 / self.scale)).tocsr().astype(np.float32)
                return Rows(as_stored(scaled_columns), Scaling(self.center / self.scale, np.ones_like(self.scale)))
            scaled = np.empty(X.shape, dtype=np.float32)
            for start in range(0, len(X), CHUNK_ROWS):
                chunk = slice(start, start + CHUNK_ROWS)
                scaled[chunk] = (X[chunk] - self.center) / self.scale
        return Rows(scaled, Scaling.identity(X.shape[1]))

    def far(self, X: Any) -> Doubles:
        """Rows in double precision; one that is farther off than FARTHEST is moved there, in its direction."""
        most = np.finfo(np.float64).max
        dense = np.clip(X.toarray() if scipy.sparse.issparse(X) else X, -most, most)
        # over 2^1000 nothing overflows, whatever the scale
        direction = (np.ldexp(dense, -1000) - np.ldexp(self.center, -1000)) / self.scale
        size = np.abs(direction).max(axis=1, keepdims=True)
        with np.errstate(over="ignore", invalid="ignore"):
            rows = (dense - self.center) / self.scale
            return np.asarray(np.where(size < np.ldexp(FARTHEST, -1000), rows, direction / size * FARTHEST))

    def as_plain(self) -> dict[str, Any]:
        """For a model file."""
        return {"center": self.center, "scale": self.scale}

    @classmethod
    def from_plain(cls, state: Any, n_features: int | None = None) -> Scaling:
        """The inverse, for so many features; what does not fit is refused."""
        require_names(state, "the scaling", ["center", "scale"])
        center = require_array(state["center"], (n_features,), "f", "center")
        scale = require_array(state["scale"], (len(center),), "f", "scale")
        require(center.dtype == scale.dtype == np.float64, "the scaling is not of doubles")
        require((scale > 0).all() and np.isfinite(center).all(), "the scaling is wrong")
        return cls(center, scale)

    def in_user_units(self, coefficients: Floats) -> tuple[Doubles, Doubles]:
        """A_k and b_k for x as the user has it: A' = A / scale, b' = b + A' center."""
        components = coefficients[:, :, :-1].astype(np.float64) / self.scale
        return components, coefficients[:, :, -1].astype(np.float64) + components @ self.center

    def from_user_units(self, components: Doubles, offsets: Doubles) -> Floats:
        """The inverse of `in_user_units`."""
        coefficients = np.empty((*components.shape[:2], components.shape[2] + 1), dtype=np.float32)
        coefficients[:, :, :-1] = components * np.where(np.isfinite(self.scale), self.scale, 0)
        coefficients[:, :, -1] = offsets - components @ self.center
        return coefficients


class Separators:
    """The member functions of one model, or of several stacked, and how they read x.

    Parameters
    ----------
    coefficients : array of float32, shape (n_members * n_classes, q, p + 1)
        A_k and b_k side by side, for scaled rows.
    scaling : Scaling
    n_classes : int
    columns : array of int32, shape (p,), or None
        The columns of X that they read; None: all.
    noise : array of shape (n_members * n_classes,), or None
        The noise energy of each f_k.
    user_units : pair of arrays of float64, or None
        A_k and b_k in the user's units where these were given, as single precision would round them.
    """

    def __init__(
        self,
        coefficients: Floats,
        scaling: Scaling,
        n_classes: int,
        *,
        columns: Ints | None = None,
        noise: Doubles | None = None,
        user_units: tuple[Doubles, Doubles] | None = None,
    ) -> None:
        self.coefficients, self.scaling, self.n_classes = coefficients, scaling, n_classes
        self.columns, self.noise, self._user_units = columns, noise, user_units

    @classmethod
    def of_components(cls, components: Doubles, offsets: Doubles, scaling: Scaling) -> Separators:
        """From A_k (m, q, p) and b_k (m, q) in the user's units; where a row of all A_k is 0, b_k adds a constant."""
        used = np.asarray(components.any(axis=(0, 2)))
        used[0] = True  # one row stays, also when no column varies
        noise = None if used.all() else (offsets[:, ~used] ** 2).sum(axis=1)
        user_units = (components[:, used], offsets[:, used]) if not used.all() else (components, offsets)
        coefficients = scaling.from_user_units(*user_units)
        return cls(coefficients, scaling, len(components), noise=noise, user_units=user_units)

    @classmethod
    def stack(cls, parts: Sequence[Separators]) -> Separators:
        """Many models as one, so that one product evaluates all of them; they share scaling and classes.

        Models that read different columns, or have different numbers of rows, get zeros where they have nothing.
        """
        first = parts[0]
        if len(parts) == 1:
            return first
        coefficients, columns = [part.coefficients for part in parts], first.columns
        everything = np.arange(len(first.scaling.center), dtype=np.int32)
        read = [everything if part.columns is None else part.columns for part in parts]
        if any(not np.array_equal(one, read[0]) for one in read):
            columns = np.unique(np.concatenate(read))
            places = [np.searchsorted(columns, one) for one in read]
            coefficients = [_spread(one, at, len(columns)) for one, at in zip(coefficients, places, strict=True)]
        n_rows = max(one.shape[1] for one in coefficients)
        if any(one.shape[1] < n_rows for one in coefficients):
            coefficients = [np.pad(one, ((0, 0), (0, n_rows - one.shape[1]), (0, 0))) for one in coefficients]
        noise = None
        if any(part.noise is not None for part in parts):
            noise = np.concatenate([np.zeros(len(p.coefficients)) if p.noise is None else p.noise for p in parts])
        given = [part._user_units for part in parts if part._user_units is not None]
        user_units = None
        if len(given) == len(parts) and len({components.shape for components, _ in given}) == 1:
            user_units = np.concatenate([a for a, _ in given]), np.concatenate([b for _, b in given])
        stacked = np.concatenate(coefficients)
        return cls(stacked, first.scaling, first.n_classes, columns=columns, noise=noise, user_units=user_units)

    def times(self, factors: Doubles) -> Separators:
        """The same with f_k times `factors[k]` in every member: ``c ||A x - b||^2 = ||sqrt(c) A x - sqrt(c) b||^2``."""
        each = factors if self.n_members == 1 else np.tile(factors, self.n_members)
        root = np.sqrt(each)[:, None]
        given = self._user_units
        return Separators(
            (self.coefficients * root[:, :, None]).astype(np.float32),
            self.scaling,
            self.n_classes,
            columns=self.columns,
            noise=None if self.noise is None else self.noise * each,
            user_units=None if given is None else (given[0] * root[:, :, None], given[1] * root),
        )

    def as_plain(self) -> dict[str, Any]:
        """For a model file, without the scaling."""
        return {"coefficients": self.coefficients, "columns": self.columns, "noise": self.noise}

    @classmethod
    def from_plain(cls, state: Any, scaling: Scaling, n_classes: int) -> Separators:
        """The inverse; what does not fit the scaling's columns and the classes is refused."""
        require_names(state, "the separators", ["coefficients", "columns", "noise"])
        columns, noise, width = state["columns"], state["noise"], len(scaling.center)
        if columns is not None:
            require_array(columns, (None,), "i", "columns")
            require(columns.dtype == np.int32 and len(columns) > 0, "columns has the wrong type")
            require(columns.min() >= 0 and columns.max() < width, "a separator reads columns that there are not")
            require((np.diff(columns) > 0).all(), "columns are not ascending")
            width = len(columns)
        coefficients = require_array(state["coefficients"], (None, None, width + 1), "f", "separators")
        require(coefficients.dtype == np.float32 and coefficients.flags.c_contiguous, "separators has the wrong type")
        require(coefficients.size and len(coefficients) % n_classes == 0, "there is not a separator for each class")
        if noise is not None:
            require_array(noise, (len(coefficients),), "f", "noise")
            require(noise.dtype == np.float64 and (noise >= 0).all(), "noise is wrong")
        return cls(coefficients, scaling, n_classes, columns=columns, noise=noise).checked()

    def checked(self) -> Separators:
        """Those of a model file: f within a deviation of the center is a number that single precision has."""
        with np.errstate(over="ignore"):
            largest = (np.abs(self.coefficients).sum(axis=2, dtype=np.float64) ** 2).sum(axis=1)
            largest += 0 if self.noise is None else self.noise
        require((largest < np.finfo(np.float32).max).all(), "a separator is not finite, or too large")
        return self

    @property
    def n_members(self) -> int:
        return len(self.coefficients) // self.n_classes

    def in_user_units(self) -> tuple[Doubles, Doubles]:
        """A_k and b_k for x as the user has it; the noise energy is one row more, with A_k = 0."""
        components, offsets = self._exact()
        if self.noise is None:
            return components, offsets
        constant = np.zeros((len(components), 1, components.shape[2]))
        return np.concatenate([components, constant], axis=1), np.column_stack([offsets, np.sqrt(self.noise)])

    def values(self, X: Any, engine: Engine, *, single: bool = False) -> Array:
        """f of every row of X, or of `Rows` that are read already: shape (n, m), or (n, n_members, m) for a stack.

        Rows, float32, uint8 and CSR are evaluated by the engine, in single precision; so is X in double precision where
        `single` says that it is enough, else NumPy does it in double precision. A row so far off that its f overflows
        is evaluated again, in double precision.
        """
        rows = X
        if not isinstance(X, Rows):
            stored = as_stored(X, by_column=True)
            if stored is not None and self.scaling.fits_single:
                rows = Rows(stored, self.scaling)
            elif single:
                rows = self.scaling.read(X)
        f: Array = engine.values(rows, self) if isinstance(rows, Rows) else self._in_double(X)
        if not on_gpu(f) and not np.isfinite(f).all():
            far = np.flatnonzero(~np.isfinite(f).all(axis=1))
            f = f.astype(np.float64)
            f[far] = self._of_far_rows(X.scaled(far) if isinstance(X, Rows) else self.scaling.far(X[far]))
        return f if self.n_members == 1 else f.reshape(len(f), self.n_members, self.n_classes)

    def _of_far_rows(self, scaled: Array) -> Doubles:
        """f of scaled rows that are far off, in double precision; beyond LARGEST_RESIDUAL, up to one factor for all."""
        read = scaled if self.columns is None else scaled[:, self.columns]
        A, b = self.coefficients[:, :, :-1].astype(np.float64), self.coefficients[:, :, -1]
        residual = np.einsum("kqp,np->nkq", A, read) - b
        residual /= np.maximum(np.abs(residual).max(axis=(1, 2), keepdims=True) / LARGEST_RESIDUAL, 1)
        return np.asarray((residual**2).sum(axis=2) + (0 if self.noise is None else self.noise))

    def _exact(self) -> tuple[Doubles, Doubles]:
        """A_k and b_k in the user's units, without the noise energy."""
        if self._user_units is not None:
            return self._user_units
        whole = self.coefficients
        if self.columns is not None:
            whole = _spread(whole, self.columns, len(self.scaling.center))
        return self.scaling.in_user_units(whole)

    def _in_double(self, X: Array) -> Doubles:
        components, offsets = self._exact()
        n_separators, n_rows, p = components.shape
        stacked = np.ascontiguousarray(components.reshape(-1, p).T)
        values = np.empty((X.shape[0], n_separators))
        chunk = max(1, CHUNK_RESIDUALS // max(n_separators * n_rows, 1))
        for begin in range(0, X.shape[0], chunk):
            with np.errstate(over="ignore", invalid="ignore"):  # see `values`
                residual = X[begin : begin + chunk] @ stacked - offsets.reshape(-1)
                residual = residual.reshape(-1, n_separators, n_rows)
                values[begin : begin + chunk] = np.einsum("nkq,nkq->nk", residual, residual)
        return values if self.noise is None else np.asarray(values + self.noise)


def noise_energy(coefficients: Floats, noise: float) -> Doubles | None:
    """sigma^2 ||A_k||^2 of every separator; None without noise."""
    if noise == 0:
        return None
    return np.asarray(float(noise) ** 2 * (coefficients[:, :, :-1].astype(np.float64) ** 2).sum(axis=(1, 2)))


def entries_of(X: Any) -> int | None:
    """How many values a sparse matrix stores, where they are few; None of a dense one, and of one that is nearly so."""
    if not scipy.sparse.issparse(X) or X.nnz > FEW_ENTRIES * X.shape[0] * X.shape[1]:
        return None
    return int(X.nnz)


def as_stored(X: Any, *, by_column: bool = False) -> Any | None:
    """X itself where an engine can read it (float32 or uint8 with contiguous rows, CSR of float32), else None.

    CSR of another type is copied, if single precision has room for it; so are rows that are not contiguous, unless
    columns that are do (`by_column`): to be evaluated, not to be trained on.
    """
    if on_gpu(X):
        return X
    if scipy.sparse.issparse(X):
        X = X.tocsr()
        if X.dtype != np.float32:
            size = np.abs(X.data[X.data != 0])
            if size.max(initial=0) > LARGEST_SINGLE or size.min(initial=1) < 1 / LARGEST_SINGLE:
                return None
            X = X.astype(np.float32)
        if not X.has_sorted_indices or not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        return X
    if X.dtype == np.uint8 or X.dtype == np.float32:
        is_whole = X.strides[1] == X.itemsize or X.shape[1] == 1 or (by_column and X.strides[0] == X.itemsize)
        return X if is_whole else np.ascontiguousarray(X)
    return None


def _spread(coefficients: Floats, columns: Indices | Ints, width: int) -> Floats:
    """Coefficients for these columns among `width`, 0 at the others."""
    whole = np.zeros((*coefficients.shape[:2], width + 1), dtype=np.float32)
    whole[:, :, columns], whole[:, :, -1] = coefficients[:, :, :-1], coefficients[:, :, -1]
    return whole
