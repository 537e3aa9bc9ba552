"""scikit-learn's own checks of an estimator."""

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from multiform.triage import TriageClassifier

# The checks fit on a dozen samples, from which little can be promised: the target is low on purpose.
MODEST = {"target_accuracy": 0.3, "confidence": 0.5, "random_state": 0}


@pytest.mark.filterwarnings("ignore::multiform.triage.TargetNotReachedWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        TriageClassifier(LogisticRegression(), **MODEST),
        TriageClassifier(LogisticRegression(), per_class=True, fallback=LogisticRegression(), **MODEST),
        TriageClassifier(LinearSVC(), cv=2, **MODEST),
        TriageClassifier(LogisticRegression(), by=0, set_coverage=0.5, **MODEST),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
