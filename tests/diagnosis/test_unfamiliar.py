"""Results that no training patient could have had: named, recorded if one insists, and not used."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiform import DiagnosisPlanner
from multiform.columns import UnfamiliarWarning
from multiform.diagnosis import DiagnosisSession, UnfamiliarValue

COSTS = {"age": 1.0, "sex": 1.0, "pain": 2.0, "blood": 20.0, "scan": 100.0}
ODD = {"age": 540, "sex": "quit", "pain": 7, "blood": 1e300, "scan": -80.0}


def clinic(n=300, seed=0):
    """Age, two sexes, a code of pain, a blood value that is sometimes missing, and a sharp scan."""
    rng = np.random.default_rng(seed)
    ill = rng.integers(0, 2, n)
    frame = pd.DataFrame(
        {
            "age": rng.integers(29, 78, n) + 5 * ill,
            "sex": rng.choice(["m", "w"], n),
            "pain": np.clip(rng.integers(1, 4, n) + ill, 1, 4),
            "blood": np.where(rng.random(n) < 0.1, np.nan, ill + rng.normal(0, 0.8, n)),
            "scan": ill + rng.normal(0, 0.3, n),
        }
    )
    return frame, np.where(ill, "ja", "nein")


@pytest.fixture(scope="module")
def planner():
    return DiagnosisPlanner(COSTS, level=0.01, random_state=0).fit(*clinic())


@pytest.fixture(scope="module")
def three():
    X, y = clinic()
    return DiagnosisPlanner(COSTS, level=0.01, random_state=0).fit(X, np.where(X["pain"] == 1, "vielleicht", y))


# ------------------------------------------------------------------------------------------------------- at the bedside


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("age", r"age is 540, and patients had 29 to 8\d\. If it is so, observe it with insist=True"),
        ("sex", r"sex is quit, and patients had m, w\."),
        ("pain", r"pain is 7, and patients had 1, 2, 3, 4\."),
        ("blood", r"blood is 1e\+300, and patients had -?\d.* or missing\."),
    ],
)
def test_a_result_that_nobody_had_is_refused_in_a_sentence(planner, name, sentence):
    session = planner.start().observe("scan", 0.4)
    before = session.to_json()
    with pytest.raises(UnfamiliarValue, match=sentence):
        session.observe(name, ODD[name])
    assert session.to_json() == before
    assert session.notes == []


@pytest.mark.parametrize("name", list(ODD))
def test_one_can_insist_and_it_is_recorded_and_not_used(planner, name):
    others = [("scan", 0.45), ("age", 60)] if name not in ("scan", "age") else [("blood", 0.4), ("pain", 2)]
    session = planner.start()
    for other, value in others:
        session.observe(other, value)
    chances, spent = session.chances, session.spent
    session.observe(name, ODD[name], insist=True)
    assert session.chances == chances
    assert session.spent == spent + COSTS[name]
    assert session.observed[name] == ODD[name]
    assert len(session.notes) == 1
    assert session.notes[0].startswith(f"{name} is ")
    assert session.notes[0].endswith("it is recorded, and not used.")
    assert session.loyalty != "strong"
    assert session.next_evidence is None or session.next_evidence.name != name
    assert f"note: {session.notes[0]}" in str(session)


def test_an_age_of_540_closes_no_case(planner):
    session = planner.start().observe("age", 540, insist=True)
    assert session.chance == pytest.approx(planner.start().chance)
    assert not session.finished


def test_a_strong_case_is_strong_no_more(planner):
    session = planner.start().observe("scan", 1.3)
    assert session.loyalty == "strong"
    assert session.observe("age", 540, insist=True).loyalty == "normal"
    assert session.undo().loyalty == "strong"


def test_what_was_insisted_on_is_in_the_saved_session(planner):
    session = planner.start().observe("age", 540, insist=True).observe("sex", "w")
    assert json.loads(session.to_json())["notes"] == session.notes
    again = DiagnosisSession.from_json(planner, session.to_json())
    assert (again.notes, again.chances, again.observed) == (session.notes, session.chances, session.observed)
    assert again.undo().notes == session.notes
    assert again.undo().notes == []


def test_a_session_of_the_first_version_has_no_notes_and_gets_them(planner):
    written = {"format": 1, "tests": list(COSTS), "events": [{"observe": "age", "values": {"age": 540}}]}
    session = DiagnosisSession.from_json(planner, json.dumps(written))
    assert len(session.notes) == 1
    assert session.chances == planner.start().chances


@pytest.mark.parametrize(("written", "meant"), [("M", "m"), (" w ", "w"), ("W", "w")])
def test_categories_may_differ_in_case_and_blanks(planner, written, meant):
    session = planner.start().observe("sex", written)
    assert session.chances == planner.start().observe("sex", meant).chances
    assert session.notes == []
    X, _ = clinic(20, seed=1)
    shouted = X.assign(sex=X["sex"].str.upper())
    np.testing.assert_array_equal(planner.predict_proba(shouted), planner.predict_proba(X))


def test_a_number_for_a_category_that_is_written_as_text():
    X, y = clinic()
    X["kind"] = np.where(X["scan"] > 0.5, "1", "two")
    planner = DiagnosisPlanner({"kind": 1, "blood": 20}, level=0.01, random_state=0).fit(X[["kind", "blood"]], y)
    expected = planner.start().observe("kind", "1").chances
    for value in (1, 1.0, np.float32(1), "1.0", " 1"):
        assert planner.start().observe("kind", value).chances == expected
    with pytest.raises(UnfamiliarValue, match="kind is 2, and patients had 1, two"):
        planner.start().observe("kind", 2)


def test_categories_that_differ_in_case_alone_stay_apart():
    X, y = clinic()
    X["sex"] = np.where(np.arange(300) % 3, X["sex"], X["sex"].str.upper())
    planner = DiagnosisPlanner({"sex": 1, "blood": 20}, level=0.01, random_state=0).fit(X[["sex", "blood"]], y)
    assert planner.start().observe("sex", "M").notes == []
    with pytest.raises(UnfamiliarValue, match="sex is x, and patients had M, W, m, w"):
        planner.start().observe("sex", "x")


def test_one_odd_result_of_a_test_leaves_the_others():
    X, y = clinic()
    costs, features = {"talk": 1, "scan": 100}, {"talk": ["age", "blood"]}
    planner = DiagnosisPlanner(costs, features=features, level=0.01, random_state=0).fit(X[["age", "blood", "scan"]], y)
    with pytest.raises(UnfamiliarValue, match=r"age is 540, .*; blood is 99, and patients had"):
        planner.start().observe("talk", {"age": 540, "blood": 99})
    odd = planner.start().observe("talk", {"age": 540, "blood": 2.0}, insist=True)
    assert odd.chances == planner.start().observe("talk", {"age": None, "blood": 2.0}).chances
    assert odd.chances != planner.start().chances
    none = planner.start().observe("talk", {"age": 540, "blood": 99}, insist=True)
    assert none.chances == planner.start().chances
    assert len(none.notes) == 2


# ------------------------------------------------------------------------------------------------------- tables


def test_bulk_methods_do_not_use_it_and_warn_once(planner):
    X, _ = clinic(40, seed=1)
    odd = X.astype({"age": float})
    odd.loc[3, "age"], odd.loc[5, "sex"] = 540.0, "x"
    for method in (planner.predict, planner.predict_proba, planner.predict_full, planner.acquire):
        with pytest.warns(
            UnfamiliarWarning, match="2 of 40 patients .* not used: age is 540, and .*row 3.*row 5"
        ) as got:
            method(odd)
        assert len(got) == 1
        assert got[0].filename == __file__
    assert [(one.row, one.feature, one.value) for one in planner.unfamiliar(odd)] == [
        (3, "age", "540"),
        (5, "sex", "x"),
    ]
    assert planner.unfamiliar(X) == []
    untouched = np.setdiff1d(np.arange(40), [3, 5])
    with pytest.warns(UnfamiliarWarning):
        changed = planner.predict_proba(odd)
    np.testing.assert_array_equal(changed[untouched], planner.predict_proba(X)[untouched])


def test_a_result_that_is_odd_is_as_good_as_none(planner):
    """Of what was never missing in training: whether it is missing or odd, the answer is the one without the test."""
    X, _ = clinic(40, seed=1)
    for name in ("age", "sex", "pain", "scan"):
        odd, none = X.astype({name: object}), X.astype({name: object})
        odd[name], none[name] = ODD[name], None
        with pytest.warns(UnfamiliarWarning, match="40 of 40 patients"):
            found = planner.predict_proba(odd)
        np.testing.assert_array_equal(found, planner.predict_proba(none))


@pytest.mark.parametrize("which", ["planner", "three"])
@pytest.mark.filterwarnings("ignore::multiform.columns.UnfamiliarWarning")
def test_a_session_and_acquire_give_the_same_answer(which, request):
    planner = request.getfixturevalue(which)
    X, _ = clinic(60, seed=2)
    X = X.astype(object)
    rng = np.random.default_rng(0)
    for name, value in ODD.items():
        X.loc[rng.random(60) < 0.15, name] = value
        X.loc[rng.random(60) < 0.1, name] = None
    bought, chances = planner.acquire(X), planner.predict_proba(X)
    for i, row in X.iterrows():
        session = planner.start()
        while not session.finished:
            name = session.next_evidence.name
            if pd.isna(row[name]):
                session.not_available(name)
            else:
                session.observe(name, row[name], insist=True)
        assert session.diagnosis == bought.answer[i]
        assert session.spent == pytest.approx(bought.cost[i])
        np.testing.assert_allclose(list(session.chances.values()), chances[i], atol=1e-6)


# ------------------------------------------------------------------------------------------------------- one number


@pytest.mark.parametrize("which", ["planner", "three"])
@settings(max_examples=20)
@given(data=st.data())
def test_the_chance_is_that_of_the_diagnosis(which, request, data):
    planner = request.getfixturevalue(which)
    session = planner.start()
    row = clinic(200, seed=3)[0].iloc[data.draw(st.integers(0, 199))]
    for name in data.draw(st.lists(st.sampled_from(list(COSTS)), unique=True)):
        value = data.draw(st.sampled_from([row[name], None, ODD[name]]))
        session.observe(name, value, insist=True)
        assert session.chance == session.chances[session.diagnosis] == max(session.chances.values())
        assert sum(session.chances.values()) == pytest.approx(1)
    if session.loyalty == "strong":
        assert not session.notes
        assert session.chance >= 0.5 or len(session.chances) > 2


@pytest.mark.filterwarnings("ignore::multiform.columns.UnfamiliarWarning")
def test_the_chance_of_what_was_bought_is_predict_proba_at_the_answer(three):
    X, _ = clinic(200, seed=4)
    bought, chances = three.acquire(X), three.predict_proba(X)
    place = np.searchsorted(three.classes_, bought.answer)
    np.testing.assert_array_equal(bought.chance, chances[np.arange(200), place])
    np.testing.assert_array_equal(three.predict(X), bought.answer)


# ------------------------------------------------------------------------------------------------------- files


def test_what_was_seen_is_in_the_state(planner):
    again = DiagnosisPlanner(**planner.get_params(deep=False))
    again._set_state(planner._get_state())
    assert again.seen_ == planner.seen_
    with pytest.raises(UnfamiliarValue, match="age is 540"):
        again.start().observe("age", 540)


def test_a_plan_of_the_first_version_takes_what_it_is_given(planner):
    state = planner._get_state()
    del state["seen_"]
    older = DiagnosisPlanner(**planner.get_params(deep=False))
    older._set_state(state)
    assert older.start().observe("age", 540).notes == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda seen: {"x": seen["age"]}, "seen_ is of other features"),
        (lambda seen: {"age": seen["sex"]}, "seen_ is of features of another kind"),
        (lambda seen: {"age": {**seen["age"], "n_rows": 7}}, "more groups than rows"),
    ],
)
def test_what_was_seen_must_fit(planner, change, message):
    state = planner._get_state()
    with pytest.raises(ValueError, match=message):
        DiagnosisPlanner(COSTS)._set_state(state | {"seen_": change(state["seen_"])})
