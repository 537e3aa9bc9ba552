"""Quadratic Multiform Separation: what is it, how far to trust that, what to measure next."""

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
    "save",
]

__version__ = "0.1.0"
