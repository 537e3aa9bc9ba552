"""The medical diagnosis problem (section 3.3 of the paper): the cheapest way to the full-evidence answer."""

from multiform.diagnosis._acquisitions import Acquisitions
from multiform.diagnosis._baselines import BASELINES
from multiform.diagnosis._evaluation import Evaluation, EvaluationRow
from multiform.diagnosis._level import FrontierPoint
from multiform.diagnosis._plan import Plan
from multiform.diagnosis._planner import DiagnosisPlanner, ThetaNotReachedWarning
from multiform.diagnosis._search import Certificate
from multiform.diagnosis._session import DiagnosisSession, NextEvidence
from multiform.diagnosis._tariff import Tariff

__all__ = [
    "BASELINES",
    "Acquisitions",
    "Certificate",
    "DiagnosisPlanner",
    "DiagnosisSession",
    "Evaluation",
    "EvaluationRow",
    "FrontierPoint",
    "NextEvidence",
    "Plan",
    "Tariff",
    "ThetaNotReachedWarning",
]
