"""Quadratic Multiform Separation: what is it, how far to trust that, what to measure next."""

from multiform.classifier import QMSClassifier

__all__ = ["QMSClassifier", "__version__"]

__version__ = "0.1.0"
