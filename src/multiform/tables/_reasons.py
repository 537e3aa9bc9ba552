"""Why one row has its label: which of its cells hold the decision, and the least change that would alter it.

Both ask the classifier alone, about rows that differ from the given one in a few cells. A cell that is not known counts
as everywhere else: the mean of the chances with 16 values in its place, as training had them; of a classifier without a
table, as a normal distribution has them (`MatrixModel.looks`).

The least change is searched for: a change of one column, to any value that training had, comes before every change of
two. Among those of one column, a number's costs the share of training rows between the old value and the new one, a
category's half of all. If no column suffices alone, the change that makes the label least likely is kept, and a further
column is tried. In the end, changes that are not needed are taken back, and numbers moved as near as they may be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from multiform._typing import Doubles
from multiform.columns import Column, Seen, as_frame, polars
from multiform.tables._classifier import TableClassifier
from multiform.tables._familiarity import Familiarity, mean_chances
from multiform.tables._matrix import MatrixModel

MOST_CHANGES = 3  # columns that are changed at most
MOST_VALUES = 101  # of a column that are tried
HALVINGS = 12  # on the way back to the old number
OTHER_VALUE = 0.5  # what another category costs, or a number in the place of a gap


def deciding_cells(model: TableClassifier | MatrixModel, X: Any) -> dict[str, float]:
    """How the chance of a row's label would fall if a cell were not known, by column.

    Parameters
    ----------
    model : TableClassifier or MatrixModel
        Fitted.
    X : table
        One row.

    Returns
    -------
    changes : dict of float
        Positive where the cell speaks for the label, negative where it speaks against it, 0 where it is unlike training
        and not used. Empty of a model that does not know what its columns looked like; of one without a table, cells
        that are missing are not known anyway, and left out.

    Examples
    --------
    >>> import polars as pl
    >>> from multiform import QMSClassifier
    >>> from multiform.tables import TableClassifier, deciding_cells, least_change
    >>> table = pl.DataFrame({"height": [1.5, 1.6, 1.8, 1.9] * 20, "shoe": [1.0, 2.0, 2.0, 1.0] * 20,
    ...                       "tall": ["no", "no", "yes", "yes"] * 20})
    >>> model = TableClassifier(QMSClassifier(random_state=0)).fit(table, "tall")
    >>> row = pl.DataFrame({"height": [1.9], "shoe": [1.0]})
    >>> found = deciding_cells(model, row)
    >>> found["height"] > 0.3 > abs(found["shoe"])
    True
    >>> changed = least_change(model, row)
    >>> changed["label"], changed["changes"][0]["column"], changed["changes"][0]["to"] < 1.75
    ('no', 'height', True)
    """
    case = _Case.of(model, X)
    names = [name for name in case.places if not (isinstance(model, MatrixModel) and case.is_missing(name))]
    chances = case.chances([case, *map(case.without, names)])
    label = case.label_of(chances[0])
    return {name: float(chances[0, label] - chances[k + 1, label]) for k, name in enumerate(names)}


def least_change(model: TableClassifier | MatrixModel, X: Any, locked: Sequence[str] = ()) -> dict[str, Any] | None:
    """The least change of a row that gives it another label, as far as it is found; see `deciding_cells`.

    Parameters
    ----------
    model : TableClassifier or MatrixModel
        Fitted.
    X : table
        One row.
    locked : sequence of str, default=()
        Columns that cannot change.

    Returns
    -------
    found : dict or None
        ``label``, ``chance`` after it, and ``changes``: dicts of ``column``, ``from`` and ``to``. None if no change of
        three columns at most was found.
    """
    case = _Case.of(model, X)
    free = [name for name in case.places if name not in set(locked) and case.columns[name].role != "text"]
    label = case.label_of(case.chances([case])[0])
    found = _altered(case, free, label)
    if found is None:
        return None
    answers, _ = model.answers(found.frame())
    told = {"label": answers["label"][0], "chance": float(answers["chance"][0])}
    if str(told["label"]) == str(model.classes_[label]):
        return None
    changes = [
        {"column": name, "from": case.shown(name), "to": found.shown(name)}
        for name in found.places
        if name in found.changed
    ]
    return told | {"changes": changes}


def _altered(case: _Case, free: list[str], label: int) -> _Case | None:
    """The case with few columns changed, so that its label is another."""
    begun = case
    for _ in range(MOST_CHANGES):
        tried = [change for name in free if name not in begun.changed for change in begun.changes(name)]
        if not tried:
            return None
        chances = case.chances(tried)
        flips = [one for one, chance in zip(tried, chances, strict=True) if case.label_of(chance) != label]
        if flips:
            return _nearest(case, min(flips, key=lambda one: one.cost(case)), label)
        begun = tried[int(chances[:, label].argmin())]
    return None


def _nearest(case: _Case, found: _Case, label: int) -> _Case:
    """Without the changes that are not needed, and each number as near to the old one as it may be."""

    def alters(one: _Case) -> bool:
        return case.label_of(case.chances([one])[0]) != label

    for name in list(found.changed):
        back = found.changed_back(case, name)
        if len(found.changed) > 1 and alters(back):
            found = back
    for name in list(found.changed):
        old, new = case.cells[name], found.cells[name]
        if case.columns[name].role not in ("number", "date") or old != old:
            continue
        step = 1.0 if case.seen[name].kind == "date" or case.is_whole(name) else 0.0
        for _ in range(HALVINGS):
            middle = (old + new) / 2
            middle = float(np.round(middle)) if step else float(f"{middle:.6g}")
            if middle in (old, new):
                break
            nearer = found.changed_to(name, middle)
            if alters(nearer):
                found, new = nearer, middle
            else:
                old = middle
    return found


@dataclass(frozen=True)
class _Case:
    """A row, by its cells as the columns read them, and which of them were changed."""

    model: TableClassifier | MatrixModel
    given: Any
    columns: dict[str, Column]
    spans: dict[str, slice]  # of the row of numbers
    seen: dict[str, Seen]
    cells: dict[str, Any]
    row: Doubles
    strange: frozenset[str]
    changed: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()

    @classmethod
    def of(cls, model: TableClassifier | MatrixModel, X: Any) -> _Case:
        frame = as_frame(X)
        if len(frame) != 1:
            raise ValueError(f"deciding_cells and least_change take one row; got {len(frame)}.")
        seen, strange = model.looks, frozenset(model.familiarity(frame).rows)
        columns = {column.name: column for column in model.columns_ if column.width}
        cells = {name: column.read(frame[name])[0][0] for name, column in columns.items()}
        cells |= {name: seen[name].gap()[0] for name in strange}
        ends = np.cumsum([column.width for column in columns.values()]).tolist()
        spans = dict(zip(columns, map(slice, [0, *ends], ends), strict=False))
        case = cls(model, frame, columns, spans, seen, cells, np.empty(0), strange)
        return replace(case, row=np.concatenate([case.numbers(name, cell) for name, cell in cells.items()]))

    def numbers(self, name: str, cell: Any) -> Doubles:
        """What a cell becomes."""
        numeric = (name in self.seen and self.seen[name].is_numeric) or isinstance(cell, float | np.floating)
        found: Doubles = self.columns[name].columns(np.array([cell], dtype=np.float64) if numeric else [cell])[0]
        return found

    def put(self, name: str, cell: Any, **changes: Any) -> _Case:
        """With another cell."""
        row = self.row.copy()
        row[self.spans[name]] = self.numbers(name, cell)
        return replace(self, cells=self.cells | {name: cell}, row=row, **changes)

    @property
    def places(self) -> list[str]:
        """The columns of which it is known what they looked like."""
        return [name for name in self.columns if name in self.seen]

    def without(self, name: str) -> _Case:
        if self.columns[name].role == "text":  # of texts no values are kept: they are empty
            return self.put(name, "")
        return replace(self, unknown=self.unknown | {name})

    def is_missing(self, name: str) -> bool:
        cell = self.cells[name]
        return cell is None or cell != cell

    def changed_to(self, name: str, value: Any) -> _Case:
        return self.put(name, value, changed=self.changed | {name}, strange=self.strange - {name})

    def changed_back(self, before: _Case, name: str) -> _Case:
        strange = self.strange | ({name} & before.strange)
        return self.put(name, before.cells[name], changed=self.changed - {name}, strange=strange)

    def changes(self, name: str) -> Iterator[_Case]:
        """With every value of a column that training had, of many the commonest, but its own."""
        for value in self.seen[name].values[:MOST_VALUES]:
            if value != self.cells[name]:
                yield self.changed_to(name, value)

    def cost(self, before: _Case) -> float:
        return sum(before.distance(name, self.cells[name]) for name in self.changed)

    def distance(self, name: str, value: Any) -> float:
        seen, old = self.seen[name], self.cells[name]
        if self.columns[name].role not in ("number", "date") or old != old:
            return OTHER_VALUE
        counts = np.cumsum((0, *seen.counts)) / max(1, seen.n_present)
        places = np.interp([old, value], seen.values, counts[1:])
        return float(abs(places[1] - places[0]))

    def is_whole(self, name: str) -> bool:
        return all(value == round(value) for value in self.seen[name].values)

    def chances(self, cases: Sequence[_Case]) -> Doubles:
        """The chances of every class, a row a case."""
        estimator, model = self.model.estimator_, self.model
        asked = estimator if hasattr(estimator, "predict_proba") else estimator.estimator_

        def predict_proba(matrix: Doubles) -> Any:
            return asked.predict_proba(model.decoded(matrix) if isinstance(model, MatrixModel) else matrix)

        matrix = np.stack([case.row for case in cases])
        unknown: dict[str, list[int]] = {}
        for k, case in enumerate(cases):
            for name in case.strange | case.unknown:
                unknown.setdefault(name, []).append(k)
        if not unknown:
            return np.asarray(predict_proba(matrix), dtype=np.float64)
        rows = {name: np.array(places) for name, places in unknown.items()}
        found = Familiarity(len(cases), len(cases), rows, {}, {}, self.seen)
        return mean_chances(predict_proba, matrix, np.arange(len(cases)), found, self.model.columns_)

    def label_of(self, chances: Doubles) -> int:
        return int(chances.argmax())

    def shown(self, name: str) -> Any:
        """A cell as JSON and people have it."""
        value = self.given[name][0] if name not in self.changed else self.cells[name]
        if name not in self.changed or not self.seen[name].is_numeric:
            return value if value is None or isinstance(value, str | int | float | bool) else str(value)
        if self.seen[name].kind == "date":
            return self.seen[name].shown(value)
        return int(value) if value == round(value) else float(f"{value:.6g}")

    def frame(self) -> Any:
        """The table of one row, with what was changed."""
        pl = polars()
        series = []
        for name in self.changed:
            value = self.cells[name]
            if self.seen[name].kind == "date":
                series.append(pl.Series(name, [round(value * 1000)], dtype=pl.Int64).cast(pl.Datetime("ms")))
            else:
                series.append(pl.Series(name, [value]))
        return self.given.with_columns(series)
