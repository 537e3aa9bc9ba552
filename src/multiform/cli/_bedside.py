"""``multiform diagnose``: one case at the bedside, test by test.

What is typed is a result, a command, or the result of another test, NAME=VALUE. A category of the question comes before
a command of the same name, and a colon says that it is the command.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import click

import multiform
from multiform.cli._files import opened_plan
from multiform.cli._shared import Console, command, text_table
from multiform.cli._terminal import say, visible

COMMANDS = {
    "help": "show this list",
    "undo": "take back the last result",
    "skip": "the test was done and is paid for, but gave no result (the same as Enter alone)",
    "na": "the test cannot be done; the plan goes on without it",
    "ordered": "the tests that the plan asks for are ordered; their results are not yet there",
    "quit": "stop here",
}
SHORT_HELP = "Type the result of each test; help shows what else you can type."
HELP = "\n".join(
    [
        "Type a result as the question shows it: a number, or one of the words. One that is unlike any patient of the",
        "training data is asked for again; typed a second time, or with ! after it, it is recorded, and not used.",
        "NAME=VALUE gives the result of another test.",
        *(f"{name}: {what}." for name, what in COMMANDS.items()),
        "If a result is spelled like one of these words, it counts as the result; :quit, with a colon, is the command.",
    ]
)
NOT_USED = "it is then recorded, and not used."


@command(
    "multiform diagnose plan.mfm",
    "multiform diagnose plan.mfm --evidence age=54 --evidence sex=1",
    "multiform diagnose plan.mfm --evidence age=540!          # unlike any patient: recorded, and not used",
    "multiform diagnose plan.mfm --evidence age=54 --json     # what next? for programs",
)
@click.argument("plan_path", metavar="PLAN")
@click.option(
    "--evidence",
    "-e",
    multiple=True,
    metavar="NAME=VALUE",
    help="A result that is there already; may be given several times. NAME= is a test without a result, NAME=na one "
    "that cannot be done, NAME=ordered one whose result is not yet there.",
)
@click.option(
    "--session",
    "session_path",
    metavar="FILE",
    help="Save the case in this file; the same command then goes on with it.",
)
def diagnose(plan_path: str, evidence: tuple[str, ...], session_path: str | None, console: Console) -> None:
    """Ask for the test results of one patient, one test at a time, and stop as soon as they suffice.

    After each test it says what the diagnosis is so far, how likely, how sure (its loyalty type), and what it has cost.
    A result that is unlike any patient of the training data is refused unless you insist; it is then recorded, and not
    used. With --json nothing is asked: the output is where the case stands and which test comes next.
    """
    planner = opened_plan(plan_path)
    bedside = _Bedside(planner, _begun(planner, session_path))
    session = bedside.session
    for name, value in _given(evidence).items():
        try:
            bedside.volunteer(name, value)
        except multiform.diagnosis.UnfamiliarValue as error:
            raise ValueError(f"{error.sentence}. If it is so, put a ! after it: {NOT_USED}") from error
        except ValueError as error:
            raise ValueError(multiform.diagnosis.for_people(str(error))) from error
    _keep(session, session_path)
    if console.as_json:
        for note in session.notes:
            console.note(note)
    else:
        if not (console.quiet or session.finished):
            say(SHORT_HELP, err=True)
        while not session.finished and bedside.ask():
            _keep(session, session_path)
        if not session.finished:
            say(_farewell(session, plan_path, session_path), err=True)
    data = session.as_dict()
    console.result(data, _case_text(data, session.notes))


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


def _begun(planner: multiform.DiagnosisPlanner, path: str | None) -> multiform.diagnosis.DiagnosisSession:
    if path is None or not Path(path).exists():
        return planner.start()
    try:
        return multiform.diagnosis.DiagnosisSession.from_json(planner, Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        sentence = str(error)
        if "to_json" in sentence or isinstance(error, UnicodeDecodeError):
            sentence = "it is no file that --session wrote; name another one to begin a new case."
        raise ValueError(f"{path} holds no case of this plan: {multiform.diagnosis.for_people(sentence)}") from error


def _keep(session: multiform.diagnosis.DiagnosisSession, path: str | None) -> None:
    if path is not None:
        with multiform.files.atomic_path(path) as part:
            part.write_text(session.to_json(), encoding="utf-8")


class _Bedside:
    """What is typed of a case, and what comes of it."""

    def __init__(self, planner: multiform.DiagnosisPlanner, session: multiform.diagnosis.DiagnosisSession) -> None:
        self.planner, self.session = planner, session
        tests = enumerate(planner.tariff_.tests)
        self.features = {test: planner.encoding_.features(number) for number, test in tests}
        self.codes = {code.name: code for code in planner.encoding_.codes}

    def ask(self) -> bool:
        """Ask for the next test until something has happened; False if the user leaves."""
        session, following = self.session, self.session.next_evidence
        assert following is not None
        so_far = f"{session.diagnosis}, chance {session.chance:.0%}, {_sure(session.loyalty)}"
        say(f"\nso far: {so_far}; spent {session.spent:.2f}", err=True)
        if session.pending:
            say(f"ordered, and not yet there: {', '.join(session.pending)}", err=True)
        hours = f", {following.hours:g} h" if following.hours else ""
        asked = "result of" if following.ordered else "next:"
        told = f" (diagnosis {session.diagnosis}, chance {session.chance:.0%})"  # the line above says it
        why = following.why.replace(told, "", 1)
        say(f"{asked} {following.name} for {following.cost:.2f}{hours}, as {why}", err=True)
        values: dict[str, Any] = {}
        refused = ""  # the last line, if it was refused: typed again, it is meant
        while len(values) < len(following.features):
            feature = following.features[len(values)]
            line = _answer(f"{feature} ({self._allowed(feature)})" if self._allowed(feature) else feature)
            insist, refused = line == refused, ""
            try:
                word = self._command(line, feature)
                other, equals, value = (part.strip() for part in line.partition("="))
                if word == "quit":
                    return False
                if word == "help":
                    say(HELP, err=True)
                elif word == "undo" and values:
                    values.popitem()
                elif word == "undo" and not (session.observed or session.unavailable_tests or session.pending):
                    say("there is nothing to take back.", err=True)
                elif word in ("undo", "na"):
                    session.undo() if word == "undo" else session.not_available(following.name)
                    return True
                elif word == "ordered":
                    session.order()
                    return True
                elif equals and not self._is_category(line, feature):
                    self.volunteer(other, value, insist)
                    if not values or session.finished or other == following.name:
                        return True
                else:
                    values |= self._checked({feature: "" if word == "skip" else line}, insist)
            except multiform.diagnosis.UnfamiliarValue as error:
                refused = line
                say(f"{error.sentence}. If it is so, type it again: {NOT_USED}", err=True)
            except ValueError as error:
                say(multiform.diagnosis.for_people(str(error)), err=True)
        session.observe(following.name, values, insist=True)
        return True

    def volunteer(self, name: str, text: str, insist: bool = False) -> None:
        """The result of a test that was not asked for; several features are written as ``rate:80,axis:3``."""
        if name not in self.features:
            raise ValueError(f"The plan has no test {name!r}; its tests are {', '.join(self.features)}.")
        first, *others = self.features[name]
        word = self._command(text, None if others else first)
        if word in ("na", "ordered"):
            self.session.not_available(name) if word == "na" else self.session.order(name)
            return
        given = {first: text}
        if others:
            given = dict(part.strip().partition(":")[::2] for part in text.split(",")) if text else {}
        if word == "skip":
            given = {}
        unknown = [feature for feature in given if feature not in self.features[name]]
        if unknown:
            raise ValueError(f"{name} yields {', '.join(self.features[name])}; got {unknown[0]!r}.")
        self.session.observe(name, self._checked(given, insist), insist=True)

    def _checked(self, texts: dict[str, str], insist: bool) -> dict[str, Any]:
        """Results as the plan reads them, by feature; ValueError where one is unlike training and nobody insists."""
        values = {}
        for feature, text in texts.items():
            if text.endswith("!") and not self._is_category(text, feature):
                text, insist = text[:-1].strip(), True
            values[feature] = self.session.written(feature, text)
        strange = self.session.unfamiliar(values)
        if strange and not insist:
            raise multiform.diagnosis.UnfamiliarValue("; ".join(one.sentence for one in strange))
        return values

    def _command(self, line: str, feature: str | None) -> str | None:
        """The command that a line is, if it is one."""
        word = line.removeprefix(":").strip().lower()
        if word in COMMANDS and (line.startswith(":") or feature is None or not self._is_category(line, feature)):
            return word
        return None

    def _is_category(self, text: str, feature: str) -> bool:
        values = self._values(feature) if self.codes[feature].role == "category" else ()
        return text.strip().casefold() in {str(value).casefold() for value in values}

    def _values(self, feature: str) -> tuple[Any, ...]:
        seen = self.planner.seen_.get(feature)
        return self.codes[feature].values if seen is None else seen.values

    def _allowed(self, feature: str) -> str:
        """What a question shows beside its name."""
        if feature in self.planner.seen_:
            return str(self.planner.seen_[feature])
        return ", ".join(f"{one:g}" if isinstance(one, float) else str(one) for one in self._values(feature)[:12])


def _answer(question: str) -> str:
    try:
        return str(click.prompt(visible(question), default="", show_default=False, err=True)).strip()
    except click.Abort as abort:
        if isinstance(abort.__context__, EOFError):
            raise ValueError(
                "the input ended before the case was decided; give results with --evidence, or let --json say which "
                "test comes next."
            ) from abort
        raise


def _farewell(session: multiform.diagnosis.DiagnosisSession, plan_path: str, path: str | None) -> str:
    """What becomes of a case that was left."""
    if path is not None:
        return f"The case is saved in {path}; the same command goes on with it."
    words = []
    for event in json.loads(session.to_json())["events"]:
        name = event.get("observe") or event.get("order") or event["not_available"]
        values = event.get("values", {name: "ordered" if "order" in event else "na"})
        strange = {one.feature for one in session.unfamiliar(values)} if "values" in event else set()
        written = {one: f"{'' if value is None else value}{'!' * (one in strange)}" for one, value in values.items()}
        told = [*written.values()] if len(written) == 1 else [f"{one}:{text}" for one, text in written.items()]
        words.append(f"-e {shlex.quote(name + '=' + ','.join(told))}")
    if not words:
        return "The case was left before there was any result."
    return f"The case was not saved. To go on with it: multiform diagnose {shlex.quote(plan_path)} {' '.join(words)}"


def _sure(loyalty: str) -> str:
    return f"type {multiform.metrics.type_words(loyalty)}"


def _case_text(data: dict[str, Any], notes: list[str]) -> str:
    rows = [["test", "price"], *([line["test"], f"{line['price']:.2f}"] for line in data["bill"])]
    rows += [["spent", f"{data['spent']:.2f}"], ["all tests", f"{data['panel_cost']:.2f}"]]
    following = "" if data["finished"] else f"\nnot finished; next is {data['next']['test']}"
    if data["hours"]:
        following += f"\nwaited {data['hours']:g} h, which is part of what was spent where an hour has a price"
    if data["pending"]:
        following += f"\nordered, and not yet there: {', '.join(data['pending'])}"
    chances = ", ".join(f"{label} {chance:.0%}" for label, chance in data["chances"].items())
    return (
        f"\n{text_table(rows, right=[1])}\n\n"
        f"diagnosis: {data['diagnosis']}, right with a chance of {data['chance']:.0%}, {_sure(data['loyalty'])}\n"
        f"chances: {chances}{following}" + "".join(f"\nnote: {note}" for note in notes)
    )
