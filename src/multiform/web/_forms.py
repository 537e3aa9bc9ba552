"""Forms: the columns that a model reads, or the features of a test, as entries of a page; and what is typed there."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from multiform.columns import Seen, hours_of
from multiform.web._model import Field
from multiform.web._words import Words, short

MOST_CHOICES = 12  # of more, one types instead
ANOTHER = "\N{HORIZONTAL ELLIPSIS}"  # the choice that none of the choices is it: then it is typed
UNIT = re.compile(r"(.+?)\s*[(\[]([^()\[\]]{1,16})[)\]]")


@dataclass(frozen=True)
class Entry:
    """A field as it stands in a page.

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


class Form:
    """The entries of all fields.

    Parameters
    ----------
    fields : dict of Field
        By name.
    seen : dict of Seen
        What training had of them, where that is known.
    optional : bool, default=None
        Whether all may be left open; None leaves that to the fields.
    """

    def __init__(self, fields: Mapping[str, Field], seen: Mapping[str, Seen], optional: bool | None = None) -> None:
        self.fields, self.seen, self._optional = fields, seen, optional
        self.keys = {name: f"f{number}" for number, name in enumerate(fields)}

    def entry(self, name: str, words: Words) -> Entry:
        """The entry of a field."""
        field, seen = self.fields[name], self.seen.get(name)
        found = UNIT.fullmatch(name)
        label, unit = (found[1], found[2]) if found else (name, "")
        numeric = field.kind in ("number", "code")
        kind = "number" if numeric else "text"
        offered: tuple[tuple[str, str], ...] = ()
        if seen is None and 0 < len(field.choices) <= MOST_CHOICES:
            kind, offered = "choice", tuple((one, one) for one in field.choices)
        if field.kind == "date":
            kind = "moment" if seen is not None and any(value % 86_400 for value in seen.values) else "date"
        known = () if seen is None or field.kind not in ("code", "category") or seen.n_unnamed else seen.values
        if 0 < len(known) <= MOST_CHOICES:
            kind, offered = "choice", tuple((_sent(value), words.told(value)) for value in sorted(known))
        hint = "" if seen is None or kind == "choice" else had(seen, words)
        optional = field.may_be_missing if self._optional is None else self._optional
        return Entry(self.keys[name], name, short(label), short(unit), kind, offered, numeric, optional, hint)

    def entries(self, words: Words) -> list[Entry]:
        """All of them."""
        return [self.entry(name, words) for name in self.fields]

    def had(self, name: str, words: Words) -> str:
        """What training had, in words; empty where it is not known."""
        return had(self.seen[name], words) if name in self.seen else ""

    def outside(self, values: Mapping[str, Any], words: Words, but: Collection[str] = ()) -> list[str]:
        """Notes on numbers beyond all that training had, though not so far that they are taken as unknown (`but`)."""
        found = []
        for name, value in values.items():
            seen = self.seen.get(name)
            if (
                name in but
                or seen is None
                or seen.kind != "number"
                or not seen.values
                or not isinstance(value, int | float)
            ):
                continue
            if not seen.values[0] <= value <= seen.values[-1]:
                found.append(self.unlike("outside", name, value, words))
        return found

    def unlike(self, key: str, name: str, value: Any, words: Words) -> str:
        """The sentence of this key on a value that is unlike training; None is a missing one."""
        value = words("missing") if value is None else value
        return words(key, name=self.entry(name, words).label, value=value, seen=self.had(name, words))


def shown(entry: Entry, value: Any, words: Words, missing: str = "not_known") -> str:
    """A value as one reads it."""
    if value is None:
        return words(missing)
    if isinstance(value, datetime):
        return value.isoformat()[: 10 if entry.kind == "date" else 16].replace("T", " ")
    return f"{words.told(value)} {entry.unit}".strip()


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


def filled(entry: Entry, value: Any, words: Words) -> Entry:
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


def typed(entry: Entry, form: Mapping[str, str], words: Words) -> tuple[Entry, Any]:
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
    """A finite number, with a decimal point or comma, or a time as hours; None where it is none.

    >>> as_number("1,5"), as_number(" 12.50"), as_number("14:30"), as_number("12a"), as_number("inf")
    (1.5, 12.5, 14.5, None, None)
    """
    text = text.replace("\N{MINUS SIGN}", "-")
    try:
        value = float(text.replace(",", ".") if text.count(",") == 1 and "." not in text else text)
    except ValueError:
        return hours_of(text)
    return value if abs(value) < float("inf") else None


def _sent(value: Any) -> str:
    return f"{value:.17g}" if isinstance(value, float) else str(value)
