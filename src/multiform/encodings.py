"""How columns are laid out for `QMSClassifierCV`: as they are, and enriched by scikit-learn's own transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder, SplineTransformer

__all__ = ["Encodings", "enrichment"]

FEW_VALUES = 12  # a column with so few distinct values, but more than 2, is one-hot encoded
N_KNOTS = 5
WIDE = 500  # from so many columns on, "auto" leaves them as they are


def enrichment(X: npt.NDArray[Any]) -> ColumnTransformer:
    """What "enriched" puts beside the columns: one-hot values, or hinges at quantiles where values are many.

    A quadratic in these can bend along an axis, which is what trees are good at.
    """
    distinct = np.array([len(np.unique(column)) for column in X.T])
    values = np.flatnonzero((distinct > 2) & (distinct <= FEW_VALUES))
    hinges = np.flatnonzero(distinct > FEW_VALUES)
    return ColumnTransformer(
        [
            ("values", OneHotEncoder(handle_unknown="ignore", sparse_output=False), values),
            (
                "hinges",
                SplineTransformer(
                    degree=1, n_knots=N_KNOTS, knots="quantile", extrapolation="linear", include_bias=False
                ),
                hinges,
            ),
        ],
        sparse_threshold=0,
    )


class Encodings:
    """All encodings side by side in one matrix, and which of its columns each one is.

    Parameters
    ----------
    names : sequence of "plain", "enriched" or transformer, or "auto"
        "plain" and "enriched" share the plain columns.
    """

    def __init__(self, names: Sequence[Any] | str) -> None:
        self._asked = names

    def fit(self, X: Any) -> Encodings:
        asked: Sequence[Any]
        sparse = scipy.sparse.issparse(X)
        if isinstance(self._asked, str) and self._asked == "auto":
            asked = ("plain",) if sparse or X.shape[1] > WIDE else ("plain", "enriched")
        else:
            asked = [self._asked] if isinstance(self._asked, str) else list(self._asked)
        self.names: list[str] = []
        self.columns: list[npt.NDArray[np.int32]] = []
        self._transformers: list[Any] = []
        width = X.shape[1]
        for encoding in asked:
            if isinstance(encoding, str) and encoding == "plain":
                self.names.append("plain")
                self.columns.append(np.arange(X.shape[1], dtype=np.int32))
                continue
            if isinstance(encoding, str) and encoding == "enriched":
                if sparse:
                    raise ValueError(
                        'encodings of QMSClassifierCV: "enriched" needs dense X; use "plain", or X.toarray().'
                    )
                transformer, own, name = enrichment(X), np.arange(X.shape[1]), "enriched"
            elif hasattr(encoding, "fit") and hasattr(encoding, "transform"):
                transformer, own, name = clone(encoding), np.arange(0), type(encoding).__name__
            else:
                raise ValueError(
                    'encodings of QMSClassifierCV must be "auto", or a list of "plain", "enriched" and transformers; '
                    f"got {encoding!r}."
                )
            n_new = transformer.fit(X).transform(X[:1]).shape[1]
            self._transformers.append(transformer)
            self.names.append(name)
            self.columns.append(np.concatenate([own, np.arange(width, width + n_new)]).astype(np.int32))
            width += n_new
        if not self.names:
            raise ValueError("encodings of QMSClassifierCV is empty; give at least one, as ('plain',).")
        return self

    def transform(self, X: Any) -> Any:
        """The plain columns, then what each transformer makes of them."""
        if not self._transformers:
            return X
        parts = [X, *(transformer.transform(X) for transformer in self._transformers)]
        if any(scipy.sparse.issparse(part) for part in parts):
            return scipy.sparse.hstack(parts, format="csr")
        return np.hstack(parts)
