"""``multiform predict``: answers to a file, a piece at a time; the file appears when it is whole."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import click

from multiform.cli._files import check_output, opened, refuse_shifts, say_unfamiliar
from multiform.cli._shared import Console, command, model_file, names, strict_option, table_files, text_table
from multiform.columns import TableError, polars
from multiform.files import atomic_path
from multiform.tables import Familiarity, batches, sources

ANSWER_FORMATS = ("csv", "tsv", "parquet", "jsonl")
OTHER_SUFFIXES = {"pq": "parquet", "ndjson": "jsonl"}
Write = Callable[[Any], None]


@command(
    "multiform predict model.mfm new.csv -o answers.csv",
    "multiform predict model.mfm 'new-*.parquet' -o answers.parquet --keep id --chances",
    "cat new.csv | multiform predict model.mfm - | head",
)
@model_file
@click.option(
    "--output",
    "-o",
    default="-",
    show_default=False,
    metavar="FILE",
    help="Where to: .csv, .tsv, .parquet or .jsonl; standard output, as csv, if not given.",
)
@click.option("--output-format", type=click.Choice(ANSWER_FORMATS), help="If the name does not say it.")
@names("--keep", help="Columns of the table to copy to the output.")
@click.option("--chances", is_flag=True, help="The chance of every class, too.")
@strict_option
@table_files
def predict(
    model_path: str,
    files: tuple[str, ...],
    output: str,
    output_format: str | None,
    keep: tuple[str, ...],
    chances: bool,
    strict: bool,
    file_format: str | None,
    console: Console,
) -> None:
    """Predict the rows of a table, in their order.

    Each row gets a label, the chance that it is right, and its loyalty type (strong, normal or weak); a model with a
    promise says which answers are accepted. A cell that is unlike training is named and taken as unknown. The table is
    read a piece at a time, so it may be larger than memory. The output appears when it is complete.
    """
    if console.as_json and output == "-":
        raise click.UsageError("--json and the answers cannot share standard output; give --output a file")
    found = sources(files, file_format)
    if output != "-":
        check_output(output, (model_path, *(source.path for source in found)))
    model = opened(model_path)
    labels: Counter[str] = Counter()
    known = Familiarity()
    rows = 0
    with console.progress("predicting") as progress, _answer_writer(output, output_format) as write:
        for batch in batches(found):
            lacking = [name for name in keep if name not in batch.frame.columns]
            if lacking:
                raise TableError(f"{batch.source.name} has no column {lacking[0]!r} to keep.")
            try:
                answers, familiar = model.answers(batch.frame, chances=chances)
            except TableError as error:
                raise batch.located(error) from error
            taken = {name: f"{name} given" for name in keep if name in answers.columns}
            write(batch.frame.select(keep).rename(taken).hstack(answers) if keep else answers)
            labels.update(dict(answers["label"].cast(str).value_counts().rows()))
            known += familiar.counted()
            rows += len(answers)
            progress(batch.share, f"predicting, {rows:,} rows")
        refuse_shifts(known, strict)
    say_unfamiliar(console, model, known)
    if output == "-":
        return
    ranked = sorted(labels.items(), key=lambda one: (-one[1], one[0]))
    data = {"output": output, "rows": rows, "labels": dict(ranked), "unfamiliar": known.as_dict()}
    shown = [[str(label), str(count), f"{count / rows:.1%}"] for label, count in ranked[:20]]
    text = text_table([["label", "rows", "share"], *shown], right=[1, 2])
    console.result(data, f"{text}\n{rows} rows written to {output}")


@contextmanager
def _answer_writer(output: str, output_format: str | None) -> Iterator[Write]:
    """A function that appends a frame to the output; ``-`` is standard output."""
    suffix = "csv" if output == "-" else Path(output).suffix.lower().lstrip(".")
    found = output_format or OTHER_SUFFIXES.get(suffix, suffix)
    if found not in ANSWER_FORMATS:
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
    except pl.exceptions.ComputeError as error:
        if found := re.search(r"\(os error (\d+)\)", str(error)):  # as a disk that is full
            raise OSError(int(found[1]), os.strerror(int(found[1]))) from error
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
