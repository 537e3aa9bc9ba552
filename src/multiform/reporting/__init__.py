"""The report: what a model does with labelled samples, as one HTML file that can be forwarded."""

from multiform.reporting._importance import Importances, importances
from multiform.reporting._report import Report, report

__all__ = ["Importances", "Report", "importances", "report"]
