"""The loyalty extraction machine (section 3 of the paper): how far each answer of a classifier can be trusted."""

from multiform.loyalty._alterations import Alterations, level_names, loyalty_levels
from multiform.loyalty._classifier import Assessment, LoyaltyClassifier
from multiform.loyalty._committee import LEAST_CHANCE, answers_of
from multiform.loyalty._score import LEAD, MOST_GAPS
from multiform.loyalty._training import quadratic_committees

__all__ = [
    "LEAD",
    "LEAST_CHANCE",
    "MOST_GAPS",
    "Alterations",
    "Assessment",
    "LoyaltyClassifier",
    "answers_of",
    "level_names",
    "loyalty_levels",
    "quadratic_committees",
]
