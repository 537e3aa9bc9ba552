"""The description of the interface, OpenAPI 3.1."""

from __future__ import annotations

from typing import Any

from multiform._version import __version__
from multiform.web._model import PlanModel, TableModel


def description(model: PlanModel | TableModel) -> dict[str, Any]:
    """What can be asked of this model."""
    return {"openapi": "3.1.0", "info": {"title": model.name, "version": __version__}, "paths": {}}
