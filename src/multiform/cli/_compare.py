"""``multiform compare``: two models on the same labelled rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import multiform
from multiform.cli._evaluate import target_of, true_labels, with_interval
from multiform.cli._files import opened, say_unfamiliar
from multiform.cli._shared import Console, command, table_files, text_table

MOST_PATTERNS = 10
MOST_CLASSES = 30
SIGNIFICANT = 0.05


@command(
    "multiform compare old.mfm new.mfm test.csv",
    "multiform compare a.mfm b.mfm test.csv --json",
)
@click.argument("first_path", metavar="MODEL")
@click.argument("second_path", metavar="OTHER_MODEL")
@true_labels
@table_files
def compare(
    first_path: str,
    second_path: str,
    files: tuple[str, ...],
    target: str | None,
    how: dict[str, Any],
    console: Console,
) -> None:
    """Compare two models on the same labelled rows, which neither of them has seen.

    Says accuracy, log loss and ROC AUC of both, and the differences, row by row, with 95 % intervals; whether the
    difference in accuracy may be chance; and where the two disagree.
    """
    paths = {"first": first_path, "second": second_path}
    models = {which: opened(path) for which, path in paths.items()}
    judged = {
        which: multiform.tables.Judgement(model, target_of(model, target, paths[which]))
        for which, model in models.items()
    }
    with console.progress("predicting") as progress:
        for batch in multiform.tables.batches(multiform.tables.sources(files, **how)):
            try:
                for one in judged.values():
                    one.add(batch.frame)
            except multiform.tables.TableError as error:
                raise batch.located(error) from error
            progress(batch.share)
    found = multiform.tables.compared(judged["first"], judged["second"])
    for which, one in judged.items():
        for note in one.notes():
            console.note(f"{paths[which]}: {note}")
    say_unfamiliar(console, models["first"], judged["first"].known)
    names = _names(first_path, second_path)
    data = {which: {"model": paths[which], "kind": type(models[which].estimator_).__name__} for which in paths}
    console.result(data | found, _text(found, names))


def _names(first: str, second: str) -> tuple[str, str]:
    """The files as people call them."""
    short = Path(first).name, Path(second).name
    return short if short[0] != short[1] else (first, second)


def _text(found: dict[str, Any], names: tuple[str, str]) -> str:
    first, second = names
    accuracy = found["accuracy"]
    rows = [["", first, second, f"{second} - {first} (95 % interval)"]]
    rows.append(
        [
            "accuracy",
            with_interval(accuracy["first"]),
            with_interval(accuracy["second"]),
            _points(accuracy["difference"]),
        ]
    )
    for name, words in (("log_loss", "log loss (lower is better)"), ("roc_auc", "ROC AUC (higher is better)")):
        if found.get(name) is not None:
            both = (f"{found[name][which]:.4f}" for which in ("first", "second"))
            rows.append([words, *both, _signed(found[name]["difference"])])
    right = found["right"]
    lines = [f"{found['n_rows']} rows", "", text_table(rows, right=[1, 2, 3]), ""]
    lines.append(_verdict(found, names))
    lines.append(
        f"both right on {right['both']} rows, only {first} on {right['only_first']}, only {second} on "
        f"{right['only_second']}, neither on {right['neither']}"
    )
    if found["n_disagreeing"]:
        shown = found["disagreements"][:MOST_PATTERNS]
        table = [["truth", first, second, "rows"]]
        table += [[one["truth"], one["first"], one["second"], str(one["rows"])] for one in shown]
        head = f"they give different answers to {found['n_disagreeing']} rows"
        more = f", the {MOST_PATTERNS} commonest:" if len(found["disagreements"]) > MOST_PATTERNS else ":"
        lines += ["", head + more, text_table(table, right=[3])]
        rows_named = ", ".join(map(str, found["disagreeing_rows"][:MOST_PATTERNS]))
        count = "these are rows" if len(found["disagreeing_rows"]) <= MOST_PATTERNS else "the first of these are rows"
        lines.append(f"{count} {rows_named}, counted from 1 among those that have a label")
    classes = [["class", "rows", f"found by {first}", f"found by {second}"]]
    for label, row in list(found["classes"].items())[:MOST_CLASSES]:
        classes.append([label, str(row["rows"]), f"{row['first']:.1%}", f"{row['second']:.1%}"])
    lines += ["", text_table(classes, right=[1, 2, 3])]
    return "\n".join(lines)


def _verdict(found: dict[str, Any], names: tuple[str, str]) -> str:
    gain, p = found["accuracy"]["difference"]["value"], found["p_value"]
    test = f"McNemar's test, p = {p:.2g}"
    if p >= SIGNIFICANT:
        return f"the difference in accuracy may be chance ({test})"
    better = names[1] if gain > 0 else names[0]
    return f"{better} is right more often, and that is hardly chance ({test})"


def _points(difference: dict[str, float]) -> str:
    value, low, high = (f"{100 * difference[name]:+.1f}" for name in ("value", "low", "high"))
    return f"{value} points ({low} to {high})"


def _signed(difference: dict[str, float]) -> str:
    value, low, high = (f"{difference[name]:+.4f}" for name in ("value", "low", "high"))
    return f"{value} ({low} to {high})"
