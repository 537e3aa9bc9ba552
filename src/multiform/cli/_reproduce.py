"""``multiform reproduce``."""

from __future__ import annotations

import click

from multiform.cli._console import Console, speaks
from multiform.cli._options import examples, jobs, seed


@click.command(
    "reproduce",
    epilog=examples(
        "multiform reproduce",
        "multiform reproduce --quick                    # a tenth of the images: does it run here?",
        "multiform reproduce --data folder --solver cpm --loyalty-solver cpm",
    ),
)
@click.option("--data", metavar="FOLDER", help="Where the IDX files of Fashion-MNIST are, if not in a usual place.")
@click.option(
    "--solver",
    "solvers",
    multiple=True,
    type=click.Choice(["cpm", "cpm-literal", "adam"]),
    default=("cpm", "adam"),
    show_default=True,
    help="For 4.3; may be given several times. The paper's is cpm.",
)
@click.option(
    "--loyalty-solver",
    type=click.Choice(["cpm", "adam"]),
    default="adam",
    show_default=True,
    help="For the 21 models of 4.4.",
)
@click.option("--quick", is_flag=True, help="6,000 training and 2,000 test images only.")
@seed
@jobs
@speaks
def command(
    data: str | None,
    solvers: tuple[str, ...],
    loyalty_solver: str,
    quick: bool,
    seed: int,
    jobs: int | None,
    console: Console,
) -> None:
    """Run the paper's section 4, Fashion-MNIST, and print each of its tables beside ours.

    The images come from --data, the environment variable MULTIFORM_FASHION_MNIST, Debian's package
    dataset-fashion-mnist, or OpenML, which is the only case that needs a network.
    """
    from multiform.reproduction import reproduce, reproduction_text

    with console.progress("reading Fashion-MNIST") as progress:
        figures, loyalty = reproduce(
            data,
            solvers=tuple(dict.fromkeys(solvers)),
            loyalty_solver=loyalty_solver,
            quick=quick,
            n_jobs=jobs,
            random_state=seed,
            stage=progress.stage,
        )
    if quick:
        console.note("--quick: 6,000 training and 2,000 test images only, so the figures are not the paper's.")
    told = {
        "qms": [
            {
                "name": own.name,
                "train_accuracy": own.train_accuracy,
                "test_accuracy": own.test_accuracy,
                "fit_seconds": own.fit_seconds,
                "train_confusion": own.train_confusion,
                "test_confusion": own.test_confusion,
            }
            for own in figures
        ],
        "loyalty": {
            "name": loyalty.name,
            "fit_seconds": loyalty.fit_seconds,
            "training": loyalty.training.as_dict(),
            "expected": loyalty.expected.as_dict(),
            "test": loyalty.test.as_dict(),
            "test_tensor": loyalty.test_tensor,
        },
    }
    console.result(told, reproduction_text(figures, loyalty))
