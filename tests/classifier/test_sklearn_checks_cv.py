"""scikit-learn's own checks for QMSClassifierCV."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from multiform import QMSClassifierCV

from .test_sklearn_checks import STOCHASTIC


@parametrize_with_checks(
    [QMSClassifierCV(), QMSClassifierCV(noise=(0.3, 1.0), cv=3)], expected_failed_checks=lambda _: STOCHASTIC
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
