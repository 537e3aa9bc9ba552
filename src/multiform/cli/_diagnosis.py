"""``multiform plan``: which tests to buy, in which order, and when to stop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

import multiform
from multiform.cli._files import check_output, write_model
from multiform.cli._shared import Console, command, missing_words, names, seed_and_jobs, table_files, text_table


@command(
    "multiform plan patients.csv --target ill --costs costs.csv -o plan.mfm",
    "multiform plan patients.csv -t ill --costs costs.csv -o plan.mfm --policy adaptive --known age,sex",
    "multiform plan visits.csv -t ill --costs costs.csv -o plan.mfm --group patient",
)
@click.option("--target", "-t", required=True, metavar="NAME", help="The column with the diagnosis.")
@click.option(
    "--costs",
    "costs_path",
    required=True,
    metavar="CSV",
    help="A table with the columns test and cost, and maybe discount and discounted_cost; tests are columns of FILE.",
)
@click.option("--output", "-o", required=True, metavar="PLAN", help="The plan to write, .mfm by custom.")
@names("--known", help="Tests known at the start, for nothing.")
@click.option(
    "--group",
    metavar="COLUMN",
    help="Whose each row is, where a patient has several: whole patients are held out. It is no evidence.",
)
@click.option(
    "--policy",
    type=click.Choice(["fixed", "adaptive"]),
    default="fixed",
    help="One order for all, or a next test that depends on the results so far.",
)
@click.option("--search", type=click.Choice(["auto", "exact", "beam"]), default="auto")
@click.option(
    "--stop",
    type=click.Choice(["regret", "calibrated", "loyalty"]),
    default="regret",
    help="When the evidence suffices: by the accuracy forgone, the chance, or the type.",
)
@click.option("--theta", type=click.FloatRange(0, 1), help="The accuracy to keep; that of full evidence if not given.")
@click.option("--tolerance", type=click.FloatRange(0, 1), default=0.005, help="The accuracy that may be lost.")
@click.option("--budget", type=click.FloatRange(min=0), help="The most that a case may cost; loses least within it.")
@click.option("--target-accuracy", type=click.FloatRange(0, 1), help="The accuracy that the plan is to have.")
@click.option(
    "--missing",
    "empty",
    type=click.Choice(["not_done", "finding"]),
    default="not_done",
    help="What an empty cell means: the test was not done, or it was, and that is a finding.",
)
@click.option("--time-limit", type=click.FloatRange(min=0), default=60.0, help="Seconds for the exact search.")
@click.option("--as-classes", is_flag=True, help="The target's values are classes, however many there are.")
@missing_words
@seed_and_jobs
@table_files
def plan(
    files: tuple[str, ...],
    target: str,
    costs_path: str,
    output: str,
    known: tuple[str, ...],
    group: str | None,
    as_classes: bool,
    missing: tuple[str, ...],
    empty: str,
    how: dict[str, Any],
    console: Console,
    **settings: Any,
) -> None:
    """Plan which tests to buy, in which order, and when to stop, so that the accuracy of full evidence is kept.

    The plan is followed by `multiform diagnose`. The file holds no rows of the table; `multiform info` says what it
    holds.
    """
    found = multiform.tables.sources(files, **how)
    check_output(output, (costs_path, *(source.path for source in found)))
    costs, discounts = multiform.diagnosis.read_costs(_prices(costs_path), None)
    for name, role in ((target, "target"), (group, "group")):
        if name in costs:
            raise ValueError(f"{costs_path} has a price for {name!r}, which is the {role}; it cannot be a test, too.")
    with console.progress("reading") as progress:
        frame = multiform.columns.without(multiform.tables.read(found, progress, console.note), missing)
        lacking = [name for name in (target, *costs) if name not in frame.columns]
        if lacking:
            ends = multiform.tables.nearest(lacking[0], frame.columns, "it has")
            raise ValueError(
                f"The table has no column {lacking[0]!r}, which is a test of {costs_path} or the target; {ends}"
            )
        if group is not None and group not in frame.columns:
            ends = multiform.tables.nearest(group, frame.columns, "it has")
            raise ValueError(f"The table has no column {group!r}, which --group names; {ends}")
        labels, present, _ = multiform.tables.learn_labels(frame[target], as_classes)
        if not present.all():
            console.note(f"{int((~present).sum())} rows have no label and were left out.")
        progress(None, "planning")
        settings |= {"discounts": discounts or None, "known": list(known), "missing": empty}
        planner = multiform.DiagnosisPlanner(costs, **settings)
        people = None if group is None else multiform.columns.as_text(frame[group]).filter(present).to_numpy()
        planner.fit(_evidence(frame, list(costs)).filter(present), labels, groups=people)
        progress(None, "writing")
        write_model(planner, output, target=target)
    unpriced = [name for name in frame.columns if name not in (target, group, *costs)]
    if unpriced:
        console.note(f"{costs_path} has no price for {', '.join(unpriced)}; the plan does not use what has none.")
    data = _plan_figures(planner)
    console.result({"plan": output, **data, "unpriced": unpriced}, f"{_plan_text(data)}\nwritten to {output}")


def _prices(path: str) -> Any:
    """The table of prices; like any table, with whichever separator and decimal mark it has."""
    frame = multiform.tables.read(multiform.tables.sources([path], None if Path(path).suffix else "csv"))
    prices = [name for name in ("cost", "discounted_cost", "cost_in_group") if name in frame.columns]
    return frame.with_columns(multiform.columns.numbers_or_text(frame[name]) for name in prices)


def _evidence(frame: Any, tests: Sequence[str]) -> Any:
    """The tests' columns: numbers where every cell reads as one, else categories."""
    pl = multiform.columns.polars()
    columns = []
    for name in tests:
        column = multiform.columns.numbers_or_text(frame[name])
        if column.dtype == pl.String and isinstance(multiform.columns.decide(frame[name]), multiform.columns.Date):
            raise ValueError(f"Column {name!r} is a date, and a plan takes numbers and categories; give days instead.")
        columns.append(column)
    return pl.DataFrame(columns)


def _plan_figures(planner: Any) -> dict[str, Any]:
    """The order with its bill, and what is expected of it."""
    prices = planner.tariff_.bill(planner.order_)
    bills = zip(planner.order_, prices, np.cumsum(prices).tolist(), _shares(planner), strict=True)
    return {
        "order": [dict(zip(("test", "price", "paid", "stop_share"), bill, strict=True)) for bill in bills],
        "policy": planner.policy,
        "expected_cost": planner.expected_cost_,
        "panel_cost": planner.panel_cost_,
        "full_accuracy": planner.full_accuracy_,
        "plan_accuracy": planner.plan_accuracy_,
        "level": planner.level_,
        "proven_best": planner.certificate_.optimal,
        "frontier": [
            {
                "level": point.level,
                "cost": point.cost,
                "loss": point.loss,
                "loss_error": point.loss_error,
                "accuracy": point.accuracy,
            }
            for point in planner.frontier_
        ],
    }


def _shares(planner: Any) -> list[float]:
    """Of those who come to each node of the first branch, who needs no other test after it."""
    plan, shares = planner.plan_, []
    node = 0 if plan.tests else -1
    while node >= 0:
        came, *stopped = planner.traffic_[node]
        shares.append(sum(stopped) / came if came else 0.0)
        node = plan.main(node)
    return shares


def _curve_text(data: dict[str, Any]) -> str:
    """What other costs would keep, in a few lines: for each tenth of the panel, the most accurate level."""
    best: dict[int, dict[str, Any]] = {}
    for point in data["frontier"]:
        tenth = round(10 * point["cost"] / data["panel_cost"]) if data["panel_cost"] else 0
        if tenth not in best or point["accuracy"] > best[tenth]["accuracy"]:
            best[tenth] = point
    rows = [["for a mean cost of", "of everything", "accuracy", "+-"]]
    for _, point in sorted(best.items()):
        share = point["cost"] / data["panel_cost"] if data["panel_cost"] else 0.0
        told = f"{point['accuracy']:.1%}", f"{100 * point['loss_error']:.1f}"
        rows.append([f"{point['cost']:.2f}", f"{share:.0%}", *told])
    return text_table(rows, right=[0, 1, 2, 3])


def _plan_text(data: dict[str, Any]) -> str:
    rows = [["", "test", "price", "paid so far", "of those here, done after it"]]
    for number, step in enumerate(data["order"], start=1):
        money = f"{step['price']:.2f}", f"{step['paid']:.2f}"
        rows.append([str(number), step["test"], *money, f"{step['stop_share']:.0%}"])
    share = data["expected_cost"] / data["panel_cost"] if data["panel_cost"] else 0.0
    proven = "proven to be the best order on the estimate" if data["proven_best"] else "found by a beam search"
    lines = [
        text_table(rows, right=[0, 2, 3, 4]),
        "",
        f"expected cost {data['expected_cost']:.2f} of {data['panel_cost']:.2f} for everything ({share:.0%}), {proven}",
        f"accuracy with everything {data['full_accuracy']:.2%}, under the plan {data['plan_accuracy']:.2%}",
    ]
    if data["policy"] == "adaptive":
        lines.append("the order shown is one branch; the next test depends on the results so far")
    if len(data["frontier"]) > 1:
        lines += ["", _curve_text(data)]
    return "\n".join(lines)
