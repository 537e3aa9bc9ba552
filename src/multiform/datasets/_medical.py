"""The medical sets inside the package: of each, ``data/NAME.md`` says source, licence and the meaning of the columns.

The table is ``data/NAME.csv`` (target last, an empty cell is a missing value; a large one is compressed).
"""

import csv
import gzip
from collections.abc import Sequence
from importlib import resources
from typing import Any, Literal

import numpy as np
from sklearn.utils import Bunch

_DATA = resources.files("multiform.datasets") / "data"


def load_heart_disease(
    *, target: Literal["presence", "grade"] = "presence", return_X_y: bool = False, as_frame: bool = False
) -> Any:
    """Load the Cleveland heart disease data: 303 patients, 13 tests, with what each test costs.

    Parameters
    ----------
    target : {"presence", "grade"}, default="presence"
        "presence" is 0 (no heart disease) or 1; "grade" is the original 0 (none) to 4.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=False
        Give the data as a pandas DataFrame and the target as a Series.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`, or tuple ``(data, target)`` when ``return_X_y``
        ``data`` (303 x 13, missing values are NaN), ``target``, ``feature_names``, ``target_names``,
        ``frame`` (data and target, when ``as_frame``), ``DESCR``, and for each test:

        costs : dict
            Its price alone, in Canadian dollars (Turney 1995).
        discounts : dict
            Tests that share a part of their price: for each such set, that of each once another has been bought.
        delays : dict
            Whether its result is "immediate" or "delayed".

    Examples
    --------
    >>> from multiform.datasets import load_heart_disease
    >>> heart = load_heart_disease()
    >>> heart.data.shape, heart.target[:5]
    ((303, 13), array([0, 1, 1, 0, 0]))
    >>> heart.costs["chol"], heart.discounts["A"]
    (7.27, {'chol': 5.17, 'fbs': 3.1})
    """
    if target not in ("presence", "grade"):
        raise ValueError(f"load_heart_disease: target must be 'presence' (0 or 1) or 'grade' (0 to 4), got {target!r}.")
    value_names = ["absent", "grade 1", "grade 2", "grade 3", "grade 4"] if target == "grade" else ["absent", "present"]
    return _loaded("heart_disease", target, value_names, return_X_y, as_frame, **_heart_costs())


def load_breast_cancer_wisconsin(*, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Load the original Wisconsin breast cancer data: 699 biopsies, 9 cell features, benign (0) or malignant (1).

    This is the cytology set; scikit-learn's ``load_breast_cancer`` is the later one of image features.

    Parameters
    ----------
    return_X_y, as_frame : bool, default=False
        As for :func:`load_heart_disease`, whose Returns section holds here, too.

    Examples
    --------
    >>> from multiform.datasets import load_breast_cancer_wisconsin
    >>> X, y = load_breast_cancer_wisconsin(return_X_y=True)
    >>> X.shape, y.shape
    ((699, 9), (699,))
    """
    return _loaded("breast_cancer_wisconsin", "malignant", ["benign", "malignant"], return_X_y, as_frame)


def load_hepatitis(*, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Load the hepatitis data: 155 patients, 19 findings, whether the patient lives (0) or dies (1).

    Parameters
    ----------
    return_X_y, as_frame : bool, default=False
        As for :func:`load_heart_disease`, whose Returns section holds here, too.

    Examples
    --------
    >>> from multiform.datasets import load_hepatitis
    >>> X, y = load_hepatitis(return_X_y=True)
    >>> X.shape, y.shape
    ((155, 19), (155,))
    """
    return _loaded("hepatitis", "dies", ["lives", "dies"], return_X_y, as_frame)


def load_thyroid(*, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Load the thyroid data: 7200 patients, 21 findings, three classes of which the normal one has 93 %.

    The target is 0 to 2, the source's class less one; 2 is normal. The first 3772 rows are the source's training part,
    the other 3428 its test part.

    Parameters
    ----------
    return_X_y, as_frame : bool, default=False
        As for :func:`load_heart_disease`, whose Returns section holds here, too.

    Examples
    --------
    >>> from multiform.datasets import load_thyroid
    >>> X, y = load_thyroid(return_X_y=True)
    >>> X.shape, y.shape
    ((7200, 21), (7200,))
    """
    return _loaded("thyroid", "class", ["class 1", "class 2", "normal"], return_X_y, as_frame)


def _rows(name: str) -> list[list[str]]:
    plain = _DATA / f"{name}.csv"
    content = plain.read_bytes() if plain.is_file() else gzip.decompress((_DATA / f"{name}.csv.gz").read_bytes())
    return list(csv.reader(content.decode("utf-8").splitlines()))


def _heart_costs() -> dict[str, dict[str, Any]]:
    header, *rows = _rows("heart_disease_costs")
    tests = [dict(zip(header, row, strict=True)) for row in rows]
    discounts: dict[str, Any] = {test["discount"]: {} for test in tests if test["discount"]}
    for test in tests:
        if test["discount"]:
            discounts[test["discount"]][test["test"]] = float(test["discounted_cost"])
    costs = {test["test"]: float(test["cost"]) for test in tests}
    return {"costs": costs, "discounts": discounts, "delays": {test["test"]: test["result"] for test in tests}}


def _loaded(
    name: str, target_name: str, target_names: Sequence[str], return_X_y: bool, as_frame: bool, **extra: Any
) -> Any:
    """What scikit-learn's loaders return: a Bunch, or ``(data, target)``; NumPy or pandas.

    The target is the last column of the set; where it has two names and more values, it is whether the value is not 0.
    """
    header, *rows = _rows(name)
    feature_names = header[:-1]
    table = np.array([[float(cell) if cell else np.nan for cell in row] for row in rows])
    features: Any = table[:, :-1].copy()
    values: Any = np.minimum(table[:, -1], len(target_names) - 1).astype(np.int64)
    frame = None
    if as_frame:
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(
                f"load_{name}(as_frame=True) needs pandas: run `pip install pandas`, or use as_frame=False."
            ) from error
        frame = pd.DataFrame(features, columns=feature_names)
        frame[target_name] = values
        features, values = frame[feature_names], frame[target_name]
    if return_X_y:
        return features, values
    return Bunch(
        data=features,
        target=values,
        frame=frame,
        feature_names=feature_names,
        target_names=np.array(target_names),
        DESCR=(_DATA / f"{name}.md").read_text(encoding="utf-8"),
        **extra,
    )
