"""``multiform plan`` and ``multiform diagnose``: which tests to buy, and one case test by test."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from multiform.cli._files import check_output, opened_plan, write_model
from multiform.cli._shared import Console, command, names, seed_and_jobs, table_files, text_table
from multiform.columns import Date, TableError, as_text, decide, numbers_or_text, polars
from multiform.diagnosis import DiagnosisPlanner, DiagnosisSession, read_costs
from multiform.files import atomic_path
from multiform.tables import learn_labels, read, sources

HELP = "Answer each question with a result. Enter: no result; na: it cannot be done; undo: take the last one back."


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
    help="One order for all, or a next test that depends on the diagnosis so far.",
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
@click.option("--time-limit", type=click.FloatRange(min=0), default=60.0, help="Seconds for the exact search.")
@seed_and_jobs
@table_files
def plan(
    files: tuple[str, ...],
    target: str,
    costs_path: str,
    output: str,
    known: tuple[str, ...],
    group: str | None,
    file_format: str | None,
    console: Console,
    **settings: Any,
) -> None:
    """Plan which tests to buy, in which order, and when to stop, so that the accuracy of full evidence is kept.

    The plan is followed by `multiform diagnose`. The file holds the training rows, in the form that the plan reads
    them: treat it as you treat the data.
    """
    found = sources(files, file_format)
    check_output(output, (costs_path, *(source.path for source in found)))
    costs, discounts = read_costs(_prices(costs_path), None)
    for name, role in ((target, "target"), (group, "group")):
        if name in costs:
            raise TableError(f"{costs_path} has a price for {name!r}, which is the {role}; it cannot be a test, too.")
    with console.progress("reading") as progress:
        frame = read(found, progress)
        lacking = [name for name in (target, *costs) if name not in frame.columns]
        if lacking:
            raise TableError(f"The table has no column {lacking[0]!r}, which is a test of {costs_path} or the target.")
        if group is not None and group not in frame.columns:
            raise TableError(f"The table has no column {group!r}, which --group names; it has {list(frame.columns)}.")
        labels, present, _ = learn_labels(frame[target])
        if not present.all():
            console.note(f"{int((~present).sum())} rows have no label and were left out.")
        progress(None, "planning")
        planner = DiagnosisPlanner(costs, discounts=discounts or None, known=list(known), **settings)
        people = None if group is None else as_text(frame[group]).filter(present).to_numpy()
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
    frame = read(sources([path], None if Path(path).suffix else "csv"))
    prices = [name for name in ("cost", "discounted_cost", "cost_in_group") if name in frame.columns]
    return frame.with_columns(numbers_or_text(frame[name]) for name in prices)


def _evidence(frame: Any, tests: Sequence[str]) -> Any:
    """The tests' columns: numbers where every cell reads as one, else categories."""
    pl = polars()
    columns = []
    for name in tests:
        column = numbers_or_text(frame[name])
        if column.dtype == pl.String and isinstance(decide(frame[name]), Date):
            raise TableError(f"Column {name!r} is a date, and a plan takes numbers and categories; give days instead.")
        columns.append(column)
    return pl.DataFrame(columns)


def _plan_figures(planner: Any) -> dict[str, Any]:
    """The order with its bill, and what is expected of it."""
    prices = planner.tariff_.bill(planner.order_)
    bills = zip(planner.order_, prices, np.cumsum(prices).tolist(), _shares(planner), strict=True)
    chosen = next((point for point in planner.frontier_ if point.level == planner.level_), None)
    return {
        "order": [dict(zip(("test", "price", "paid", "stop_share"), bill, strict=True)) for bill in bills],
        "policy": planner.policy,
        "expected_cost": planner.expected_cost_,
        "panel_cost": planner.panel_cost_,
        "full_accuracy": planner.full_accuracy_,
        "plan_accuracy": None if chosen is None else chosen.accuracy,
        "level": planner.level_,
        "proven_best": planner.certificate_.optimal,
        "frontier": [
            {"level": point.level, "cost": point.cost, "loss": point.loss, "accuracy": point.accuracy}
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
        node = plan.following[node][0]
    return shares


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
        f"accuracy with everything {data['full_accuracy']:.2%}",
    ]
    if data["plan_accuracy"] is not None:
        lines[-1] += f", under the plan {data['plan_accuracy']:.2%} (cross-fitted)"
    if data["policy"] == "adaptive":
        lines.append("the order shown is one branch; the next test depends on the diagnosis so far")
    return "\n".join(lines)


@command(
    "multiform diagnose plan.mfm",
    "multiform diagnose plan.mfm --evidence age=54 --evidence sex=1",
    "multiform diagnose plan.mfm --evidence age=54 --json     # what next? for programs",
)
@click.argument("plan_path", metavar="PLAN")
@click.option(
    "--evidence", "-e", multiple=True, metavar="NAME=VALUE", help="A result that is there already; may be repeated."
)
@click.option("--session", "session_path", metavar="FILE", help="Keep the case in this file, and go on where it was.")
def diagnose(plan_path: str, evidence: tuple[str, ...], session_path: str | None, console: Console) -> None:
    """Ask for the evidence of one case, one test at a time, and stop when the plan says that it suffices.

    Says after each test what the diagnosis is, how likely and of which loyalty type, and what it has cost. With --json
    nothing is asked: the answer is where the case stands and which test comes next.
    """
    planner = opened_plan(plan_path)
    session = _begun(planner, session_path)
    for name, value in _given(evidence).items():
        _observe(planner, session, name, value)
    _keep(session, session_path)
    if not console.as_json:
        if not (console.quiet or session.finished):
            click.echo(HELP, err=True)
        while not session.finished:
            _ask(planner, session)
            _keep(session, session_path)
    data = _state(planner, session)
    console.result(data, _case_text(data))


def _given(evidence: tuple[str, ...]) -> dict[str, str]:
    """Names and values of ``--evidence``."""
    found: dict[str, str] = {}
    for given in evidence:
        name, mark, value = (part.strip() for part in given.partition("="))
        if not mark:
            raise click.UsageError(f"--evidence takes NAME=VALUE; got {given!r}")
        if name in found:
            raise click.UsageError(f"--evidence gives {name!r} twice")
        found[name] = value
    return found


def _begun(planner: Any, path: str | None) -> Any:
    if path is None or not Path(path).exists():
        return planner.start()
    try:
        return DiagnosisSession.from_json(planner, Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} holds no case of this plan: {error}") from error


def _keep(session: Any, path: str | None) -> None:
    if path is not None:
        with atomic_path(path) as part:
            part.write_text(session.to_json(), encoding="utf-8")


def _ask(planner: Any, session: Any) -> None:
    """Ask for the next test until there is an answer that can be read."""
    following = session.next_evidence
    click.echo(
        f"\n{session.diagnosis}, chance {session.chance:.0%}, {session.loyalty}; spent {session.spent:.2f}", err=True
    )
    click.echo(f"next: {following.name} for {following.cost:.2f}, as {following.why}", err=True)
    values: dict[str, Any] = {}
    for feature in following.features:
        allowed = [f"{one:g}" if isinstance(one, float) else str(one) for one in _code(planner, feature).values[:12]]
        question = f"{feature} ({', '.join(allowed)})" if allowed else feature
        while True:
            given = _answer(question)
            if given.lower() == "na":
                session.not_available(following.name)
                return
            if given.lower() == "undo":
                try:
                    session.undo()
                except ValueError:
                    click.echo("there is nothing to take back.", err=True)
                return
            try:
                values[feature] = _value(planner, feature, given)
                break
            except ValueError as error:
                click.echo(str(error), err=True)
    session.observe(following.name, values)


def _answer(question: str) -> str:
    try:
        return str(click.prompt(question, default="", show_default=False, err=True)).strip()
    except click.Abort as abort:
        if isinstance(abort.__context__, EOFError):
            raise ValueError(
                "standard input ended before the case was decided; give results by --evidence, or ask by --json what "
                "comes next."
            ) from abort
        raise


def _observe(planner: Any, session: Any, name: str, value: str) -> None:
    """One result from the command line; a test of one feature goes by either's name."""
    if value.lower() == "na":
        session.not_available(name)
        return
    features = {test: planner.encoding_.features(number) for number, test in enumerate(planner.tariff_.tests)}
    if name not in features:
        raise ValueError(f"The plan has no test {name!r}; its tests are {', '.join(features)}.")
    if len(features[name]) > 1:
        given = dict(part.partition(":")[::2] for part in value.split(","))
        session.observe(name, {feature: _value(planner, feature, entry) for feature, entry in given.items()})
        return
    session.observe(name, _value(planner, features[name][0], value))


def _code(planner: Any, feature: str) -> Any:
    found = [code for code in planner.encoding_.codes if code.name == feature]
    if not found:
        raise ValueError(f"The plan knows no result {feature!r}.")
    return found[0]


def _value(planner: Any, feature: str, given: str) -> Any:
    """A number or a word, as the plan reads the feature; None for no result."""
    if given == "":
        return None
    if _code(planner, feature).role == "category":
        return given
    try:
        value = float(given.replace(",", ".") if given.count(",") == 1 and "." not in given else given)
    except ValueError:
        value = float("nan")
    if value != value or value in (float("inf"), -float("inf")):
        raise ValueError(f"{feature} is a number; got {given!r}.")
    return value


def _state(planner: Any, session: Any) -> dict[str, Any]:
    events = json.loads(session.to_json())["events"]
    bought = [event["observe"] for event in events if "observe" in event]
    prices = zip(bought, _paid(planner.tariff_, bought), strict=True)
    data: dict[str, Any] = {
        "finished": session.finished,
        "diagnosis": str(session.diagnosis),
        "chance": session.chance,
        "chances": {str(label): chance for label, chance in session.chances.items()},
        "loyalty": session.loyalty,
        "spent": session.spent,
        "panel_cost": planner.panel_cost_,
        "bill": [{"test": test, "price": price} for test, price in prices],
        "not_available": session.unavailable_tests,
        "next": None,
    }
    following = session.next_evidence
    if following is not None:
        told = {"test": following.name, "cost": following.cost, "results": list(following.features)}
        data["next"] = told | {"why": following.why}
    return data


def _paid(tariff: Any, bought: list[str]) -> list[float]:
    """What each test cost when it was bought; what is known at the start costs nothing."""
    held, prices = 0, []
    for test in bought:
        number = tariff.tests.index(test)
        prices.append(0.0 if tariff.known >> number & 1 else float(tariff.price(number, held)))
        held |= 1 << number
    return prices


def _case_text(data: dict[str, Any]) -> str:
    rows = [["test", "price"], *([line["test"], f"{line['price']:.2f}"] for line in data["bill"])]
    rows += [["sum", f"{data['spent']:.2f}"], ["everything", f"{data['panel_cost']:.2f}"]]
    chances = ", ".join(f"{label} {chance:.0%}" for label, chance in data["chances"].items())
    return (
        f"\n{text_table(rows, right=[1])}\n\n"
        f"diagnosis: {data['diagnosis']}, right with a chance of {data['chance']:.0%}, loyalty {data['loyalty']}\n"
        f"chances: {chances}"
    )
