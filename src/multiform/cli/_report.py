"""``multiform report``."""

from __future__ import annotations

import shlex
import sys
from typing import Any

import click

from multiform.cli._console import Console, speaks
from multiform.cli._options import examples, input_files, input_format, model_file, share


@click.command(
    "report",
    epilog=examples(
        "multiform report model.mfm test.csv -o report.html",
        "multiform report model.mfm test.csv -o report.html --plan plan.mfm --title 'Triage, March'",
    ),
)
@model_file
@input_files
@click.option("--output", "-o", required=True, metavar="FILE", help="The HTML file to write.")
@click.option("--target", "-t", metavar="NAME", help="The column with the truth, if it is not called as in training.")
@click.option("--plan", "plan_path", metavar="PLAN", help="A plan to show as well, made by `multiform plan`.")
@click.option("--title", help="The title of the page.")
@click.option("--target-accuracy", type=share, help="An accuracy to mark in the risk-coverage curve.")
@click.option("--no-baselines", is_flag=True, help="Leave the other classifiers out, which take most of the time.")
@input_format
@speaks
def command(
    model_path: str,
    files: tuple[str, ...],
    output: str,
    target: str | None,
    plan_path: str | None,
    title: str | None,
    target_accuracy: float | None,
    no_baselines: bool,
    file_format: str | None,
    console: Console,
) -> None:
    """Write a report of a model on labelled rows that it has not seen: one HTML file that needs nothing else.

    How well it does and against which baselines, what its loyalty types are worth, which rows it is least sure of, how
    it was made.
    """
    from multiform.cli._models import labelled, opened, opened_plan
    from multiform.cli._output import check_output
    from multiform.reporting import report
    from multiform.tables import TableError, read, sources

    found = sources(files, file_format)
    check_output(output, (model_path, *(source.path for source in found)))
    model = opened(model_path)
    plan: Any = None if plan_path is None else opened_plan(plan_path)
    with console.progress("reading") as progress:
        frame, labels = labelled(model, read(found, progress.at), target, model_path)
        if not len(labels):
            raise TableError("No row has a label, so there is nothing to report.")
        progress.stage("writing the report")
        page = report(
            *model.as_sklearn(frame),
            labels,
            plan=plan,
            title=title,
            command=shlex.join(["multiform", *sys.argv[1:]]),
            target_accuracy=target_accuracy,
            baselines=not no_baselines,
        )
        page.save(output)
    accuracy = page.figures["accuracy"]
    text = f"{len(labels)} rows, accuracy {accuracy:.2%}; report written to {output}"
    console.result({"output": output, **page.figures}, text)
