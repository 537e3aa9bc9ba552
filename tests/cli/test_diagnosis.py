"""plan and diagnose: from a table with prices to a bill."""

import contextlib
import io
import json
import sys

import numpy as np
import polars as pl
import pytest

import multiform


def test_plan_says_the_order_and_its_bill(clinic, tmp_path, call, call_json):
    words = ["plan", clinic / "patients.csv", "-t", "ill", "--costs", clinic / "costs.csv", "-o", tmp_path / "p.mfm"]
    told = call_json(*words, "--tolerance", "0.01")
    assert told["order"][0]["test"] == "question"
    assert told["expected_cost"] < 0.8 * told["panel_cost"]
    paid = np.cumsum([step["price"] for step in told["order"]])
    np.testing.assert_allclose([step["paid"] for step in told["order"]], paid)
    assert paid[-1] == pytest.approx(told["panel_cost"])
    planner = multiform.load(tmp_path / "p.mfm")
    assert planner.order_ == [step["test"] for step in told["order"]]
    code, out, _ = call(*words, "--policy", "adaptive", "--known", "question")
    assert code == 0
    assert "expected cost" in out


def test_plan_passes_on_how_to_choose_and_what_an_empty_cell_means(clinic, tmp_path, call, call_json):
    words = ["plan", clinic / "patients.csv", "-t", "ill", "--costs", clinic / "costs.csv", "-o", tmp_path / "p.mfm"]
    told = call_json(*words, "--missing", "finding", "--na", "lost", "--budget", "50")
    planner = multiform.load(tmp_path / "p.mfm")
    assert planner.missing == "finding"
    assert planner.budget == 50
    assert told["expected_cost"] <= 50
    call_json(*words, "--target-accuracy", "0.7")
    planner = multiform.load(tmp_path / "p.mfm")
    assert planner.missing == "not_done"
    assert planner.target_accuracy == 0.7


@pytest.fixture(scope="module")
def slow_clinic(clinic, tmp_path_factory):
    """A plan whose scan and horoscope take a day, and hours are dear."""
    path = tmp_path_factory.mktemp("slow")
    (path / "costs.csv").write_text("test,cost,duration\nquestion,1,\nscan,20,24\nhoroscope,2,24\n")
    words = ["plan", clinic / "patients.csv", "-t", "ill", "--costs", path / "costs.csv", "-o", path / "plan.mfm"]
    words += ["--hour-price", "5", "--loss", "yes", "no", "9", "--loss", "no", "yes", "1", "--loss-unit", "error"]
    words += ["--tolerance", "0.2", "--target-recall", "yes", "0.5", "--confidence", "0.9", "--json"]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert multiform.cli.main([str(word) for word in words]) == 0
    return path / "plan.mfm", json.loads(out.getvalue())


def test_plan_takes_losses_promises_and_hours(slow_clinic):
    path, told = slow_clinic
    planner = multiform.load(path)
    assert planner.losses == {"yes": {"no": 9.0}, "no": {"yes": 1.0}} == told["losses"]
    assert planner.durations == {"scan": 24.0, "horoscope": 24.0}
    assert told["promise"]["proven"] == planner.promise_.attained
    assert [claim["what"] for claim in told["promise"]["claims"]] == ["sensitivity for yes"]
    assert [test for one in told["rounds"] for test in one] == planner.order_


def test_a_result_that_is_not_yet_there(slow_clinic, call, call_json, monkeypatch, tmp_path):
    path, _ = slow_clinic
    told = call_json("diagnose", path, "-e", "scan=ordered")
    assert told["pending"] == ["scan"]
    assert told["bill"] == [{"test": "scan", "price": 20.0}]
    planner = multiform.load(path)
    asked = [one.name for one in planner.start().next_round]
    typed(monkeypatch, "ordered", "quit")
    code, out, err = call("diagnose", path, "--session", tmp_path / "case.json")
    assert code == 0
    assert f"ordered, and not yet there: {', '.join(asked)}" in out
    assert json.loads((tmp_path / "case.json").read_text())["events"] == [{"order": name} for name in asked]
    typed(monkeypatch, "quit")
    _, _, err = call("diagnose", path, "-e", "scan=ordered")
    assert "-e scan=ordered" in err


def test_diagnose_answers_programs(clinic, call_json):
    told = call_json("diagnose", clinic / "plan.mfm")
    assert told["next"]["test"] == "question"
    assert told["spent"] == 0
    told = call_json("diagnose", clinic / "plan.mfm", "-e", "question=0.45")
    assert not told["finished"]
    assert told["next"] is not None
    told = call_json("diagnose", clinic / "plan.mfm", "-e", "question=2.5", "-e", "scan=1.2", "-e", "horoscope=leo")
    assert told["finished"]
    assert told["diagnosis"] == "yes"
    assert told["bill"] == [
        {"test": "question", "price": 1.0},
        {"test": "scan", "price": 100.0},
        {"test": "horoscope", "price": 5.0},
    ]
    assert told["spent"] == 106.0
    assert sum(told["chances"].values()) == pytest.approx(1)


def typed(monkeypatch, *lines):
    text = "".join(f"{line}\n" for line in lines).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))


def test_questions_one_at_a_time_until_it_suffices(clinic, call, monkeypatch):
    typed(monkeypatch, "undo", "much", "2,5")
    code, out, err = call("diagnose", clinic / "plan.mfm")
    assert code == 0
    assert "there is nothing to take back" in err
    assert "question is a number; got 'much'." in err
    assert "next: question for 1.00" in err
    assert "diagnosis: yes" in out
    assert "all tests" in out


def test_what_cannot_be_done_is_left_out(clinic, call, monkeypatch):
    typed(monkeypatch, "na", "na", "na")
    code, out, _ = call("diagnose", clinic / "plan.mfm")
    assert code == 0
    assert "spent        0.00" in out


def test_an_end_of_input_gets_a_sentence(clinic, call, monkeypatch):
    typed(monkeypatch)
    code, _, err = call("diagnose", clinic / "plan.mfm")
    assert code == 1
    assert "the input ended before the case was decided; give results with --evidence" in err


@pytest.mark.parametrize("content", ["{bad", "{}", "[]", "\xff", '{"format": 1, "tests": ["other"], "events": []}'])
def test_a_file_that_holds_no_case(content, clinic, tmp_path, call):
    case = tmp_path / "case.json"
    case.write_bytes(content.encode("latin-1"))
    code, out, err = call("diagnose", clinic / "plan.mfm", "--session", case, "--json")
    assert code == 1
    assert err.startswith(f"multiform: {case} holds no case of this plan: ")
    assert json.loads(out)["exit_code"] == 1
    assert case.read_bytes() == content.encode("latin-1")


def test_what_is_said_of_a_plan_names_its_options(clinic, tmp_path, call):
    plan = ["plan", clinic / "patients.csv", "-t", "ill", "--costs", clinic / "costs.csv", "-o", tmp_path / "p.mfm"]
    code, _, err = call(*plan, "--known", "scam")
    assert code == 1
    assert "multiform: --known: no test is named 'scam'; the tests are '" in err
    assert "DiagnosisPlanner" not in err
    code, _, err = call(*plan, "--loss", "yes", "nope", 5)
    assert code == 2
    assert "--loss names the class 'nope'; the classes of the target are '" in err


def test_losses_are_told_in_their_own_unit(clinic, tmp_path, call, call_json):
    plan = ["plan", clinic / "patients.csv", "-t", "ill", "--costs", clinic / "costs.csv", "-o", tmp_path / "p.mfm"]
    classes = pl.read_csv(clinic / "patients.csv")["ill"].unique().sort().to_list()
    losses = ["--loss", classes[0], classes[1], 5000, "--loss", classes[1], classes[0], 3000]
    told, out = call_json(*plan, *losses), call(*plan, *losses)[1]
    assert ("of the patients need no test at all" in out) == (told["stopped_at_once"] > 0)
    assert "wrong answers cost more, a patient" in out
    assert "give or take" not in out


def test_a_file_that_is_no_case(clinic, tmp_path, call):
    (tmp_path / "case.json").write_text("{")
    code, _, err = call("diagnose", clinic / "plan.mfm", "--session", tmp_path / "case.json")
    assert code == 1
    assert "holds no case of this plan: it is no file that --session wrote" in err


def test_evidence_that_comes_twice(clinic, call):
    code, _, err = call("diagnose", clinic / "plan.mfm", "-e", "question=1", "-e", "question = 2", "--json")
    assert code == 2
    assert "--evidence gives 'question' twice" in err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xef\xbb\xbftest;cost\nquestion;1,5\nscan;2\n", None),
        (b"test\tcost\nquestion\t1.5\nscan\t2\n", None),
        (b"test,cost\nquestion,cheap\nscan,2\n", "cost of the test 'question' must be a price"),
        (b"test,cost\nquestion,\nscan,2\n", "costs.csv: cost of the test 'question' must be a price, finite"),
        (b"test;price\nquestion;1\n", "costs.csv: the list, as a table, needs the columns 'test' and 'cost'"),
        (b"test,cost\nquestion,1\nscan\n", "costs.csv, line 3, column 'cost': the line has 1 cell"),
        (b"test,cost\nquestion,1\nill,2\n", "has a price for 'ill', which is the target"),
        (b"", "costs.csv is empty"),
    ],
)
def test_prices_are_a_table_like_any_other(content, words, clinic, tmp_path, call):
    (tmp_path / "costs.csv").write_bytes(content)
    output = tmp_path / "p.mfm"
    given = ["plan", clinic / "patients.csv", "-t", "ill", "--costs", tmp_path / "costs.csv", "-o", output, "--json"]
    code, out, err = call(*given)
    if words is None:
        assert {step["test"]: step["price"] for step in json.loads(out)["order"]} == {"question": 1.5, "scan": 2.0}
    else:
        assert code == 1
        assert words in err
        assert not output.exists()


def test_a_case_is_kept_in_a_file(clinic, tmp_path, call, call_json, monkeypatch):
    case = tmp_path / "case.json"
    told = call_json("diagnose", clinic / "plan.mfm", "--session", case, "-e", "question=0.5")
    assert told["spent"] == 1
    events = json.loads(case.read_text())["events"]
    assert [event["observe"] for event in events] == ["question"]
    told = call_json("diagnose", clinic / "plan.mfm", "--session", case, "-e", "scan=1.4")
    assert told["spent"] == 101
    code, _, err = call("diagnose", clinic / "plan.mfm", "--session", case, "-e", "scan=1.4")
    assert code == 1
    assert "has been observed already" in err


@pytest.mark.parametrize(
    ("words", "code", "match"),
    [
        (["-e", "question"], 2, "--evidence takes NAME=VALUE"),
        (["-e", "x=1"], 1, "The plan has no test 'x'; its tests are question, scan, horoscope."),
        (["-e", "scan=high"], 1, "scan is a number; got 'high'."),
    ],
)
def test_wrong_evidence(words, code, match, clinic, call):
    found, _, err = call("diagnose", clinic / "plan.mfm", *words)
    assert found == code
    assert match in err


def test_wrong_tables(clinic, tmp_path, call):
    (tmp_path / "costs.csv").write_text("test,price\nquestion,1\n")
    words = ["plan", clinic / "patients.csv", "-t", "ill", "-o", tmp_path / "p.mfm", "--costs"]
    code, _, err = call(*words, tmp_path / "costs.csv")
    assert code == 1
    assert "needs the columns 'test' and 'cost'" in err
    (tmp_path / "costs.csv").write_text("test,cost\nquestion,1\nblood,2\n")
    code, _, err = call(*words, tmp_path / "costs.csv")
    assert code == 1
    assert "has no column 'blood'" in err
    assert call(*words, tmp_path / "none.csv")[0] == 1
    assert list(tmp_path.glob("*.mfm")) == []


def test_a_plan_does_not_predict_tables(clinic, call):
    code, _, err = call("predict", clinic / "plan.mfm", clinic / "patients.csv")
    assert code == 1
    assert "holds a plan of tests and no model for tables; `multiform diagnose` follows it." in err


def visits(path, n_people=60, each=4):
    """Patients who come several times, with columns that nobody has a price for."""
    random = np.random.default_rng(0)
    person = np.repeat(np.arange(n_people), each)
    ill = random.integers(0, 2, n_people)[person]
    lines = ["patient,question,scan,shoe,ill"]
    for who, sick in zip(person, ill, strict=True):
        question, scan, shoe = sick + random.normal(0, 0.8), sick + random.normal(0, 0.4), random.integers(36, 46)
        lines.append(f"p{who},{question:.3f},{scan:.3f},{shoe},{'yes' if sick else 'no'}")
    path.write_text("\n".join(lines))
    return person


def test_rows_of_one_patient_stay_together(tmp_path, call, call_json, monkeypatch):
    drawn = []

    def counted(*args, **kwargs):
        drawn.append(multiform.folds.drawn_folds(*args, **kwargs))
        return drawn[-1]

    monkeypatch.setattr("multiform.diagnosis._planner.drawn_folds", counted)
    table, costs, output = tmp_path / "visits.csv", tmp_path / "costs.csv", tmp_path / "p.mfm"
    person = visits(table)
    costs.write_text("test,cost\nquestion,1\nscan,100\n")
    words = ["plan", table, "-t", "ill", "--costs", costs, "-o", output]
    told = call_json(*words, "--group", "patient")
    assert told["unpriced"] == ["shoe"]
    fold = drawn.pop()
    assert all(len(set(fold[person == who])) == 1 for who in set(person))
    code, _, err = call(*words)
    assert code == 0
    assert "costs.csv has no price for patient, shoe; the plan does not use columns without a price." in err
    fold = drawn.pop()
    assert any(len(set(fold[person == who])) > 1 for who in set(person))
    for given, match in [
        (["--group", "who"], "The table has no column 'who', which --group names"),
        (["--group", "scan"], "has a price for 'scan', which is the group; it cannot be a test, too."),
    ]:
        code, _, err = call(*words, *given)
        assert code == 1
        assert match in err
    table.write_text(table.read_text().replace("p3,", ",", 1))
    code, _, err = call(*words, "--group", "patient")
    assert code == 1
    assert "must name the group of every sample; 1 of 240 are missing" in err


def test_words_for_missing_are_no_third_beside_yes_and_no(tmp_path, call):
    random = np.random.default_rng(0)
    ill = random.random(80) < 0.5
    smokes = ["unbekannt" if row % 9 == 0 else "ja" if sick else "nein" for row, sick in enumerate(ill)]
    rows = [f"{smoke};{x:.2f};{sick}" for smoke, x, sick in zip(smokes, random.normal(ill), ill, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["Raucher;x;krank", *rows]))
    (tmp_path / "c.csv").write_text("test,cost\nRaucher,1\nx,2\n")
    code, _, err = call(
        "plan", tmp_path / "t.csv", "-t", "krank", "--costs", tmp_path / "c.csv", "-o", tmp_path / "p.mfm"
    )
    assert code == 0, err
    assert set(multiform.load(tmp_path / "p.mfm").seen_["Raucher"].values) == {"nein", "ja"}
