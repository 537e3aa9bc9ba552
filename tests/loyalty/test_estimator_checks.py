"""scikit-learn's own checks of an estimator."""

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from multiform.loyalty import LoyaltyClassifier

# So few samples are one batch, so that weighting and repeating are the same, but sums are made in another order.
SINGLE_PRECISION = {
    f"check_sample_weight_equivalence_on_{kind}_data": "equal in single precision only" for kind in ("dense", "sparse")
}


@parametrize_with_checks([LoyaltyClassifier(random_state=0)], expected_failed_checks=lambda estimator: SINGLE_PRECISION)
def test_around_qms(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([LoyaltyClassifier(LogisticRegression(), cv=2)])
def test_around_logistic_regression(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([LoyaltyClassifier(LogisticRegression(), beta=[0.01, 0.1], gamma=[5, 20], cv=2)])
def test_ladders(estimator, check):
    check(estimator)
