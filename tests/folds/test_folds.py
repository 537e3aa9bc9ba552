"""The one splitter: random within classes, whole groups, seeded; and the warning of copies."""

import warnings

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import StratifiedKFold

from multiform import LoyaltyClassifier, QMSClassifier, QMSClassifierCV
from multiform.folds import (
    RepeatedRowsWarning,
    chances_of_agreement,
    drawn_folds,
    given_splits,
    group_codes,
    held_out_part,
    splits_of,
    unit_samples,
    warn_of_copies,
)
from multiform.inputs import in_own_unit

labels = st.lists(st.integers(0, 4), min_size=2, max_size=80).map(np.array)


@given(labels, st.integers(2, 7), st.integers(0, 5))
def test_classes_and_folds_are_as_even_as_those_of_scikit_learn(target, n_folds, seed):
    target = np.unique(target, return_inverse=True)[1]
    folds = drawn_folds(target, n_folds, np.random.default_rng(seed))
    counts = np.array([np.bincount(folds[target == k], minlength=n_folds) for k in range(target.max() + 1)])
    assert (np.ptp(counts, axis=1) <= 1).all()
    assert np.ptp(counts.sum(axis=0)) <= 1
    if np.bincount(target).min() >= n_folds:  # what StratifiedKFold takes without complaint
        theirs = [test for _, test in StratifiedKFold(n_folds, shuffle=True, random_state=0).split(target, target)]
        assert sorted(map(len, theirs)) == sorted(counts.sum(axis=0))


@given(labels, st.integers(2, 7), st.data())
def test_a_group_is_on_one_side(target, n_folds, data):
    target = np.unique(target, return_inverse=True)[1]
    groups = np.array(data.draw(st.lists(st.integers(0, 9), min_size=len(target), max_size=len(target))))
    folds = drawn_folds(target, n_folds, np.random.default_rng(0), groups)
    assert all(len(np.unique(folds[groups == group])) == 1 for group in np.unique(groups))
    assert np.array_equal(np.unique(folds), np.arange(min(n_folds, len(np.unique(groups)))))


def test_a_class_in_two_groups_is_in_two_folds():
    """So that whatever is held out, training still knows the class; drawn blindly, it would fail one time in five."""
    groups = np.repeat(np.arange(40), 3)
    target = np.isin(groups, [3, 17]).astype(int)
    for seed in range(200):
        folds = drawn_folds(target, 5, np.random.default_rng(seed), groups)
        assert len(np.unique(folds[target == 1])) == 2


@given(st.lists(st.integers(1, 5), min_size=2, max_size=20), st.floats(1e-30, 1e30))
def test_whole_weights_are_so_many_samples(units, unit):
    units = np.array(units)
    index = np.arange(len(units))
    rows, target, weight = unit_samples(index[:, None], index, in_own_unit(units * unit, "X"))
    if units.max() > units.min() == 1:
        assert np.array_equal(np.bincount(target), units)
    np.testing.assert_array_equal(rows.ravel(), target)
    np.testing.assert_allclose(np.bincount(target, weights=weight) / weight.sum(), units / units.sum())


def test_many_units_are_cut_into_fewer_parts():
    _, target, weight = unit_samples(np.zeros((4, 1)), np.arange(4), np.array([1.0, 1.0, 3.0, 1e9]))
    assert np.bincount(target).tolist() == [1, 1, 3, 5000]
    np.testing.assert_allclose(np.bincount(target, weights=weight), [1, 1, 3, 1e9])
    for weight in ([1.0, 1.5, 1.0, 1.0], [3.0, 3.0, 3.0, 3.0]):
        weight = in_own_unit(np.array(weight), "X")
        assert len(unit_samples(np.zeros((4, 1)), np.arange(4), weight)[1]) == 4
    assert np.bincount(unit_samples(np.zeros((2, 1)), np.arange(2), np.array([49.0, 50.0]))[1]).tolist() == [49, 50]


def test_equal_rows_are_separate_samples_and_the_seed_decides():
    target = np.repeat([0, 1], 500)
    first, again, other = (drawn_folds(target, 5, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert (first != other).mean() > 0.5  # folds know nothing of X


def test_every_way_of_dealing_out_is_equally_likely():
    """Six samples of one class in two folds: each pair is parted in 3 of 5 ways."""
    target = np.zeros(6, dtype=int)
    parted = [np.ptp(drawn_folds(target, 2, np.random.default_rng(seed))[[0, 5]]) for seed in range(4000)]
    assert np.mean(parted) == pytest.approx(0.6, abs=4 * np.sqrt(0.24 / 4000))


def test_whole_groups_are_held_out_and_no_class_is_emptied():
    random = np.random.default_rng(0)
    groups, target = random.integers(0, 50, 1000), random.integers(0, 2, 1000)
    held_out = held_out_part(target, 100, random, groups)
    assert 60 < len(held_out) < 140
    assert not set(groups[held_out]) & set(np.delete(groups, held_out))
    rare = np.append(np.zeros(99, dtype=int), 1)
    assert all(99 not in held_out_part(rare, 50, np.random.default_rng(seed)) for seed in range(20))


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        ([1, 2], "groups of X must have an entry for each of the 3 samples; got 2"),
        ([1.0, np.nan, 2.0], "groups of X must name the group of every sample; 1 of 3 are missing"),
        (["a", None, "b"], "groups of X must name the group of every sample; 1 of 3 are missing"),
        ([7, 7, 7], "groups of X must hold at least 2 groups, as whole groups are held out; got 1, 7"),
    ],
)
def test_wrong_groups_get_a_sentence(groups, sentence):
    with pytest.raises(ValueError, match=sentence):
        group_codes(groups, 3, "X")


def test_groups_of_samples_without_weight_are_not_counted():
    used = np.array([True, False, True])
    assert np.array_equal(group_codes(["b", "a", "c"], 2, "X", used), [0, 1])
    splits = given_splits([(np.array([0, 1]), np.array([2]))], np.zeros((3, 1)), [0, 1, 0], used=used)
    assert [part.tolist() for part in splits[0]] == [[0], [1]]


def test_splits_judge_every_sample_once():
    folds = np.array([0, 1, 0, 2])
    assert np.array_equal(np.sort(np.concatenate([test for _, test in splits_of(folds)])), np.arange(4))


# --------------------------------------------------------------------------------------------------------- copies


def _warns(X):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_copies(X, "X")
    return [warning.category for warning in caught] == [RepeatedRowsWarning]


RANDOM = np.random.default_rng(0)
MEASURES = RANDOM.normal(size=(300, 2))


@pytest.mark.parametrize(
    ("X", "warned"),
    [
        (MEASURES, False),
        (np.vstack([MEASURES, MEASURES]), True),
        (np.vstack([MEASURES, MEASURES[:70]]), True),
        (np.vstack([MEASURES, MEASURES[:10]]), False),  # a few copies are no matter
        (RANDOM.integers(0, 2, (1000, 12)).astype(float), False),  # few values repeat by chance
        (RANDOM.integers(0, 50, (1000, 1)).astype(float), False),
        (RANDOM.integers(0, 40, (3000, 2)).astype(float), False),
        (np.repeat(RANDOM.integers(0, 60, (500, 1)), 2, axis=1).astype(float), False),  # a column and its double
        (scipy.sparse.csr_array(np.vstack([MEASURES, MEASURES])), True),
        (np.repeat(RANDOM.integers(0, 255, (100, 200)).astype(np.uint8), 3, axis=0), True),
    ],
)
def test_many_copies_of_measures_are_warned_of(X, warned):
    assert _warns(X) is warned


def test_copies_among_words_are_found_by_the_fullest_columns():
    X = scipy.sparse.random(400, 1_000, density=0.06, format="csr", random_state=np.random.default_rng(0))
    assert not _warns(X)
    assert _warns(scipy.sparse.vstack([X, X], format="csr"))
    random = np.random.default_rng(1)
    columns = (random.normal(size=100) for _ in range(10_000))
    assert len(list(chances_of_agreement(columns))) < 200  # each is compared with those before: not with thousands


@pytest.mark.parametrize("make", [QMSClassifier, QMSClassifierCV, LoyaltyClassifier])
def test_a_file_pasted_twice_gets_a_warning_that_names_groups(make):
    model = make(random_state=0)
    X, y = np.vstack([MEASURES[:60]] * 2), np.tile(MEASURES[:60, 0] > 0, 2)
    with pytest.warns(RepeatedRowsWarning, match=r"60 of the 120 rows given to .* are copies .* by groups") as caught:
        model.fit(X, y)
    assert caught[0].filename == __file__
    model.fit(X, y, groups=np.tile(np.arange(60), 2))  # no warning


# --------------------------------------------------------------------------------------------------------- groups


@pytest.mark.parametrize("model", [QMSClassifier(), QMSClassifierCV(), LoyaltyClassifier()])
def test_metadata_routing_passes_groups_on(model):
    from sklearn import config_context
    from sklearn.model_selection import cross_validate

    seen = []

    class Recording(type(model)):
        def fit(self, X, y, sample_weight=None, *, groups=None):
            seen.append(groups)
            return super().fit(X, y, sample_weight, groups=groups)

    groups = np.arange(60) // 2
    with config_context(enable_metadata_routing=True):
        asked = Recording(random_state=0).set_fit_request(groups=True)
        cross_validate(asked, MEASURES[:60], MEASURES[:60, 0] > 0, params={"groups": groups}, cv=2)
    assert [len(found) for found in seen] == [30, 30]


def test_groups_reach_the_estimator_inside():
    inner = QMSClassifierCV(noise=(0.3,), encodings=("plain",), random_state=0)
    groups = np.arange(60) // 4
    model = LoyaltyClassifier(inner, cv=3, random_state=0)
    model.fit(MEASURES[:60], MEASURES[:60, 0] > 0, groups=groups)
    alone = QMSClassifierCV(noise=(0.3,), encodings=("plain",), random_state=0)
    alone.fit(MEASURES[:60], MEASURES[:60, 0] > 0, groups=groups)
    assert np.array_equal(model.estimator_.predict_proba(MEASURES), alone.predict_proba(MEASURES))
