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
import importlib
import inspect
import json
import math
import struct
from typing import Any

import numpy as np

from multiform._typing import Array
from multiform.state import FEATURES, require, require_names

FORMAT_VERSION = 2
FIRST_VERSION = 2  # nothing that was released wrote format 1

MAGIC = b"\x89MFM\r\n\x1a\n"
VERSION = struct.Struct("<I")
LENGTH = struct.Struct("<Q")
DIGEST_AT = len(MAGIC) + VERSION.size
BODY_AT = DIGEST_AT + hashlib.sha256().digest_size
JSON_AT = BODY_AT + LENGTH.size

Arrays = dict[str, Array]

# The estimators that a file may be of, and where they are found.
OURS = {
    "QMSClassifier": "multiform",
    "QMSClassifierCV": "multiform",
    "LoyaltyClassifier": "multiform",
    "TriageClassifier": "multiform",
    "DiagnosisPlanner": "multiform",
    "TableClassifier": "multiform.tables",
    "ImagePatches": "multiform.images",
}
OF_OTHERS = {
    "LogisticRegression": "sklearn.linear_model",
    "StandardScaler": "sklearn.preprocessing",
    "Pipeline": "sklearn.pipeline",
    "FrozenEstimator": "sklearn.frozen",
    "KFold": "sklearn.model_selection",
    "StratifiedKFold": "sklearn.model_selection",
    "RandomState": "numpy.random",
}
KINDS = OURS | OF_OTHERS
FITTED = {
    "LogisticRegression": ("classes_", "coef_", "intercept_", "n_iter_", *FEATURES),
    "StandardScaler": ("mean_", "var_", "scale_", "n_samples_seen_", *FEATURES),
}
RENAMED = {"DiagnosisPlanner": {"groups": "discounts"}}  # parameters that older files call otherwise
RANDOM = ("key", "pos", "has_gauss", "gauss")  # the state of the Mersenne Twister

NUMBERS = frozenset(
    ["bool", "float16", "float32", "float64"] + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)
MOST_DEPTH = 64
MOST_PADDING = 10_000_000  # characters that an array of text may be wider than its longest entry, in total


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


def unpack(content: bytes, name: str) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays; `name` is what errors call the file."""
    if not content.startswith(MAGIC):
        what = "is empty" if not content else "is not a model file of multiform"
        if 0 < len(content) < len(MAGIC) and MAGIC.startswith(content):
            what = "is truncated"
        raise ModelFileError(f"{name} {what}; `multiform fit` and `multiform.save` write such files.")
    if len(content) < JSON_AT:
        raise ModelFileError(f"{name} is truncated: it ends after {len(content)} bytes. Copy it again from its source.")
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
        header = json.loads(content[JSON_AT : JSON_AT + length])
    except (ValueError, RecursionError) as error:
        raise damaged(name, f"its description is not JSON ({error})") from error
    if not isinstance(header, dict):
        raise damaged(name, "its description is not a JSON object")
    library = _safetensors()
    try:
        arrays: Arrays = library.load(content[JSON_AT + length :])
    except Exception as error:  # whatever the library says of bytes that are not its own
        raise damaged(name, f"its arrays cannot be read ({error})") from error
    # Ours to change, as a fitted model's arrays are.
    return header, {key: array if array.flags.writeable else array.copy() for key, array in arrays.items()}


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
        if value is None or isinstance(value, bool | str) or type(value) is int:
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
        kind, number = _kind_of(value, where), self._n_objects
        self._seen[id(value)] = value, {"same": number}
        self._n_objects += 1
        parts = {
            part: {name: self.write(entry, f"{name} of {kind}") for name, entry in entries.items()}
            for part, entries in _parts_of(kind, value).items()
        }
        return {"kind": kind, "id": number, **parts}


class TreeReader:
    """Reads what `TreeWriter` wrote; `name` is what errors call the file."""

    def __init__(self, arrays: Arrays, name: str) -> None:
        self._arrays, self._name = arrays, name
        self._ordered: dict[tuple[str, str], Array] = {}  # so that one array stays one
        self._objects: dict[int, Any] = {}
        self._depth = 0

    def read(self, node: Any) -> Any:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise damaged(self._name, "its parts are nested too deeply")
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
                array = self._arrays[name]
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
        if not all(isinstance(size, int) and size >= 0 for size in shape) or math.prod(shape) != len(entries):
            raise damaged(self._name, f"{len(entries)} values do not have the shape {shape}")
        if dtype == "object":
            if not all(entry is None or isinstance(entry, bool | int | float | str) for entry in entries):
                raise damaged(self._name, "an array of values holds something else")
            array = np.empty(len(entries), dtype=object)
            array[:] = entries
            return array.reshape(shape)
        if not all(isinstance(entry, str) for entry in entries) or not (dtype[:1] == "U" and dtype[1:].isdigit()):
            raise damaged(self._name, f"an array of {dtype} holds something else")
        longest = max(map(len, entries), default=0)
        width = int(dtype[1:])
        if width < longest or width * len(entries) > MOST_PADDING:
            width = longest
        return np.array(entries, dtype=f"U{max(width, 1)}").reshape(shape)

    def _object(self, kind: str, number: int, parts: dict[str, Any]) -> Any:
        if kind not in KINDS:
            raise damaged(self._name, f"it holds an object of the unknown kind {kind[:60]!r}")
        if number in self._objects:
            raise damaged(self._name, f"two of its objects have the number {number}")
        if parts.keys() != {"params", "state"}:
            raise damaged(self._name, f"{kind} has other parts than params and state")
        read = {}
        for part, entries in parts.items():
            if not isinstance(entries, dict):
                raise damaged(self._name, f"{part} of {kind} is not an object")
            read[part] = {name: self.read(entry) for name, entry in entries.items()}
        self._objects[number] = _made(kind, read["params"], read["state"])
        return self._objects[number]


# ------------------------------------------------------------------------------------------------------------- objects


def _class_of(kind: str) -> Any:
    """The class that files call so; it is imported when somebody asks for it."""
    return getattr(importlib.import_module(KINDS[kind]), kind)


def _kind_of(value: Any, where: str) -> str:
    """What files call the class of an object, or a sentence that says why it cannot be saved."""
    kind = type(value).__name__
    if kind in KINDS and type(value) is _class_of(kind):
        return kind
    what = f"a {type(value).__module__}.{type(value).__qualname__}"
    if callable(value) and hasattr(value, "__qualname__"):
        what = f"the function {value.__qualname__}"
    of_others = ", ".join(name for name in OF_OTHERS if name != "RandomState")
    raise TypeError(
        f"{where} is {what}, which a model file cannot hold, as it has no code in it; it holds "
        f"{', '.join(OURS)}, and around and inside them {of_others} of scikit-learn. "
        "For anything else there is joblib or skops."
    )


def _parts_of(kind: str, value: Any) -> dict[str, dict[str, Any]]:
    """An object's parameters and fitted state: plain values, and objects that files may hold, too."""
    if kind in OURS:
        return {"params": value.get_params(deep=False), "state": value._get_state()}
    if kind == "RandomState":
        state = value.get_state(legacy=False)
        return {"params": {}, "state": {**state["state"], "has_gauss": state["has_gauss"], "gauss": state["gauss"]}}
    if kind == "Pipeline":
        return {"params": {"steps": [tuple(step) for step in value.steps]}, "state": {}}
    # A parameter that a later scikit-learn drops does no harm as long as nobody has set it.
    defaults = {name: one.default for name, one in inspect.signature(type(value).__init__).parameters.items()}
    params = {name: getattr(value, name) for name in defaults if hasattr(value, name)}
    params = {name: found for name, found in params.items() if not _same(found, defaults[name])}
    state = {name: vars(value)[name] for name in FITTED.get(kind, ()) if name in vars(value)}
    return {"params": params, "state": state}


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(np.array_equal(value, default))


def _made(kind: str, params: dict[str, Any], state: dict[str, Any]) -> Any:
    """The object of these parts."""
    cls = _class_of(kind)
    if kind in OURS:
        renamed = RENAMED.get(kind, {})
        model = cls(**{renamed.get(name, name): value for name, value in params.items()})
        if state:
            model._set_state(state)
        return model
    if kind == "RandomState":
        require_names(state, kind, RANDOM)
        random = cls()
        random.set_state(("MT19937", *(state[name] for name in RANDOM)))
        return random
    require_names(state, kind, (), FITTED.get(kind, ()))
    if kind == "Pipeline":
        require_names(params, kind, ["steps"])
        steps = all(isinstance(name, str) and hasattr(step, "fit") for name, step in params["steps"])
        require(steps, "a step of Pipeline is not an estimator")
    value = cls(**params)
    vars(value).update(state)
    return value
