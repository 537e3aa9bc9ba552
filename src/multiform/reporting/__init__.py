"""The report: what a model does with labelled samples, as one HTML file that can be forwarded."""

from multiform.reporting._report import Report, report

__all__ = ["Report", "report"]
