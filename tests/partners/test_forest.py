"""Forests as arrays: they answer as scikit-learn's do, and no arrays lead anywhere else."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from multiform.partners import Forest

KINDS = {
    "extra trees": lambda seed: ExtraTreesClassifier(7, random_state=seed),
    "random forest": lambda seed: RandomForestClassifier(7, random_state=seed),
    "best first": lambda seed: RandomForestClassifier(5, max_leaf_nodes=9, min_samples_leaf=3, random_state=seed),
    "boosting": lambda seed: HistGradientBoostingClassifier(max_iter=6, random_state=seed),
}


def samples(m, missing):
    X, y = make_classification(400, 6, n_informative=5, n_redundant=0, n_classes=m, random_state=m)
    X = X.astype(np.float32)
    X[:, 0] = X[:, 0].round()  # equal values, and thresholds between them
    if missing:
        X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    return X, y


def fitted(kind, m=3, missing=False, n_models=2):
    X, y = samples(m, missing)
    return [KINDS[kind](k).fit(X[k::3], y[k::3]) for k in range(n_models)]


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("m", [2, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_chances_are_scikit_learns(kind, m, missing):
    X, models = samples(m, missing)[0], fitted(kind, m, missing)
    expected = np.stack([model.predict_proba(X) for model in models], axis=1)
    np.testing.assert_allclose(Forest.of(models, m).chances(X), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["extra trees", "boosting"])
def test_values_at_a_threshold_go_where_they_went(kind):
    """The neighbours of every threshold in single precision, thresholds being of double precision."""
    (model,) = fitted(kind, n_models=1)
    forest = Forest.of([model], 3)
    for column in range(6):
        at = np.append(np.unique(forest.threshold[forest.feature == column]), np.float32(0))
        near = np.concatenate([at, np.nextafter(at, np.float32(-9)), np.nextafter(at, np.float32(9))])
        X = np.zeros((len(near), 6), dtype=np.float32)
        X[:, column] = near
        np.testing.assert_allclose(forest.chances(X)[:, 0], model.predict_proba(X), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_classes_that_a_model_has_not_seen(kind):
    X, y = samples(4, False)
    few = [KINDS[kind](0).fit(X[y < 2], y[y < 2]), KINDS[kind](0).fit(X[y > 0], y[y > 0])]
    expected = np.zeros((2, len(X), 4))
    for one, model in zip(expected, few, strict=True):
        one[:, model.classes_] = model.predict_proba(X)
    np.testing.assert_allclose(Forest.of(few, 4).chances(X), expected.swapaxes(0, 1), atol=1e-12)
    single = KINDS[kind](0).fit(X[y == 2], y[y == 2])
    assert (Forest.of([single], 4).chances(X).argmax(axis=2) == 2).all()


def test_many_samples_are_taken_in_parts(monkeypatch):
    X, models = samples(3, False)[0], fitted("boosting")
    whole = Forest.of(models, 3).chances(X)
    monkeypatch.setattr("multiform.partners._forest.CHUNK", 500)
    np.testing.assert_array_equal(Forest.of(models, 3).chances(X), whole)


def test_other_kinds_are_no_forest():
    X, y = samples(3, False)
    assert Forest.of([LogisticRegression().fit(X, y)], 3) is None
    assert Forest.of([HistGradientBoostingClassifier(categorical_features=[0], max_iter=2).fit(X, y)], 3) is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_is_taken_back(kind):
    forest = Forest.of(fitted(kind), 3)
    again = Forest.from_plain(forest.as_plain(), 6, 3)
    X = samples(3, True)[0]
    np.testing.assert_array_equal(again.chances(X), forest.chances(X))


HOSTILE = {
    "a circle": ("children", lambda children, forest: _at(children, 0, [0, 0]), "does not follow its parent"),
    "a way back": ("children", lambda children, forest: _at(children, 1, [0, 0]), "does not follow its parent"),
    "into the next tree": (
        "children",
        lambda children, forest: _at(children, 0, [forest.roots[1] + 1] * 2),
        "does not follow its parent",
    ),
    "no such value": (
        "children",
        lambda children, forest: _at(children, np.flatnonzero(forest.feature < 0)[0], [10**6] * 2),
        "a leaf of a forest has no values",
    ),
    "no such column": ("feature", lambda feature, forest: _at(feature, 0, 6), "reads columns that there are not"),
    "no kind of node": ("feature", lambda feature, forest: _at(feature, 0, -2), "reads columns that there are not"),
    "NaN": ("threshold", lambda threshold, forest: _at(threshold, 0, np.nan), "is not finite"),
    "values": ("values", lambda values, forest: _at(values, 0, np.inf), "is not finite, or too large"),
    "the base": ("base", lambda base, forest: base + 1e40, "is not finite, or too large"),
    "roots": ("roots", lambda roots, forest: roots[::-1].copy(), "begin nowhere"),
    "equal roots": ("roots", lambda roots, forest: np.zeros_like(roots), "are not in order"),
    "a root beyond": ("roots", lambda roots, forest: _at(roots, -1, 10**6), "are not in order"),
    "a place": ("places", lambda places, forest: places + 1000, "adds to sums that there are not"),
    "a type": ("children", lambda children, forest: children.astype(np.int64), "has the wrong type"),
    "no models": ("base", lambda base, forest: base[:0], "has no model"),
    "a link": ("link", lambda link, forest: "sum", "neither mean nor softmax"),
}


def _at(array, place, value):
    array = array.copy()
    array[place] = value
    return array


@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.parametrize("kind", ["extra trees", "boosting"])
def test_hostile_arrays_are_refused(kind, what):
    forest = Forest.of(fitted(kind), 3)
    part, change, sentence = HOSTILE[what]
    state = forest.as_plain()
    with pytest.raises(ValueError, match=sentence):
        Forest.from_plain({**state, part: change(state[part], forest)}, 6, 3)


def test_leaves_of_a_mean_hold_chances():
    state = Forest.of(fitted("extra trees"), 3).as_plain()
    with pytest.raises(ValueError, match="the leaves of a forest hold no chances"):
        Forest.from_plain({**state, "values": state["values"] * 2}, 6, 3)
