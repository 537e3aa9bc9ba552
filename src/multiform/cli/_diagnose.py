"""``multiform diagnose``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from multiform.cli._files import opened_plan
from multiform.cli._shared import Console, command, text_table
from multiform.diagnosis import DiagnosisSession
from multiform.files import atomic_path

HELP = "Answer each question with a result. Enter: no result; na: it cannot be done; undo: take the last one back."


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
    given = _given(evidence)
    for name, value in given.items():
        _observe(planner, session, name, value)
    _keep(session, session_path)
    if not console.as_json:
        if not (console.quiet or session.finished):
            click.echo(HELP, err=True)
        while not session.finished:
            _ask(planner, session)
            _keep(session, session_path)
    data = _state(planner, session)
    console.result(data, _text(data))


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
    content = Path(path).read_bytes()
    try:
        return DiagnosisSession.from_json(planner, content.decode())
    except ValueError as error:
        raise ValueError(f"{path} holds no case of this plan: {error}") from error


def _keep(session: Any, path: str | None) -> None:
    if path is not None:
        with atomic_path(path) as part:
            part.write_text(session.to_json(), encoding="utf-8")


# -------------------------------------------------------------------------------------------------------- asking


def _ask(planner: Any, session: Any) -> None:
    """Ask for the next test until there is an answer that can be read."""
    following = session.next_evidence
    click.echo(
        f"\n{session.diagnosis}, chance {session.chance:.0%}, {session.loyalty}; spent {session.spent:.2f}", err=True
    )
    click.echo(f"next: {following.name} for {following.cost:.2f}, as {following.why}", err=True)
    values: dict[str, Any] = {}
    for feature in following.features:
        while True:
            given = _answer(f"{feature}{_allowed(planner, feature)}")
            if given.lower() == "na":
                session.not_available(following.name)
                return
            if given.lower() == "undo":
                _undo(session)
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


def _undo(session: Any) -> None:
    try:
        session.undo()
    except ValueError:
        click.echo("there is nothing to take back.", err=True)


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


def _allowed(planner: Any, feature: str) -> str:
    values = _code(planner, feature).values
    shown = [f"{value:g}" if isinstance(value, float) else str(value) for value in values[:12]]
    return f" ({', '.join(shown)})" if shown else ""


# -------------------------------------------------------------------------------------------------------- telling


def _state(planner: Any, session: Any) -> dict[str, Any]:
    following = session.next_evidence
    events = json.loads(session.to_json())["events"]
    bought = [event["observe"] for event in events if "observe" in event]
    return {
        "finished": session.finished,
        "diagnosis": str(session.diagnosis),
        "chance": session.chance,
        "chances": {str(label): chance for label, chance in session.chances.items()},
        "loyalty": session.loyalty,
        "spent": session.spent,
        "panel_cost": planner.panel_cost_,
        "bill": [
            {"test": test, "price": price} for test, price in zip(bought, _prices(planner.tariff_, bought), strict=True)
        ],
        "not_available": session.unavailable_tests,
        "next": None
        if following is None
        else {
            "test": following.name,
            "cost": following.cost,
            "results": list(following.features),
            "why": following.why,
        },
    }


def _prices(tariff: Any, bought: list[str]) -> list[float]:
    """What each test cost when it was bought; what is known at the start costs nothing."""
    held, prices = 0, []
    for test in bought:
        number = tariff.tests.index(test)
        prices.append(0.0 if tariff.known >> number & 1 else float(tariff.price(number, held)))
        held |= 1 << number
    return prices


def _text(data: dict[str, Any]) -> str:
    rows = [["test", "price"], *([line["test"], f"{line['price']:.2f}"] for line in data["bill"])]
    rows += [["sum", f"{data['spent']:.2f}"], ["everything", f"{data['panel_cost']:.2f}"]]
    chances = ", ".join(f"{label} {chance:.0%}" for label, chance in data["chances"].items())
    return "\n".join(
        [
            "",
            text_table(rows, right=[1]),
            "",
            f"diagnosis: {data['diagnosis']}, right with a chance of {data['chance']:.0%}, loyalty {data['loyalty']}",
            f"chances: {chances}",
        ]
    )
