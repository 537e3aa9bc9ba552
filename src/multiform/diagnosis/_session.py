"""At the bedside: one patient, one finding after the other.

A session is the list of what happened: a test was ordered, was done, or cannot be done. Everything else follows from
it, so going back is living through all entries but the last, and a session written as JSON goes on where it was.

A test that was ordered is paid for, and its result is not yet there. Nobody has to say so: a test of the round that the
plan is at counts as ordered when the round began, so that one waits for the slowest of them only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from multiform._typing import Doubles
from multiform.diagnosis._judge import Opinion, carried, softened, suffices
from multiform.diagnosis._plan import FlowStep, flow_steps
from multiform.diagnosis._results import Results, StrangeResult, UnfamiliarValue, read_results

if TYPE_CHECKING:
    from multiform.diagnosis._planner import DiagnosisPlanner

SESSION_FORMAT = 1
UNREADABLE = "DiagnosisSession.from_json needs what DiagnosisSession.to_json wrote."


@dataclass(frozen=True)
class NextEvidence:
    """What to acquire next.

    Attributes
    ----------
    name : str
        The test.
    cost : float
        What it costs now, after what was bought already.
    features : tuple of str
        What it yields.
    why : str
    share : float or None
        Of the patients at this point, how many need no other test after it (and those that are ordered together with
        it); None of what is known at the start.
    hours : float
        How long its result takes.
    ordered : bool
        Whether it was ordered already, and paid for.
    """

    name: str
    cost: float
    features: tuple[str, ...]
    why: str
    share: float | None = None
    hours: float = 0.0
    ordered: bool = False


def for_people(sentence: str) -> str:
    """A refusal of a session without the names that it has in Python.

    >>> for_people("DiagnosisSession.undo: nothing has happened yet that could be taken back.")
    'nothing has happened yet that could be taken back.'
    """
    if sentence == UNREADABLE:
        return "this is no case that was kept."
    return re.sub(r"^DiagnosisSession(\.\w+)?: ", "", sentence).replace("undo()", "undo")


class DiagnosisSession:
    """A diagnosis in progress, made by `DiagnosisPlanner.start`.

    Tests may be observed in any order and in addition to what the plan says; the plan goes on from what is there. Once
    the evidence sufficed the session is finished and stays so; further observations still update the diagnosis.

    Attributes
    ----------
    finished : bool
        Whether the evidence suffices, or none is left.
    spent : float
        The bill so far, with what waiting cost.
    hours : float
        How long one has waited for results.

    Examples
    --------
    >>> import numpy as np
    >>> from multiform import DiagnosisPlanner
    >>> rng = np.random.default_rng(0)
    >>> ill = rng.integers(0, 2, 300)
    >>> X = np.column_stack([ill + rng.normal(0, s, 300) for s in (0.6, 0.8)])
    >>> session = DiagnosisPlanner({"question": 1, "scan": 100}, random_state=0).fit(X, ill).start()
    >>> session.next_evidence.name, session.next_evidence.cost
    ('question', 1.0)
    >>> session.observe("question", 1.9).finished, int(session.diagnosis), session.spent
    (True, 1, 1.0)
    """

    def __init__(self, planner: DiagnosisPlanner) -> None:
        self._planner = planner
        self._start()

    def _start(self) -> None:
        """Nothing has happened and nothing is known yet."""
        self._events: list[dict[str, Any]] = []
        self._held = self._unavailable = 0  # sets of tests
        self._due: dict[int, float] = {}  # tests that were ordered, and the hour at which the result is there
        self._round_began = self.hours = 0.0
        self._values: dict[str, Any] = {}
        self._bill: dict[str, float] = {}
        self.spent = 0.0
        self._node = 0 if self._planner.plan_.tests else -1
        self._ease = self._planner.plan_.ease(-1)  # of the level, where the plan last asked
        self._results = self._read({})
        self._opinion = self._planner.judge_.opinion(0, self._results.rows)
        self._doubt, self._doubted_on = np.array([np.nan]), -1  # as it was where the plan last asked, and on which set
        self.finished = False
        self._go_on()

    # ------------------------------------------------------------------------------------------ what is known

    @property
    def _answer(self) -> int:
        return int(self._opinion[0][0])

    @property
    def diagnosis(self) -> Any:
        """The answer on the evidence so far."""
        return self._planner.classes_[self._answer]

    @property
    def chance(self) -> float:
        """Calibrated chance that it is right."""
        return float(self._chances[self._answer])

    @property
    def chances(self) -> dict[Any, float]:
        """Calibrated chance of every diagnosis."""
        return dict(zip(self._planner.classes_.tolist(), self._chances.tolist(), strict=True))

    @property
    def _chances(self) -> Doubles:
        return np.asarray(softened(self._opinion[1], self._planner.softening_)[0])

    @property
    def loyalty(self) -> str:
        """The loyalty type on the evidence so far: strong, normal or weak (Definition 6).

        It is never strong where a result is unlike those of training.
        """
        told = self._held & ~int(self._results.lost[0])  # the tests of which something can be used
        found = str(self._planner.judge_.models.loyalty(told, self._results.rows)[0])
        return "normal" if found == "strong" and self._results.strange else found

    @property
    def expected_remaining_cost(self) -> float:
        """What patients who came to this point of the plan, with this diagnosis, still paid on average."""
        if self.finished or self._node < 0:
            return 0.0
        paid = sum(self._bill[name] for name in self.pending)
        return max(self._planner.remaining_costs_[self._node][self._answer] - paid, 0.0)

    @property
    def suffices(self) -> bool:
        """Whether the plan would give this answer on the evidence so far."""
        return bool(suffices(self._doubt_now, self._planner.level_ * self._ease)[0])

    @property
    def _doubt_now(self) -> Doubles:
        """With what has come since the plan last asked."""
        if self._held == self._doubted_on:
            return self._doubt
        return carried(self._doubt, self._opinion[2], self._planner.judge_.memory)

    def _ask(self) -> None:
        """The plan asks whether the evidence suffices, and remembers what is thought."""
        self._opinion = self._thought(self._results, self._held)
        self._doubt = carried(self._doubt, self._opinion[2], self._planner.judge_.memory)
        self._doubted_on = self._held

    @property
    def observed(self) -> dict[str, Any]:
        """The findings so far, by feature, as they were given."""
        return dict(self._values)

    @property
    def notes(self) -> list[str]:
        """A sentence for each finding that is unlike those of training: it is recorded, and not used."""
        return [f"{one.sentence}; it is recorded, and not used." for one in self._results.strange]

    @property
    def bill(self) -> dict[str, float]:
        """What each test that was done cost when it was, in their order; what is known at the start costs nothing."""
        return dict(self._bill)

    @property
    def unavailable_tests(self) -> list[str]:
        """The tests that cannot be done."""
        return self._planner.tariff_.names(self._unavailable)

    @property
    def pending(self) -> list[str]:
        """The tests that were ordered, and whose results are not yet there."""
        return [self._planner.tariff_.tests[t] for t in self._due]

    @property
    def next_evidence(self) -> NextEvidence | None:
        """The test to do next, its cost and why; None when the session is finished."""
        return None if self.finished else self.next_round[0]

    @property
    def next_round(self) -> tuple[NextEvidence, ...]:
        """The tests to order now, all at the same time, those that were ordered already too; none in the end."""
        if self.finished:
            return ()
        planner, tariff = self._planner, self._planner.tariff_
        waiting = tariff.known & ~self._held & ~self._unavailable
        if waiting:
            t = (waiting & -waiting).bit_length() - 1
            features = tuple(planner.encoding_.features(t))
            return (NextEvidence(tariff.tests[t], 0.0, features, "it is known at the start, for nothing"),)
        nodes, bought = self._round, self._bought
        last = nodes[-1]
        came, *stopped = planner.traffic_[last]
        share = sum(stopped) / came if came else 0.0
        found = []
        for node in nodes:
            t = planner.plan_.tests[node]
            at_once = [tariff.tests[planner.plan_.tests[one]] for one in nodes if one != node]
            together = f", together with {', '.join(at_once)}" if at_once else ""
            why = (
                f"the results so far do not suffice (diagnosis {self.diagnosis}, chance {self.chance:.0%})"
                f"{together}; of the patients at this point, {share:.0%} need no other test after "
                f"{'these' if at_once else 'it'}"
            )
            ordered, features = t in self._due, tuple(planner.encoding_.features(t))
            price = 0.0 if ordered else tariff.price(t, bought)
            found.append(NextEvidence(tariff.tests[t], price, features, why, share, tariff.duration(t), ordered))
            bought |= 1 << t
        return tuple(found)

    @property
    def ahead(self) -> list[FlowStep]:
        """The tests that may still come by the plan, with shares of the patients who came to this point."""
        planner, tariff = self._planner, self._planner.tariff_
        waiting = tariff.names(tariff.known & ~self._held & ~self._unavailable)
        if self.finished:
            return []
        labels, nobody = tuple(map(str, planner.classes_)), (0.0,) * len(planner.classes_)
        known = [FlowStep(-1, -1, labels, test, 0.0, 1.0, nobody) for test in waiting]
        if self._node < 0:
            return known
        came = planner.traffic_[self._node][0]
        steps = flow_steps(planner, start=self._node, held=self._held, barred=self._barred)
        return known + [
            replace(step, came=step.came / came, stopped=tuple(one / came for one in step.stopped)) for step in steps
        ]

    # ----------------------------------------------------------------------------------------- what happens

    def observe(self, name: str, value: Any, insist: bool = False) -> DiagnosisSession:
        """A test was done.

        A result that no training patient could have had is refused with an `UnfamiliarValue`, and nothing is recorded.

        Parameters
        ----------
        name : str
            The test.
        value : number, str or None, or a dict of them by feature
            What came out. None is a result that nobody could read. A test of several features takes a dict; those
            that it leaves out are None.
        insist : bool, default=False
            Take such a result nevertheless: the test is done and paid for, the result recorded and noted, and not used,
            so that diagnosis and chances are those without it.
        """
        return self._happened({"observe": name, "values": value}, insist)

    def unfamiliar(self, values: Mapping[str, Any]) -> list[StrangeResult]:
        """Those of these results, by feature, that no training patient could have had."""
        return list(self._read({feature: _plain(value) for feature, value in values.items()}).strange)

    def order(self, *names: str) -> DiagnosisSession:
        """Tests were ordered, and are paid for; their results are not yet there.

        Parameters
        ----------
        *names : str
            The tests; without one, all of `next_round` that were not ordered yet.
        """
        asked = names or tuple(one.name for one in self.next_round if not one.ordered)
        if not asked:
            raise ValueError("DiagnosisSession.order: there is nothing to order; name the tests.")
        before = list(self._events)
        try:
            for name in asked:
                self._happened({"order": name})
        except ValueError:
            self._live(before)
            raise
        return self

    def not_available(self, name: str) -> DiagnosisSession:
        """A test cannot be done; the plan goes on without it."""
        return self._happened({"not_available": name})

    def undo(self) -> DiagnosisSession:
        """Take the last event back."""
        if not self._events:
            raise ValueError("DiagnosisSession.undo: nothing has happened yet that could be taken back.")
        self._live(self._events[:-1])
        return self

    def correct(self, name: str, value: Any, insist: bool = False) -> DiagnosisSession:
        """Another result of a test that was done, in the place of the first: all that came after follows anew.

        Parameters
        ----------
        name, value, insist
            As for `observe`. Whatever is refused changes nothing.
        """
        places = [place for place, event in enumerate(self._events) if event.get("observe") == name]
        if not places:
            raise ValueError(
                f"DiagnosisSession.correct: {name!r} has not been observed; those are {_listed(list(self._bill))}."
            )
        given = self._values_of(self._planner.tariff_.tests.index(name), value)
        if not insist and (strange := self.unfamiliar(given)):
            raise UnfamiliarValue("; ".join(one.sentence for one in strange))
        events = list(self._events)
        events[places[0]] = {"observe": name, "values": given}
        self._live(events)
        return self

    def written(self, feature: str, text: str) -> Any:
        """A result as a person writes it, as the plan reads it: a number, a word, or None where nothing is written."""
        text = text.strip()
        if text == "":
            return None
        if feature in {code.name for code in self._planner.encoding_.codes if code.role == "category"}:
            return text
        try:
            value = float(text.replace(",", ".") if text.count(",") == 1 and "." not in text else text)
        except ValueError:
            value = float("nan")
        if not np.isfinite(value):
            raise ValueError(f"{feature} is a number; got {text!r}.")
        return value

    def to_json(self) -> str:
        """What happened so far, to go on later with `from_json`."""
        tests = list(self._planner.tariff_.tests)
        return json.dumps({"format": SESSION_FORMAT, "tests": tests, "events": self._events, "notes": self.notes})

    def as_dict(self) -> dict[str, Any]:
        """Where the case stands, for programs."""
        following = self.next_evidence
        told = None
        if following is not None:
            told = {"test": following.name, "cost": following.cost, "results": list(following.features)}
            told["why"] = following.why
            told |= {"hours": following.hours, "ordered": following.ordered}
        return {
            "finished": self.finished,
            "diagnosis": str(self.diagnosis),
            "chance": self.chance,
            "chances": {str(label): chance for label, chance in self.chances.items()},
            "loyalty": self.loyalty,
            "spent": self.spent,
            "panel_cost": self._planner.panel_cost_,
            "bill": [{"test": test, "price": price} for test, price in self._bill.items()],
            "not_available": self.unavailable_tests,
            "hours": self.hours,
            "pending": self.pending,
            "round": [one.name for one in self.next_round],
            "next": told,
        }

    @classmethod
    def from_json(cls, planner: DiagnosisPlanner, text: str) -> DiagnosisSession:
        """A session of this plan, brought to where `to_json` was called."""
        try:
            written = json.loads(text)
            layout, tests, events = written["format"], written["tests"], written["events"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(UNREADABLE) from error
        if layout != SESSION_FORMAT:
            raise ValueError(f"DiagnosisSession.from_json reads format {SESSION_FORMAT}; got {layout!r}.")
        if tests != list(planner.tariff_.tests):
            raise ValueError(
                f"DiagnosisSession.from_json: the session is of a plan with the tests {_listed(tests)}, and this "
                f"plan has {_listed(planner.tariff_.tests)}."
            )
        session = cls(planner)
        try:
            for event in events:
                session._happened(event, insist=True)  # whoever recorded it did
        except (KeyError, TypeError) as error:
            raise ValueError(UNREADABLE) from error
        return session

    def __str__(self) -> str:
        lines = [f"diagnosis {self.diagnosis}, chance {self.chance:.0%}, spent {self.spent:.2f}"]
        following = self.next_evidence
        if following is None:
            lines.append("finished")
        else:
            lines.append(f"next: {following.name} for {following.cost:.2f}, as {following.why}")
        if self.pending:
            lines.append(f"ordered, and not yet there: {', '.join(self.pending)}")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    # ------------------------------------------------------------------------------------------------ inside

    def _test(self, name: str) -> int:
        """The index of a test that may be observed."""
        tests = self._planner.tariff_.tests
        if name not in tests:
            raise ValueError(f"DiagnosisSession: no test is named {name!r}; the tests are {_listed(tests)}.")
        t = tests.index(name)
        if self._held >> t & 1:
            raise ValueError(f"DiagnosisSession: {name!r} has been observed already; take it back with undo().")
        if self._unavailable >> t & 1:
            raise ValueError(f"DiagnosisSession: {name!r} was said to be not available; take that back with undo().")
        return t

    def _values_of(self, t: int, value: Any) -> dict[str, Any]:
        """What came out of a test, by feature."""
        features = self._planner.encoding_.features(t)
        name = self._planner.tariff_.tests[t]
        if not isinstance(value, Mapping):
            if len(features) > 1 and value is not None:
                raise ValueError(
                    f"DiagnosisSession.observe: {name!r} yields {_listed(features)}; give a dict with a value for "
                    f"each; got {value!r}."
                )
            value = dict.fromkeys(features, value)
        unknown = [feature for feature in value if feature not in features]
        if unknown:
            raise ValueError(
                f"DiagnosisSession.observe: {name!r} yields {_listed(features)}; got a value for {_listed(unknown)}."
            )
        return {feature: _plain(value.get(feature)) for feature in features}

    def _happened(self, event: dict[str, Any], insist: bool = False) -> DiagnosisSession:
        """Note an event; what the plan refuses to read changes nothing."""
        if "observe" in event:
            t = self._test(event["observe"])
            given = self._values_of(t, event["values"])
            results = self._read(self._values | given)
            strange = [one for one in results.strange if one.feature in given]
            if strange and not insist:
                raise UnfamiliarValue("; ".join(one.sentence for one in strange))
            held = self._held | 1 << t
            opinion = self._thought(results, held)
            self._buy(t)
            self._wait_until(self._due.pop(t))
            self._held, self._values, self._results, self._opinion = held, self._values | given, results, opinion
            self._events.append({"observe": event["observe"], "values": given})
        elif "order" in event:
            t = self._test(event["order"])
            if t in self._due:
                raise ValueError(f"DiagnosisSession: {event['order']!r} has been ordered already.")
            tariff = self._planner.tariff_
            if tariff.known >> t & 1:
                raise ValueError(f"DiagnosisSession: {event['order']!r} is known at the start; observe it.")
            self._buy(t)
            self._events.append({"order": event["order"]})
        else:
            t = self._test(event["not_available"])
            if t in self._due:  # it was ordered, and is paid for; its result will never be there
                del self._due[t]
            self._unavailable |= 1 << t
            self._events.append({"not_available": event["not_available"]})
        self._go_on()
        return self

    def _live(self, events: list[dict[str, Any]]) -> None:
        """Live through these events from the start."""
        self._start()
        for event in events:
            self._happened(event, insist=True)

    def _go_on(self) -> None:
        """Go on in the plan past what was done already or cannot be done, and see whether the evidence suffices."""
        plan, tariff = self._planner.plan_, self._planner.tariff_
        values = self._results.values(self._planner.encoding_.column_owner)
        asked = not tariff.known & ~(self._held | self._unavailable)  # what is known at the start comes first
        if asked and self._doubted_on < 0:
            self._ask()
        while self._node >= 0 and (self._held | self._barred) >> plan.tests[self._node] & 1:
            within = plan.joins(self._node)
            if asked and not within:
                self._ease = plan.ease(self._node)
                self._ask()
                if self.suffices:
                    self.finished = True
                    return
            self._node = int(plan.after(self._node, np.array([self._answer]), values)[0])
            if not within:
                self._round_began = self.hours
        # Whoever has begun a round waits for all of it, as the plan was judged.
        begun = self._node >= 0 and (
            not self._begins[self._node] or any(plan.tests[node] in self._due for node in self._round)
        )
        self.finished = self.finished or (asked and ((self.suffices and not begun) or self._node < 0))

    @cached_property
    def _begins(self) -> list[bool]:
        return self._planner.plan_.begins

    @property
    def _round(self) -> list[int]:
        """The nodes of the round where the case stands whose tests are still to be done."""
        plan, passed = self._planner.plan_, self._held | self._barred
        return [node for node in plan.round_of(self._node) if not passed >> plan.tests[node] & 1]

    @property
    def _bought(self) -> int:
        """The tests that were ordered or done."""
        return self._held | sum(1 << t for t in self._due)

    def _buy(self, t: int) -> None:
        """Order a test, unless it was; one of this round counts as ordered when the round began."""
        if t in self._due:
            return
        tariff, plan = self._planner.tariff_, self._planner.plan_
        name, price = tariff.tests[t], self._price(t)
        in_round = self._node >= 0 and t in (plan.tests[node] for node in plan.round_of(self._node))
        self._due[t] = (self._round_began if in_round else self.hours) + tariff.duration(t)
        self._bill[name] = price
        self.spent += price

    def _wait_until(self, hour: float) -> None:
        """A result is there at this hour."""
        self.spent += self._planner.tariff_.hour_price * max(0.0, hour - self.hours)
        self.hours = max(self.hours, hour)

    def _thought(self, results: Results, held: int) -> Opinion:
        """What is thought on a set."""
        return self._planner.judge_.of(results)(held, np.zeros(1, dtype=np.intp))

    @property
    def _barred(self) -> int:
        """The tests that cannot be done: what needs one of those cannot be done either."""
        return self._planner.tariff_.barred(self._unavailable, self._held)

    def _price(self, t: int) -> float:
        """What a test costs now."""
        tariff = self._planner.tariff_
        return 0.0 if tariff.known >> t & 1 else tariff.price(t, self._bought)

    def _read(self, values: Mapping[str, Any]) -> Results:
        planner = self._planner
        columns = {name: np.array([values.get(name)], dtype=object) for name in planner.encoding_.names}
        return read_results(planner.encoding_, planner.seen_, columns, planner.missing_ == "finding")


def _listed(names: Any) -> str:
    return ", ".join(map(repr, names)) if isinstance(names, list | tuple) else repr(names)


def _plain(value: Any) -> Any:
    """A value that JSON can hold."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and not np.isinf(value):
        return None if np.isnan(value) else value
    raise ValueError(f"DiagnosisSession.observe takes finite numbers, words or None; got {value!r}.")
