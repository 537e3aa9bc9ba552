"""All cases: the files that define them are imported here."""

from tests.behaviour import (  # noqa: F401
    command_line,
    cv,
    diagnosis,
    elsewhere,
    geometry,
    images,
    loyalty,
    metrics,
    qms,
    tables,
    triage,
)
from tests.behaviour.registry import CASES

__all__ = ["CASES"]
