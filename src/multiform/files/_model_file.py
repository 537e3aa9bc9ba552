"""`save`, `load` and `describe`; `plain` makes values as JSON has them, for people and programs to read."""

from __future__ import annotations

import datetime
import io
import os
import platform
import stat
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy
import sklearn

from multiform._version import __version__
from multiform.files._atomic import atomic_path
from multiform.files._contents import held_rows
from multiform.files._format import (
    FORMAT_VERSION,
    JSON_AT,
    MAGIC,
    MOST_DEPTH,
    ModelFileError,
    TreeReader,
    TreeWriter,
    check_start,
    damaged,
    pack,
    unpack,
)
from multiform.files._objects import OURS
from multiform.state import Allowance

SCHEMA = "multiform model"


def is_model_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as a model file does; False of what is no file, as a pipe."""
    try:
        with open(path, "rb") if stat.S_ISREG(os.stat(path).st_mode) else io.BytesIO() as stream:
            return stream.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):
        return False


def save(model: Any, path: str | os.PathLike[str], *, notes: Mapping[str, Any] | None = None) -> None:
    """Write a model, fitted or not, to a file.

    The file holds arrays and JSON, no code. It is written under another name and then takes the place of an older file,
    so there is never half a file. Versions of multiform to come will read it.

    Parameters
    ----------
    model : estimator of multiform
        :class:`QMSClassifier`, :class:`QMSClassifierCV`, :class:`LoyaltyClassifier`, :class:`TriageClassifier`,
        :class:`DiagnosisPlanner`, :class:`~multiform.tables.TableClassifier` or
        :class:`~multiform.images.ImagePatches`.
    path : path
        Of the file; ``.mfm`` by custom.
    notes : mapping of str to plain values, default=None
        Anything to keep beside the model, which :func:`multiform.files.describe` gives back.

    Raises
    ------
    TypeError
        When the model holds what a file without code cannot: another library's classifier, a function.

    Examples
    --------
    >>> import tempfile, multiform
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = multiform.QMSClassifier(random_state=0).fit(X, y)
    >>> path = tempfile.mkdtemp() + "/iris.mfm"
    >>> multiform.save(model, path)
    >>> bool((multiform.load(path).predict_proba(X) == model.predict_proba(X)).all())
    True
    """
    name = type(model).__name__
    if name not in OURS:
        raise TypeError(
            f"multiform.save writes {', '.join(OURS)}; got a {name}. For anything else there is joblib or skops."
        )
    writer = TreeWriter()
    tree = writer.write(model, "model")
    described = [column.description() for column in getattr(model, "columns_", [])]  # of a table model
    header = {
        "schema": SCHEMA,
        "kind": name,
        "versions": {
            "multiform": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "written": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "classes": plain(getattr(model, "classes_", None)),
        "columns": described or plain(getattr(model, "feature_names_in_", None)),
        "training": plain(_training(model)),
        "notes": plain(dict(notes or {})),
        "model": tree,
    }
    content = pack(header, writer.arrays)
    with atomic_path(path) as part:
        part.write_bytes(content)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that :func:`save` has written, by this version of multiform or an earlier one.

    Nothing in a file is run, and what it may cost is bounded by its size, so a file from a stranger is safe to load.
    What is not a model file, or damaged, or newer than this version of multiform, is refused.

    Parameters
    ----------
    path : path

    Returns
    -------
    model : estimator
        Its predictions are those of the model that was saved.

    Raises
    ------
    ModelFileError
        A ValueError whose one sentence says what is wrong with the file.
    """
    name = os.fspath(path)
    header, arrays, n_bytes = _read(path)
    kind = header["kind"]
    allowance = Allowance(n_bytes)
    try:
        with allowance.granted():
            model = TreeReader(arrays, name, allowance).read(header["model"])
    except (ModelFileError, ImportError, MemoryError):  # an optional part, or memory, is missing: not the file's fault
        raise
    except Exception as error:  # parts that do not fit each other; the checksum was right, so the writer meant them
        what = " ".join(str(error).split()).rstrip(".")
        raise ModelFileError(f"{name} holds no model that works: {what}.") from error
    if type(model).__name__ != kind:
        raise damaged(name, f"it says {kind} and holds {type(model).__name__}")
    return model


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a model file says about itself, without making the model.

    Returns
    -------
    description : dict
        ``kind``, ``format``, ``versions`` (of those who wrote it), ``written``, ``classes``, ``columns``,
        ``training``, ``notes``, ``bytes``, ``numbers`` (how many the arrays hold), and ``holds``: how many training
        ``rows`` are in the file, and ``sentences`` that say all that it holds of them.

    Examples
    --------
    >>> import tempfile, multiform
    >>> from multiform.files import describe
    >>> path = tempfile.mkdtemp() + "/two.mfm"
    >>> multiform.save(multiform.QMSClassifier.from_separators([[[1.0]], [[1.0]]], [[2.0], [0.0]], ["a", "b"]), path)
    >>> found = describe(path)
    >>> found["kind"], found["classes"], found["training"]["n_features"]
    ('QMSClassifier', ['a', 'b'], 1)
    """
    header, arrays, n_bytes = _read(path)
    shown = {key: value for key, value in header.items() if key not in ("schema", "model")}
    return shown | {
        "holds": held_rows(header, arrays),
        "format": FORMAT_VERSION,
        "bytes": n_bytes,
        "numbers": int(sum(array.size for array in arrays.values())),
    }


def plain(value: Any) -> Any:
    """As JSON; a number that JSON does not have becomes None, an object its text.

    >>> import numpy as np
    >>> from multiform.files import plain
    >>> plain({1: np.float64(0.5), "b": (np.inf, np.arange(2))})
    {'1': 0.5, 'b': [None, [0, 1]]}
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Any], int]:
    """The description, of a form that whoever reads it can rely on, the arrays, and the number of bytes."""
    name = os.fspath(path)
    content = _content(path)
    header, arrays = unpack(content, name)
    if header.get("schema") != SCHEMA or header.get("kind") not in list(OURS):
        raise damaged(name, "it does not say which model it holds")
    forms = {
        "versions": dict,
        "written": str,
        "classes": list | None,
        "columns": list | None,
        "training": dict,
        "notes": dict,
        "model": dict,
    }
    for key, form in forms.items():
        if key not in header or not isinstance(header[key], form):
            raise damaged(name, f"its description has no {key}")
    for key in forms.keys() - {"model"}:
        if not _is_shallow(header[key], MOST_DEPTH):
            raise damaged(name, f"{key} of its description is nested too deeply")
    for column in header["columns"] or []:
        parts = {"name": str, "role": str, "why": str, "becomes": list}
        described = isinstance(column, dict) and all(isinstance(column.get(k), form) for k, form in parts.items())
        if not (isinstance(column, str) or described):
            raise damaged(name, "its description of a column is wrong")
    return header, arrays, len(content)


def _content(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file, which begins as a model file does: nothing else is read further than that."""
    name = os.fspath(path)
    try:
        status = os.stat(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"There is no model file {name}.") from error
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(f"{name} is a folder, not a model file.")
    if not stat.S_ISREG(status.st_mode):
        raise ModelFileError(f"{name} is a pipe or a device, not a model file; write what it gives to a file.")
    with open(path, "rb") as stream:
        start = stream.read(JSON_AT)
        check_start(start, name)
        return start + stream.read(max(0, status.st_size - JSON_AT))


def _is_shallow(value: Any, most: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return most > 0 and all(_is_shallow(one, most - 1) for one in inner)


def _training(model: Any) -> dict[str, Any]:
    """The figures of the fit that a person asks first."""
    figures = {"n_features": "n_features_in_", "passes": "n_iter_", "accuracy": "oof_accuracy_"}
    summary = {key: getattr(model, attribute) for key, attribute in figures.items() if hasattr(model, attribute)}
    if getattr(model, "partners_", None):
        summary["shares"] = model.shares_
    if hasattr(model, "loyalty_table_"):
        summary["loyalty"] = model.loyalty_table_.as_dict()
    if hasattr(model, "certificates_"):
        n_accepted = sum(certificate.n_accepted for certificate in model.certificates_)
        n_tested = sum(certificate.n_tested for certificate in model.certificates_)
        promise = ("target_accuracy", "confidence", "guarantee_")
        summary["promise"] = {name.rstrip("_"): getattr(model, name) for name in promise}
        summary["promise"]["coverage"] = n_accepted / max(1, n_tested)
    if hasattr(model, "expected_cost_"):
        plan = ("order_", "theta_", "level_", "expected_cost_", "panel_cost_")
        summary["plan"] = {name.rstrip("_"): getattr(model, name) for name in plan}
    summary |= getattr(model, "training_", {})
    if hasattr(model, "columns_"):
        summary["estimator"] = {"kind": type(model.estimator_).__name__, **_training(model.estimator_)}
    return summary
