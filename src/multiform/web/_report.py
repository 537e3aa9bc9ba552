"""The report in the words of the page: every text of the document, and of the pictures in it, if it has a translation.

`multiform.reporting` writes English. Here its texts are known by their patterns, as other sentences of the library are;
names and values of the table are nobody's translation, and stay as they are.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from functools import partial
from html import escape, unescape

from multiform.web._words import IN_REPORT, NUMBER, Words

TAG = re.compile(r"(<style.*?</style>|<[^>]*>)", re.DOTALL)
SHOWN = re.compile(r'\b(data-label|alt|aria-label)="([^"]*)"')
PICTURE = re.compile(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)")
SENTENCES = re.compile(r"(?<=[.?!]) (?=[A-Z0-9])")
FIGURES = re.compile(r"[+\N{MINUS SIGN}\d.,%()\N{EN DASH} ]+")
RANGE = re.compile(r"(?P<low>[-+\N{MINUS SIGN}]?\d[\d,.]*%?) to (?P<high>[-+\N{MINUS SIGN}]?\d[\d,.]*\d%?|\d%?)")


def in_words(document: str, words: Words) -> str:
    """A report, an HTML document of ours, in another language."""
    if words.code == "en":
        return document
    known: dict[str, str] = {}

    def told(text: str) -> str:
        plain = " ".join(unescape(text).split())
        if plain and plain not in known:
            known[plain] = escape(_told(plain, words))
        around = re.fullmatch(r"(\s*).*?(\s*)", text, re.DOTALL)
        return f"{around[1]}{known[plain]}{around[2]}" if plain and around else text

    def tag(text: str) -> str:
        text = SHOWN.sub(lambda found: f'{found[1]}="{told(found[2])}"', text)
        return PICTURE.sub(partial(_picture, words=words), text)

    parts = TAG.split(document)
    whole = "".join(tag(part) if part.startswith("<") and place % 2 else told(part) for place, part in enumerate(parts))
    return whole.replace('<html lang="en"', f'<html lang="{words.code}"', 1)


def _told(text: str, words: Words) -> str:
    """A text, or each sentence of it."""
    if FIGURES.fullmatch(text):
        return NUMBER.sub(lambda one: words.marked(one[0]), text)
    each = (words.translated(one, IN_REPORT) or words.translated(one) or one for one in SENTENCES.split(text))
    return RANGE.sub(
        lambda one: words("range", low=words.marked(one["low"]), high=words.marked(one["high"])), " ".join(each)
    )


def _picture(found: re.Match[str], words: Words) -> str:
    drawn = in_words(b64decode(found[1]).decode(), words)
    return "data:image/svg+xml;base64," + b64encode(drawn.encode()).decode()
