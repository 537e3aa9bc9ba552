"""At the bedside: sessions that follow the plan, leave it, go back and go on later."""

import copy
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiform import DiagnosisPlanner
from multiform.diagnosis import DiagnosisSession, UnfamiliarValue
from tests.diagnosis.worlds import COSTS, gated, patients

NAMES = list(COSTS)


@pytest.fixture(scope="module")
def planner():
    X, y = patients(300)
    shared = {"lab": {"blood": 15.0, "scan": 60.0}}
    return DiagnosisPlanner(COSTS, discounts=shared, requires={"noise": "talk"}, level=0.01, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def adaptive():
    X, y = gated()
    costs = {"lean": 1.0, "first": 50.0, "second": 50.0}
    return DiagnosisPlanner(costs, policy="adaptive", known=["lean"], level=0.01, random_state=0).fit(X, y)


@pytest.mark.parametrize("which", ["planner", "adaptive"])
def test_a_replayed_patient_gets_the_plans_answer_and_bill(which, request):
    planner = request.getfixturevalue(which)
    X = (patients(340)[0][300:] if which == "planner" else gated(40, seed=1)[0]).copy()
    X[::9, 1] = np.nan
    bought = planner.acquire(X)
    for i, row in enumerate(X):
        session, order = planner.start(), []
        while not session.finished:
            following = session.next_evidence
            before = session.spent
            value = row[planner.tariff_.position(following.name)]
            if np.isnan(value):  # a test without a result was not done
                session.not_available(following.name)
                continue
            session.observe(following.name, value)
            assert session.spent == pytest.approx(before + following.cost)
            if following.cost:
                order.append(following.name)
        assert session.diagnosis == bought.answer[i]
        assert session.chance == pytest.approx(bought.chance[i], abs=1e-6)
        assert session.spent == pytest.approx(bought.cost[i])
        assert tuple(order) == bought.tests[i]
        assert session.next_evidence is None
        assert session.expected_remaining_cost == 0


@given(st.permutations(NAMES), st.lists(st.sampled_from(["observe", "none", "unavailable", "undo"]), max_size=8))
@settings(max_examples=25)
def test_any_order_of_events_is_survived(planner, order, kinds):
    rng = np.random.default_rng(len(kinds))
    session, waiting = planner.start(), list(order)
    for kind in kinds:
        if kind == "undo" and session._events:
            last = session._events[-1]
            session.undo()
            waiting.insert(0, last.get("observe") or last.get("not_available"))
        elif waiting:
            name = waiting.pop(0)
            if kind == "unavailable":
                session.not_available(name)
            else:
                session.observe(name, None if kind == "none" else rng.normal())
        assert 0 <= session.chance <= 1
        assert sum(session.chances.values()) == pytest.approx(1)
        assert session.spent >= 0
        assert (session.next_evidence is None) == session.finished
        if not session.finished:
            gone = set(session.unavailable_tests) | set(session.observed)
            assert session.next_evidence.name not in gone
        copy = DiagnosisSession.from_json(planner, session.to_json())
        assert copy.to_json() == session.to_json()
        assert (copy.spent, copy.finished, copy.chances) == (session.spent, session.finished, session.chances)


def test_undo_is_as_if_it_had_not_been(planner):
    session = planner.start()
    before = str(session)
    session.observe("talk", 0.5)
    between = str(session)
    session.observe("scan", 2.0).undo()
    assert str(session) == between
    assert str(session.undo()) == before
    with pytest.raises(ValueError, match="nothing has happened yet"):
        session.undo()


def test_a_correction_is_as_if_it_had_been_so_from_the_start(planner):
    events = [("talk", 0.4), ("blood", 0.2), ("noise", 0.1)]
    session, other = planner.start(), planner.start()
    for name, value in events:
        session.observe(name, value, insist=True)
        other.observe(name, 1.1 if name == "talk" else value, insist=True)
    before = session.as_dict()
    assert session.correct("talk", 1.1).as_dict() == other.as_dict()
    assert session.to_json() == other.to_json()
    assert session.as_dict() != before
    assert session.correct("talk", 0.4).as_dict() == before


def test_a_correction_that_is_refused_changes_nothing(planner):
    session = planner.start().observe("talk", 0.4)
    before = session.to_json()
    with pytest.raises(UnfamiliarValue, match="talk is 540"):
        session.correct("talk", 540)
    with pytest.raises(ValueError, match="'blood' has not been observed; those are 'talk'"):
        session.correct("blood", 1.0)
    with pytest.raises(ValueError, match="finite numbers, words or None"):
        session.correct("talk", [1])
    assert session.to_json() == before
    assert session.correct("talk", 540, insist=True).notes == [
        f"talk is 540, and patients had {planner.seen_['talk']}; it is recorded, and not used."
    ]


def test_the_bill_is_what_each_test_cost_when_it_was_done(planner):
    session = planner.start().observe("blood", 0.2).observe("scan", 0.3)
    assert session.bill == {"blood": COSTS["blood"], "scan": 60.0}
    assert sum(session.bill.values()) == session.spent
    assert session.undo().bill == {"blood": COSTS["blood"]}


@pytest.mark.parametrize(("text", "value"), [("1.5", 1.5), ("1,5", 1.5), (" -2 ", -2.0), ("", None), ("  ", None)])
def test_numbers_as_people_write_them(planner, text, value):
    assert planner.start().written("talk", text) == value


@pytest.mark.parametrize("text", ["many", "1,2,3", "nan", "inf", "1.000,5"])
def test_what_is_no_number(planner, text):
    with pytest.raises(ValueError, match="talk is a number; got"):
        planner.start().written("talk", text)


def test_what_cannot_be_done_is_never_asked_for(planner):
    session = planner.start().not_available("talk")
    asked = []
    while not session.finished:
        asked.append(session.next_evidence.name)
        session.observe(asked[-1], 0.5)
    assert "talk" not in asked
    assert "noise" not in asked  # it needs talk
    assert session.unavailable_tests == ["talk"]


def test_nothing_is_available(planner):
    session = planner.start()
    for name in NAMES:
        session.not_available(name)
    assert session.finished
    assert session.spent == 0
    assert session.loyalty in ("strong", "normal")


def test_prices_follow_what_was_bought(planner):
    session = planner.start().observe("scan", 0.5)
    assert session.spent == 100
    assert session.observe("blood", 0.4).spent == 115


def test_the_reason_and_the_outlook(planner):
    session = planner.start()
    assert "need no other test after it" in session.next_evidence.why
    assert session.expected_remaining_cost == pytest.approx(planner.expected_cost_, rel=0.5)
    assert session.loyalty in ("strong", "normal")
    assert "next: talk for 1.00" in str(session)


def test_a_plan_holds_no_patients_and_answers_off_its_way(planner):
    models = planner.judge_.models
    assert not any(hasattr(models, name) for name in ("rows", "target", "fold"))
    session = copy.deepcopy(planner).start().observe("noise", 0.4)
    assert 0 < session.chance < 1
    assert session.loyalty in ("strong", "normal")
    sizes = [np.size(value) for value in planner.judge_.state()["classifier"].values() if isinstance(value, np.ndarray)]
    assert max(sizes) < 300  # no array has an entry for each of the 300 patients


def test_known_evidence_is_asked_for_first_and_is_free(adaptive):
    session = adaptive.start()
    assert session.next_evidence.name == "lean"
    assert session.next_evidence.cost == 0
    assert session.observe("lean", 0.4).spent == 0


def test_words_survive_json():
    X, y = patients(300)
    frame = pd.DataFrame({"talk": np.where(X[:, 0] > 0.5, "bad", "well"), "blood": X[:, 1]})
    planner = DiagnosisPlanner({"talk": 1, "blood": 5}, level=0.01, random_state=0).fit(
        frame, np.where(y, "ill", "fine")
    )
    session = planner.start().observe("talk", "bad").observe("blood", np.float32(2.0))
    again = DiagnosisSession.from_json(planner, session.to_json())
    assert again.diagnosis == session.diagnosis == "ill"
    assert json.loads(session.to_json())["events"][0] == {"observe": "talk", "values": {"talk": "bad"}}


def test_refusals(planner):
    session = planner.start().observe("talk", 1.0).not_available("scan")
    for wrong, message in [
        (lambda: session.observe("talk", 2.0), "'talk' has been observed already"),
        (lambda: session.observe("scan", 2.0), "'scan' was said to be not available"),
        (lambda: session.not_available("talk"), "'talk' has been observed already"),
        (lambda: session.observe("x", 2.0), "no test is named 'x'"),
        (lambda: session.observe("blood", {"x": 1}), "got a value for 'x'"),
        (lambda: session.observe("blood", [1, 2]), "takes finite numbers, words or None"),
        (lambda: session.observe("blood", np.inf), "takes finite numbers, words or None; got inf"),
        (lambda: session.observe("blood", 10**400), "infinite for some patient"),
        (lambda: session.observe("blood", "high"), "was a number for every training patient"),
    ]:
        before = session.to_json()
        with pytest.raises(ValueError, match=message):
            wrong()
        assert session.to_json() == before
    with pytest.raises(ValueError, match=r"needs what DiagnosisSession\.to_json wrote"):
        DiagnosisSession.from_json(planner, "{}")
    for events in ("abc", [3], [{}], [{"observe": "talk"}], None):
        with pytest.raises(ValueError, match=r"needs what DiagnosisSession\.to_json wrote"):
            DiagnosisSession.from_json(planner, json.dumps({"format": 1, "tests": NAMES, "events": events}))
    with pytest.raises(ValueError, match="reads format 1; got 9"):
        DiagnosisSession.from_json(planner, '{"format": 9, "tests": [], "events": []}')
    with pytest.raises(ValueError, match="the session is of a plan with the tests"):
        DiagnosisSession.from_json(planner, '{"format": 1, "tests": ["a"], "events": []}')
