"""A result table a person can read: aligned text on the screen, CSV and Markdown on disk."""

import csv
import datetime
import importlib.metadata
import importlib.util
import os
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LIBRARIES = ("multiform", "numpy", "scipy", "scikit-learn", "lightgbm", "xgboost")

Cell = str | int | float | None


@dataclass
class Table:
    """Rows of named cells.

    ``formats`` gives a column's format specification (``".2f"``); a missing value (None, NaN) is a ``-``.
    """

    title: str
    columns: Sequence[str]
    formats: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    rows: list[Mapping[str, Cell]] = field(default_factory=list)

    def append(self, cells: Mapping[str, Cell]) -> None:
        """Append one row; every cell must belong to a column."""
        unknown = set(cells) - set(self.columns)
        if unknown:
            raise ValueError(f"{self.title!r} has no column {sorted(unknown)}; its columns are {list(self.columns)}.")
        self.rows.append(cells)

    def text_cells(self) -> list[list[str]]:
        """All cells as text, header first."""
        body = [[self._text(row.get(name), self.formats.get(name, "")) for name in self.columns] for row in self.rows]
        return [list(self.columns), *body]

    def as_text(self) -> str:
        """Aligned columns: words to the left, numbers to the right."""
        cells = self.text_cells()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        sides = ["<" if self._is_text(name) else ">" for name in self.columns]
        lines = [
            "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)).rstrip()
            for row in cells
        ]
        return "\n".join([self.title, lines[0], "-" * max(map(len, lines)), *lines[1:], *self._note_lines()])

    def as_markdown(self) -> str:
        """A Markdown table with the title above and the notes below."""
        header, *body = [[cell.replace("|", "\\|") for cell in row] for row in self.text_cells()]
        rule = ["---" if self._is_text(name) else "---:" for name in self.columns]
        lines = ["| " + " | ".join(row) + " |" for row in (header, rule, *body)]
        notes = ["", *self._note_lines()] if self.notes else []
        return "\n".join([f"## {self.title}", "", *lines, *notes, ""])

    def _is_text(self, column: str) -> bool:
        return any(isinstance(row.get(column), str) for row in self.rows)

    def _note_lines(self) -> list[str]:
        return [f"* {note}" for note in self.notes]

    @staticmethod
    def _text(value: Cell, specification: str) -> str:
        if value is None or value != value:
            return "-"
        return value if isinstance(value, str) else format(value, specification)


def version_of(library: str) -> str:
    """``"lightgbm 4.5.0"``, or ``"lightgbm not installed"``."""
    try:
        return f"{library} {importlib.metadata.version(library)}"
    except importlib.metadata.PackageNotFoundError:
        # A source tree on the path is a version, too.
        if importlib.util.find_spec(library) is not None:
            return f"{library} {getattr(importlib.import_module(library), '__version__', 'unknown')}"
        return f"{library} not installed"


def available_cores() -> int:
    """Cores this process may use, which in a container can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_description(command: str, argv: Sequence[str], seed: int) -> dict[str, str]:
    """When, where and how a result came about."""
    return {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "command": shlex.join(["python", "-m", "benchmarks", command, *argv]),
        "machine": f"{_processor_name()}, {platform.system()} {platform.machine()}",
        "cores": str(available_cores()),
        "versions": ", ".join([f"Python {platform.python_version()}", *map(version_of, LIBRARIES)]),
        "seed": str(seed),
    }


def _processor_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown processor"


def publish(tables: Sequence[Table], stem: str, output: Path, description: Mapping[str, str]) -> None:
    """Print the tables; write all of them to ``stem.md``, and each one to a CSV file."""
    output.mkdir(parents=True, exist_ok=True)
    head = [f"{key}: {value}" for key, value in description.items()]
    print("\n".join(head), *(table.as_text() for table in tables), sep="\n\n", file=sys.stdout, flush=True)
    markdown = ["\n".join(f"- {line}" for line in head), "", *(table.as_markdown() for table in tables)]
    (output / f"{stem}.md").write_text("\n".join(markdown), encoding="utf-8")
    for number, table in enumerate(tables, start=1):
        name = f"{stem}.csv" if len(tables) == 1 else f"{stem}-{number}.csv"
        with open(output / name, "w", newline="", encoding="utf-8") as stream:
            stream.writelines(f"# {line}\n" for line in [*head, table.title, *table.notes])
            writer = csv.DictWriter(stream, fieldnames=list(table.columns))
            writer.writeheader()
            writer.writerows(table.rows)
