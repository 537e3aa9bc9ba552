"""How columns are laid out for `QMSClassifierCV`: as they are, and enriched by scikit-learn's own transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
from scipy.interpolate import BSpline
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder, SplineTransformer

from multiform._typing import Array, Ints
from multiform.columns._kinds import FEWEST_VALUES, MOST_VALUES
from multiform.state import require, require_array, require_names

MOST_ENRICHED = 500  # columns: a wider matrix is not enriched unless it is asked for
N_KNOTS = 5  # of the hinges
MOST_FEATURES = 2**26  # in a model file, so that a damaged one cannot ask for all memory


class Encodings:
    """All encodings side by side in one matrix, and which of its columns each one is.

    Parameters
    ----------
    names : sequence of "plain", "enriched" or transformer, or "auto"
        "plain" and "enriched" share the plain columns.

    Attributes
    ----------
    names : list of str
    columns : list of ndarray of int32
        The columns of the matrix that each encoding reads.
    transformers : list of transformer
        What makes the columns of each encoding but "plain".
    """

    def __init__(self, names: Sequence[Any] | str) -> None:
        self._asked = names

    def fit(self, X: Any) -> Encodings:
        sparse = scipy.sparse.issparse(X)
        asked: list[Any] = [self._asked] if isinstance(self._asked, str) else list(self._asked)
        if isinstance(self._asked, str) and self._asked == "auto":
            asked = ["plain"] if sparse or X.shape[1] > MOST_ENRICHED else ["plain", "enriched"]
        names, transformers = [], []
        for encoding in asked:
            name = encoding if isinstance(encoding, str) else type(encoding).__name__
            if name == "enriched" and isinstance(encoding, str):
                if sparse:
                    raise ValueError(
                        'encodings of QMSClassifierCV: "enriched" needs dense X; use "plain", or X.toarray().'
                    )
                n_values = np.array([len(np.unique(column)) for column in X.T])
                few = np.flatnonzero((n_values >= FEWEST_VALUES) & (n_values <= MOST_VALUES))
                transformers.append(_enrichment(few, np.flatnonzero(n_values > MOST_VALUES)).fit(X))
            elif hasattr(encoding, "fit") and hasattr(encoding, "transform"):
                transformers.append(clone(encoding).fit(X))
            elif name != "plain":
                raise ValueError(
                    'encodings of QMSClassifierCV must be "auto", or a list of "plain", "enriched" and transformers; '
                    f"got {encoding!r}."
                )
            names.append(name)
        if not names:
            raise ValueError("encodings of QMSClassifierCV is empty; give at least one, as ('plain',).")
        self._lay_out(names, transformers, X[:1])
        return self

    def _lay_out(self, names: list[str], transformers: list[Any], row: Any) -> None:
        """Which columns are whose: the plain ones come first, then those of each transformer."""
        self.names, self.transformers, self.n_features = names, transformers, int(row.shape[1])
        self.columns: list[Ints] = []
        width = self.n_features
        following = iter(transformers)
        for name in names:
            n_new = 0 if name == "plain" else next(following).transform(row).shape[1]
            own = np.arange(self.n_features if name in ("plain", "enriched") else 0)
            self.columns.append(np.concatenate([own, np.arange(width, width + n_new)]).astype(np.int32))
            width += n_new

    def transform(self, X: Any) -> Any:
        """The plain columns, then what each transformer makes of them."""
        if not self.transformers:
            return X
        parts = [X, *(transformer.transform(X) for transformer in self.transformers)]
        if any(scipy.sparse.issparse(part) for part in parts):
            return scipy.sparse.hstack(parts, format="csr")
        return np.hstack(parts)

    # -------------------------------------------------------------------------------------------- model files

    def _get_state(self) -> dict[str, Any]:
        """What the transformers of "enriched" have found, and not their attributes, which belong to scikit-learn."""
        others = [name for name in self.names if name not in ("plain", "enriched")]
        if others:
            raise TypeError(
                f"encodings of QMSClassifierCV has a transformer of its own, {others[0]}, which a model file cannot "
                'hold; it holds "plain" and "enriched". For anything else there is joblib or skops.'
            )
        enriched = [_found(transformer) for transformer in self.transformers]
        return {"names": self.names, "n_features": self.n_features, "enriched": enriched}

    def _set_state(self, state: dict[str, Any]) -> None:
        require_names(state, "Encodings", ["names", "n_features", "enriched"])
        names, p, enriched = state["names"], state["n_features"], state["enriched"]
        known = isinstance(names, list) and len(names) > 0 and set(names) <= {"plain", "enriched"}
        require(known, "an encoding is unknown")
        require(type(p) is int and 0 < p < MOST_FEATURES, "the number of features is wrong")
        fits = isinstance(enriched, list) and len(enriched) == names.count("enriched")
        require(fits, "the encodings lack what one of them has found")
        self._lay_out(names, [_restored(p, found) for found in enriched], np.broadcast_to(0.0, (1, p)))


def _enrichment(
    values: Array, hinges: Array, categories: Any = "auto", knots: str = "quantile", n_knots: int = N_KNOTS
) -> ColumnTransformer:
    """What "enriched" puts beside the columns: one-hot values, or hinges at quantiles where values are many.

    A quadratic in these can bend along an axis, which is what trees are good at.
    """
    one_hot = OneHotEncoder(categories=categories, handle_unknown="ignore", sparse_output=False)
    splines = SplineTransformer(degree=1, n_knots=n_knots, knots=knots, extrapolation="linear", include_bias=False)
    return ColumnTransformer([("values", one_hot, values), ("hinges", splines, hinges)], sparse_threshold=0)


def _found(transformer: ColumnTransformer) -> dict[str, Any]:
    """Of an enrichment: the categories of each one-hot column, the knots of each hinged column."""
    columns = {name: np.asarray(chosen) for name, _, chosen in transformer.transformers}
    fitted = transformer.named_transformers_
    has_values, has_hinges = len(columns["values"]) > 0, len(columns["hinges"]) > 0
    return {
        "value_columns": columns["values"],
        "categories": list(fitted["values"].categories_) if has_values else [],
        "hinge_columns": columns["hinges"],
        "knots": np.column_stack([spline.t for spline in fitted["hinges"].bsplines_]) if has_hinges else None,
    }


def _restored(n_features: int, found: dict[str, Any]) -> ColumnTransformer:
    """The enrichment that has found this: fitted to any rows, as categories are given, then given its splines."""
    require_names(found, "an enrichment", ["value_columns", "categories", "hinge_columns", "knots"])
    values, hinges = (require_array(found[part], (None,), "i", part) for part in ("value_columns", "hinge_columns"))
    both = np.concatenate([values, hinges])
    inside = not len(both) or (both.min() >= 0 and both.max() < n_features and len(np.unique(both)) == len(both))
    require(inside, "an encoding reads columns that there are not")
    categories, knots = found["categories"], found["knots"]
    require(isinstance(categories, list) and len(categories) == len(values), "a column has no categories")
    for known in categories:
        require(len(require_array(known, (None,), "biuf", "categories")) > 0, "a column has no categories")
    n_splines = N_KNOTS
    if knots is not None:
        n_splines = len(require_array(knots, (None, len(hinges)), "f", "knots")) - 2  # one more at either end
        require(np.isfinite(knots).all() and (np.diff(knots, axis=0) >= 0).all(), "knots do not ascend")
    require((knots is None) == (len(hinges) == 0) and n_splines >= 2, "there are hinges without knots")
    rows = np.broadcast_to([[0.0], [1.0]], (2, n_features))
    transformer = _enrichment(values, hinges, categories or "auto", "uniform", n_splines).fit(rows)
    if knots is not None:
        # Quantiles can be equal, which the constructor of SplineTransformer refuses.
        splines = [BSpline(column, np.eye(n_splines), 1, extrapolate=False) for column in knots.T.copy()]
        transformer.named_transformers_["hinges"].bsplines_ = splines
    return transformer
