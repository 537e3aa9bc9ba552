"""From a fitted model to JSON and arrays, and back: plain values, arrays, and the classes of `_kinds`, nothing else.

A value is written as

    None, bool, int, float, str, list      as JSON has them
    NaN and the infinities                 {"float": "nan"}
    tuple                                  {"tuple": [...]}
    dict                                   {"dict": [[key, value], ...]}
    NumPy scalar                           {"scalar": "float64", "value": ...}
    array of numbers                       {"array": NAME, "order": "C" or "F"}, the numbers in the arrays' part
    array of text or of plain values       {"values": [...], "shape": [...], "dtype": "U7" or "object"}
    object of a known class                {"kind": NAME, "id": NUMBER, "params": {...}, "state": {...}}
    the same object once more              {"same": NUMBER}

Reading makes only these. No name is imported, and nothing is called, because a file says so.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from multiform._typing import Array
from multiform.files._container import Arrays, ModelFileError
from multiform.files._kinds import KINDS, kind_of, made, parts_of

NUMBERS = frozenset(
    ["bool", "float16", "float32", "float64"] + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)
MOST_DEPTH = 64
MOST_PADDING = 10_000_000  # characters that an array of text may be wider than its longest entry, in total


class TreeWriter:
    """Writes values as JSON; the arrays gather in `arrays`."""

    def __init__(self) -> None:
        self.arrays: Arrays = {}
        self._seen_arrays: dict[int, str] = {}
        self._seen_objects: dict[int, int] = {}
        self._kept: list[Any] = []  # an id is unique only while its object lives

    def write(self, value: Any, where: str) -> Any:
        """`where` is what an error calls the value, as "estimator of LoyaltyClassifier"."""
        if value is None or isinstance(value, bool | str) or type(value) is int:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, np.generic) and value.dtype.name in NUMBERS:
            return {"scalar": value.dtype.name, "value": self.write(value.item(), where)}
        if isinstance(value, np.str_):
            return str(value)
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if type(value) is list:
            return [self.write(entry, where) for entry in value]
        if type(value) is tuple:
            return {"tuple": [self.write(entry, where) for entry in value]}
        if type(value) is dict:
            return {"dict": [[self.write(key, where), self.write(entry, where)] for key, entry in value.items()]}
        return self._object(value, where)

    def _array(self, array: Array, where: str) -> dict[str, Any]:
        if array.dtype.name in NUMBERS:
            # An array in column order stays so: another order can round a product otherwise.
            column_order = array.flags.f_contiguous and not array.flags.c_contiguous
            if id(array) not in self._seen_arrays:
                name = self._seen_arrays[id(array)] = f"{len(self.arrays)} {where}"
                self.arrays[name] = np.array(array.T if column_order else array, order="C")
                self._kept.append(array)
            return {"array": self._seen_arrays[id(array)], "order": "F" if column_order else "C"}
        if array.dtype.kind not in "UO":
            raise TypeError(
                f"{where} is an array of {array.dtype}, which model files do not hold; use numbers or text."
            )
        values = [self.write(entry, where) for entry in array.reshape(-1).tolist()]
        if any(isinstance(entry, list | dict) and "float" not in entry for entry in values):
            raise TypeError(f"{where} is an array of objects, which model files do not hold; use numbers or text.")
        dtype = "object" if array.dtype.kind == "O" else f"U{array.dtype.itemsize // 4}"
        return {"values": values, "shape": list(array.shape), "dtype": dtype}

    def _object(self, value: Any, where: str) -> dict[str, Any]:
        if id(value) in self._seen_objects:
            return {"same": self._seen_objects[id(value)]}
        kind = kind_of(value, where)
        number = self._seen_objects[id(value)] = len(self._seen_objects)
        self._kept.append(value)
        parts = {
            part: {name: self.write(entry, f"{name} of {kind}") for name, entry in entries.items()}
            for part, entries in parts_of(kind, value).items()
        }
        return {"kind": kind, "id": number, **parts}


class TreeReader:
    """Reads what `TreeWriter` wrote; `name` is what errors call the file."""

    def __init__(self, arrays: Arrays, name: str) -> None:
        self._arrays, self._name = arrays, name
        self._ordered: dict[str, Array] = {}
        self._objects: dict[int, Any] = {}
        self._depth = 0

    def read(self, node: Any) -> Any:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise self._damaged("its parts are nested too deeply")
        try:
            return self._read(node)
        finally:
            self._depth -= 1

    def _read(self, node: Any) -> Any:
        if node is None or isinstance(node, bool | int | float | str):
            return node
        if isinstance(node, list):
            return [self.read(entry) for entry in node]
        match node:
            case {"kind": str(kind), "id": int(number), **parts}:
                return self._object(kind, number, {str(part): entries for part, entries in parts.items()})
            case {"same": int(number)} if number in self._objects:
                return self._objects[number]
            case {"array": str(name), "order": "C" | "F" as order} if name in self._arrays:
                return self._array(name, order)
            case {"tuple": [*entries]}:
                return tuple(self.read(entry) for entry in entries)
            case {"dict": [*pairs]}:
                return {self._key(key): self.read(entry) for key, entry in pairs}
            case {"float": "nan" | "inf" | "-inf" as text}:
                return float(text)
            case {"scalar": str(dtype), "value": value} if dtype in NUMBERS:
                return np.dtype(dtype).type(self.read(value))
            case {"values": [*values], "shape": [*shape], "dtype": str(dtype)}:
                return self._values(values, shape, dtype)
        raise self._damaged(f"it holds something unknown, {str(node)[:60]!r}")

    def _key(self, node: Any) -> Any:
        key = self.read(node)
        if not (key is None or isinstance(key, bool | int | float | str | np.generic)):
            raise self._damaged(f"a key is {str(key)[:60]!r}")
        return key

    def _array(self, name: str, order: str) -> Array:
        if order == "C":
            return self._arrays[name]
        if name not in self._ordered:
            self._ordered[name] = self._arrays[name].T
        return self._ordered[name]

    def _values(self, values: list[Any], shape: list[Any], dtype: str) -> Array:
        entries = [self.read(entry) for entry in values]
        if not all(isinstance(size, int) and size >= 0 for size in shape) or math.prod(shape) != len(entries):
            raise self._damaged(f"{len(entries)} values do not have the shape {shape}")
        if dtype == "object":
            if not all(entry is None or isinstance(entry, bool | int | float | str) for entry in entries):
                raise self._damaged("an array of values holds something else")
            array = np.empty(len(entries), dtype=object)
            array[:] = entries
            return array.reshape(shape)
        if not all(isinstance(entry, str) for entry in entries) or not (dtype[:1] == "U" and dtype[1:].isdigit()):
            raise self._damaged(f"an array of {dtype} holds something else")
        longest = max(map(len, entries), default=0)
        width = int(dtype[1:])
        if width < longest or width * len(entries) > MOST_PADDING:
            width = longest
        return np.array(entries, dtype=f"U{max(width, 1)}").reshape(shape)

    def _object(self, kind: str, number: int, parts: dict[str, Any]) -> Any:
        if kind not in KINDS:
            raise self._damaged(f"it holds an object of the unknown kind {kind[:60]!r}")
        if number in self._objects:
            raise self._damaged(f"two of its objects have the number {number}")
        if parts.keys() != {"params", "state"}:
            raise self._damaged(f"{kind} has other parts than params and state")
        read = {}
        for part, entries in parts.items():
            if not isinstance(entries, dict):
                raise self._damaged(f"{part} of {kind} is not an object")
            read[part] = {name: self.read(entry) for name, entry in entries.items()}
        self._objects[number] = made(kind, read["params"], read["state"])
        return self._objects[number]

    def _damaged(self, what: str) -> ModelFileError:
        return ModelFileError(f"{self._name} is damaged: {what}.")
