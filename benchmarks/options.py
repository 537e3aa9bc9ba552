"""Command-line options that every benchmark has."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers import Model
from benchmarks.tables import available_cores


def benchmark_parser(command: str, description: str | None) -> argparse.ArgumentParser:
    """A parser with the common options: where to write, the seed, the threads."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {command}", description=description)
    parser.add_argument("--output", type=Path, default=Path("benchmark-results"), help="folder for the tables")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--n-jobs", type=int, default=available_cores(), help="threads (default: every core)")
    return parser


def names(text: str) -> list[str]:
    """``"a,b"`` as a list."""
    return [name.strip() for name in text.split(",") if name.strip()]


def models_named(models: Sequence[Model], wanted: Sequence[str] | None) -> list[Model]:
    """Those of ``models`` that are wanted, by name; "ours" and "peers" stand for all of either kind."""
    if wanted is None:
        return list(models)
    known = {model.name for model in models} | {"ours", "peers"}
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise SystemExit(f"--only: no model is named {unknown}; choose from {sorted(known)}.")
    return [model for model in models if model.name in wanted or ("ours" if model.ours else "peers") in wanted]
