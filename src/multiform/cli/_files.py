"""Files of the commands: models, whichever they are, that take tables and give answers; plans; outputs."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable
from typing import Any

import click

import multiform
from multiform.cli._shared import Console, one_line

MOST_NOTES = 10  # columns that are said to be unlike training
MOST_LETTERS = 400  # of what is said of one


def opened(path: str) -> multiform.tables.TableClassifier | multiform.tables.MatrixModel:
    """The model of a file, ready for tables."""
    model = multiform.files.load(path)
    if isinstance(model, multiform.tables.TableClassifier) and hasattr(model, "columns_"):
        return model
    kind = type(model).__name__
    if kind == "DiagnosisPlanner":
        raise ValueError(f"{path} holds a plan of tests and no model for tables; `multiform diagnose` follows it.")
    if not hasattr(model, "classes_"):
        raise ValueError(f"{path} holds a {kind} that is not fitted.")
    return multiform.tables.MatrixModel(model)


def opened_plan(path: str) -> Any:
    """The plan of a file."""
    from multiform.diagnosis import DiagnosisPlanner

    plan = multiform.files.load(path)
    if not isinstance(plan, DiagnosisPlanner) or not hasattr(plan, "plan_"):
        raise ValueError(f"{path} holds a model ({type(plan).__name__}) and no plan; `multiform plan` makes plans.")
    return plan


def check_output(output: str, inputs: Iterable[str]) -> None:
    """Refuse an output that cannot be written, or that would replace an input, before any work is done."""
    multiform.files.check_writable(output)
    for path in inputs:
        if os.path.isfile(path) and os.path.isfile(output) and os.path.samefile(path, output):
            raise click.UsageError(f"the output {output} is also an input, which would be lost; give another name")


def refuse_shifts(found: multiform.tables.Familiarity, strict: bool) -> None:
    """With --strict, a table of which a column has shifted is an error."""
    shifted = {shift.column for shift in found.shifts}
    if strict and shifted:
        more = f", and {len(shifted) - 1} more" if len(shifted) > 1 else ""
        told = one_line(found.sentences()[0].removesuffix("."), MOST_LETTERS)
        raise ValueError(f"{told}{more}; stopped, as --strict asks.")


def say_unfamiliar(console: Console, model: Any, found: multiform.tables.Familiarity) -> None:
    """Notes of what is unlike training."""
    if isinstance(model, multiform.tables.TableClassifier) and not model.seen_:
        console.note(
            "the model does not know what its training table looked like; fit it again to hear what has changed."
        )
    sentences = found.sentences()
    for sentence in sentences[:MOST_NOTES]:
        console.note(one_line(sentence, MOST_LETTERS))
    if len(sentences) > MOST_NOTES:
        console.note(f"{len(sentences) - MOST_NOTES} more columns have cells unlike training.")


def this_command() -> str:
    """What the user has typed, to be kept with what came of it."""
    return shlex.join(["multiform", *sys.argv[1:]])


def write_model(model: Any, output: str, **notes: Any) -> None:
    """Write a model or a plan, with the command that made it."""
    multiform.files.save(model, output, notes={"command": this_command(), **notes})
