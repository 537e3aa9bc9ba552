"""The words of the page: one file a language, `words/en.json` and its translations, and how numbers are written in it.

A translation is a file with the same keys. What a model file says (names, labels) is nobody's translation.
"""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

FIRST = "en"
COOKIE = "multiform-language"
MOST_LETTERS = 60  # of a name or a value in a sentence


class Words:
    """One language.

    Examples
    --------
    >>> from multiform.web._words import languages
    >>> german = languages()["de"]
    >>> german("case_a"), german.number(1234.5), german.percent(0.573)
    ('Fall A', '1.234,5', '57 %')
    """

    def __init__(self, code: str, sentences: dict[str, str]) -> None:
        self.code, self._sentences = code, sentences

    def __call__(self, key: str, **values: Any) -> str:
        """A sentence, with values in their places."""
        return self._sentences[key].format(**{name: self.told(value) for name, value in values.items()})

    def raw(self, key: str) -> str:
        """A sentence with its places still open, for the browser to fill."""
        return self._sentences[key]

    def told(self, value: Any) -> str:
        """A value in a sentence: a number as one writes it here, anything else as text of bounded length."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            return self.number(value)
        return short(value)

    def number(self, value: float, digits: int | None = None) -> str:
        """A number; with `digits` after the decimal mark, else as few as it takes."""
        if digits is not None:
            text = f"{value:,.{digits}f}"
        elif value == int(value) and abs(value) < 1e15:
            text = f"{int(value):,}"
        elif 1e-4 <= abs(value) < 1e15:
            text = f"{value:,.6f}" if abs(value) < 1 else f"{value:,.{max(0, 6 - len(str(int(abs(value)))))}f}"
            text = text.rstrip("0").rstrip(".")
        else:
            text = f"{value:.6g}"
        marks = {",": self._sentences["thousands"], ".": self._sentences["decimal"], "-": "\N{MINUS SIGN}"}
        return "".join(marks.get(letter, letter) for letter in text)

    def plain(self, value: float) -> str:
        """A number as it is typed into a field: without marks between the thousands."""
        return f"{value:.12g}".replace(".", self._sentences["decimal"])

    def percent(self, share: float, digits: int = 0) -> str:
        """A share. What is neither all nor nothing is never said to be."""
        least = 10.0 ** -(digits + 2)
        if 0 < share < least / 2:
            return f"< {self.number(100 * least, digits)} %"
        if 1 - least / 2 <= share < 1:
            return f"> {self.number(100 * (1 - least), digits)} %"
        return f"{self.number(100 * share, digits)} %"

    def money(self, value: float) -> str:
        """A price."""
        return self.number(value, 2)


def short(value: Any, most: int = MOST_LETTERS) -> str:
    """Text of a model file or of a case as it may stand in a page: printable, of bounded length."""
    text = str(value)
    if not text.isprintable():
        text = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return text if len(text) <= most else text[: most - 1] + "…"


def languages(first: str = FIRST) -> dict[str, Words]:
    """All languages that there are; the first is spoken where nothing that is known is asked for."""
    folder = files("multiform.web") / "words"
    found = {}
    for entry in folder.iterdir():
        if entry.name.endswith(".json"):
            code = entry.name.removesuffix(".json")
            found[code] = Words(code, json.loads(entry.read_text(encoding="utf-8")))
    if first not in found:
        raise ValueError(f"language of application must be one of {', '.join(sorted(found))}; got {first!r}.")
    return dict(sorted(found.items(), key=lambda one: (one[0] != first, one[0])))


def chosen(known: dict[str, Words], cookie: str | None, accepted: str) -> Words:
    """The language that was chosen by a cookie, else the best of an ``Accept-Language`` header.

    >>> chosen(languages(), None, "fr, de-AT;q=0.8, en;q=0.5").code
    'de'
    """
    if cookie in known:
        return known[cookie]
    wanted = []
    for part in accepted[:400].split(","):
        found = re.fullmatch(r"\s*([a-zA-Z]{1,8})[-a-zA-Z0-9]*\s*(?:;\s*q=([01](?:\.\d{1,3})?))?\s*", part)
        if found and found[1].lower() in known:
            wanted.append((-float(found[2] or 1), found[1].lower()))
    return known[min(wanted, key=lambda one: one[0])[1] if wanted else next(iter(known))]
