"""Triage: accept the answers that can be trusted, with a promise about them, and defer the rest."""

from multiform.triage._certify import Certificate, samples_needed
from multiform.triage._classifier import TargetNotReachedWarning, TriageClassifier
from multiform.triage._report import TriageReport

__all__ = ["Certificate", "TargetNotReachedWarning", "TriageClassifier", "TriageReport", "samples_needed"]
