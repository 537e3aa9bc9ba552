"""Who is held out: rows at random though they are equal, and people with all their rows."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.model_selection import cross_validate
from sklearn.neighbors import KNeighborsClassifier

from multiform import DiagnosisPlanner
from multiform.diagnosis._level import standard_error
from multiform.folds import RepeatedRowsWarning

# Of many fresh patients, one or the other has a result beyond what so few training patients had.
# And a nearest neighbour on visits of other people may do worse than the commonest class.
pytestmark = [
    pytest.mark.filterwarnings("ignore::multiform.columns.UnfamiliarWarning"),
    pytest.mark.filterwarnings("ignore::multiform.diagnosis.WeakEvidenceWarning"),
]

QUICK = {"level": 0.01, "cv": 5, "random_state": 0}


def visits(n_people, each, seed=0):
    """People who come several times. Marks tell who it is and nothing of the illness; fever tells a little."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(n_people), each)
    ill = rng.integers(0, 2, n_people)
    marks = rng.normal(0, 1, (n_people, 4))[person] + rng.normal(0, 1e-5, (len(person), 4))
    fever = 0.5 * ill[person] + rng.normal(0, 1, len(person))
    return pd.DataFrame({f"mark {j}": marks[:, j] for j in range(4)} | {"fever": fever}), ill[person], person


def planner_of(**settings):
    features = {"mark": [f"mark {j}" for j in range(4)]}
    return DiagnosisPlanner({"mark": 1, "fever": 5}, features=features, **QUICK, **settings)


def binary(n=1000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (n, 2)).astype(float)
    return X, (rng.random(n) < 0.2 + 0.6 * X[:, 0]).astype(int)


def test_rows_that_happen_to_be_equal_are_judged_by_each_other():
    X, y = binary()
    planner = DiagnosisPlanner({"a": 1, "b": 1}, random_state=0).fit(X, y)
    assert planner.full_accuracy_ == pytest.approx(0.8, abs=0.03)
    assert planner.predict_proba([[0.0, 0], [1, 1]])[:, 1] == pytest.approx([0.2, 0.8], abs=0.05)


def test_with_groups_the_promise_is_about_new_people():
    """A nearest neighbour knows everybody again by the marks; of new people it knows next to nothing."""
    X, y, person = visits(120, 4)
    fresh, ill, _ = visits(400, 1, seed=1)
    alone = planner_of(estimator=KNeighborsClassifier(1)).fit(X, y)
    together = planner_of(estimator=KNeighborsClassifier(1)).fit(X, y, groups=person)
    actual = (together.predict_full(fresh) == ill).mean()
    assert alone.full_accuracy_ > actual + 0.15
    assert together.full_accuracy_ == pytest.approx(actual, abs=0.08)


def test_nobody_is_on_both_sides():
    X, y, person = visits(30, 4)
    *_, planning = planner_of()._prepare(X, y, person)
    fold = planning.judge.models.fold
    assert all(len(set(fold[person == one])) == 1 for one in range(30))
    assert len(set(fold)) == 5


def test_evaluation_holds_out_people_too():
    X, y, person = visits(60, 4)
    planner = planner_of(estimator=KNeighborsClassifier(1))
    alone = planner.evaluate(X, y, cv=3, frontier=False)
    together = planner.evaluate(X, y, person, cv=3, frontier=False)
    assert alone.full_accuracy > together.full_accuracy + 0.1
    with pytest.raises(ValueError, match=r"cv of DiagnosisPlanner\.evaluate must be at least 2"):
        planner.evaluate(X, y, cv=1)


def test_groups_are_asked_for_by_scikit_learns_routing():
    X, y, person = visits(40, 3)
    with sklearn.config_context(enable_metadata_routing=True):
        planner = planner_of(estimator=KNeighborsClassifier()).set_fit_request(groups=True)
        found = cross_validate(planner, X, y, cv=2, params={"groups": person}, return_estimator=True)
    for fitted in found["estimator"]:
        models = fitted.judge_.models
        seen = person[[np.flatnonzero(np.isclose(encoded(fitted, X)[:, 0], row[0]))[0] for row in models.rows]]
        assert all(len(set(models.fold[seen == one])) == 1 for one in set(seen))


def encoded(planner, X):
    return planner.encoding_.encode({name: X[name].to_numpy() for name in X})


def test_wrong_groups_get_a_sentence():
    X, y, person = visits(20, 3)
    planner = planner_of()
    for groups, message in [
        (person[:-1], "groups of DiagnosisPlanner must have an entry for each of the 60 samples; got 59"),
        (np.zeros(60), "must hold at least 2 groups"),
        (np.where(np.arange(60) % 7, person, np.nan), "must name the group of every sample; 9 of 60 are missing"),
    ]:
        with pytest.raises(ValueError, match=message):
            planner.fit(X, y, groups)
    with pytest.raises(ValueError, match="n_samples=60 in 2 groups"):
        planner.fit(X, y, y)  # a group for each class


def test_a_table_pasted_twice_gets_a_warning_that_names_groups():
    X, y, _ = visits(60, 1)
    twice = pd.concat([X, X]), np.tile(y, 2)
    planner = planner_of()
    with pytest.warns(RepeatedRowsWarning, match="60 of the 120 rows given to DiagnosisPlanner are copies"):
        planner.fit(*twice)
    planner.fit(*twice, groups=np.tile(np.arange(60), 2))  # warnings are errors


def test_the_standard_error_is_that_of_the_groups():
    rng = np.random.default_rng(0)
    values = rng.normal(size=50)
    usual = values.std(ddof=1) / np.sqrt(50)
    assert standard_error(values) == pytest.approx(usual)
    assert standard_error(values, np.arange(50)[::-1]) == pytest.approx(usual)
    assert standard_error(np.repeat(values, 4), np.repeat(np.arange(50), 4)) == pytest.approx(usual)


def test_columns_without_a_price_are_named():
    X, y, person = visits(40, 2)
    planner = DiagnosisPlanner({"fever": 5}, **QUICK).fit(X, y, person)
    assert planner.unpriced_columns_ == ["mark 0", "mark 1", "mark 2", "mark 3"]
    assert planner_of().fit(X, y, person).unpriced_columns_ == []
