"""``multiform demo`` and ``multiform reproduce``: what the method does, on data that are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from multiform.cli._shared import Console, command, seed_and_jobs


@command("multiform demo", "multiform demo --output demo-output")
@click.option("--output", "-o", metavar="FOLDER", help="For a picture, and for files that `multiform serve` opens.")
def demo(output: str | None, console: Console) -> None:
    """A tour in under a minute, on data that come with the package.

    A classifier beside others; how far its answers can be trusted (their loyalty types), and a promise; and a diagnosis
    with its bill.
    """
    from multiform.demo import run

    folder = None if output is None else Path(output)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise click.UsageError(f"--output takes a folder, and {output} is a file")
    if not console.as_json:
        run(folder, echo=click.echo)
        return
    console.result(run(folder, echo=lambda text: None), "")


@command(
    "multiform reproduce",
    "multiform reproduce --quick                    # a tenth of the images: does it run here?",
    "multiform reproduce --data folder --solver cpm --loyalty-solver cpm",
)
@click.option("--data", metavar="FOLDER", help="Where the IDX files of Fashion-MNIST are, if not in a usual place.")
@click.option(
    "--solver",
    "solvers",
    multiple=True,
    type=click.Choice(["cpm", "cpm-literal", "adam"]),
    default=("cpm", "adam"),
    help="How to train for section 4.3; may be given several times. The paper's is cpm.",
)
@click.option(
    "--loyalty-solver",
    type=click.Choice(["cpm", "adam"]),
    default="adam",
    help="How to train the 21 models of section 4.4.",
)
@click.option("--quick", is_flag=True, help="6,000 training and 2,000 test images only.")
@seed_and_jobs
def reproduce(data: str | None, solvers: tuple[str, ...], quick: bool, console: Console, **settings: Any) -> None:
    """Run the paper's section 4, Fashion-MNIST, and print each of its tables beside ours.

    The images come from --data, the environment variable MULTIFORM_FASHION_MNIST, Debian's package
    dataset-fashion-mnist, or OpenML, which is the only case that needs a network.
    """
    from multiform import reproduction

    with console.progress("reading Fashion-MNIST") as progress:
        figures, loyalty = reproduction.reproduce(
            data,
            solvers=tuple(dict.fromkeys(solvers)),
            quick=quick,
            stage=lambda words: progress(None, words),
            **settings,
        )
    if quick:
        console.note("--quick: 6,000 training and 2,000 test images only, so the figures are not the paper's.")
    qms = [vars(own) | {name: getattr(own, name) for name in ("train_accuracy", "test_accuracy")} for own in figures]
    tables = {name: getattr(loyalty, name).as_dict() for name in ("training", "expected", "test")}
    told = {"qms": qms, "loyalty": vars(loyalty) | tables}
    console.result(told, reproduction.reproduction_text(figures, loyalty))
