"""Quadratic Multiform Separation: what is it, how far to trust that, what to measure next."""

from typing import Any

from multiform._version import __version__
from multiform.classifier import QMSClassifier
from multiform.classifier_cv import QMSClassifierCV
from multiform.diagnosis import DiagnosisPlanner
from multiform.files import load, save
from multiform.loyalty import LoyaltyClassifier
from multiform.triage import TriageClassifier

__all__ = [
    "DiagnosisPlanner",
    "LoyaltyClassifier",
    "QMSClassifier",
    "QMSClassifierCV",
    "TriageClassifier",
    "__version__",
    "load",
    "report",
    "save",
]


def __getattr__(name: str) -> Any:
    """The report is imported when it is asked for: it needs more of scikit-learn than a model does."""
    if name == "report":
        from multiform.reporting import report

        return report
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
