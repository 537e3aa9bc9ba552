"""``python -m benchmarks COMMAND [options]``: one module a command, imported only when it is asked for."""

import argparse
import importlib
import sys

COMMANDS = {
    "fashion": "Fashion-MNIST: accuracy, time, memory of us and the peers; or the paper's Tables of 4.3",
    "uci": "a folder of small sets: 3-fold accuracy, mean rank and wins, us and the peers",
    "missing": "missing values: the closed form against median plus indicator, on a folder of small sets",
    "raw": "raw tables: TableClassifier against one-hot by hand, before QMSClassifierCV",
    "shapes": "data of every shape, few samples or many, narrow or wide, us and the peers",
    "scaling": "growth of the fit time with n, p, q and m; threads; batches; small fits; memory",
    "predict": "predict of 10,000 x 784 against the bare matrix product and the peers",
    "cpm": "row-synchronous CPM against the literal one at equal work, on a folder of small sets",
    "geometry": "the cost of the geometry's constructions",
    "loyalty": "the paper's Tables of 4.4 beside ours, and the same coverage against the peers",
    "gpu": "the GPU engine: times to accuracy, batches, subsets, ceilings, against the CPU",
    "triage": "how often triage's promise is broken, and what it covers",
    "honesty": "what models say of themselves, against fresh samples, over synthetic tables of six kinds",
    "big": "a fit over blocks of Parquet: memory, time over reading, accuracy",
    "serve": "multiform serve: the first question, an answer, one row and blocks of rows, over what cannot be avoided",
    "wide": "the command line on wide tables, on a stray quotation mark and at its start, over what cannot be avoided",
    "familiarity": "what is unlike training: false alarms on fresh files, and detection of changed ones",
    "diagnosis": "what a diagnosis costs: plans against simple rivals, trees, GDFS and AACO, at equal accuracy",
    "planning": "how long plans take, how much memory, and whether the seed decides what they cost",
}


def main(argv: list[str] | None = None) -> int:
    """Hand the arguments after the command to that command's ``main(argv)``."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, purpose in COMMANDS.items():
        # Each command owns its options, so that --help, too, goes to its own parser.
        commands.add_parser(name, help=purpose, add_help=False)
    chosen, options = parser.parse_known_args(argv)
    return importlib.import_module(f"benchmarks.{chosen.command}").main(options) or 0


if __name__ == "__main__":
    sys.exit(main())
