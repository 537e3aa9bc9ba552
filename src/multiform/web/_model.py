"""What a loaded file can do, the same for the pages and for programs.

A `PlanModel` has a plan, and cases follow it (`_sessions`). A `TableModel` answers rows of a table, whether a
classifier was saved with a table around it or without.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np

from multiform.columns import Code, Seen, TableError, polars
from multiform.diagnosis import DiagnosisPlanner
from multiform.files import load, plain
from multiform.tables import (
    Judgement,
    MatrixModel,
    TableClassifier,
    deciding_cells,
    labelled,
    least_change,
    nearest,
    rule_for,
)
from multiform.web._separated import Separated

NUMERIC = ("number", "code", "date")


@dataclass(frozen=True)
class Field:
    """A column of a form, or a result of a test.

    Attributes
    ----------
    name : str
    kind : {"number", "code", "category", "date", "text"}
        A code is a whole number of few values, which are choices.
    choices : tuple of str
        Of a code and a category, the values that training had, sorted.
    low, high : str or None
        Of a number and a date, the least and the greatest value that training had, as people write it.
    may_be_missing : bool
        Whether training had gaps.
    seen : str
        All that in words; empty where it is not known.
    """

    name: str
    kind: str
    choices: tuple[str, ...] = ()
    low: str | None = None
    high: str | None = None
    may_be_missing: bool = True
    seen: str = ""

    @classmethod
    def of(cls, name: str, kind: str, seen: Seen | None, values: Sequence[Any] = ()) -> Field:
        """From what training had; `values` are the choices where that is not known."""
        if seen is None:
            return cls(name, kind, tuple(f"{one:g}" if isinstance(one, float) else str(one) for one in values))
        kind, known, gaps = seen.kind, sorted(seen.values), seen.n_missing > 0
        if kind in ("code", "category"):
            return cls(name, kind, tuple(seen.shown(one) for one in known), None, None, gaps, str(seen))
        if kind == "text" or not known:
            return cls(name, kind, (), None, None, gaps, str(seen))
        return cls(name, kind, (), seen.shown(known[0]), seen.shown(known[-1]), gaps, str(seen))


class PlanModel:
    """A plan of tests.

    Attributes
    ----------
    kind : "plan"
    name : str
        Of the file.
    planner : DiagnosisPlanner
    classes : list of str
    fields : dict of Field
        By feature; `tests` says which features a test yields.
    tests : dict of list of str
    """

    kind = "plan"

    def __init__(self, planner: Any, name: str) -> None:
        self.planner, self.name = planner, name
        self.classes = [str(label) for label in planner.classes_]
        encoding, seen = planner.encoding_, planner.seen_
        self.fields = {
            code.name: Field.of(code.name, code.role, seen.get(code.name), code.values) for code in encoding.codes
        }
        self.tests = {test: encoding.features(number) for number, test in enumerate(planner.tariff_.tests)}

    def as_dict(self) -> dict[str, Any]:
        """For programs: what it is and what it asks."""
        return {
            "kind": self.kind,
            "name": self.name,
            "estimator": type(self.planner).__name__,
            "classes": self.classes,
            "panel_cost": float(self.planner.panel_cost_),
            "tests": [
                {"test": test, "cost": float(cost), "results": [vars(self.fields[one]) for one in self.tests[test]]}
                for test, cost in zip(self.tests, self.planner.tariff_.prices, strict=True)
            ],
        }


class TableModel:
    """A classifier for rows of a table.

    Attributes
    ----------
    kind : "classifier"
    name : str
        Of the file.
    model : TableClassifier or MatrixModel
    has_table : bool
        Whether it is the first of these.
    estimator : classifier
        The one behind the columns.
    classes : list of str
    fields : dict of Field
        The columns that are used, by name.
    seen : dict of Seen
        What training had of them, where that is known.
    promise : dict or None
        ``accuracy`` and ``confidence`` of a triage.
    target : str or None
        The name of the target column.
    """

    kind = "classifier"

    def __init__(self, model: TableClassifier | MatrixModel, name: str) -> None:
        self.model, self.name, self.estimator, self.target = model, name, model.estimator_, model.target_
        self.classes, self.seen = [str(label) for label in model.classes_], model.seen_
        self.has_table = isinstance(model, TableClassifier)
        self.fields: dict[str, Field] = {}
        if isinstance(model, TableClassifier):
            for column in model.columns_:
                if column.width:
                    values = column.values if isinstance(column, Code) or column.role == "category" else ()  # type: ignore[attr-defined]
                    self.fields[column.name] = Field.of(column.name, column.role, model.seen_.get(column.name), values)
        else:
            for column in model.columns_:
                plain = Field(column.name, "number", may_be_missing=model.takes_gaps)
                seen = model.seen_.get(column.name)
                self.fields[column.name] = plain if seen is None else Field.of(column.name, column.role, seen)
        self.promise: dict[str, float] | None = None
        if hasattr(self.estimator, "target_accuracy"):
            known = float(self.estimator.target_accuracy), float(self.estimator.confidence)
            self.promise = dict(zip(("accuracy", "confidence"), known, strict=True))

    def as_dict(self) -> dict[str, Any]:
        """For programs: what it is and what it reads."""
        return {
            "kind": self.kind,
            "name": self.name,
            "estimator": type(self.estimator).__name__,
            "classes": self.classes,
            "target": self.target,
            "promise": self.promise,
            "columns": [vars(field) for field in self.fields.values()],
        }

    def frame(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        """Rows as a polars frame; a cell is a number, text, a moment, true, false or None, and one left out a gap."""
        names = dict.fromkeys(name for row in rows for name in row)
        if isinstance(self.model, MatrixModel):  # which may know its columns by their order alone
            if lacking := [name for name in self.fields if name not in names]:
                raise TableError(f"The table has no column {lacking[0]!r}, which the model needs.")
            names = dict.fromkeys([*self.fields, *names])
        columns = {name: [row.get(name) for row in rows] for name in names}
        if all(type(cell) is float for cells in columns.values() for cell in cells):
            return polars().from_dicts(rows, schema=dict.fromkeys(names, polars().Float64))  # a third of the time
        for name, field in self.fields.items():
            if field.kind == "date" and name in columns:
                columns[name] = _moments(columns[name])
        return polars().DataFrame([_series(name, cells) for name, cells in columns.items()])

    def answers(self, rows: Any, *, chances: bool = False) -> tuple[Any, Any]:
        """As `TableClassifier.answers`: a frame of ``label``, ``chance`` and so on, and what is unlike training."""
        return self.model.answers(rows, chances=chances)

    def assess(self, case: Mapping[str, Any]) -> dict[str, Any]:
        """All that can be said of one case.

        Parameters
        ----------
        case : mapping
            Cells by column; one that is left out is a gap.

        Returns
        -------
        told : dict
            ``label``, ``chance``; ``loyalty`` and ``accepted`` where the model knows them; ``unfamiliar``, words or
            None, and ``unfamiliar_cells``, which these are (``column``, ``value``, ``seen``); ``chances`` by class;
            of a promise, how sure the answer is and must be to be given (``trust``, ``trust_needed``);
            ``deciding``, by column, how the chance of the label changes if that cell were not known (``change``): the
            greater, the more it holds the decision.
        """
        frame = self.frame([self._whole(case)])
        answers, found = self.answers(frame, chances=True)
        [told] = answers.to_dicts()
        chances = {label: told.pop(f"chance of {label}") for label in self.classes}
        ranked = sorted(deciding_cells(self.model, frame).items(), key=lambda one: -abs(one[1]))
        told |= {"chances": chances, "deciding": [{"column": name, "change": size} for name, size in ranked]}
        told |= self._trust(frame)
        told["unfamiliar_cells"] = found.cells.drop("row").to_dicts()
        return dict(plain(told | {"notes": found.sentences()}))

    def _whole(self, case: Mapping[str, Any]) -> dict[str, Any]:
        """A case with its gaps. Where it lacks columns and has others, one of these may be misspelt, and no gap."""
        strange = [name for name in case if name not in self.fields]
        if strange and len(case) - len(strange) < len(self.fields):
            ends = nearest(strange[0], list(self.fields))
            raise TableError(f"The model has no column {strange[0]!r}, and the case lacks some that it has; {ends}")
        return dict.fromkeys(self.fields) | dict(case)

    def _trust(self, frame: Any) -> dict[str, float | None]:
        """Of a promise: how sure the answer is, and how sure it must be to be given; None where it never is."""
        triage = self.estimator
        if self.promise is None or np.ndim(triage.thresholds_) != 1:  # parts have thresholds of their own
            return {}
        row = self.model.transform(frame) if isinstance(self.model, TableClassifier) else self.model.named(frame)
        said = np.flatnonzero(np.asarray(triage.estimator_.classes_) == triage.estimator_.predict(row)[0])
        needed = float(triage.thresholds_[said[0]]) if len(said) else np.inf
        if needed == -np.inf:  # every answer of the class is given
            return {}
        return {"trust": float(triage.trust_score(row)[0]), "trust_needed": needed if np.isfinite(needed) else None}

    def least_change(self, case: Mapping[str, Any], locked: Sequence[str] = ()) -> dict[str, Any] | None:
        """The least change of a case that would alter its label; columns that are `locked` stay as they are.

        Returns
        -------
        told : dict or None
            ``label`` and ``chance`` after it, and ``changes``: ``column``, ``from``, ``to``. None if none was found, or
            if the model does not know how.
        """
        frame = self.frame([self._whole(case)])
        if strange := [name for name in locked if name not in self.fields]:
            ends = nearest(strange[0], list(self.fields))
            raise TableError(f"The model has no column {strange[0]!r} that could be locked; {ends}")
        if isinstance(self.model, MatrixModel) and self._separated is not None:
            return self._moved(frame, locked)
        found: dict[str, Any] | None = least_change(self.model, frame, locked) if self.model.looks else None
        return found

    @property
    def change_search(self) -> str:
        """How `least_change` looks: ``exact``, by ``few`` columns within what training had, or not at all (``""``)."""
        if isinstance(self.model, MatrixModel) and self._separated is not None:
            return "exact"
        return "few" if self.model.looks else ""

    @cached_property
    def _separated(self) -> Separated | None:
        return Separated.of(self.estimator)

    def _moved(self, frame: Any, locked: Sequence[str]) -> dict[str, Any] | None:
        """The least change of a row of numbers; what is written in six digits must alter the label, too."""
        assert self._separated is not None
        names = list(self.fields)
        row = self.model.transform(frame)[0]
        moved = self._separated.nearest_change(row, [names.index(name) for name in locked if name in names])
        if moved is None:
            return None
        cells = {name: float(f"{to:.6g}") for name, old, to in zip(names, row, moved, strict=True) if old != to}
        before, after = (self.answers(one)[0] for one in (frame, self.frame([frame.to_dicts()[0] | cells])))
        if before["label"][0] == after["label"][0]:
            return None
        changes = [{"column": name, "from": row[names.index(name)], "to": to} for name, to in cells.items()]
        return dict(plain({"label": after["label"][0], "chance": after["chance"][0], "changes": changes}))

    def evaluate(self, frame: Any, target: str | None = None) -> dict[str, Any]:
        """A labelled table: what ``multiform evaluate --json`` tells."""
        judged = Judgement(self.model, self._target(target), rule_for(self.model))
        judged.add(frame)
        return judged.as_dict() | {"notes": [*judged.notes(), *judged.known.sentences()]}

    def report(self, frame: Any, target: str | None = None) -> tuple[str, list[str]]:
        """A labelled table: the page that ``multiform report`` writes, without other classifiers beside; and notes."""
        from multiform.reporting import report

        rows, labels = labelled(self.model, frame, self._target(target))
        overlap = self.model.overlap(rows, labels)
        model, X = (
            (self.model, rows) if isinstance(self.model, TableClassifier) else (self.estimator, self.model.named(rows))
        )
        return report(model, X, labels, baselines=False).html, overlap.notes() if overlap is not None else []

    def _target(self, target: str | None) -> str:
        found = target or self.target
        if found is None:
            raise TableError("The model does not know what the target column is called; give its name as target.")
        return found


def opened(model: Any, name: str | None = None) -> PlanModel | TableModel:
    """What the page shows of a file, which is loaded with all its checks, or of a fitted estimator."""
    if isinstance(model, str | os.PathLike):
        path = os.fspath(model)
        model, name = load(path), name or os.path.basename(path)
    name = name or type(model).__name__
    if isinstance(model, DiagnosisPlanner):
        if not hasattr(model, "plan_"):
            raise ValueError(f"{name} holds a plan that is not fitted.")
        return PlanModel(model, name)
    if not hasattr(model, "predict"):
        raise ValueError(f"{name} holds no classifier and no plan, but {type(model).__name__}, which answers nothing.")
    if not hasattr(model, "classes_"):
        raise ValueError(f"{name} holds a {type(model).__name__} that is not fitted.")
    return TableModel(model if isinstance(model, TableClassifier) else MatrixModel(model), name)


def _series(name: str, cells: list[Any]) -> Any:
    """A column of JSON's values: numbers if all are, else text."""
    pl, kinds = polars(), {type(cell) for cell in cells} - {type(None)}
    if kinds <= {int, float}:
        if kinds == {int} and all(cell is None or -(2**63) <= cell < 2**63 for cell in cells):
            return pl.Series(name, cells, dtype=pl.Int64)
        return pl.Series(name, [None if cell is None else _double(cell) for cell in cells], dtype=pl.Float64)
    if kinds == {datetime}:
        return pl.Series(name, cells, dtype=pl.Datetime("ms"))
    if kinds == {bool}:
        return pl.Series(name, cells, dtype=pl.Boolean)
    if not kinds <= {int, float, bool, str}:
        raise TableError("a cell is a number, text, true, false or null; got a list or an object.", column=name, row=0)
    return pl.Series(name, [cell if cell is None or isinstance(cell, str) else _text(cell) for cell in cells])


def _moments(cells: list[Any]) -> list[Any]:
    """Text that is a date as ISO 8601 has it, as such, however training wrote it; if all of it is."""
    try:
        read = [datetime.fromisoformat(cell).replace(tzinfo=None) if isinstance(cell, str) else cell for cell in cells]
    except ValueError:
        return cells
    return read if {type(cell) for cell in read} <= {datetime, type(None)} else cells


def _double(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def _text(cell: Any) -> str:
    return str(cell).lower() if isinstance(cell, bool) else str(cell)
