"""``multiform demo``."""

from __future__ import annotations

from pathlib import Path

import click

from multiform.cli._console import Console, speaks
from multiform.cli._options import examples


@click.command("demo", epilog=examples("multiform demo", "multiform demo --output demo-output"))
@click.option("--output", "-o", metavar="FOLDER", help="Draw a picture, too, into this folder.")
@speaks
def command(output: str | None, console: Console) -> None:
    """A tour in under a minute, on data that come with the package.

    A classifier beside others; its loyalty types against the truth, and a promise; and a diagnosis with its bill.
    """
    from multiform.demo import run

    folder = None if output is None else Path(output)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise click.UsageError(f"--output takes a folder, and {output} is a file")
    if not console.as_json:
        run(folder, echo=click.echo)
        return
    console.result(run(folder, echo=lambda text: None), "")
