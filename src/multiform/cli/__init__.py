"""The command ``multiform``. It speaks to people and to other programs; the work is done elsewhere."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; see ``docs/command-line.md``.

    Parameters
    ----------
    argv : sequence of str, default=None
        The words after ``multiform``; None means those of this process.
    """
    try:
        import click  # noqa: F401
        import polars  # noqa: F401
        import rich  # noqa: F401
    except ImportError as error:
        sys.stderr.write(
            f'multiform: the command line needs {error.name}; install it with pip install "multiform[cli]".\n'
        )
        return 1
    from multiform.cli._app import run

    if sys.platform != "win32":
        # Polars, once imported, has a read that waits begin again after a Ctrl-C, and Python never hears of it.
        signal.siginterrupt(signal.SIGINT, True)
    return run(list(sys.argv[1:] if argv is None else argv))
