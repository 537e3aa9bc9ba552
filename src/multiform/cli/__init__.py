"""The command ``multiform``. It speaks to people and to other programs; the work is done elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; see ``docs/command-line.md``.

    Parameters
    ----------
    argv : sequence of str, default=None
        The words after ``multiform``; None means those of this process.
    """
    for needed in ("click", "polars", "rich"):
        if find_spec(needed) is None:
            sys.stderr.write(
                f'multiform: the command line needs {needed}; install it with pip install "multiform[cli]".\n'
            )
            return 1
    from multiform.cli._app import run

    return run(list(sys.argv[1:] if argv is None else argv))
