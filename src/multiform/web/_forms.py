"""Forms: the columns that a model reads, or the features of a test, as entries of a page; and what is typed there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from multiform.columns import Seen
from multiform.web._words import Words, short

MOST_CHOICES = 12  # of more, one types instead
ANOTHER = "\N{HORIZONTAL ELLIPSIS}"  # the choice that none of the choices is it: then it is typed
UNIT = re.compile(r"(.+?)\s*[(\[]([^()\[\]]{1,16})[)\]]")


@dataclass(frozen=True)
class Field:
    """One entry.

    Attributes
    ----------
    key : str
        What the browser calls it: names of columns can be anything.
    name, label, unit : str
        The column; and what stands before and after the entry, "age (years)" being age in years.
    kind : {"number", "choice", "date", "moment", "text"}
    choices : tuple of (str, str)
        What is sent, and what is shown.
    numeric : bool
        Whether a choice is a number.
    optional : bool
        Whether it may be left open.
    hint : str
        What training had.
    text : str
        What was typed.
    mend : str
        What is wrong with it.
    strange : bool
        Whether that is that training had nothing like it, so that one may insist.
    insisted : bool
    """

    key: str
    name: str
    label: str
    unit: str
    kind: str
    choices: tuple[tuple[str, str], ...]
    numeric: bool
    optional: bool
    hint: str
    text: str = ""
    mend: str = ""
    strange: bool = False
    insisted: bool = False


def field(
    key: str, name: str, kind: str, seen: Seen | None, optional: bool, words: Words, choices: Sequence[str] = ()
) -> Field:
    """The entry of a column; `kind` is what it was taken for (``Column.role``), `choices` where nothing was `seen`."""
    found = UNIT.fullmatch(name)
    label, unit = (found[1], found[2]) if found else (name, "")
    numeric = kind in ("number", "code")
    entry = "number" if numeric else "text"
    offered = tuple((one, one) for one in choices) if seen is None and len(choices) <= MOST_CHOICES else ()
    if offered:
        entry = "choice"
    if kind == "date":
        entry = "moment" if seen is not None and any(value % 86_400 for value in seen.values) else "date"
    known = () if seen is None or kind not in ("code", "category") else seen.values
    if 0 < len(known) <= MOST_CHOICES and not (seen is not None and seen.n_unnamed):
        entry = "choice"
        offered = tuple((_sent(value), words.told(value)) for value in sorted(known))
    hint = "" if seen is None or entry == "choice" else had(seen, words)
    return Field(key, name, short(label), short(unit), entry, offered, numeric, optional, hint)


def had(seen: Seen, words: Words) -> str:
    """What training had of a column, in words."""
    if not seen.values:
        return words("missing")
    if seen.kind == "number":
        told = words("range", low=seen.values[0], high=seen.values[-1])
    elif seen.kind == "date":
        told = words("range", low=seen.shown(seen.values[0]), high=seen.shown(seen.values[-1]))
    elif seen.kind == "text":
        told = words("any_text")
    else:
        shown = [words.told(value) for value in sorted(seen.values[:MOST_CHOICES])]
        more = len(seen.values) - len(shown)
        told = ", ".join(shown) + (f" {words('and_more', n=more)}" if more else "")
    return f"{told} {words('or_missing')}" if seen.n_missing else told


def filled(entry: Field, value: Any, words: Words) -> Field:
    """The entry with a value in it, as it would have been typed."""
    if value is None:
        return replace(entry, text="")
    if isinstance(value, datetime):
        return replace(entry, text=value.isoformat()[: 10 if entry.kind == "date" else 16])
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = _sent(float(value)) if entry.kind == "choice" else words.plain(value)
    else:
        text = str(value)
    if entry.kind == "choice" and text not in [sent for sent, _ in entry.choices]:
        return replace(entry, kind="number" if entry.numeric else "text", text=text)
    return replace(entry, text=text)


def typed(entry: Field, form: Mapping[str, str], words: Words) -> tuple[Field, Any]:
    """The entry as it came back, with what is to be mended; and its value, None where nothing was typed."""
    text = form.get(entry.key, "").strip()
    entry = replace(entry, text=text, insisted=form.get(f"insist-{entry.key}") == "yes")
    if entry.kind == "choice" and text == ANOTHER:
        free = replace(entry, kind="number" if entry.numeric else "text", text="")
        return replace(free, mend=words("another_help")), None
    if entry.kind == "choice" and text and text not in [sent for sent, _ in entry.choices]:
        entry = replace(entry, kind="number" if entry.numeric else "text")  # it was typed, as another value
    if not text:
        return (entry if entry.optional else replace(entry, mend=words("needs_value"))), None
    if entry.kind == "number" or entry.numeric:
        value = as_number(text)
        if value is None:
            return replace(entry, mend=words("needs_number", example=words.plain(12.5), got=text)), None
        return entry, value
    if entry.kind in ("date", "moment"):
        try:
            return entry, datetime.fromisoformat(text).replace(tzinfo=None)
        except ValueError:
            return replace(entry, mend=words("needs_date", example="2026-11-16", got=text)), None
    return entry, text


def as_number(text: str) -> float | None:
    """A finite number, with a decimal point or comma; None where it is none.

    >>> as_number("1,5"), as_number(" 12.50"), as_number("12a"), as_number("inf")
    (1.5, 12.5, None, None)
    """
    text = text.replace("\N{MINUS SIGN}", "-")
    try:
        value = float(text.replace(",", ".") if text.count(",") == 1 and "." not in text else text)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


def _sent(value: Any) -> str:
    return f"{value:.17g}" if isinstance(value, float) else str(value)
