"""Are the estimates honest? Many training sets from one known source, judged on a large fresh sample of it."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from multiform import QMSClassifier
from multiform.loyalty import LoyaltyClassifier
from multiform.metrics import aurc, loyalty_table

N_FRESH = 20_000


def draw(n, random):
    """Three overlapping classes, one of them of two parts, in five dimensions."""
    y = random.integers(0, 3, n)
    center = np.array([[0, 0], [2.2, 0], [0, 2.2]])[y] + (y == 0)[:, None] * random.choice([0, 2.2], (n, 1))
    return np.hstack([center, np.zeros((n, 3))]) + random.normal(size=(n, 5)), y


@pytest.fixture(scope="module", params=["qms", "logistic regression"])
def repetitions(request):
    """What 20 machines estimated, and what came true."""
    found = []
    for repeat in range(20):
        random = np.random.default_rng(repeat)
        X, y = draw(600, random)
        fresh, truth = draw(N_FRESH, random)
        estimator = QMSClassifier(random_state=repeat) if request.param == "qms" else LogisticRegression()
        model = LoyaltyClassifier(estimator, beta=0.2, gamma=5.0, random_state=repeat).fit(X, y)
        told = model.assess(fresh)
        chance = model.predict_proba(fresh).max(axis=1)
        found.append((model, loyalty_table(truth, told.label, told.loyalty), told, truth, chance))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("column", ["share", "accuracy"])
def test_cross_fitted_tables_are_honest(repetitions, column):
    """The mean error of 20 estimates lies within three of its standard errors plus one point for the smaller folds."""
    errors = np.array(
        [getattr(model.loyalty_table_, column) - getattr(true, column) for model, true, *_ in repetitions]
    )
    for level in range(2):  # strong and normal; weak samples are too few
        error = errors[:, level]
        assert abs(error.mean()) < 3 * error.std(ddof=1) / np.sqrt(len(error)) + 0.01


@pytest.mark.slow
def test_training_tables_flatter(repetitions):
    gaps = [model.training_table_.overall_accuracy - true.overall_accuracy for model, true, *_ in repetitions]
    unseen = [model.loyalty_table_.overall_accuracy - true.overall_accuracy for model, true, *_ in repetitions]
    assert np.mean(gaps) > np.mean(unseen)


@pytest.mark.slow
def test_types_are_ordered_by_accuracy(repetitions):
    assert all(true.accuracy[0] > true.accuracy[1] for _, true, *_ in repetitions)


@pytest.mark.slow
def test_scores_are_chances(repetitions):
    """In each fifth of the scores the mean score is the accuracy, on the average over machines.

    Within 3.5 points: 600 samples are few for the regression, and fold models are a little worse than the final ones.
    """
    gaps = []
    for _, _, told, truth, _ in repetitions:
        order = np.argsort(told.score)
        right = told.label == truth
        gaps.append([told.score[part].mean() - right[part].mean() for part in np.array_split(order, 5)])
    assert np.abs(np.mean(gaps, axis=0)).max() < 0.035


@pytest.mark.slow
def test_scores_rank_no_worse_than_top_probability(repetitions):
    areas = [
        (aurc(truth, told.label, told.score), aurc(truth, told.label, chance))
        for _, _, told, truth, chance in repetitions
    ]
    score, top = np.mean(areas, axis=0)
    assert score < 1.02 * top
