"""``multiform describe``: a table before anything is learnt from it."""

from __future__ import annotations

from typing import Any

import click

import multiform
from multiform.cli._shared import Console, command, missing_words, one_line, table_files, text_table

MOST_LETTERS = 300  # of a sentence


@command(
    "multiform describe patients.csv",
    "multiform describe patients.xlsx -t ill --sheet 2024",
    "multiform describe patients.csv -t ill --json",
)
@click.option(
    "--target", "-t", metavar="NAME", help="The column to predict; columns that give it away are then looked for."
)
@click.option("--as-classes", is_flag=True, help="Treat every value of the target as a class, however many.")
@missing_words
@table_files
def describe(
    files: tuple[str, ...],
    target: str | None,
    as_classes: bool,
    missing: tuple[str, ...],
    how: dict[str, Any],
    console: Console,
) -> None:
    """Say what is in a table: every column, what it is taken for and why, what is odd, and what would help.

    Nothing is trained, and nothing is written.
    """
    found = multiform.tables.sources(files, **how)
    with console.progress("reading") as progress:
        frame = multiform.tables.read(found, progress, console.note)
        progress(None, "looking")
        data = multiform.tables.describe(frame, target, missing=missing, as_classes=as_classes)
    console.result(data, _text(data))


def _text(data: dict[str, Any]) -> str:
    rows = [["column", "taken as", "missing", "distinct", "values", "because"]]
    for one in data["columns"]:
        rows.append([one["name"], one["role"], str(one["missing"]), str(one["distinct"]), one["range"], one["why"]])
    lines = [f"{data['rows']} rows, {len(data['columns'])} columns beside the target" * (data["target"] is not None)]
    lines[0] = lines[0] or f"{data['rows']} rows, {len(data['columns'])} columns"
    if data["target"] is not None:
        counts = ", ".join(
            f"{one_line(label)} {count}" for label, count in list(data["target"]["classes"].items())[:20]
        )
        lines.append(f"target {data['target']['name']!r}" + f": {counts}" * bool(counts))
    lines += ["", text_table(rows, right=[2, 3])]
    odd = [(one["name"], sentence) for one in data["columns"] for sentence in one["suspicious"]]
    odd += [(data["target"]["name"], one) for one in data["target"]["suspicious"]] if data["target"] is not None else []
    lines += ["", "odd:", *(f"  {one_line(name)}: {one_line(told, MOST_LETTERS)}" for name, told in odd)] if odd else []
    if data["advice"]:
        lines += ["", "what would help:", *(f"  {one_line(one, MOST_LETTERS)}" for one in data["advice"])]
    return "\n".join(lines)
