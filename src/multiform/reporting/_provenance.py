"""How the report was made: the model and its settings, the versions, the seed, the command, the day."""

from __future__ import annotations

import inspect
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from sklearn.pipeline import Pipeline

from multiform.reporting._answers import layers

__all__ = ["Provenance", "provenance"]

PACKAGES = ("multiform", "numpy", "scipy", "scikit-learn", "matplotlib")


@dataclass(frozen=True)
class Provenance:
    """What somebody needs to make the report again.

    Attributes
    ----------
    day : str
    command : str or None
    seed : str
    models : list of (class name, {parameter: value})
        The model and what it is wrapped around; only parameters that are not the default.
    versions : list of (package, version)
    machine : str
    """

    day: str
    command: str | None
    seed: str
    models: list[tuple[str, dict[str, str]]]
    versions: list[tuple[str, str]]
    machine: str


def provenance(model: Any, X: Any, command: str | Sequence[str] | None) -> Provenance:
    """Look at the model and at this machine."""
    parts = [part for part, _ in layers(model, X)]
    settings = [(type(part).__name__, _changed(part)) for part in parts]
    seeds = [part.random_state for part in parts if getattr(part, "random_state", None) is not None]
    return Provenance(
        datetime.now(UTC).strftime("%Y-%m-%d"),
        command if command is None or isinstance(command, str) else " ".join(command),
        str(seeds[0]) if seeds else "none was set",
        settings,
        [("Python", platform.python_version()), *_versions()],
        f"{platform.system()} {platform.machine()}",
    )


def _versions() -> list[tuple[str, str]]:
    found = []
    for package in PACKAGES:
        try:
            found.append((package, version(package)))
        except PackageNotFoundError:  # running from a source folder
            from multiform._version import __version__

            found.append((package, __version__))
    return found


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
