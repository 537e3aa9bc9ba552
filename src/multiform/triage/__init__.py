"""Triage: accept the answers that can be trusted, with a promise about them, and defer the rest."""

from multiform.triage._certify import Certificate, Claim, certify_in_turn, samples_needed
from multiform.triage._classifier import TargetNotReachedWarning, TriageClassifier
from multiform.triage._report import TriageReport

__all__ = [
    "Certificate",
    "Claim",
    "TargetNotReachedWarning",
    "TriageClassifier",
    "TriageReport",
    "certify_in_turn",
    "samples_needed",
]
