"""scikit-learn's own checks, for every solver, with no expected failure."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from multiform import QMSClassifier


@parametrize_with_checks(
    [
        QMSClassifier(),
        QMSClassifier(solver="cpm"),
        QMSClassifier(solver="cpm-literal", n_components=2),
        QMSClassifier(early_stopping=True),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
