"""The kernels' sources: their text, and the structures that their arguments are."""

from __future__ import annotations

import functools
import re
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["argument_layout", "source_text"]

_INCLUDE = re.compile(r'^#include "(\w+\.cuh)"$', re.MULTILINE)
_FIELD = re.compile(r"^\s*(?:const )?(\w+)(\*?) (\w+);", re.MULTILINE)
_TYPES = {"int64": np.int64, "float": np.float32}


@functools.cache
def source_text(name: str) -> str:
    """One of our files, with what it includes put in place: one text, all of which a cache of compiled code sees."""
    text = resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda match: source_text(match[1]), text)


@functools.cache
def argument_layout(name: str, structure: str) -> npt.NDArray[Any]:
    """An empty argument: the structure as the source declares it, so that the two cannot differ.

    >>> argument_layout("values.cu", "Values").dtype.names[:2]
    ('rows', 'pitch')
    """
    body = re.search(rf"struct {structure} {{(.*?)\n}};", source_text(name), re.DOTALL)
    if body is None:
        raise ValueError(f"{name} declares no structure {structure}.")
    fields: list[tuple[str, Any]] = [
        (field, np.uint64 if pointer else _TYPES[kind]) for kind, pointer, field in _FIELD.findall(body[1])
    ]
    return np.zeros(1, dtype=np.dtype(fields, align=True))
