"""``multiform plan``: which tests to buy, in which order, and when to stop."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

import multiform
from multiform.cli._files import check_output, write_model
from multiform.cli._shared import Console, Number, command, missing_words, names, seed_and_jobs, table_files, text_table


@command(
    "multiform plan patients.csv --target ill --costs costs.csv -o plan.mfm",
    "multiform plan patients.csv -t ill --costs costs.csv -o plan.mfm --policy adaptive --known age,sex",
    "multiform plan visits.csv -t ill --costs costs.csv -o plan.mfm --group patient",
    "multiform plan patients.csv -t ill --costs costs.csv -o plan.mfm --loss yes no 5000 --loss no yes 300",
    "multiform plan patients.csv -t ill --costs costs.csv -o plan.mfm --target-recall yes 0.9 --confidence 0.95",
)
@click.option("--target", "-t", required=True, metavar="NAME", help="The column with the diagnosis.")
@click.option(
    "--costs",
    "costs_path",
    required=True,
    metavar="CSV",
    help="The prices: a table with the columns test and cost, and perhaps discount and discounted_cost, duration "
    "(hours until the result is there) and panel (tests that come together). Tests are columns of FILE.",
)
@click.option("--output", "-o", required=True, metavar="PLAN", help="The plan file to write, usually NAME.mfm.")
@names("--known", help="Tests whose results are there from the start and cost nothing, for example age,sex.")
@click.option(
    "--group",
    metavar="COLUMN",
    help="The column that says which patient a row belongs to, if patients have several rows: all rows of a patient "
    "are then held out together. It is not used as a test.",
)
@click.option(
    "--policy",
    type=click.Choice(["fixed", "adaptive"]),
    default="fixed",
    help="fixed: one order of tests for everybody. adaptive: the next test depends on the results so far.",
)
@click.option(
    "--search", type=click.Choice(["auto", "exact", "beam"]), default="auto", help="For experts: how orders are tried."
)
@click.option(
    "--stop",
    type=click.Choice(["regret", "calibrated", "loyalty"]),
    default="regret",
    help="For experts: what decides that the results suffice: the accuracy that is given up (regret), the chance of "
    "the diagnosis (calibrated), or its loyalty type.",
)
@click.option("--theta", type=Number(0, 1), help="The accuracy to keep; that of all tests if not given.")
@click.option(
    "--tolerance",
    type=Number(0, 1),
    default=0.005,
    help="How much of that accuracy may be lost; 0.005 is half a point.",
)
@click.option(
    "--budget",
    type=Number(min=0),
    help="The most that one patient may cost; the plan is as accurate as it can be for that.",
)
@click.option("--target-accuracy", type=Number(0, 1), help="The accuracy that the plan must reach.")
@click.option(
    "--target-recall",
    type=(str, Number(0, 1, min_open=True, max_open=True)),
    multiple=True,
    metavar="CLASS SHARE",
    help="The share of the cases of a class that must be answered right, for example ill 0.9; may be repeated; needs "
    "--confidence.",
)
@click.option(
    "--confidence",
    type=Number(0, 1, min_open=True, max_open=True),
    help="Promise the targets with this confidence, tested on a quarter of the rows, which is put aside.",
)
@click.option(
    "--loss",
    "loss",
    type=(str, str, Number(min=0)),
    multiple=True,
    metavar="TRUTH ANSWER LOSS",
    help="What a wrong answer costs, for example ill well 5000; give one for every kind of error.",
)
@click.option(
    "--loss-unit",
    type=click.Choice(["money", "error"]),
    default="money",
    help="money: losses are in the currency of the costs. error: they are relative, and 1 is an ordinary error.",
)
@click.option("--hour-price", type=Number(min=0), default=0.0, help="What an hour of waiting costs.")
@click.option("--max-hours", type=Number(min=0), help="The longest that a case may wait for results.")
@click.option(
    "--missing",
    "empty",
    type=click.Choice(["not_done", "finding"]),
    default="not_done",
    help="What an empty cell means. not_done: the test was not done. finding: it was done, and having no result tells "
    "something, too.",
)
@click.option("--time-limit", type=Number(min=0), default=60.0, help="The most seconds that the exact search may take.")
@click.option("--as-classes", is_flag=True, help="Treat every value of the target as a class, however many.")
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
    target_recall: tuple[tuple[str, float], ...],
    loss: tuple[tuple[str, str, float], ...],
    missing: tuple[str, ...],
    empty: str,
    how: dict[str, Any],
    console: Console,
    **settings: Any,
) -> None:
    """Plan which tests to buy, in which order, and when to stop, so that the diagnosis stays as good as with all tests.

    `multiform diagnose` and `multiform serve` follow the plan, patient by patient. The file contains no rows of the
    table; `multiform info` says what it contains.
    """
    found = multiform.tables.sources(files, **how)
    check_output(output, (costs_path, *(source.path for source in found)))
    prices = _prices(costs_path)
    costs = prices.costs
    for name, role in ((target, "target"), (group, "group")):
        if name in costs:
            raise ValueError(f"{costs_path} has a price for {name!r}, which is the {role}; it cannot be a test, too.")
    with console.progress("reading") as progress:
        frame = multiform.columns.without(multiform.tables.read(found, progress, console.note), missing)
        lacking = [name for name in (target, *costs) if name not in frame.columns]
        if lacking:
            ends = multiform.tables.nearest(lacking[0], frame.columns, "it has")
            what = "which --target names" if lacking[0] == target else f"which is a test in {costs_path}"
            raise ValueError(f"The table has no column {lacking[0]!r}, {what}; {ends}")
        if group is not None and group not in frame.columns:
            ends = multiform.tables.nearest(group, frame.columns, "it has")
            raise ValueError(f"The table has no column {group!r}, which --group names; {ends}")
        labels, present, _ = multiform.tables.learn_labels(frame[target], as_classes)
        if not present.all():
            console.note(f"{int((~present).sum())} rows have no label and were left out.")
        progress(None, "planning")
        settings |= {**prices._asdict(), "discounts": prices.discounts or None, "known": list(known), "missing": empty}
        classes = {str(one): one for one in np.unique(labels).tolist()}  # a class may be a number
        _check_classes("--target-recall", [label for label, _ in target_recall], classes)
        _check_classes("--loss", [label for truth, answer, _ in loss for label in (truth, answer)], classes)
        recalls = {classes.get(label, label): share for label, share in target_recall}
        settings |= {"target_recall": recalls or None, "losses": _losses(loss, classes)}
        planner = multiform.DiagnosisPlanner(**settings)
        people = None if group is None else multiform.columns.as_text(frame[group]).filter(present).to_numpy()
        planner.fit(_evidence(frame, list(costs)).filter(present), labels, groups=people)
        progress(None, "writing")
        write_model(planner, output, target=target)
    unpriced = [name for name in frame.columns if name not in (target, group, *costs)]
    if unpriced:
        console.note(
            f"{costs_path} has no price for {', '.join(unpriced)}; the plan does not use columns without a price."
        )
    data = _plan_figures(planner)
    console.result({"plan": output, **data, "unpriced": unpriced}, f"{_plan_text(data)}\nwritten to {output}")


def _prices(path: str) -> Any:
    """What the table of prices says; like any table, with whichever separator and decimal mark it has."""
    frame = multiform.tables.read(multiform.tables.sources([path], None if Path(path).suffix else "csv"))
    prices = [name for name in ("cost", "discounted_cost", "cost_in_group", "duration") if name in frame.columns]
    frame = frame.with_columns(multiform.columns.numbers_or_text(frame[name]) for name in prices)
    try:
        return multiform.diagnosis.read_price_list(frame)
    except ValueError as error:
        told = (
            re.sub(r"got (nan|None)\.$", "the cell is empty.", str(error))
            .replace(" in costs of DiagnosisPlanner", "")
            .replace("costs of DiagnosisPlanner", "the list")
        )
        raise ValueError(f"{path}: {told}") from error


def _check_classes(option: str, given: Sequence[str], classes: dict[str, Any]) -> None:
    unknown = [label for label in given if label not in classes]
    if unknown:
        known = ", ".join(map(repr, list(classes)[:10])) + f" and {len(classes) - 10} more" * (len(classes) > 10)
        raise click.UsageError(f"{option} names the class {unknown[0]!r}; the classes of the target are {known}")


def _losses(given: tuple[tuple[str, str, float], ...], classes: dict[str, Any]) -> dict[Any, dict[Any, float]] | None:
    """By truth and answer."""
    found: dict[Any, dict[Any, float]] = {}
    for written, told, loss in given:
        truth, answer = classes.get(written, written), classes.get(told, told)
        if answer in found.setdefault(truth, {}):
            raise click.UsageError(f"--loss gives {truth} {answer} twice")
        found[truth][answer] = loss
    return found or None


def _evidence(frame: Any, tests: Sequence[str]) -> Any:
    """The tests' columns: numbers where every cell reads as one, yes and no, else categories."""
    pl = multiform.columns.polars()
    columns = []
    for name in tests:
        column = multiform.columns.numbers_or_text(frame[name])
        decided: Any = multiform.columns.decide(frame[name]) if column.dtype == pl.String else None
        if getattr(decided, "truth", False):  # yes and no in one spelling, and words for missing are no third
            column = decided.typed(frame[name])
        if isinstance(decided, multiform.columns.Date):
            raise ValueError(
                f"Column {name!r} is a date, and a plan takes numbers and categories; turn it into a number of days."
            )
        columns.append(column)
    return pl.DataFrame(columns)


def _plan_figures(planner: Any) -> dict[str, Any]:
    """The order with its bill, and what is expected of it."""
    prices = planner.tariff_.bill(planner.order_)
    bills = zip(planner.order_, prices, np.cumsum(prices).tolist(), _shares(planner), strict=True)
    return {
        "order": [dict(zip(("test", "price", "paid", "stop_share"), bill, strict=True)) for bill in bills],
        "policy": planner.policy,
        "stopped_at_once": planner.stopped_at_once_,
        "expected_cost": planner.expected_cost_,
        "panel_cost": planner.panel_cost_,
        "full_accuracy": planner.full_accuracy_,
        "plan_accuracy": planner.plan_accuracy_,
        "level": planner.level_,
        "proven_best": planner.certificate_.optimal,
        "rounds": _rounds(planner),
        "expected_hours": planner.expected_hours_,
        "losses": planner.losses,
        "loss_unit": planner.loss_unit,
        "promise": _promise(planner),
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


def _rounds(planner: Any) -> list[list[str]]:
    """The tests of the first branch that are ordered together."""
    plan, rounds = planner.plan_, []
    node = 0 if plan.tests else -1
    while node >= 0:
        nodes = plan.round_of(node)
        rounds.append([planner.tariff_.tests[plan.tests[one]] for one in nodes])
        node = plan.main(nodes[-1])
    return rounds


def _promise(planner: Any) -> dict[str, Any] | None:
    """What was promised, and whether it is proven."""
    proof = planner.promise_
    if proof is None:
        return None
    named = [("accuracy", planner.target_accuracy)] * (planner.target_accuracy is not None)
    named += [(f"sensitivity for {label}", share) for label, share in (planner.target_recall or {}).items()]
    claims = [
        {"what": what, "target": target, "tested": n, "right": right}
        for (what, target), (n, right) in zip(named, proof.recalls, strict=True)
    ]
    return {"confidence": planner.confidence, "proven": proof.attained, "claims": claims}


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
    unit = "wrong answers cost more, a patient" if data["losses"] else "give or take, points"
    rows = [["mean cost", "share of all tests", "accuracy", unit]]
    for _, point in sorted(best.items()):
        share = point["cost"] / data["panel_cost"] if data["panel_cost"] else 0.0
        error = f"{100 * point['loss_error']:.1f}"
        if data["losses"]:  # in their unit
            error = f"{point['loss']:.2f} +- {point['loss_error']:.2f}"
        told = f"{point['accuracy']:.1%}", error
        rows.append([f"{point['cost']:.2f}", f"{share:.0%}", *told])
    return "what other costs would buy:\n" + text_table(rows, right=[0, 1, 2, 3])


def _plan_text(data: dict[str, Any]) -> str:
    rows = [["", "test", "price", "paid so far", "need no more"]]
    for number, step in enumerate(data["order"], start=1):
        money = f"{step['price']:.2f}", f"{step['paid']:.2f}"
        rows.append([str(number), step["test"], *money, f"{step['stop_share']:.0%}"])
    share = data["expected_cost"] / data["panel_cost"] if data["panel_cost"] else 0.0
    proven = (
        "no order is cheaper, as far as can be estimated"
        if data["proven_best"]
        else "not every order was tried, a cheaper one may exist"
    )
    lines = [
        text_table(rows, right=[0, 2, 3, 4]),
        "need no more: of the patients who have had this test, the share for whom it was the last",
        *([f"{data['stopped_at_once']:.0%} of the patients need no test at all"] * (data["stopped_at_once"] > 0)),
        "",
        f"expected cost {data['expected_cost']:.2f} a patient; all tests cost {data['panel_cost']:.2f} ({share:.0%}); "
        f"{proven}",
        f"accuracy with all tests {data['full_accuracy']:.2%}, with the plan {data['plan_accuracy']:.2%}",
    ]
    if any(len(one) > 1 for one in data["rounds"]):
        lines.append(f"ordered together: {'; '.join(', '.join(one) for one in data['rounds'] if len(one) > 1)}")
    if data["expected_hours"]:
        lines.append(f"expected waiting {data['expected_hours']:.1f} h")
    if data["losses"]:
        unit = "" if data["loss_unit"] == "money" else " (1 is an ordinary error)"
        errors = [
            f"{truth} answered {answer} {loss:g}"
            for truth, own in data["losses"].items()
            for answer, loss in own.items()
        ]
        lines.append(f"what wrong answers cost: {', '.join(errors)}{unit}")
        forgone = [point["loss"] for point in data["frontier"] if point["level"] == data["level"]]
        lines += [f"wrong answers cost {one:.2f} a patient more than with all tests" for one in forgone[:1]]
    for claim in data["promise"]["claims"] if data["promise"] else ():
        proven = "promised" if data["promise"]["proven"] else "NOT promised"
        lines.append(
            f"{proven} with confidence {data['promise']['confidence']:g}: {claim['what']} {claim['target']:g} "
            f"({claim['right']} right of {claim['tested']} patients who were put aside to test it)"
        )
    if data["policy"] == "adaptive":
        lines.append("the order shown is one of several; which test comes next depends on the results so far")
    if len(data["frontier"]) > 1:
        lines += ["", _curve_text(data)]
    return "\n".join(lines)
