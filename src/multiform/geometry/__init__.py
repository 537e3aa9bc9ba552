"""The geometry of Quadratic Multiform Separation: the paper's section 2.1 and Appendix A as working code."""

from .appendix import (
    CyclicConditionError,
    NotNonnegativeError,
    PropertyAReport,
    cyclic_violation,
    difference_of_members,
    has_property_a,
    member_from_polynomial,
    pairwise_from_separators,
    project_to_cyclic,
    property_a_report,
    separators_from_pairwise,
)
from .bridges import qms_from_estimator, qms_from_separators, separators_behind, separators_from_estimator
from .decisions import Contributions, Counterfactuals, certified_radius, counterfactuals, feature_contributions
from .display import SeparatorDisplay
from .quadratics import MemberFunction, QuadraticPolynomial
from .quadric import nearest_sign_change
from .separators import Separators

__all__ = [
    "Contributions",
    "Counterfactuals",
    "CyclicConditionError",
    "MemberFunction",
    "NotNonnegativeError",
    "PropertyAReport",
    "QuadraticPolynomial",
    "SeparatorDisplay",
    "Separators",
    "certified_radius",
    "counterfactuals",
    "cyclic_violation",
    "difference_of_members",
    "feature_contributions",
    "has_property_a",
    "member_from_polynomial",
    "nearest_sign_change",
    "pairwise_from_separators",
    "project_to_cyclic",
    "property_a_report",
    "qms_from_estimator",
    "qms_from_separators",
    "separators_behind",
    "separators_from_estimator",
    "separators_from_pairwise",
]
