"""How columns are laid out for `QMSClassifierCV`: as they are, and enriched by scikit-learn's own transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
from scipy.interpolate import BSpline
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder, SplineTransformer

from multiform.state import require, require_array, require_names, require_whole

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

    # -------------------------------------------------------------------------------------------- model files

    def _get_state(self) -> dict[str, Any]:
        """Names and columns, and for "enriched" what its transformers have found."""
        fitted = iter(self._transformers)
        enriched = []
        for name in self.names:
            if name not in ("plain", "enriched"):
                raise TypeError(
                    f"encodings of QMSClassifierCV has a transformer of its own, {name}, which a model file cannot "
                    'hold; it holds "plain" and "enriched". For anything else there is joblib or skops.'
                )
            if name == "enriched":
                enriched.append(_found(next(fitted)))
        return {"asked": self._asked, "names": self.names, "columns": self.columns, "enriched": enriched}

    def _set_state(self, state: dict[str, Any]) -> None:
        """The columns of each encoding; an enrichment for each that is called so."""
        require_names(state, "Encodings", ["asked", "names", "columns", "enriched"])
        asked, names = state["asked"], state["names"]
        known = asked == "auto" or set([asked] if isinstance(asked, str) else asked) <= {"plain", "enriched"}
        require(known and names and set(names) <= {"plain", "enriched"}, "an encoding is not known")
        require(len(state["columns"]) == len(names), "an encoding has no columns")
        for columns in state["columns"]:
            require(require_array(columns, (None,), "i", "columns").dtype == np.int32, "columns has the wrong type")
        require(len(state["enriched"]) == names.count("enriched"), "an enrichment is missing")
        widest = max(len(columns) for columns in state["columns"])
        require(all(entry["n_features"] <= widest for entry in state["enriched"]), "the number of features is wrong")
        transformers = [_enrichment(**entry) for entry in state["enriched"]]
        self._asked, self.names, self.columns, self._transformers = asked, names, state["columns"], transformers


def _found(transformer: Any) -> dict[str, Any]:
    """Of the enrichment: categories of each one-hot column, knots of each hinged column."""
    columns = {name: np.asarray(chosen) for name, _, chosen in transformer.transformers}
    fitted = transformer.named_transformers_
    has_values, has_hinges = len(columns["values"]) > 0, len(columns["hinges"]) > 0
    splines = fitted["hinges"].bsplines_ if has_hinges else []
    return {
        "n_features": int(transformer.n_features_in_),
        "value_columns": columns["values"],
        "categories": list(fitted["values"].categories_) if has_values else [],
        "hinge_columns": columns["hinges"],
        "knots": np.column_stack([spline.t for spline in splines]) if has_hinges else None,
    }


def _enrichment(n_features: int, value_columns: Any, categories: Any, hinge_columns: Any, knots: Any) -> Any:
    """`enrichment` with its categories, so that any rows will do to fit it, and its splines."""
    require_whole(n_features, 1, "the number of features")
    for columns in (value_columns, hinge_columns):
        require_array(columns, (None,), "i", "columns")
    require(isinstance(categories, list) and len(categories) == len(value_columns), "a column has no categories")
    require((knots is None) == (len(hinge_columns) == 0), "a column has no knots")
    if knots is not None:
        require_array(knots, (None, len(hinge_columns)), "f", "knots")
    steps: list[tuple[str, Any, Any]] = [
        (
            "values",
            OneHotEncoder(categories=categories or "auto", handle_unknown="ignore", sparse_output=False),
            value_columns,
        ),
        (
            "hinges",
            SplineTransformer(
                degree=1,
                n_knots=5 if knots is None else len(knots) - 2,  # one more at either end than the data have
                knots="uniform",
                extrapolation="linear",
                include_bias=False,
            ),
            hinge_columns,
        ),
    ]
    rows = np.tile(np.array([[0.0], [1.0]]), (1, n_features))
    for column, values in zip(value_columns, categories, strict=True):
        rows[:, column] = values[0]
    transformer = ColumnTransformer(steps, sparse_threshold=0).fit(rows)
    if knots is not None:
        # Quantiles can be equal, which the constructor of SplineTransformer refuses.
        n_splines = len(knots) - 2
        splines = [BSpline(column, np.eye(n_splines), 1, extrapolate=False) for column in np.asarray(knots).T.copy()]
        transformer.named_transformers_["hinges"].bsplines_ = splines
    return transformer
