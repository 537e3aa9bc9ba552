"""The kernels' sources: their text, and the structures that their arguments are."""

from __future__ import annotations

import functools
import re
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

_INCLUDE = re.compile(r'^#include "(\w+\.cuh)"$', re.MULTILINE)
_FIELD = re.compile(r"^\s*(?:const )?(\w+)(\*?) (\w+);", re.MULTILINE)
_TYPES = {"int64": np.int64, "float": np.float32}


@functools.cache
def source_text(name: str) -> str:
    """One of our files, with what it includes put in place: one text, all of which a cache of compiled code sees."""
    text = resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda match: source_text(match[1]), text)


def source_number(name: str, constant: str) -> int:
    """A constant that launches and kernels must agree on, from where the source has it.

    >>> source_number("common.cuh", "kRowsTile")
    32
    """
    found = re.search(rf"^constexpr int {constant} = (\d+);", source_text(name), re.MULTILINE)
    if found is None:
        raise ValueError(f"{name} declares no constant {constant}.")
    return int(found[1])


@functools.cache
def argument_layout(name: str, structure: str) -> npt.NDArray[Any]:
    """An empty argument: the structure as the source declares it, so that the two cannot differ.

    >>> argument_layout("values.cu", "Values").dtype.names[:2]
    ('rows', 'pitch')
    """
    dtype = np.dtype(_fields(source_text(name), name, structure), align=True)
    return np.zeros(1, dtype=dtype)


def _fields(text: str, name: str, structure: str) -> list[tuple[str, Any]]:
    """Those of its base come first, as the compiler has them."""
    found = re.search(rf"^struct {structure}(?: : (\w+))? {{(.*?)\n}};", text, re.DOTALL | re.MULTILINE)
    if found is None:
        raise ValueError(f"{name} declares no structure {structure}.")
    base, body = found.groups()
    inherited = [] if base is None else _fields(text, name, base)
    return inherited + [
        (field, np.uint64 if pointer else _TYPES[kind]) for kind, pointer, field in _FIELD.findall(body)
    ]
