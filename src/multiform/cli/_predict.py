"""``multiform predict``: answers to a file, a piece at a time; the file appears when it is whole."""

from __future__ import annotations

import io
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import click

import multiform
from multiform.cli._files import check_output, opened, refuse_shifts, say_unfamiliar
from multiform.cli._shared import (
    Console,
    command,
    model_file,
    names,
    strict_option,
    table_files,
    text_table,
    threshold_options,
)
from multiform.cli._terminal import visible

ANSWER_FORMATS = ("csv", "tsv", "xlsx", "parquet", "jsonl")
OTHER_SUFFIXES = {"pq": "parquet", "ndjson": "jsonl"}
FOR_SPREADSHEETS = ("csv", "tsv")
MOST_ROWS = 1_048_575  # of a sheet, below the names of its columns
Write = Callable[[Any, Any], None]  # a frame, and the dialect of the input


@command(
    "multiform predict model.mfm new.csv -o answers.csv",
    "multiform predict model.mfm 'new-*.parquet' -o answers.parquet --keep id --chances",
    "multiform predict model.mfm new.csv -o answers.csv --cost-of-miss 9   # a miss is 9 times as bad as a false alarm",
    "cat new.csv | multiform predict model.mfm - | head",
)
@model_file
@click.option(
    "--output",
    "-o",
    default="-",
    show_default=False,
    metavar="FILE",
    help="Where to: .csv, .tsv, .xlsx, .parquet or .jsonl; standard output, as csv, if not given.",
)
@click.option("--output-format", type=click.Choice(ANSWER_FORMATS), help="If the name does not say it.")
@click.option(
    "--plain",
    is_flag=True,
    help="csv and tsv with commas or tabs, decimal points and UTF-8, and not as the input is written.",
)
@names("--keep", help="Columns of the table to copy to the output.")
@click.option("--chances", is_flag=True, help="The chance of every class, too.")
@click.option(
    "--excel-safe", is_flag=True, help="Write ' before text that a spreadsheet program would run as a formula, as =A1."
)
@threshold_options
@strict_option
@table_files
def predict(
    model_path: str,
    files: tuple[str, ...],
    output: str,
    output_format: str | None,
    plain: bool,
    keep: tuple[str, ...],
    chances: bool,
    excel_safe: bool,
    strict: bool,
    how: dict[str, Any],
    console: Console,
    **asked: Any,
) -> None:
    """Predict the rows of a table, in their order.

    Each row gets a label, the chance that it is right, and how far to trust it, its loyalty type: strong (sure), normal
    (usual) or weak (unsure). A model with a promise says which answers are accepted. With --threshold or --cost-of-miss
    the column "changed" marks the rows that get another label than the likeliest. A cell that is unlike training is
    named and taken as unknown. The table is read a piece at a time, so it may be larger than memory. The output appears
    when it is complete. csv is written as the input is: separator, decimal comma, encoding.
    """
    if console.as_json and output == "-":
        raise click.UsageError("--json and the answers cannot share standard output; give --output a file")
    written_as = _answer_format(output, output_format)
    if excel_safe and written_as not in FOR_SPREADSHEETS:
        raise click.UsageError(f"--excel-safe is for csv and tsv; {written_as} has no formulas")
    found = multiform.tables.sources(files, **how)
    if output != "-":
        check_output(output, (model_path, *(source.path for source in found)))
    model = opened(model_path)
    rule = multiform.tables.rule_for(model, **asked) if any(value is not None for value in asked.values()) else None
    if rule is not None and rule.least_chance is None:
        raise click.UsageError("--positive is for --threshold or --cost-of-miss; give one of them, too")
    labels: Counter[str] = Counter()
    known = multiform.tables.Familiarity()
    rows = n_formulas = n_changed = 0
    dialect = multiform.tables.Dialect() if plain else None  # that of the input is known once it is read
    with console.progress("predicting") as progress, _answer_writer(output, written_as, excel_safe) as write:
        for batch in multiform.tables.batches(found):
            for sentence in batch.dialect.notes:
                console.note(sentence)
            lacking = [name for name in keep if name not in batch.frame.columns]
            if lacking:
                ends = multiform.tables.nearest(lacking[0], batch.frame.columns, "it has")
                raise ValueError(f"{batch.source.name} has no column {lacking[0]!r} to keep; {ends}")
            try:
                answers, familiar = model.answers(batch.frame, chances=chances or rule is not None)
            except multiform.tables.TableError as error:
                raise batch.located(error) from error
            if rule is not None:
                answers = rule.decide(answers, model.classes_)
                n_changed += int(answers["changed"].sum())
                if not chances:
                    answers = answers.drop([f"chance of {label}" for label in model.classes_])
            taken = {name: f"{name} given" for name in keep if name in answers.columns}
            told = batch.frame.select(keep).rename(taken).hstack(answers) if keep else answers
            dialect = batch.dialect if dialect is None else dialect
            write(multiform.tables.without_formulas(told) if excel_safe else told, dialect)
            if written_as in FOR_SPREADSHEETS and not excel_safe:
                n_formulas += multiform.tables.n_formulas(told)
            labels.update(dict(answers["label"].cast(str).value_counts().rows()))
            known += familiar.counted()
            rows += len(answers)
            progress(batch.share, f"predicting, {rows:,} rows")
        refuse_shifts(known, strict)
    say_unfamiliar(console, model, known)
    if rule is not None:
        console.note(
            f"{rule.sentence()} ({rule.why}), which is another label than the likeliest for {n_changed:,} of {rows:,} "
            "rows; they have no loyalty type, and no promise covers them."
        )
    if n_formulas:
        console.note(
            f"{n_formulas} cell{'s begin' if n_formulas != 1 else ' begins'} with =, +, -, @, a tab or a carriage "
            "return, which a spreadsheet program may run as a formula; --excel-safe writes ' before."
        )
    if output == "-":
        return
    ranked = sorted(labels.items(), key=lambda one: (-one[1], one[0]))
    data: dict[str, Any] = {"output": output, "rows": rows, "labels": dict(ranked), "unfamiliar": known.as_dict()}
    if rule is not None:
        data["positive"] = {"class": str(rule.positive), "why": rule.why, "threshold": rule.least_chance}
        data["positive"]["changed"] = n_changed
    shown = [[str(label), str(count), f"{count / rows:.1%}"] for label, count in ranked[:20]]
    text = text_table([["label", "rows", "share"], *shown], right=[1, 2])
    console.result(data, f"{text}\n{rows} rows written to {output}")


def _answer_format(output: str, output_format: str | None) -> str:
    suffix = "csv" if output == "-" else Path(output).suffix.lower().lstrip(".")
    found = output_format or OTHER_SUFFIXES.get(suffix, suffix)
    if found not in ANSWER_FORMATS:
        raise click.UsageError(
            f"{output}: name the output .csv, .tsv, .xlsx, .parquet or .jsonl, or give --output-format"
        )
    if output == "-" and found in ("parquet", "xlsx"):
        raise click.UsageError(f"{found} cannot be written to standard output; give --output a file")
    return found


@contextmanager
def _answer_writer(output: str, written_as: str, excel_safe: bool) -> Iterator[Write]:
    """A function that appends a frame to the output; ``-`` is standard output."""
    if output == "-":
        yield _appender(sys.stdout.buffer, written_as, excel_safe)
        return
    with multiform.files.atomic_path(output) as part:
        if written_as in ("parquet", "xlsx"):
            with _parquet_parts(part, output) if written_as == "parquet" else _workbook(part) as write:
                yield write
            return
        with open(part, "wb") as stream:
            yield _appender(stream, written_as, excel_safe)


def _appender(stream: BinaryIO, written_as: str, excel_safe: bool) -> Write:
    begun = False
    # All text in quotation marks, as other countries' programs take a semicolon for the end of a cell.
    quoted: Any = "non_numeric" if excel_safe else "necessary"

    def write(frame: Any, dialect: Any) -> None:
        nonlocal begun
        # By way of Python, whose streams say it when nobody reads them any more.
        if written_as == "jsonl":
            text, encoding = frame.write_ndjson(), "utf-8"
        else:
            mark = "\t" if written_as == "tsv" else dialect.separator
            commas = dialect.decimal_comma and mark != ","  # which must not be both
            how = {"decimal_comma": True} if commas else {}
            text = frame.write_csv(include_header=not begun, separator=mark, quote_style=quoted, **how)
            encoding = dialect.encoding
        stream.write(_encoded(visible(text) if stream.isatty() else text, encoding, begun))
        stream.flush()
        begun = True

    return write


def _encoded(text: str, encoding: str, begun: bool) -> bytes:
    """The text in the input's encoding, with its mark at the beginning if it has one."""
    if begun:  # no mark in the midst
        native = "le" if sys.byteorder == "little" else "be"
        encoding = {"utf-8-sig": "utf-8", "utf-16": f"utf-16-{native}", "utf-32": f"utf-32-{native}"}.get(
            encoding, encoding
        )
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        with suppress(UnicodeEncodeError):
            return text.replace("…", "...").encode(encoding)
        raise ValueError(
            f"The answers have a letter that {encoding}, which the input is in, has not; --plain writes UTF-8."
        ) from None


@contextmanager
def _workbook(part: Path) -> Iterator[Write]:
    """A workbook is written as a whole; nothing in it is a formula."""
    frames: list[Any] = []

    def write(frame: Any, dialect: Any) -> None:
        frames.append(frame)
        if sum(map(len, frames)) > MOST_ROWS:
            raise ValueError(f"A sheet has {MOST_ROWS:,} rows at most; write .csv or .parquet.")

    yield write
    try:
        import xlsxwriter
    except ImportError as error:
        raise ImportError(
            'Workbooks are written with xlsxwriter; install it with pip install "multiform[cli]".'
        ) from error
    whole = multiform.columns.polars().concat(frames, how="vertical_relaxed")
    settings = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "nan_inf_to_errors": True}
    content = io.BytesIO()  # written by ourselves: of a full disk xlsxwriter makes an error of its own
    with xlsxwriter.Workbook(content, settings) as book:
        whole.write_excel(book, worksheet="answers", float_precision=4)
    part.write_bytes(content.getvalue())


@contextmanager
def _parquet_parts(part: Path, output: str) -> Iterator[Write]:
    """Parquet cannot be appended to: the pieces are files, which are joined without reading them all at once."""
    pl = multiform.columns.polars()
    try:
        with multiform.files.folder_beside(output) as folder:
            pieces: list[Path] = []

            def write(frame: Any, dialect: Any) -> None:
                pieces.append(folder / f"{len(pieces):09d}.parquet")
                frame.write_parquet(pieces[-1])

            yield write
            with open(part, "wb") as stream:
                pl.scan_parquet(pieces, glob=False).sink_parquet(stream)
    except pl.exceptions.ComputeError as error:
        if found := re.search(r"\(os error (\d+)\)", str(error)):  # as of a disk that is full
            raise OSError(int(found[1]), os.strerror(int(found[1]))) from error
        raise
