r"""The bytes of a model file: a header of fixed length, then JSON, then arrays.

    offset  length  what
         0       8  ``\x89MFM\r\n\x1a\n``: no text file begins so, and a transfer that changes line ends is noticed
         8       4  format version, little-endian
        12      32  SHA-256 of everything else: the 12 bytes before it and all bytes after it
        44       8  length of the JSON text, little-endian
        52       n  JSON, UTF-8
    52 + n          arrays in the safetensors format, to the end of the file

The first 44 bytes are the same in every version, so that a newer file is told from a damaged one.

A fitted model is plain values, arrays, and objects of the classes of two tables, nothing else. In JSON, a value is

    None, bool, int, float, str, list      as JSON has them
    NaN and the infinities                 {"float": "nan"}
    tuple                                  {"tuple": [...]}
    dict                                   {"dict": [[key, value], ...]}
    NumPy scalar                           {"scalar": "float64", "value": ...}
    array of numbers                       {"array": NAME, "order": "C" or "F"}, the numbers in the arrays' part
    array of text or of plain values       {"values": [...], "shape": [...], "dtype": "U7" or "object"}
    object of a known class                {"kind": NAME, "id": NUMBER, "params": {...}, "state": {...}}
    the same object once more              {"same": NUMBER}

Reading makes only these. No name is imported, and nothing is called, because a file says so: `OURS` and `OF_OTHERS` are
all classes that a file may hold. It names a kind; where its class lives is said here. An estimator of ours is its
parameters and what its `_get_state` says, plain values; it is made by its constructor, and its `_set_state` checks what
it is given. Of scikit-learn's only what it documents is written, as that outlives its own attributes: parameters that
differ from their defaults, and public fitted attributes.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
from typing import Any

import numpy as np

from multiform._typing import Array
from multiform.files._objects import KINDS, kind_of, made, parts_of
from multiform.state import Allowance

FORMAT_VERSION = 2
FIRST_VERSION = 2  # nothing that was released wrote format 1

MAGIC = b"\x89MFM\r\n\x1a\n"
VERSION = struct.Struct("<I")
LENGTH = struct.Struct("<Q")
DIGEST_AT = len(MAGIC) + VERSION.size
BODY_AT = DIGEST_AT + hashlib.sha256().digest_size
JSON_AT = BODY_AT + LENGTH.size

Arrays = dict[str, Array]

NUMBERS = frozenset(
    ["bool", "float16", "float32", "float64"] + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)
WHOLE = -(2**63), 2**64 - 1  # what a whole number may be
MOST_DEPTH = 64
MOST_PADDING = 100_000, 16  # characters of an array of text in memory, and times those that it has; else of objects
VALUE, OBJECT = 16, 8192  # bytes that a value and an object count for
NESTED = 3  # times as much for an object inside another: scikit-learn's `repr` tries each level more than once


class ModelFileError(ValueError):
    """A file that is not a model file, is damaged, or newer than this version of multiform; its sentence says which."""


def damaged(name: str, what: str) -> ModelFileError:
    """The error; `name` is what errors call the file."""
    return ModelFileError(f"{name} is damaged: {what}.")


def pack(header: dict[str, Any], arrays: Arrays) -> bytes:
    """The bytes of a file."""
    text = json.dumps(header, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    start = MAGIC + VERSION.pack(FORMAT_VERSION)
    body: bytes = LENGTH.pack(len(text)) + text + _safetensors().save(arrays)
    return start + hashlib.sha256(start + body).digest() + body


def check_start(start: bytes, name: str) -> None:
    """Whether a file begins as ours do; `start` is its first `JSON_AT` bytes, `name` what errors call it."""
    if not start.startswith(MAGIC):
        what = "is empty" if not start else "is not a model file of multiform"
        if 0 < len(start) < len(MAGIC) and MAGIC.startswith(start):
            what = "is truncated"
        raise ModelFileError(f"{name} {what}; `multiform fit` and `multiform.save` write such files.")
    if len(start) < JSON_AT:
        raise ModelFileError(f"{name} is truncated: it ends after {len(start)} bytes. Copy it again from its source.")


def unpack(content: bytes, name: str) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays; `name` is what errors call the file."""
    check_start(content[:JSON_AT], name)
    (version,) = VERSION.unpack_from(content, len(MAGIC))
    found = hashlib.sha256(content[:DIGEST_AT])
    found.update(memoryview(content)[BODY_AT:])
    if found.digest() != content[DIGEST_AT:BODY_AT]:
        raise ModelFileError(
            f"{name} is damaged or truncated: its checksum does not agree with its content. "
            "Copy it again from its source."
        )
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{name} has format {version}, and this version of multiform reads formats up to {FORMAT_VERSION}: "
            "install a newer multiform."
        )
    if version < FIRST_VERSION:
        raise ModelFileError(
            f"{name} has format {version}, which no released version of multiform wrote: fit the model again."
        )
    (length,) = LENGTH.unpack_from(content, BODY_AT)
    if length > len(content) - JSON_AT:
        raise damaged(name, f"it says that its description has {length} bytes, which it has not")
    try:
        Allowance(len(content)).spend(_values_in(content[JSON_AT : JSON_AT + length]), "its description")
        text = content[JSON_AT : JSON_AT + length].decode("utf-8")
        header = json.loads(text, parse_constant=_no_number)
        if "\\u" in text:
            json.dumps(header, ensure_ascii=False).encode("utf-8")  # half a character, which JSON can say, is no text
    except (ValueError, RecursionError) as error:
        raise damaged(name, f"its description cannot be read ({error})") from error
    if not isinstance(header, dict):
        raise damaged(name, "its description is not a JSON object")
    library = _safetensors()
    try:
        arrays: Arrays = library.load(content[JSON_AT + length :])
    except Exception as error:  # whatever the library says of bytes that are not its own
        raise damaged(name, f"its arrays cannot be read ({error})") from error
    # Ours to change, as a fitted model's arrays are.
    return header, {key: array if array.flags.writeable else array.copy() for key, array in arrays.items()}


def _values_in(text: bytes) -> int:
    """About how many bytes the values of a JSON text take in memory, found without reading it."""
    return 64 * (text.count(b",") + text.count(b"[") + 4 * text.count(b"{"))


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number")


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError as error:
        raise ImportError('Model files need safetensors; install it with pip install "multiform[files]".') from error
    if not np.little_endian:
        raise RuntimeError("Model files are read and written on little-endian machines only.")
    return safetensors.numpy


# ---------------------------------------------------------------------------------------------------------------- tree


class TreeWriter:
    """Writes values as JSON; the arrays gather in `arrays`."""

    def __init__(self) -> None:
        self.arrays: Arrays = {}
        self._n_objects = 0
        # How arrays and objects are written once more; kept themselves, as an id is unique only while its object lives.
        self._seen: dict[int, tuple[Any, dict[str, Any]]] = {}

    def write(self, value: Any, where: str) -> Any:
        """`where` is what an error calls the value, as "estimator of LoyaltyClassifier"."""
        if value is None or isinstance(value, bool | str):
            return value
        if type(value) is int:
            if not WHOLE[0] <= value <= WHOLE[1]:
                raise TypeError(f"{where} is a whole number of more than 64 bits, which model files do not hold.")
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, np.generic) and value.dtype.name in NUMBERS:
            return {"scalar": value.dtype.name, "value": self.write(value.item(), where)}
        if isinstance(value, np.str_):
            return str(value)
        if id(value) in self._seen:
            return self._seen[id(value)][1]
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
            name = f"{len(self.arrays)} {where}"
            self.arrays[name] = np.array(array.T if column_order else array, order="C")
            node = {"array": name, "order": "F" if column_order else "C"}
            self._seen[id(array)] = array, node
            return node
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
        kind, number = kind_of(value, where), self._n_objects
        self._seen[id(value)] = value, {"same": number}
        self._n_objects += 1
        parts = {
            part: {name: self.write(entry, f"{name} of {kind}") for name, entry in entries.items()}
            for part, entries in parts_of(kind, value).items()
        }
        return {"kind": kind, "id": number, **parts}


class TreeReader:
    """Reads what `TreeWriter` wrote; `name` is what errors call the file.

    What is read counts against the allowance as if it were all written out: an array or an object that is meant once
    more counts once more, and an object the more the deeper it is. So nothing that goes through a model part by part,
    as `repr` does, can take for ever.
    """

    def __init__(self, arrays: Arrays, name: str, allowance: Allowance) -> None:
        self._arrays, self._name, self._allowance = arrays, name, allowance
        self._ordered: dict[tuple[str, str], Array] = {}  # so that one array stays one
        self._objects: dict[int, tuple[Any, int, int]] = {}  # what each has cost, and how many objects were around it
        self._spent = self._depth = self._around = 0

    def _spend(self, n_bytes: int, what: str) -> None:
        self._spent += n_bytes
        self._allowance.spend(n_bytes, what)

    def read(self, node: Any) -> Any:
        self._depth += 1
        self._spend(VALUE, "its values")
        if self._depth > MOST_DEPTH:
            raise damaged(self._name, "its parts are nested too deeply")
        try:
            return self._read(node)
        finally:
            self._depth -= 1

    def _read(self, node: Any) -> Any:
        if isinstance(node, int) and not WHOLE[0] <= node <= WHOLE[1]:
            raise damaged(self._name, "it holds a whole number of more than 64 bits")
        if node is None or isinstance(node, bool | int | float | str):
            return node
        if isinstance(node, list):
            return [self.read(entry) for entry in node]
        match node:
            case {"kind": str(kind), "id": int(number), **parts}:
                return self._object(kind, number, {str(part): entries for part, entries in parts.items()})
            case {"same": int(number)} if number in self._objects:
                found, cost, around = self._objects[number]
                self._spend(cost * NESTED ** max(0, self._around - around), "its parts, written out,")
                return found
            case {"array": str(name), "order": "C" | "F" as order} if name in self._arrays:
                array = self._arrays[name]
                # A length is believed where there are numbers; without any it could be what it likes.
                self._spend(array.nbytes + (0 if array.size else 8 * sum(array.shape)), "its arrays")
                return self._ordered.setdefault((name, order), array.T if order == "F" else array)
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
        raise damaged(self._name, f"it holds something unknown, {str(node)[:60]!r}")

    def _key(self, node: Any) -> Any:
        key = self.read(node)
        if not (key is None or isinstance(key, bool | int | float | str | np.generic)):
            raise damaged(self._name, f"a key is {str(key)[:60]!r}")
        return key

    def _values(self, values: list[Any], shape: list[Any], dtype: str) -> Array:
        entries = [self.read(entry) for entry in values]
        if not all(isinstance(size, int) and 0 <= size <= len(entries) for size in shape) or len(shape) > 2:
            raise damaged(self._name, f"{len(entries)} values do not have the shape {str(shape)[:60]}")
        if math.prod(shape) != len(entries):
            raise damaged(self._name, f"{len(entries)} values do not have the shape {shape}")
        if dtype == "object":
            if not all(entry is None or isinstance(entry, bool | int | float | str) for entry in entries):
                raise damaged(self._name, "an array of values holds something else")
            return _objects(entries, shape)
        if not all(isinstance(entry, str) for entry in entries) or not re.fullmatch(r"U[0-9]{1,18}", dtype):
            raise damaged(self._name, f"an array of {dtype[:20]!r} holds something else")
        # All texts take the room of the widest: as wide as the file says where that is little, else as wide as needed;
        # where even that is much more than the texts themselves, they are objects.
        longest, least, times = max(map(len, entries), default=0), *MOST_PADDING
        most = least + times * sum(map(len, entries))
        for width in (max(int(dtype[1:]), 1), max(longest, 1)):
            if longest <= width and width * len(entries) <= most:
                self._spend(4 * width * len(entries), "its texts")
                return np.array(entries, dtype=f"U{width}").reshape(shape)
        return _objects(entries, shape)

    def _object(self, kind: str, number: int, parts: dict[str, Any]) -> Any:
        if kind not in KINDS:
            raise damaged(self._name, f"it holds an object of the unknown kind {kind[:60]!r}")
        if number in self._objects:
            raise damaged(self._name, f"two of its objects have the number {number}")
        if parts.keys() != {"params", "state"}:
            raise damaged(self._name, f"{kind} has other parts than params and state")
        read, before = {}, self._spent
        self._spend(OBJECT * NESTED**self._around, "its parts")
        self._around += 1
        for part, entries in parts.items():
            if not isinstance(entries, dict):
                raise damaged(self._name, f"{part} of {kind} is not an object")
            read[part] = {name: self.read(entry) for name, entry in entries.items()}
        self._around -= 1
        found = made(kind, read["params"], read["state"])
        self._objects[number] = found, self._spent - before, self._around
        return found


def _objects(entries: list[Any], shape: list[int]) -> Array:
    array = np.empty(len(entries), dtype=object)
    array[:] = entries
    return array.reshape(shape)
