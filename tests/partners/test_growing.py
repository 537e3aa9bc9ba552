"""Forests grown without scikit-learn's Python are its own trees."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from multiform.partners import Forest, _growing
from multiform.partners._growing import GrownTrees, trees_of


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(400, 9, n_informative=4, n_classes=3, random_state=0)
    return X.astype(np.float32), 2 * y + 1


def same_tree(one, other):
    assert np.array_equal(one.feature, other.feature)
    assert np.array_equal(one.threshold, other.threshold)
    assert np.array_equal(one.value, other.value)


@pytest.mark.parametrize("weighted", [False, True])
def test_extra_trees_are_those_of_scikit_learn(data, weighted):
    X, y = data
    weight = np.random.default_rng(0).integers(1, 4, len(y)) if weighted else None
    grown = GrownTrees("random", 2, random_state=3).fit(X, y, weight)
    random = np.random.RandomState(3)
    for tree in trees_of(grown):
        theirs = ExtraTreeClassifier(max_features="sqrt", random_state=random).fit(X, y, sample_weight=weight)
        same_tree(tree, theirs.tree_)


def test_a_random_forest_grows_on_bootstrap_samples(data):
    X, y = data
    grown = GrownTrees("best", 2, random_state=3).fit(X, y)
    random = np.random.RandomState(3)
    for tree in trees_of(grown):
        counts = np.bincount(random.randint(0, len(y), len(y)), minlength=len(y))
        theirs = DecisionTreeClassifier(max_features="sqrt", random_state=random).fit(X, y, sample_weight=counts)
        same_tree(tree, theirs.tree_)


@pytest.mark.parametrize(("splitter", "theirs"), [("random", ExtraTreesClassifier), ("best", RandomForestClassifier)])
def test_as_good_as_scikit_learns_forests(data, splitter, theirs):
    X, y = data
    grown = GrownTrees(splitter, 100, random_state=0).fit(X[:250], y[:250])
    assert grown.classes_.tolist() == [1, 3, 5]
    accuracy = np.mean(grown.classes_[grown.predict_proba(X[250:]).argmax(axis=1)] == y[250:])
    peer = theirs(100, random_state=0).fit(X[:250], y[:250])
    assert accuracy == pytest.approx(peer.score(X[250:], y[250:]), abs=0.05)
    forest = Forest.of([grown], 6)  # classes 0, 2 and 4 were never seen
    chances = forest.chances(X[250:])[:, 0]
    np.testing.assert_allclose(chances[:, [1, 3, 5]], grown.predict_proba(X[250:]), atol=1e-12)
    assert not chances[:, [0, 2, 4]].any()


def test_one_class_is_one_leaf():
    grown = GrownTrees("best", 3, random_state=0).fit(np.zeros((4, 2), np.float32), np.full(4, 2))
    assert np.array_equal(grown.predict_proba(np.ones((5, 2), np.float32)), np.ones((5, 1)))


def test_another_scikit_learn_grows_its_own_forests(data, monkeypatch):
    assert _growing.compiled_trees_are_known()  # of every version that we test with
    monkeypatch.setattr("sklearn.tree._tree.DepthFirstTreeBuilder", lambda one_thing_only: None)
    _growing.compiled_trees_are_known.cache_clear()
    try:
        fitted = [model.set_params(random_state=0).fit(*data) for model in _growing.forests(3).values()]
    finally:
        _growing.compiled_trees_are_known.cache_clear()
    assert [type(model) for model in fitted] == [ExtraTreesClassifier, RandomForestClassifier]
