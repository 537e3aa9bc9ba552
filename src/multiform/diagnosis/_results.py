"""What results say: those unlike training, and tests of which nothing is known though they were done.

One rule, at the bedside and for tables: a result that no training patient could have had is named and not used. A test
of which nothing can be used is left out of the evidence set, so the answer is that of the models without it.

A test that has no result in a table was not done: it is not in the evidence set either, and nobody pays for it. Where a
gap is said to be a finding (``missing="finding"``), it was done, and paid for; its gap is used where training data had
enough of them to learn what they say.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from multiform._typing import Array, Bools, Floats
from multiform.columns import Category, Encoding, Seen, UnfamiliarWarning
from multiform.diagnosis._tariff import as_sets, members

MOST_CODES = 6  # distinct numbers that are taken for codes: a value between them is none
MOST_NAMED = 3  # results in a warning
MOST_LETTERS = 80  # of a result in a sentence


class UnfamiliarValue(ValueError):
    """A result that no training patient could have had. Nothing was recorded.

    `DiagnosisSession.observe` takes it with ``insist=True``: it is then recorded, noted, and not used.

    Parameters
    ----------
    sentence : str
        Which feature, its value, and what training patients had.
    """

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence
        super().__init__(f"{sentence}. If it is so, observe it with insist=True: it is recorded, and not used.")


@dataclass(frozen=True)
class StrangeResult:
    """A result unlike those of training.

    Attributes
    ----------
    row : int
        The patient.
    feature : str
    value : str
        As it was written.
    seen : str
        What training patients had.
    """

    row: int
    feature: str
    value: str
    seen: str

    @property
    def sentence(self) -> str:
        """What is unlike training, without a full stop."""
        short = self.value if len(self.value) <= MOST_LETTERS else self.value[: MOST_LETTERS - 1] + "…"
        return f"{self.feature} is {short}, and patients had {self.seen}"


@dataclass(frozen=True)
class Results:
    """The results of some patients as the judge reads them.

    Attributes
    ----------
    rows : array, shape (n, width)
        Encoded.
    lost, undone : array, shape (n,)
        The set of tests of which nothing can be used; and of those that were not done.
    strange : tuple of StrangeResult
        What is unlike training.
    """

    rows: Floats
    lost: Array
    undone: Array
    strange: tuple[StrangeResult, ...]

    def values(self, column_owner: Array) -> Floats:
        """The encoded results, NaN where a test has none that can be used."""
        told = members(self.lost, int(column_owner.max()) + 1)
        return np.where(told[:, column_owner], np.float32(np.nan), self.rows)

    def warn(self, stacklevel: int) -> None:
        """One warning, if there is anything to warn of."""
        if not self.strange:
            return
        told = "; ".join(f"{one.sentence} (row {one.row})" for one in self.strange[:MOST_NAMED])
        more = f"; and {len(self.strange) - MOST_NAMED} more" if len(self.strange) > MOST_NAMED else ""
        n_patients = len({one.row for one in self.strange})
        warnings.warn(
            f"{n_patients} of {len(self.rows)} patients have results unlike those of training, which are not used: "
            f"{told}{more}. `unfamiliar` lists them.",
            UnfamiliarWarning,
            stacklevel=stacklevel + 1,
        )


def learn_seen(encoding: Encoding, columns: Mapping[str, Array], n_groups: int | None) -> dict[str, Seen]:
    """What each feature looked like in training; `n_groups` where rows belong together."""
    seen = {}
    for name, cells in encoding.cells(columns).items():
        if cells.dtype.kind != "f":
            seen[name] = Seen.of_texts(cells.tolist(), n_groups=n_groups)
        else:
            few = len(np.unique(cells[~np.isnan(cells)])) <= MOST_CODES
            seen[name] = Seen.of_numbers(cells, "code" if few else "number", n_groups)
    return seen


def read_results(
    encoding: Encoding, seen: Mapping[str, Seen], columns: Mapping[str, Array], gaps_are_findings: bool = False
) -> Results:
    """Results as they are written, compared with what was `seen` in training; a feature of which that is not known is
    taken as it is."""
    cells, strange, useful, there = encoding.cells(columns), [], [], []
    for code in encoding.codes:
        found = cells[code.name]
        missing = _missing(found)
        familiar = ~missing
        if code.name in seen:
            known = seen[code.name]
            if isinstance(code, Category):
                found = cells[code.name] = matched(found, known)
            familiar &= known.familiar(found)
            odd = np.flatnonzero(~familiar & ~missing)
            strange += [StrangeResult(int(row), code.name, known.shown(found[row]), str(known)) for row in odd]
            if len(odd):
                found = cells[code.name] = found.copy()
                found[odd] = known.gap()[0]
        useful.append(familiar | (missing & code.has_missing & gaps_are_findings))  # a gap that was learnt is a finding
        there.append(~missing | gaps_are_findings)
    owner = np.array(encoding.owner)
    lost, undone = (_tests_without(np.stack(told), owner) for told in (useful, there))
    rows = encoding.encode(cells)
    return Results(rows, lost, undone, tuple(sorted(strange, key=lambda one: one.row)))


def _tests_without(told: Bools, owner: Array) -> Array:
    """Of each patient, the set of tests none of whose features are there: `told` has the shape (n_features, n)."""
    n_tests = int(owner.max()) + 1
    lost = as_sets([0] * told.shape[1], n_tests)
    for t in range(n_tests):
        lost[~told[owner == t].any(axis=0)] |= 1 << t
    return lost


def matched(texts: Array, known: Seen) -> Array:
    """Categories as training wrote them: "M " is "m", and 1.0 is "1", where no other value reads alike."""
    written: dict[str, str | None] = {}
    for value in known.values:
        key = _key(value)
        written[key] = None if key in written else value
    exact = set(known.values)
    found = np.empty(len(texts), dtype=object)
    found[:] = [text if text is None or text in exact else written.get(_key(text)) or text for text in texts]
    return found


def _key(text: str) -> str:
    """Equal for texts that differ in case and blanks alone, and for numbers that are the same."""
    try:
        return f"{float(text.replace(',', '.')):g}"
    except ValueError:
        return " ".join(text.split()).casefold()


def _missing(cells: Array) -> Bools:
    return np.isnan(cells) if cells.dtype.kind == "f" else np.array([cell is None for cell in cells], dtype=bool)
