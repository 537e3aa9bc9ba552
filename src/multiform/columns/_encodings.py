"""The matrices that classifiers read: of a plan's features, and of the columns that `QMSClassifierCV` gets.

In a plan, each feature has columns of its own, so that a feature that was not measured is a set of columns left out:

- a number: itself, standardised; with few distinct values (a code: 1 typical, 2 atypical, ...) an indicator for each
  value beside it; with many patients, an indicator for each of several thresholds, so that a quadratic can have a cut;
- words: an indicator for each value.

A result that is missing although the test was done is read as the median (the commonest value), and where training data
have enough of them to learn from, an indicator says so: that nobody could read a result is a finding, too.

`QMSClassifierCV` reads its columns as they are, and enriched by scikit-learn's own transformers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt
import scipy
import scipy.sparse
from sklearn.base import clone

from multiform._typing import Array, Doubles, Floats, Ints
from multiform.columns._cells import typed
from multiform.columns._kinds import FEWEST_VALUES, MOST_VALUES, Category, Code, Number, column_from
from multiform.state import require, require_array, require_names, spend

if TYPE_CHECKING:
    from sklearn.compose import ColumnTransformer

MOST_ENRICHED = 500  # columns: a wider matrix is not enriched unless it is asked for
MOST_WITH_GAPS = 200  # columns of a matrix of which values are missing, so that all correlations can be learnt
ONE_HOT = "one-hot"  # "enriched" without the numbers that have indicators
WITH_GAPS = " + gaps"  # in the name of an encoding of which columns tell where a value is missing
N_KNOTS = 5  # of the hinges
ENRICHED = {"enriched": N_KNOTS, "finer": 12}  # encodings with hinges, and the knots of these
KNOWN = ("plain", *ENRICHED, ONE_HOT)  # of which a model file knows
FINER_FROM, MOST_FINER = 1_000, 50  # rows from which on more knots pay, and columns up to which they are affordable

# As `MOST_VALUES` and `LEAST_CELLS` of tables: a plan is made from few patients and pays for every column.
MOST_VALUES_IN_PLANS = 6
LEAST_CELLS_IN_PLANS = 5, 10

# Patients from which on a number is cut, and the quantiles at which: close to each other in the tails, which is where
# the ill are.
CUT_FROM = 1_000
CUTS = (0.01, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 0.75, 0.85, 0.9, 0.92, 0.94, 0.96, 0.97, 0.98, 0.99)
FARTHEST = 1e6  # deviations from the mean: beyond, a slip of the pen is as good as another, and nothing overflows
INDICATOR_SCALE = 0.6  # an indicator says less than a measurement: it is read at this share of its deviation


class Encodings:
    """All encodings side by side in one matrix, and which of its columns each one is.

    Parameters
    ----------
    names : sequence of "plain", "enriched", "finer" or transformer, or "auto"
        These three share the plain columns.

    Attributes
    ----------
    names : list of str
    columns : list of ndarray of int32
        The columns of the matrix that each encoding reads.
    transformers : list of transformer
        What makes the columns of each encoding but "plain".
    told : ndarray of int
        The columns of X that had gaps in training; a column beyond all others tells where each has one.
    width : int
        Columns of the matrix.
    """

    def __init__(self, names: Sequence[Any] | str) -> None:
        self._asked = names

    def fit(self, X: Any, gaps: bool = False, finer: bool = True) -> Encodings:
        """To a matrix, which has `gaps` where NaN stands in it: every encoding is there without and with columns that
        tell them. Without `finer`, "auto" does not mean that.
        """
        sparse = scipy.sparse.issparse(X)
        asked: list[Any] = [self._asked] if isinstance(self._asked, str) else list(self._asked)
        gap = np.isnan(X) if gaps else None
        X = X if gap is None else _spread_values(X, gap)
        auto = isinstance(self._asked, str) and self._asked == "auto"
        named = [name for name in asked if isinstance(name, str)]
        counts_matter = not sparse and (X.shape[1] <= MOST_ENRICHED if auto else bool(set(named) & {*ENRICHED}))
        n_values = np.array([len(np.unique(column)) for column in X.T]) if counts_matter else np.empty(0)
        if auto:
            wide = not counts_matter or (gap is not None and _enriched_width(n_values) > MOST_WITH_GAPS)
            asked = ["plain"] if wide else ["plain", "enriched"]
            if finer and not (wide or gaps) and X.shape[0] >= FINER_FROM and X.shape[1] <= MOST_FINER:
                asked.append("finer")
            if not wide and _mostly_codes(n_values):
                asked.append(ONE_HOT)
        names, transformers = [], []
        for encoding in asked:
            name = encoding if isinstance(encoding, str) else type(encoding).__name__
            if name in ENRICHED and isinstance(encoding, str):
                if sparse:
                    raise ValueError(
                        f'encodings of QMSClassifierCV: "{name}" needs dense X; use "plain", or X.toarray().'
                    )
                few = np.flatnonzero((n_values >= FEWEST_VALUES) & (n_values <= MOST_VALUES))
                many = np.flatnonzero(n_values > MOST_VALUES)
                transformers.append(_enrichment(few, many, n_knots=ENRICHED[name]).fit(X))
            elif hasattr(encoding, "fit") and hasattr(encoding, "transform"):
                if gap is not None:
                    _refuse_gaps(name)
                transformers.append(clone(encoding).fit(X))
            elif name != "plain" and not (name == ONE_HOT and "enriched" in names):
                raise ValueError(
                    'encodings of QMSClassifierCV must be "auto", or a list of "plain", "enriched" and transformers; '
                    f"got {encoding!r}."
                )
            names.append(name)
        if not names:
            raise ValueError("encodings of QMSClassifierCV is empty; give at least one, as ('plain',).")
        self._lay_out(names, transformers, X[:1], () if gap is None else _distinct_gaps(gap))
        return self

    def _lay_out(self, names: list[str], transformers: list[Any], row: Any, told: Any = ()) -> None:
        """Which columns are whose: the plain ones come first, then those of each transformer, then those of `told`."""
        self.names, self.transformers, self.n_features = list(names), transformers, int(row.shape[1])
        self.told = np.asarray(told, dtype=np.int64)
        self.columns: list[Ints] = []
        width = self.n_features
        following = iter(transformers)
        for name in names:
            if name == ONE_HOT:
                enriched = names.index("enriched")
                values = _found(transformers[enriched - names[:enriched].count("plain")])["value_columns"]
                self.columns.append(np.setdiff1d(self.columns[enriched], values).astype(np.int32))
                continue
            n_new = 0 if name == "plain" else next(following).transform(row).shape[1]
            own = np.arange(self.n_features if name in ("plain", *ENRICHED) else 0)
            self.columns.append(np.concatenate([own, np.arange(width, width + n_new)]).astype(np.int32))
            width += n_new
        self.width = width + len(self.told)
        if len(self.told):
            telling = np.arange(width, self.width, dtype=np.int32)
            self.columns += [np.concatenate([own, telling]) for own in self.columns]
            self.names += [name + WITH_GAPS for name in names]

    def transform(self, X: Any, gaps: bool = False) -> Any:
        """The plain columns, what each transformer makes of them, then 1 where a column of `told` has a gap.

        A gap, which is NaN in X, is one in every column that is made of it.
        """
        if not (self.transformers or len(self.told)):
            return X
        if gaps and (strangers := set(self._asked_names) - set(KNOWN)):
            _refuse_gaps(min(strangers))
        gap = np.isnan(X) if gaps else None
        read = X if gap is None else np.where(gap, 0, X)
        with np.errstate(over="ignore", invalid="ignore"):  # of a row far off, which `Separators.values` knows
            made = [transformer.transform(read) for transformer in self.transformers]
        if any(scipy.sparse.issparse(part) for part in (X, *made)):
            return scipy.sparse.hstack([X, *made], format="csr")
        if gap is not None:
            for transformer, part in zip(self.transformers, made, strict=True):
                part[gap[:, _sources(transformer)]] = np.nan
        if len(self.told):
            made.append(np.zeros((len(X), len(self.told))) if gap is None else gap[:, self.told].astype(np.float64))
        return np.hstack([X, *made])

    @property
    def _asked_names(self) -> list[str]:
        """Each encoding once, be it with columns that tell gaps or without."""
        return self.names[: len(self.names) // 2] if len(self.told) else self.names

    @property
    def made_by(self) -> list[tuple[str, Any]]:
        """The name and the transformer of each encoding that makes columns of its own."""
        making = [name for name in self._asked_names if name not in ("plain", ONE_HOT)]
        return list(zip(making, self.transformers, strict=True))

    @property
    def knows_gaps(self) -> bool:
        """Whether it is known which columns a gap concerns: of a transformer of others it is not."""
        return set(self._asked_names) <= set(KNOWN)

    # -------------------------------------------------------------------------------------------- model files

    def _get_state(self) -> dict[str, Any]:
        """What the transformers of our own have found, and not their attributes, which belong to scikit-learn."""
        names = self._asked_names
        others = [name for name in names if name not in KNOWN]
        if others:
            raise TypeError(
                f"encodings of QMSClassifierCV has a transformer of its own, {others[0]}, which a model file cannot "
                'hold; it holds "plain" and "enriched". For anything else there is joblib or skops.'
            )
        enriched = [_found(transformer) for transformer in self.transformers]
        state = {"names": names, "n_features": self.n_features, "enriched": enriched}
        return state | {"told": self.told} if len(self.told) else state

    def _set_state(self, state: dict[str, Any]) -> None:
        require_names(state, "Encodings", ["names", "n_features", "enriched"], ["told"])
        names, p, enriched = state["names"], state["n_features"], state["enriched"]
        known = isinstance(names, list) and len(names) > 0 and set(names) <= set(KNOWN)
        known = known and (ONE_HOT not in names or "enriched" in names[: names.index(ONE_HOT)])
        require(known, "an encoding is unknown")
        require(type(p) is int and 0 < p < 2**31, "the number of features is wrong")  # columns are 32-bit numbers
        spend(100 * p * len(names), "the columns of the encodings")
        fits = isinstance(enriched, list) and len(enriched) == sum(name in ENRICHED for name in names)
        require(fits, "the encodings lack what one of them has found")
        told = require_array(state.get("told", np.empty(0, dtype=np.int64)), (None,), "i", "columns that had gaps")
        ascending = len(told) <= p and (np.diff(told) > 0).all() and (not len(told) or 0 <= told[0] <= told[-1] < p)
        require(ascending, "there are not such columns that had gaps")
        self._lay_out(names, [_restored(p, found) for found in enriched], np.broadcast_to(0.0, (1, p)), told)


def _refuse_gaps(name: str) -> NoReturn:
    raise ValueError(
        f"encodings of QMSClassifierCV: {name} cannot be used with missing values in X, as it is not known which of "
        'its columns they concern; use "plain" and "enriched", or impute.'
    )


def _enrichment(
    values: Array, hinges: Array, categories: Any = "auto", knots: str = "quantile", n_knots: int = N_KNOTS
) -> ColumnTransformer:
    """What "enriched" and "finer" put beside the columns: one-hot values, or hinges at quantiles of many values.

    A quadratic in these can bend along an axis, which is what trees are good at.
    """
    from sklearn.compose import ColumnTransformer  # it takes a while to load, and few models that are served have it
    from sklearn.preprocessing import OneHotEncoder, SplineTransformer

    one_hot = OneHotEncoder(categories=categories, handle_unknown="ignore", sparse_output=False)
    splines = SplineTransformer(degree=1, n_knots=n_knots, knots=knots, extrapolation="linear", include_bias=False)
    return ColumnTransformer([("values", one_hot, values), ("hinges", splines, hinges)], sparse_threshold=0)


def _enriched_width(n_values: Array) -> int:
    """How many columns "enriched" would have, and as many more to tell gaps; of columns with so many values each."""
    few = (n_values >= FEWEST_VALUES) & (n_values <= MOST_VALUES)
    return int(2 * len(n_values) + n_values[few].sum() + (N_KNOTS - 1) * (n_values > MOST_VALUES).sum())


def _mostly_codes(n_values: Array) -> bool:
    """Whether half of the columns that have three values or more have few: these may be codes, without an order."""
    few = np.sum((n_values >= FEWEST_VALUES) & (n_values <= MOST_VALUES))
    return bool(0 < few >= 0.5 * np.sum(n_values >= FEWEST_VALUES))


def _distinct_gaps(gap: Array) -> Array:
    """Columns that have gaps, one of those that have them in the same rows, as the columns of a category do."""
    columns = np.flatnonzero(gap.any(axis=0))
    return np.sort(columns[np.unique(gap[:, columns], axis=1, return_index=True)[1]])


def _spread_values(X: Array, gap: Array) -> Array:
    """X with values of the same column, evenly spread, in the gaps: no knot and no number of values changes much."""
    X = np.array(X)
    for j in np.flatnonzero(gap.any(axis=0)):
        present = np.sort(X[~gap[:, j], j])
        n = int(gap[:, j].sum())
        X[gap[:, j], j] = present[((np.arange(n) + 0.5) / n * len(present)).astype(np.intp)] if len(present) else 0
    return X


def _sources(transformer: ColumnTransformer) -> Array:
    """Of an enrichment: the column that each of its columns is made of."""
    found = _found(transformer)
    n_hinges = (
        0 if found["knots"] is None else len(found["knots"]) - 3
    )  # two knots only pad, and one spline is left out
    values = np.repeat(found["value_columns"], [len(known) for known in found["categories"]])
    return np.concatenate([values, np.repeat(found["hinge_columns"], n_hinges)]).astype(np.intp)


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
        spend(16 * n_splines**2 * len(hinges), "the knots of the hinges")
    require((knots is None) == (len(hinges) == 0) and n_splines >= 2, "there are hinges without knots")
    rows = np.broadcast_to([[0.0], [1.0]], (2, n_features))
    transformer = _enrichment(values, hinges, categories or "auto", "uniform", n_splines).fit(rows)
    if knots is not None:
        # Quantiles can be equal, which the constructor of SplineTransformer refuses.
        spline = scipy.interpolate.BSpline
        splines = [spline(column, np.eye(n_splines), 1, extrapolate=False) for column in knots.T.copy()]
        transformer.named_transformers_["hinges"].bsplines_ = splines
    return transformer


# --------------------------------------------------------------------------------------------------------------- plans


class Encoding:
    """How the features of each test are read.

    Attributes
    ----------
    codes : tuple of Number or Category
        What each feature becomes.
    owner : tuple of int
        The test that each feature belongs to.
    center, scale : ndarray of shape (width,)
        Of each column; an infinite scale reads as 0 what never varies.
    """

    def __init__(
        self, codes: Sequence[Number | Category], owner: Sequence[int], center: Doubles, scale: Doubles
    ) -> None:
        self.codes, self.owner, self.center, self.scale = tuple(codes), tuple(owner), center, scale

    @classmethod
    def learnt(cls, columns: Mapping[str, Array], features: Sequence[Sequence[str]]) -> Encoding:
        """From the training patients' columns, and the features of each test."""
        codes, owner, center, scale = [], [], [], []
        for test, names in enumerate(features):
            for name in names:
                code, raw = _learnt(name, columns[name])
                codes.append(code)
                owner.append(test)
                # over a power of two, which rounds nothing: a test in mol per litre varies, too, and nothing overflows
                exponent = np.frexp(np.abs(raw).max(axis=0))[1]
                shares = np.ldexp(raw, -exponent)
                deviation = np.ldexp(shares.std(axis=0), exponent)
                stretch = np.where(np.arange(code.width) < isinstance(code, Number), 1.0, 1 / INDICATOR_SCALE)
                center.append(np.ldexp(shares.mean(axis=0), exponent))
                scale.append(np.where(shares.std(axis=0) > 1e-12, deviation * stretch, np.inf))
        return cls(codes, owner, np.concatenate(center), np.concatenate(scale))

    @property
    def names(self) -> list[str]:
        """Of the features."""
        return [code.name for code in self.codes]

    @property
    def column_owner(self) -> npt.NDArray[np.int64]:
        """The test that each column belongs to."""
        return np.repeat(np.array(self.owner, dtype=np.int64), [code.width for code in self.codes])

    def features(self, test: int) -> list[str]:
        """The names of a test's features."""
        return [code.name for code, owner in zip(self.codes, self.owner, strict=True) if owner == test]

    def cells(self, columns: Mapping[str, Array]) -> dict[str, Array]:
        """The features of some patients, numbers with NaN or words with None; what is not given is missing."""
        missing = np.full(len(next(iter(columns.values()))), np.nan)
        return {code.name: _read(code.name, columns.get(code.name, missing), type(code)) for code in self.codes}

    def encode(self, columns: Mapping[str, Array]) -> Floats:
        """The columns of some patients, side by side; a feature that is not given is missing."""
        cells: Any = self.cells(columns)
        raw = np.hstack([code.columns(cells[code.name]) for code in self.codes])
        standard = np.clip((raw - self.center) / self.scale, -FARTHEST, FARTHEST)
        return np.ascontiguousarray(standard, dtype=np.float32)

    def filled(self, columns: Mapping[str, Array]) -> dict[str, Array]:
        """The features themselves, missing values filled in."""
        return {code.name: code.filled(_read(code.name, columns[code.name], type(code))) for code in self.codes}

    def state(self) -> dict[str, Any]:
        """What it has learnt as plain values, for a model file."""
        codes = [code.state() for code in self.codes]
        return {"codes": codes, "owner": self.owner, "center": self.center, "scale": self.scale}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Encoding:
        """The encoding of a `state`; ValueError where it is none."""
        require_names(state, "the encoding", ["codes", "owner", "center", "scale"])
        require(isinstance(state["codes"], list | tuple) and len(state["codes"]) > 0, "the encoding has no features")
        codes: list[Any] = [column_from(code) for code in state["codes"]]
        require(all(isinstance(code, Number | Category) for code in codes), "a feature is no number and no category")
        owner, width = state["owner"], sum(code.width for code in codes)
        whole = isinstance(owner, list | tuple) and all(type(test) is int and test >= 0 for test in owner)
        require(whole and len(owner) == len(codes), "features belong to no test")
        center = require_array(state["center"], (width,), "f", "center of the encoding")
        scale = require_array(state["scale"], (width,), "f", "scale of the encoding")
        require(np.isfinite(center).all() and (scale > 0).all(), "the scaling of the encoding is wrong")
        return cls(codes, owner, center, scale)


def _learnt(name: str, column: Array) -> tuple[Number | Category, Doubles]:
    """What a feature becomes, from training patients, and their columns."""
    values = _read(name, column)
    if values.dtype.kind != "f":
        words = Category.learn(name, "a cell holds a word", values, LEAST_CELLS_IN_PLANS)
        return words, words.columns(values)
    present = values[~np.isnan(values)]
    if not len(present):
        raise ValueError(
            f"Feature {name!r} of DiagnosisPlanner.fit is missing for every patient; leave the test out of costs."
        )
    n_distinct = len(np.unique(present))
    kind = Code if FEWEST_VALUES <= n_distinct <= MOST_VALUES_IN_PLANS else Number
    cut = n_distinct > MOST_VALUES_IN_PLANS and len(values) >= CUT_FROM
    steps = tuple(np.unique(np.quantile(present, CUTS)).tolist()) if cut else ()
    number = kind.learn(name, "every cell is a number", values, LEAST_CELLS_IN_PLANS, steps=steps, fill_all=True)
    return number, number.columns(values)


def _read(name: str, column: Array, kind: type[Number | Category] | None = None) -> Array:
    """A feature as numbers with NaN, or as words with None where it holds a word; of this kind, if it is known."""
    values = typed(column, parse=True, words=kind is Category)
    if values.dtype.kind == "f":
        if np.isinf(values).any():
            raise ValueError(f"Feature {name!r} of DiagnosisPlanner is infinite for some patient; missing is NaN.")
    elif kind not in (None, Category):
        raise ValueError(
            f"Feature {name!r} of DiagnosisPlanner was a number for every training patient; "
            f"got {[value for value in values if value is not None][:3]}."
        )
    return values
