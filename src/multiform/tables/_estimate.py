"""What accuracy to expect on new rows, by rows that the models have not seen: for every kind of model.

What a model knows from its own cross-fitting is used. One that has none is fitted again: five times on four fifths of
the rows, each judged on the fifth that it did not see; on large tables once.
"""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from multiform.columns import TableError, as_frame, as_text, polars
from multiform.folds import drawn_folds, group_codes
from multiform.metrics import Interval, share_interval
from multiform.tables._classifier import TableClassifier
from multiform.tables._familiarity import nearest
from multiform.tables._labels import learn_labels

N_FOLDS = 5
MANY_ROWS = 20_000  # from which on one fifth is enough to know the accuracy to half a point
IN_TURN = "rows that were held out in turn while training"


class Estimate(NamedTuple):
    """An accuracy with its 95 % interval (Wilson's; of groups, where rows belong together), on how many rows, how it
    was found, and how long that took.
    """

    accuracy: Interval
    rows: int
    how: str
    seconds: float

    def as_dict(self, timed: bool = True) -> dict[str, Any]:
        """For JSON; what takes another time every time is not for a file."""
        told = self.accuracy._asdict() | {"rows": self.rows, "how": self.how}
        return told | ({"seconds": self.seconds} if timed else {})


def estimate(model: TableClassifier, X: Any, y: str, groups: str | None = None, seed: int = 0) -> Estimate:
    """The accuracy that a fitted table model has on new rows of the same source.

    Parameters
    ----------
    model : TableClassifier
        Fitted on X.
    X : table
        The training table.
    y : str
        Its target column.
    groups : str, default=None
        The column that says which rows belong together: whole groups are held out.
    seed : int, default=0
        Of the folds, where a model must be fitted again.
    """
    begin = time.perf_counter()
    inner: Any = getattr(model.estimator_, "estimator_", None)  # whom a triage is around
    for part in (model.estimator_, inner):
        if hasattr(part, "loyalty_table_"):
            table, count = part.loyalty_table_, float(np.sum(part.loyalty_table_.count))
            return _told(model, table.overall_accuracy, round(count), IN_TURN, begin)
        if hasattr(part, "oof_accuracy_"):
            rows = getattr(part, "oof_samples_", model.training_["rows"])
            return _told(model, part.oof_accuracy_, rows, IN_TURN, begin)
    frame = as_frame(X)
    labels, present = model.labels(frame[y])
    frame = frame.filter(polars().Series(present))
    codes = None
    if groups is not None:
        codes = group_codes(as_text(frame[groups]), len(frame), "estimate")
    target = np.unique(labels, return_inverse=True)[1].ravel()
    folds = drawn_folds(target, N_FOLDS, np.random.default_rng(seed), codes)
    once = len(labels) > MANY_ROWS
    held_out = [np.flatnonzero(folds == fold) for fold in ([0] if once else np.unique(folds))]
    splits = [(np.setdiff1d(np.arange(len(labels)), rows), rows) for rows in held_out]
    matrix, right = model.transform(frame), []
    for train, rows in splits:
        fitted = clone(model.estimator_)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the model itself has warned of the same
            fitted.fit(matrix[train], labels[train], **({} if codes is None else {"groups": codes[train]}))
        right.append(fitted.predict(matrix[rows]) == labels[rows])
    judged = np.concatenate(right)
    how = (
        "a fifth of the rows that was held out, one more fit"
        if once
        else f"{len(splits)}-fold cross-validation, {len(splits)} more fits"
    )
    return _told(model, float(judged.mean()), len(judged), how, begin)


def _told(model: TableClassifier, accuracy: float, rows: int, how: str, begin: float) -> Estimate:
    groups = model.training_.get("groups")
    n = round(groups * rows / model.training_["rows"]) if groups else rows
    interval = share_interval(accuracy, n)
    return Estimate(interval, rows, how, time.perf_counter() - begin)


def parted(X: Any, y: str, groups: str | None = None, seed: int = 0) -> tuple[Any, Any]:
    """Three quarters of the rows of a table that have a label, and the others: at random within the classes, or whole
    groups.
    """
    frame = as_frame(X)
    for name in (y, *([] if groups is None else [groups])):
        if name not in frame.columns:
            raise TableError(f"There is no column {name!r}; {nearest(name, frame.columns)}")
    labels, present, _ = learn_labels(frame[y], as_classes=True)
    frame = frame.filter(polars().Series(present))
    codes = None if groups is None else group_codes(as_text(frame[groups]), len(frame), "a report")
    target = np.unique(labels, return_inverse=True)[1].ravel()
    held_out = polars().Series(drawn_folds(target, 4, np.random.default_rng(seed), codes) == 0)
    return frame.filter(~held_out), frame.filter(held_out)
