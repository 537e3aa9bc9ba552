"""Quadratic Multiform Separation: what is it, how far to trust that, what to measure next.

Everything is imported when it is asked for: a command that prints its help needs no scikit-learn.
"""

from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from multiform._version import __version__

if TYPE_CHECKING:
    from multiform import columns, diagnosis, files, metrics, runtime, tables  # noqa: F401
    from multiform.classifier import QMSClassifier
    from multiform.classifier_cv import QMSClassifierCV
    from multiform.diagnosis import DiagnosisPlanner
    from multiform.files import load, save
    from multiform.loyalty import LoyaltyClassifier
    from multiform.reporting import report
    from multiform.triage import TriageClassifier

__all__ = [
    "DiagnosisPlanner",
    "LoyaltyClassifier",
    "QMSClassifier",
    "QMSClassifierCV",
    "TriageClassifier",
    "__version__",
    "load",
    "report",
    "save",
]

_HOMES = {  # name -> the room that it comes from
    "DiagnosisPlanner": "diagnosis",
    "LoyaltyClassifier": "loyalty",
    "QMSClassifier": "classifier",
    "QMSClassifierCV": "classifier_cv",
    "TriageClassifier": "triage",
    "load": "files",
    "report": "reporting",
    "save": "files",
}


def __getattr__(name: str) -> Any:
    """What a name of `__all__` stands for; or a room, as ``multiform.metrics``."""
    if name in _HOMES:
        found = globals()[name] = getattr(import_module(f"multiform.{_HOMES[name]}"), name)
        return found
    if not name.startswith("_") and find_spec(f"multiform.{name}") is not None:
        return import_module(f"multiform.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    rooms = (found.name for found in iter_modules(__path__) if not found.name.startswith("_"))
    return sorted({*globals(), *__all__, *rooms})
