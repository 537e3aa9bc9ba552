"""The labels of a target column: whole numbers or text, and whether they are classes at all.

Text is classes, unless nearly every row has its own. Numbers may be a measure instead, which is to be estimated and not
classified (a regression problem). They are taken for one if

- some are not whole, and there are more than 12 distinct ones, or nearly one a row; or
- they are whole, there are more than 12 distinct ones, and
  - there are fewer than 5 rows a value, or
  - more than 30 values, some of them in fewer than 5 rows, as the ends of a range are, or
  - how often they occur rises and falls smoothly with the number, as of a measure and not as of codes.
"""

from __future__ import annotations

import unicodedata
from typing import Any

import numpy as np
import scipy

from multiform._typing import Array, Bools, Doubles, Indices
from multiform.columns import TableError, as_text, numbers_or_text, polars

RARE = 5  # a class of fewer rows cannot be in every fold of an estimate
FEW_NUMBERS = 12  # distinct ones that are classes, if they are whole
MANY_NUMBERS = 30  # from which on a rare one shows that they are no classes
MANY_TEXTS, MOST_TEXTS = 50, 1000  # distinct ones that are classes however few the rows, and at most
SMOOTH = -3.5  # standard errors below what counts in random order would give
RARE_END = 1 / 3  # how often the least and the greatest number of a measure occur, beside the commonest, at most
MOST_LETTERS = 1_000  # of a label: each row has room for the longest
WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"
NEEDLESS_ZERO = r"^[-+]?0[0-9]"


def learn_labels(series: Any, as_classes: bool = False) -> tuple[Array, Bools, bool]:
    """The labels of a training table, which rows have one, and whether they are whole numbers.

    They are if every label is written as one. What is no classes by the rules above is refused, unless told that it is.
    """
    text = as_text(series).drop_nulls()
    whole = bool(len(text)) and bool(text.str.contains(WHOLE).all())
    labels, present = labels_of(series, whole)
    values = np.unique(labels)
    if len(values) < 2:
        found = f"only {labels.tolist()[0]!r}" if len(values) else "no label"
        raise TableError(f"The target column {series.name!r} holds {found}; there must be at least two classes.")
    if as_classes:
        return labels, present, whole
    numbers = numbers_or_text(series.filter(polars().Series(present)))
    numeric = numbers.dtype.is_numeric() and not text.str.contains(NEEDLESS_ZERO).any()
    held = f"The target column {series.name!r} holds {len(values)} distinct {'numbers' if numeric else 'values'}"
    told = "say that they are classes (--as-classes, as_classes=True)"
    if numeric and is_measure(*np.unique(numbers.to_numpy(), return_counts=True)):
        raise TableError(
            f"{held} in {len(labels)} rows, like a measurement; multiform tells classes apart and does not estimate "
            f"numbers. Put them into a few ranges, such as low, middle and high, or {told}."
        )
    if not numeric and (len(values) > MOST_TEXTS or (len(values) > MANY_TEXTS and 2 * len(values) > len(labels))):
        raise TableError(
            f"{held} in {len(labels)} rows, too many for classes. Is this the target? Put them into fewer, or {told}."
        )
    return labels, present, whole


def is_measure(values: Doubles, counts: Indices) -> bool:
    """Whether sorted numbers, and how often each occurs, are a measure and no codes of classes: the rules above."""
    n_values, n_rows = len(values), int(counts.sum())
    if (values != np.round(values)).any():
        return n_values > FEW_NUMBERS or n_values > max(2, n_rows / 2)
    if n_values <= FEW_NUMBERS:
        return False
    return (
        n_rows < RARE * n_values
        or (n_values > MANY_NUMBERS and int(counts.min()) < RARE)
        or _rises_and_falls(counts.astype(np.float64))
    )


def _rises_and_falls(counts: Doubles) -> bool:
    """Whether the counts of neighbours are alike, and the ends are rare beside the commonest.

    The squared steps of the ranks over their variance (von Neumann's ratio, after Bartels) are nearly normal in random
    order, with mean 2 and variance 4 / n.
    """
    ranks = scipy.stats.rankdata(counts)
    steps, spread = float(np.sum(np.diff(ranks) ** 2)), float(np.sum((ranks - ranks.mean()) ** 2))
    rare_ends = RARE_END * counts.max() >= max(counts[0], counts[-1])
    return bool(rare_ends) and steps < (2 + SMOOTH * 2 / np.sqrt(len(counts))) * spread


def labels_of(series: Any, whole: bool) -> tuple[Array, Bools]:
    """Labels, whole numbers or text, of the rows that have one; and which rows these are."""
    text = as_text(series)
    present = np.array(text.is_not_null().to_numpy(), dtype=bool)
    if (letters := text.str.len_chars().max() or 0) > MOST_LETTERS:
        row = int(text.str.len_chars().arg_max())
        raise TableError(
            f"the label has {letters:,} letters; one may have {MOST_LETTERS:,}.", column=str(series.name), row=row
        )
    if not whole:
        labels = text.drop_nulls().to_list()
        # NumPy's own text would lose a NUL at the end, and with it the difference from the label without one.
        return np.array(labels, dtype=object if any(label.endswith("\0") for label in labels) else str), present
    pl = polars()
    numbers = text.drop_nulls().cast(pl.Int64, strict=False)
    if numbers.null_count():
        row = int(np.flatnonzero(present)[int(numbers.is_null().arg_true()[0])])
        raise TableError(
            f"the label {text[row]!r} is no whole number, as those of the training table are.",
            column=str(series.name),
            row=row,
        )
    return np.array(numbers.to_numpy(), dtype=np.int64), present


def alike(labels: Array) -> list[list[str]]:
    """Those of the distinct labels that differ in nothing but case and blanks, together.

    >>> alike(np.array(["No", "Yes", "yes", "y es"]))
    [['Yes', 'yes', 'y es']]
    """
    spellings: dict[str, list[str]] = {}
    for label in map(str, labels):
        spellings.setdefault(_spelt(label), []).append(label)
    return [same for same in spellings.values() if len(same) > 1]


def merged(labels: Array, classes: Array, counts: Array) -> Array:
    """Labels that differ from a class in nothing but case and blanks as that class; of several, as the commonest."""
    ordered = sorted(zip(counts.tolist(), classes.tolist(), strict=True))
    class_of = {_spelt(label): label for _, label in ordered}
    found = [class_of.get(_spelt(label), label) for label in labels.tolist()]
    return np.array(found, dtype=object if labels.dtype == object else str)


def _spelt(label: str) -> str:
    return "".join(unicodedata.normalize("NFKC", label).casefold().split())
