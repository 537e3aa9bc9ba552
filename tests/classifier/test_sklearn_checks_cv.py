"""scikit-learn's own checks for QMSClassifierCV."""

from sklearn.naive_bayes import GaussianNB
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from multiform import QMSClassifierCV
from multiform.tables import TableClassifier

from .test_sklearn_checks import STOCHASTIC


@parametrize_with_checks(
    [
        QMSClassifierCV(),
        QMSClassifierCV(noise=(0.3, 1.0), cv=3),
        QMSClassifierCV(noise=(1.0,), cv=3, max_iter=5, partners="forests"),
        QMSClassifierCV(noise=(1.0,), cv=3, max_iter=5, partners=[GaussianNB()]),
    ],
    expected_failed_checks=lambda _: STOCHASTIC,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_tags_say_what_X_may_be():
    for partners, sparse in (("auto", True), (None, True), ([], True), ("forests", False), ([GaussianNB()], False)):
        assert get_tags(QMSClassifierCV(partners=partners)).input_tags.sparse == sparse
    assert get_tags(QMSClassifierCV()).input_tags.allow_nan
    assert get_tags(QMSClassifierCV()).input_tags.categorical
    assert not get_tags(QMSClassifierCV(missing="refuse")).input_tags.allow_nan
    of_tables = get_tags(TableClassifier()).input_tags
    assert of_tables.allow_nan
    assert of_tables.categorical
    assert of_tables.string
