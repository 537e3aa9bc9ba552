"""Quadratic Multiform Separation: what is it, how far to trust that, what to measure next."""

from multiform.classifier import QMSClassifier
from multiform.classifier_cv import QMSClassifierCV

__all__ = ["QMSClassifier", "QMSClassifierCV", "__version__"]

__version__ = "0.1.0"
