"""Answers to a file, a piece at a time; the file appears when it is whole."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import click

from multiform.files import atomic_path, check_writable
from multiform.tables import polars

__all__ = ["answer_writer", "check_output"]

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}

Write = Callable[[Any], None]


def check_output(output: str, inputs: Iterable[str]) -> None:
    """Refuse an output that cannot be written, or that would replace an input, before any work is done."""
    check_writable(output)
    for path in inputs:
        if os.path.isfile(path) and os.path.isfile(output) and os.path.samefile(path, output):
            raise click.UsageError(f"the output {output} is also an input, which would be lost; give another name")


@contextmanager
def answer_writer(output: str, output_format: str | None) -> Iterator[Write]:
    """A function that appends a frame to the output; ``-`` is standard output."""
    found = output_format or ("csv" if output == "-" else SUFFIXES.get(Path(output).suffix.lower()))
    if found is None:
        raise click.UsageError(f"{output}: name the output .csv, .tsv, .parquet or .jsonl, or give --output-format")
    if output == "-":
        if found == "parquet":
            raise click.UsageError("parquet cannot be written to standard output; give --output a file")
        yield _appender(sys.stdout.buffer, found)
        return
    with atomic_path(output) as part:
        if found == "parquet":
            with _parquet_parts(part) as write:
                yield write
            return
        with open(part, "wb") as stream:
            yield _appender(stream, found)


def _appender(stream: BinaryIO, found: str) -> Write:
    begun = False

    def write(frame: Any) -> None:
        nonlocal begun
        # By way of Python, whose streams say it when nobody reads them any more.
        if found == "jsonl":
            text = frame.write_ndjson()
        else:
            text = frame.write_csv(include_header=not begun, separator="\t" if found == "tsv" else ",")
        stream.write(text.encode("utf-8"))
        stream.flush()
        begun = True

    return write


@contextmanager
def _parquet_parts(target: Path) -> Iterator[Write]:
    """Parquet cannot be appended to: the pieces are files, which are joined without reading them all at once."""
    pl = polars()
    folder = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
    try:
        parts: list[Path] = []

        def write(frame: Any) -> None:
            parts.append(folder / f"{len(parts):09d}.parquet")
            frame.write_parquet(parts[-1])

        yield write
        pl.scan_parquet(parts, glob=False).sink_parquet(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
