"""From a fitted model to JSON and arrays, and back: plain values, arrays, and the classes of two tables, nothing else.

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

Reading makes only these. No name is imported, and nothing is called, because a file says so: `OURS` and `OF_OTHERS` are
all classes that a file may hold. It names a kind; where its class lives is said here. An estimator of ours is its
parameters and what its `_get_state` says, plain values; it is made by its constructor, and its `_set_state` checks what
it is given. Of scikit-learn's only what it documents is written, as that outlives its own attributes: parameters that
differ from their defaults, and public fitted attributes.
"""

from __future__ import annotations

import importlib
import inspect
import math
from typing import Any

import numpy as np

from multiform._typing import Array
from multiform.files._container import Arrays, damaged
from multiform.state import FEATURES, require, require_names

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
RANDOM = ("key", "pos", "has_gauss", "gauss")  # the state of the Mersenne Twister

NUMBERS = frozenset(
    ["bool", "float16", "float32", "float64"] + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)
MOST_DEPTH = 64
MOST_PADDING = 10_000_000  # characters that an array of text may be wider than its longest entry, in total


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
        model = cls(**params)
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
