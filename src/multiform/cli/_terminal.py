"""What reaches a terminal: words from files, which may be anybody's, are shown and never obeyed."""

from __future__ import annotations

import click


def visible(text: str) -> str:
    """The text with whatever could move the cursor, hide or change something written out.

    >>> print(visible("a title\\x1b]0;mine\\x07, and\\ntwo lines"))
    a title\\x1b]0;mine\\x07, and
    two lines
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter in "\n\t" else repr(letter)[1:-1] for letter in text)


def visible_json(text: str) -> str:
    """JSON that means the same, in one line, with such characters escaped as JSON escapes them.

    >>> print(visible_json('"\\x9b31m"'))
    "\\u009b31m"
    """
    if text.isprintable():
        return text
    units = {
        letter: letter.encode("utf-16-be", "surrogatepass").hex() for letter in {*text} if not letter.isprintable()
    }
    escaped = {
        ord(one): "".join(f"\\u{hexed[k : k + 4]}" for k in range(0, len(hexed), 4)) for one, hexed in units.items()
    }
    return text.translate(escaped)


def say(text: str, *, err: bool = False) -> None:
    """Words for people."""
    click.echo(visible(text), err=err)
