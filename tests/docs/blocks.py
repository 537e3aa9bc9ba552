"""Code blocks of a Markdown page: run them, and compare the output block that follows one.

The blocks of a page share one namespace. A block with ``>>>`` is a doctest. Any other Python block just runs, and if a
block of text comes right after it, that is what it prints. ``python -m tests.docs.blocks PAGE ...`` writes these
outputs anew.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FENCED = re.compile(r"^```(?P<language>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\d+(?:\.\d+)?")
# Another BLAS or another scikit-learn moves a figure a little; a change of defaults moves it more.
TOLERANCE = 0.3


@dataclass(frozen=True)
class Block:
    """A Python block, and the output block after it."""

    text: str
    line: int
    output: re.Match[str] | None

    @property
    def is_doctest(self) -> bool:
        return ">>> " in self.text


def python_blocks(page: str) -> list[Block]:
    """The Python blocks of a page."""
    fenced = list(FENCED.finditer(page))
    blocks = []
    for block, after in zip(fenced, [*fenced[1:], None], strict=False):
        if block["language"] != "python":
            continue
        shown = (
            after is not None and after["language"] in ("", "text") and not page[block.end() : after.start()].strip()
        )
        line = page.count("\n", 0, block.start()) + 2
        blocks.append(Block(block["text"], line, after if shown else None))
    return blocks


def run(path: Path) -> Iterator[tuple[Block, str]]:
    """Run the blocks of a page one after the other: each with what it printed, or, for a doctest, its failures."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in python_blocks(path.read_text(encoding="utf-8")):
        printed = io.StringIO()
        if block.is_doctest:
            example = doctest.DocTestParser().get_doctest(block.text, namespace, path.name, str(path), block.line - 1)
            options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
            doctest.DocTestRunner(optionflags=options).run(example, out=printed.write, clear_globs=False)
            namespace.update(example.globs)
        else:
            with contextlib.redirect_stdout(printed):
                exec(compile("\n" * (block.line - 1) + block.text, str(path), "exec"), namespace)
        yield block, printed.getvalue()


def same_output(shown: str, printed: str) -> bool:
    """Whether the words are the same, and the numbers nearly.

    >>> same_output("accuracy  0.98", "accuracy 0.97"), same_output("accuracy 0.98", "accuracy 0.4")
    (True, False)
    >>> same_output("accuracy 0.98", "precision 0.98")
    False
    """
    if NUMBER.sub("#", shown).split() != NUMBER.sub("#", printed).split():
        return False
    pairs = zip(map(float, NUMBER.findall(shown)), map(float, NUMBER.findall(printed)), strict=True)
    return all(abs(a - b) <= TOLERANCE * max(abs(a), abs(b)) for a, b in pairs)


def rewritten(path: Path) -> str:
    """The page with the outputs of its blocks as they are now."""
    page = path.read_text(encoding="utf-8")
    for block, printed in reversed(list(run(path))):
        if block.output is not None:
            page = page[: block.output.start("text")] + printed + page[block.output.end("text") :]
    return page


if __name__ == "__main__":
    for name in sys.argv[1:]:
        Path(name).write_text(rewritten(Path(name)), encoding="utf-8")
