"""The medical diagnosis problem (section 3.3 of the paper): the cheapest way to the full-evidence answer."""

from multiform.diagnosis._evaluation import Evaluation, EvaluationRow, nested_evaluation
from multiform.diagnosis._level import FrontierPoint
from multiform.diagnosis._patients import FewPatientsWarning, WeakEvidenceWarning
from multiform.diagnosis._plan import Acquisitions, FlowStep, Plan, flow_steps
from multiform.diagnosis._planner import DiagnosisPlanner, ThetaNotReachedWarning
from multiform.diagnosis._results import Results, StrangeResult, UnfamiliarValue
from multiform.diagnosis._search import SearchProof
from multiform.diagnosis._session import DiagnosisSession, NextEvidence, for_people
from multiform.diagnosis._tariff import PriceList, Tariff, read_costs, read_price_list

__all__ = [
    "Acquisitions",
    "DiagnosisPlanner",
    "DiagnosisSession",
    "Evaluation",
    "EvaluationRow",
    "FewPatientsWarning",
    "FlowStep",
    "FrontierPoint",
    "NextEvidence",
    "Plan",
    "PriceList",
    "Results",
    "SearchProof",
    "StrangeResult",
    "Tariff",
    "ThetaNotReachedWarning",
    "UnfamiliarValue",
    "WeakEvidenceWarning",
    "flow_steps",
    "for_people",
    "nested_evaluation",
    "read_costs",
    "read_price_list",
]
