"""How the report was made: the model and its settings, the versions, the seed, the command, the day."""

from __future__ import annotations

import inspect
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from sklearn.pipeline import Pipeline

from multiform.reporting._answers import layers

PACKAGES = ("multiform", "numpy", "scipy", "scikit-learn", "matplotlib")


def provenance(model: Any, X: Any, command: str | Sequence[str] | None) -> dict[str, Any]:
    """What somebody needs to make the report again: of the model, only parameters that are not the default."""
    parts = [part for part, _ in layers(model, X)]
    seeds = [part.random_state for part in parts if getattr(part, "random_state", None) is not None]
    return {
        "day": datetime.now(UTC).strftime("%Y-%m-%d"),
        "command": command if command is None or isinstance(command, str) else " ".join(command),
        "seed": str(seeds[0]) if seeds else "none was set",
        "models": [(type(part).__name__, _changed(part)) for part in parts],
        "versions": [("Python", platform.python_version()), *((package, _version(package)) for package in PACKAGES)],
        "machine": f"{platform.system()} {platform.machine()}",
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # running from a source folder
        from multiform import __version__

        return __version__


def _changed(part: Any) -> dict[str, str]:
    """The parameters that are not the default; estimators inside have an entry of their own."""
    if isinstance(part, Pipeline):
        return {"steps": ", ".join(name for name, _ in part.steps)}
    if not hasattr(part, "get_params"):
        return {}
    signature = inspect.signature(type(part)).parameters
    given = part.get_params(deep=False)
    return {
        name: repr(value)
        for name, value in given.items()
        if not hasattr(value, "fit") and repr(value) != repr(signature[name].default)
    }
