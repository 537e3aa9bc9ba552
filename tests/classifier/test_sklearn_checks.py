"""scikit-learn's own checks, for every solver."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from multiform import QMSClassifier

# As for SGDClassifier and HistGradientBoostingClassifier in scikit-learn's own suite: weighting and repeating agree
# statistically (test_weights.py), not to 1e-7, as minibatches and what is held out for calibration are drawn at random.
STOCHASTIC = {
    f"check_sample_weight_equivalence_on_{kind}_data": "minibatches and folds at random, equal in distribution only"
    for kind in ("dense", "sparse")
}


@parametrize_with_checks(
    [
        QMSClassifier(),
        QMSClassifier(solver="cpm"),
        QMSClassifier(solver="cpm-literal", n_components=2),
    ],
    expected_failed_checks=lambda _: STOCHASTIC,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
