"""``multiform predict``."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from multiform.cli._console import Console, speaks, text_table
from multiform.cli._options import examples, input_files, input_format, model_file, names


@click.command(
    "predict",
    epilog=examples(
        "multiform predict model.mfm new.csv -o answers.csv",
        "multiform predict model.mfm 'new-*.parquet' -o answers.parquet --keep id --chances",
        "cat new.csv | multiform predict model.mfm - | head",
    ),
)
@model_file
@input_files
@click.option(
    "--output",
    "-o",
    default="-",
    metavar="FILE",
    help="Where to: .csv, .tsv, .parquet or .jsonl; standard output, as csv, if not given.",
)
@click.option(
    "--output-format", type=click.Choice(["csv", "tsv", "parquet", "jsonl"]), help="If the name does not say it."
)
@click.option(
    "--keep", multiple=True, callback=names, metavar="NAMES", help="Columns of the table to copy to the output."
)
@click.option("--chances", is_flag=True, help="The chance of every class, too.")
@input_format
@speaks
def command(
    model_path: str,
    files: tuple[str, ...],
    output: str,
    output_format: str | None,
    keep: tuple[str, ...],
    chances: bool,
    file_format: str | None,
    console: Console,
) -> None:
    """Predict the rows of a table, in their order.

    Each row gets a label, the chance that it is right, and its loyalty type (strong, normal or weak); a model with a
    promise says which answers are accepted. The table is read a piece at a time, so it may be larger than memory. The
    output appears when it is complete.
    """
    from multiform.cli._models import opened
    from multiform.cli._output import answer_writer, check_output
    from multiform.tables import TableError, batches, sources

    if console.as_json and output == "-":
        raise click.UsageError("--json and the answers cannot share standard output; give --output a file")
    found = sources(files, file_format)
    if output != "-":
        check_output(output, (model_path, *(source.path for source in found)))
    model = opened(model_path)
    labels: Counter[str] = Counter()
    odd: Counter[tuple[str, str]] = Counter()
    rows = 0
    with console.progress("predicting") as progress, answer_writer(output, output_format) as write:
        for batch in batches(found):
            lacking = [name for name in keep if name not in batch.frame.columns]
            if lacking:
                raise TableError(f"{batch.source.name} has no column {lacking[0]!r} to keep.")
            try:
                answers, surprises = model.answers(batch.frame, chances=chances)
            except TableError as error:
                raise batch.located(error) from error
            write(_beside(batch.frame.select(keep), answers))
            labels.update(dict(answers["label"].cast(str).value_counts().rows()))
            odd.update({(found.column, found.kind): found.cells for found in surprises})
            rows += len(answers)
            progress.at(batch.share, f"predicting, {rows:,} rows")
    for (column, kind), cells in sorted(odd.items()):
        console.note(f"column {column!r}: {cells} cell{'s' * (cells != 1)} {_odd(kind)}.")
    if output != "-":
        _say(console, output, rows, labels, odd)


def _beside(kept: Any, answers: Any) -> Any:
    taken = [name for name in kept.columns if name in answers.columns]
    return kept.rename({name: f"{name} given" for name in taken}).hstack(answers) if kept.width else answers


def _odd(kind: str) -> str:
    return {
        "missing": "without a value, which the training table did not have; taken as the median",
        "unseen": "with a value that the training table does not have",
        "unreadable": "that cannot be read; taken as missing",
    }[kind]


def _say(console: Console, output: str, rows: int, labels: Counter[str], odd: Counter[tuple[str, str]]) -> None:
    data = {
        "output": output,
        "rows": rows,
        "labels": dict(labels),
        "surprises": [{"column": column, "kind": kind, "cells": cells} for (column, kind), cells in odd.items()],
    }
    shown = [[str(label), str(count), f"{count / rows:.1%}"] for label, count in labels.most_common(20)]
    text = text_table([["label", "rows", "share"], *shown], right=[1, 2])
    console.result(data, f"{text}\n{rows} rows written to {output}")
