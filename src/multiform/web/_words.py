"""The words of the page: one file a language, `words/en.json` and its translations, and how numbers are written in it.

A translation is a file with the same keys. What a model file says (names, labels) is nobody's translation.

Sentences of the library and of refusals are made where something goes wrong, in English, and programs get them so. The
page knows them by their pattern: keys that begin with ``said_`` hold it, with places for the values, and a translation
of it has the same places, or fewer. What stands at ``{sentence}`` is such a sentence in its turn. Keys that begin with
``in_report_`` are of the report (`_report.py`), in the same way. English alone has ``shown_...`` of some ``said_...``:
what the page says where the library speaks of an option of the command line, which a page does not have.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from typing import Any

from markupsafe import Markup, escape

from multiform.diagnosis import for_people

FIRST = "en"
SAID = "said_"  # keys of sentences that are made elsewhere
IN_REPORT = "in_report_"  # and of the report's
SHOWN = "shown_"  # what English pages show of those that name options of the command line
NUMBER = re.compile(r"-?\d[\d,]*(\.\d+)?(e[-+]?\d+)?( ?%)?")
FIRM = "\N{NO-BREAK SPACE}"  # no line ends between a number and its sign
COOKIE = "multiform-language"
MOST_LETTERS = 60  # of a name or a value in a sentence
MOST_SAID = 1_000  # of a sentence


class Words:
    """One language.

    Examples
    --------
    >>> from multiform.web._words import languages
    >>> german = languages()["de"]
    >>> german("case_a"), german.number(1234.5), german.percent(0.573)
    ('Fall A', '1.234,5', '57\xa0%')
    """

    def __init__(self, code: str, sentences: dict[str, str], english: Words | None = None) -> None:
        self.code, self._sentences, self._english = code, sentences, english

    def __call__(self, key: str, **values: Any) -> str:
        """A sentence, with values in their places."""
        return self._sentences[key].format(**{name: self.told(value) for name, value in values.items()})

    def raw(self, key: str) -> str:
        """A sentence with its places still open, for the browser to fill."""
        return self._sentences[key]

    def said(self, sentence: str) -> Markup:
        """A sentence of the library in this language, for a page; one that has no translation is marked as English."""
        sentence = short(" ".join(sentence.split()), MOST_SAID)
        found = self.translated(sentence)
        return escape(found) if found is not None else Markup('<span lang="en">{}</span>').format(sentence)

    def translated(self, sentence: str, kind: str = SAID, **known: Any) -> str | None:
        """A sentence of the library in this language, if there is one of its pattern.

        The keys of its `kind` are looked at; `known` are values that whoever asks has in this language already.
        """
        if self._english is None:
            for pattern, shown in self._by_command():
                sentence = pattern.sub(lambda found, shown=shown: shown.format(**found.groupdict()), sentence)  # type: ignore[misc]
            return for_people(sentence)
        for key, pattern in self._english.patterns(kind):
            match = pattern.fullmatch(sentence)
            if match is None:
                continue
            values: dict[str, Any] = match.groupdict() | known
            for name, value in values.items():
                if name == "sentence":
                    values[name] = self.translated(value)
                elif name in ("names", "type", "list"):
                    values[name] = "; ".join(self.translated(one, kind) or one for one in value.split("; "))
                elif NUMBER.fullmatch(str(value)):
                    values[name] = self.marked(str(value))
            if values.get("sentence", "") is not None:
                return self._sentences[key].format(**values)
        return None

    @cache  # noqa: B019  # a language stays as long as the process
    def patterns(self, kind: str) -> list[tuple[str, re.Pattern[str]]]:
        """What sentences of a kind look like in this language, those that say most themselves first."""
        told = {key: text for key, text in self._sentences.items() if key.startswith(kind)}
        ranked = sorted(told, key=lambda key: -len(re.sub(r"\{\w+\}", "", told[key])))
        return [(key, re.compile(_pattern(told[key]))) for key in ranked]

    @cache  # noqa: B019
    def _by_command(self) -> list[tuple[re.Pattern[str], str]]:
        """Sentences that name options of the command line, and what the page says instead."""
        shown = {key: text for key, text in self._sentences.items() if key.startswith(SHOWN)}
        return [
            (re.compile(_pattern(self._sentences[SAID + key.removeprefix(SHOWN)])), text) for key, text in shown.items()
        ]

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
        return self.marked(text)

    def marked(self, text: str) -> str:
        """A number as Python writes it, with the marks of this language."""
        marks = {",": self._sentences["thousands"], ".": self._sentences["decimal"], "-": "\N{MINUS SIGN}"}
        return "".join(marks.get(letter, letter) for letter in text)

    def plain(self, value: float) -> str:
        """A number as it is typed into a field: without marks between the thousands."""
        return f"{value:.12g}".replace(".", self._sentences["decimal"])

    def percent(self, share: float, digits: int = 0) -> str:
        """A share. What is neither all nor nothing is never said to be."""
        least = 10.0 ** -(digits + 2)
        if 0 < share < least / 2:
            return f"<{FIRM}{self.number(100 * least, digits)}{FIRM}%"
        if 1 - least / 2 <= share < 1:
            return f">{FIRM}{self.number(100 * (1 - least), digits)}{FIRM}%"
        return f"{self.number(100 * share, digits)}{FIRM}%"

    def money(self, value: float) -> str:
        """A price."""
        return self.number(value, 2)


def short(value: Any, most: int = MOST_LETTERS) -> str:
    """Text of a model file or of a case as it may stand in a page: printable, of bounded length."""
    text = str(value)
    if not text.replace(FIRM, " ").isprintable():
        text = "".join(
            letter if letter.isprintable() or letter == FIRM else "\N{REPLACEMENT CHARACTER}" for letter in text
        )
    return text if len(text) <= most else text[: most - 1] + "…"


def as_sentence(text: str) -> str:
    """With a capital letter at its beginning; a `Markup` stays one."""
    return text[:1].upper() + text[1:]


def _pattern(text: str) -> str:
    """A regular expression for a sentence with places."""
    return "".join(
        f"(?P<{part[1:-1]}>.*?)" if part.startswith("{") else re.escape(part) for part in re.split(r"(\{\w+\})", text)
    )


def languages(first: str = FIRST) -> dict[str, Words]:
    """All languages that there are; the first is spoken where nothing that is known is asked for."""
    folder = files("multiform.web") / "words"
    texts = {entry.name.removesuffix(".json"): entry for entry in folder.iterdir() if entry.name.endswith(".json")}
    known = {code: json.loads(entry.read_text(encoding="utf-8")) for code, entry in texts.items()}
    english = Words(FIRST, known.pop(FIRST))
    found = {FIRST: english} | {code: Words(code, sentences, english) for code, sentences in known.items()}
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
