"""A table before anything is learnt from it: what each column is taken for and why, what is odd, what would help."""

from __future__ import annotations

import datetime
import re
import shlex
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from multiform._typing import Array, Bools, Doubles
from multiform.columns import Column, Date, Number, TableError, as_text, polars, with_numbers
from multiform.folds import beyond_chance, chances_of_agreement
from multiform.tables._classifier import TableClassifier, blocks_of
from multiform.tables._familiarity import learn, listed, nearest
from multiform.tables._labels import RARE, alike, learn_labels
from multiform.tables._leaks import deciding
from multiform.tables._overlap import row_keys

FAR = 5.0  # interquartile ranges from the quartiles
NUMBER = r"^[^0-9]{0,3}[0-9]+([.,][0-9]+)?[^0-9]{0,12}$"  # with a unit, or the like
SENTINELS = re.compile(r"-?9+|-1|-9+|0|-?8{2,}|-?7{2,}")  # numbers that stand for "missing" in many tables
OFTEN = 3  # cells with one number far from all others
MOST_TOLD = 3  # values in a sentence
MOST_COMPARED = 200  # distinct values of a category that are compared with each other
MISSPELT = 0.85  # likeness of two words, and at most a tenth as frequent
MOSTLY_MISSING = 0.5
MOSTLY_NUMBERS = 0.5
SAME = 0.9999  # correlation of two columns that say the same
MOST_ROWS, MOST_COLUMNS = 20_000, 60  # for rows that are nearly the same, and columns that are
EARLIEST = datetime.date(1900, 1, 1)


Odd = tuple[str, str | None]  # what is odd, and what would help


def describe(
    table: Any, target: str | None = None, *, missing: Sequence[str] = (), as_classes: bool = False
) -> dict[str, Any]:
    """What is in a table: every column, what it is taken for and why, what is odd in it, and what would help.

    Parameters
    ----------
    table : polars or pandas frame, or mapping of columns
    target : str, default=None
        The column to predict. With it, columns that give it away are named.
    missing : sequence of str, default=()
        What stands for a missing value, beside what everybody knows.
    as_classes : bool, default=False
        Whether the target is classes, though it seems a measure.

    Returns
    -------
    description : dict
        Plain values: ``rows``; ``columns``, a dict each (``name``, ``role``, ``why``, ``missing``, ``distinct``,
        ``range``, ``suspicious``); ``target`` (``classes``, ``missing``, ``suspicious``) or None; ``repeated_rows``,
        ``similar_rows`` and ``same_columns``; ``leaks``, columns that give the target away; ``advice``, sentences.

    Examples
    --------
    >>> import polars as pl
    >>> from multiform.tables import describe
    >>> ages = [*map(str, range(20, 80)), "k.A.", "999", "999", "999"]
    >>> table = pl.DataFrame({"age": ages, "ill": ["yes", "no"] * 32})
    >>> found = describe(table, "ill")
    >>> found["columns"][0]["why"]
    "every cell reads as a number; 'k.A.' counts as missing"
    >>> found["columns"][0]["suspicious"]
    ['999 stands in 3 cells, far from all others (20 to 79)']
    """
    reader = TableClassifier(missing=missing)
    frame = reader._frame(table)
    pl = polars()
    if target is not None and target not in frame.columns:
        raise TableError(f"There is no column {target!r} to predict; {nearest(target, frame.columns)}")
    features = frame.drop(target) if target is not None else frame
    told_target, labels, present = _target(frame, target, as_classes)
    columns, numbers = reader._decided(features, present)
    features = numbers.filter(pl.Series(present))
    raw = frame.filter(pl.Series(present))
    encoded, _ = learn(columns, features) if any(one.width for one in columns) else (np.empty((len(features), 0)), {})
    blocks = blocks_of(columns, encoded)
    odd = {one.name: [*_suspicious(one, one.typed(features[one.name]).drop_nulls(), raw[one.name])] for one in columns}
    told = [_column(one, features[one.name], odd[one.name]) for one in columns]
    found: dict[str, Any] = {
        "rows": len(frame),
        "columns": told,
        "target": told_target,
        "repeated_rows": 0,
        "similar_rows": 0,
        "same_columns": _same(columns, blocks),
        "leaks": {} if labels is None else deciding(blocks, labels),
    }
    if blocks:
        found["repeated_rows"], found["similar_rows"] = _repeated(columns, features, labels)
    found["advice"] = list(
        dict.fromkeys([*_advice(found), *(help for each in odd.values() for _, help in each if help)])
    )
    return found


# --------------------------------------------------------------------------------------------------------- one column


def _column(column: Column, series: Any, odd: list[Odd]) -> dict[str, Any]:
    cells = column.typed(series)
    known = cells.drop_nulls()
    return {
        "name": column.name,
        "role": column.description()["role"],
        "why": column.why,
        "missing": int(cells.null_count()),
        "distinct": int(known.n_unique()),
        "range": _range(column, known),
        "suspicious": [sentence for sentence, _ in odd],
    }


def _range(column: Column, known: Any) -> str:
    if not len(known):
        return ""
    if isinstance(column, Number):
        least, middle, most = (f"{value:.6g}" for value in (known.min(), known.median(), known.max()))
        return f"{least} to {most}, median {middle}"
    if column.role in ("identifier", "text"):  # which may be names of people, and tell nothing of the whole
        return ""
    if isinstance(column, Date):
        return f"{known.min():%Y-%m-%d} to {known.max():%Y-%m-%d}"
    ranked = _ranked(known)
    shown = ", ".join(f"{_short(value)} ({count})" for value, count in ranked[:MOST_TOLD])
    return shown + f" and {len(ranked) - MOST_TOLD} more" * (len(ranked) > MOST_TOLD)


def _suspicious(column: Column, known: Any, raw: Any) -> Iterator[Odd]:
    """What is odd, and what would help; `raw` is the column as the table has it."""
    if not len(known):
        return
    if isinstance(column, Number):
        yield from _far(column.name, np.asarray(known.to_numpy(), dtype=np.float64))
    elif isinstance(column, Date):
        days = known.dt.date()
        late, early = int((days > datetime.date.today()).sum()), int((days < EARLIEST).sum())
        if late:
            yield f"{late} date{'s' * (late != 1)} after today, for example {days.max()}", None
        if early:
            yield f"{early} date{'s' * (early != 1)} before 1900, for example {days.min()}", None
    elif column.role in ("category", "identifier"):
        yield from _words(column, known, raw)


def _far(name: str, values: Doubles) -> Iterator[Odd]:
    """Numbers far from all others: one that repeats may stand for a missing value."""
    low, high = np.quantile(values, [0.25, 0.75])
    spread = high - low
    far = (values < low - FAR * spread) | (values > high + FAR * spread)
    if not spread or not far.any():
        return
    near = values[~far]
    usual = f"({near.min():.6g} to {near.max():.6g})"
    numbers, counts = np.unique(values[far], return_counts=True)
    each = {f"{one:.6g}": int(n) for one, n in zip(numbers, counts, strict=True)}
    codes = [one for one, n in each.items() if n >= OFTEN or SENTINELS.fullmatch(one)]
    for one in codes[:MOST_TOLD]:
        help = f"if {one} in column {name!r} means that the value is missing, say so: --na {one}."
        yield f"{one} stands in {each[one]} cell{'s' * (each[one] != 1)}, far from all others {usual}", help
    others = [one for one in each if one not in codes]
    if others and len(others) <= max(MOST_TOLD, 0.01 * len(values)):
        shown = ", ".join(others[:MOST_TOLD]) + ", ..." * (len(others) > MOST_TOLD)
        yield f"{shown} {'lies' if len(others) == 1 else 'lie'} far from all others {usual}", None


def _words(column: Column, known: Any, raw: Any) -> Iterator[Odd]:
    """Values that differ in spelling, and numbers that some words keep from being such."""
    if (odd := nearly_numbers(column, raw)) is not None:
        yield odd
    if column.role == "identifier":
        return
    ranked = _ranked(known)[:MOST_COMPARED]
    help = f"column {column.name!r} spells one thing in several ways; one spelling for each would help."
    for same in alike(np.array([value for value, _ in ranked]))[:MOST_TOLD]:
        yield f"{', '.join(map(repr, map(_short, same)))} differ in nothing but case and blanks", help
    for value, like in _misspelt(ranked)[:MOST_TOLD]:
        yield f"{_short(value)!r} may be {_short(like)!r}, misspelt", help


def nearly_numbers(column: Column, raw: Any) -> Odd | None:
    """Of a column of words as the table has it: that most cells are numbers, if they are; and what would help."""
    if column.role not in ("category", "identifier"):
        return None
    text = as_text(raw).drop_nulls()
    numeric = text.str.contains(NUMBER)
    share = float(numeric.mean() or 0)
    if not MOSTLY_NUMBERS <= share < 1:
        return None
    others = _ranked(text.filter(~numeric))
    shown = ", ".join(f"{_short(value)!r} ({count})" for value, count in others[:MOST_TOLD])
    help = (
        f"column {column.name!r} would be numbers, but for some words; if they mean that the value is missing, say so: "
        f"--na {shlex.quote(_short(others[0][0]))}."
    )
    return f"{share:.0%} of the cells are numbers, the others are not: {shown}", help


def _misspelt(ranked: list[tuple[str, int]]) -> list[tuple[str, str]]:
    """Rare values that are nearly a common one."""
    found = []
    for value, count in ranked:
        for like, more in ranked:
            if more < 10 * count or re.search("[0-9]", value + like) or value.casefold() == like.casefold():
                continue
            if min(len(value), len(like)) > 3 and SequenceMatcher(None, value, like).ratio() >= MISSPELT:
                found.append((value, like))
                break
    return found


def _ranked(texts: Any) -> list[tuple[str, int]]:
    """The distinct texts and how often each occurs, the commonest first."""
    return sorted(texts.value_counts().rows(), key=lambda one: (-one[1], one[0]))


def _short(text: str, most: int = 40) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


# ----------------------------------------------------------------------------------------------------- the whole table


def _target(frame: Any, name: str | None, as_classes: bool) -> tuple[dict[str, Any] | None, Array | None, Bools]:
    """What is to be said of the target, its labels, and the rows that have one."""
    if name is None:
        return None, None, np.ones(len(frame), dtype=bool)
    try:
        labels, present, _ = learn_labels(frame[name], as_classes)
    except TableError as error:
        told = {"name": name, "classes": {}, "missing": 0, "suspicious": [str(error)]}
        return told, None, np.ones(len(frame), dtype=bool)
    values, counts = np.unique(labels, return_counts=True)
    classes = dict(zip(map(str, values.tolist()), counts.tolist(), strict=True))
    rare = [label for label, count in classes.items() if count < RARE]
    suspicious = [f"{', '.join(map(repr, same))} differ in nothing but case and blanks" for same in alike(values)]
    if rare:
        suspicious.append(f"{listed(rare)} {'has' if len(rare) == 1 else 'have'} fewer than {RARE} rows")
    told = {"name": name, "classes": classes, "missing": int((~present).sum()), "suspicious": suspicious}
    return told, labels, present


def _same(columns: Sequence[Column], blocks: dict[str, Doubles]) -> list[list[str]]:
    """Pairs of columns that say the same: numbers that rise and fall together, categories that stand for each other."""
    kinds = {one.name: one for one in columns}
    names = list(blocks)[:MOST_COLUMNS]
    found = []
    firsts = {name: block[:MOST_ROWS] for name, block in blocks.items()}
    for at, one in enumerate(names):
        for other in names[at + 1 :]:
            if kinds[one].role != kinds[other].role or kinds[one].role == "text":
                continue
            a, b = firsts[one], firsts[other]
            if kinds[one].role in ("number", "date", "code"):
                if len(a) > 2 and a[:, 0].std() and b[:, 0].std() and abs(_correlation(a[:, 0], b[:, 0])) >= SAME:
                    found.append([one, other])
            elif a.shape[1] == b.shape[1] > 1 and len(np.unique(np.hstack([a, b]), axis=0)) == a.shape[1]:
                found.append([one, other])
    return found


def _correlation(a: Doubles, b: Doubles) -> float:
    scaled = [(one - one.mean()) / one.std() for one in (a, b)]
    return float(np.mean(scaled[0] * scaled[1]))


def _repeated(columns: Sequence[Column], features: Any, labels: Array | None) -> tuple[int, int]:
    """Rows that are there once more, whatever their identifiers; and rows that differ from another in one column, where
    chance alone would not have it: few columns of few values have many such.
    """
    used = [one for one in columns if one.width]
    features = with_numbers(features, []).head(MOST_ROWS)
    labels = np.zeros(len(features), dtype=np.int64) if labels is None else labels[:MOST_ROWS]
    keys = row_keys(used, features, labels)
    repeated = len(keys) - len(np.unique(keys))
    if not 3 < len(used) <= MOST_COLUMNS:
        return repeated, 0
    first = np.unique(keys, return_index=True)[1]
    distinct, similar = features[np.sort(first)], set()
    n, nothing = len(distinct), np.zeros(len(distinct))
    by_chance = list(chances_of_agreement(_comparable(one, distinct) for one in used))
    for place in range(len(used)):
        others = [one for at, one in enumerate(used) if at != place]
        _, at, counts = np.unique(row_keys(others, distinct, nothing), return_inverse=True, return_counts=True)
        if beyond_chance(counts, n, float(np.prod([*by_chance[:place], *by_chance[place + 1 :]]))):
            similar |= set(np.flatnonzero(counts[at] > 1).tolist())
    return repeated, len(similar)


def _comparable(column: Column, features: Any) -> Array:
    """Numbers that are equal where the cells of a column are."""
    if isinstance(column, Number):
        return np.asarray(column.read(features[column.name])[0])
    return row_keys([column], features, np.zeros(len(features)))


def _advice(found: dict[str, Any]) -> Iterator[str]:
    """What would help the table as a whole, with the option that does it."""
    for name, accuracy in found["leaks"].items():
        yield (
            f"column {name!r} alone tells the class of {accuracy:.1%} of rows that were held out; if it is known only "
            f"once the answer is, leave it out: --drop {shlex.quote(name)}."
        )
    for one in found["columns"]:
        name, drop = one["name"], f"--drop {shlex.quote(one['name'])}"
        if one["role"] != "constant" and one["missing"] > MOSTLY_MISSING * found["rows"]:
            share = one["missing"] / found["rows"]
            yield f"column {name!r} is missing in {share:.0%} of the rows; if it tells nothing, leave it out: {drop}."
        if one["role"] == "identifier" and one["distinct"] < found["rows"] - one["missing"]:
            group = f"--group {shlex.quote(name)}"
            yield f"values of column {name!r} repeat; if it says which rows are of one patient, say so: {group}."
        if one["role"] == "date":
            later = "is a date, and new rows will have later ones; unless the day itself matters, leave it out"
            yield f"column {name!r} {later}: {drop}."
    for one, other in found["same_columns"]:
        yield f"columns {one!r} and {other!r} say the same; one of them will do: --drop {shlex.quote(other)}."
    if found["repeated_rows"]:
        n = found["repeated_rows"]
        copies = "rows are exact copies of others" if n != 1 else "row is an exact copy of another"
        yield f"{n} {copies}; copies make estimates too good: remove them."
    if found["similar_rows"]:
        n = found["similar_rows"]
        yield f"{n} rows equal another row in all columns but one; are they of one patient, or typed twice?"
    if found["target"] is None:
        yield "say which column is to be predicted, to hear which columns give it away: -t NAME."
        return
    if any("case and blanks" in one for one in found["target"]["suspicious"]):
        yield "--merge-classes makes one class of those that differ only in case and blanks."
    if found["target"]["missing"]:
        yield f"{found['target']['missing']} rows have no label and will be left out of the training."
