"""What can be typed at the bedside, and what becomes of it."""

import io
import json
import shlex
import sys

import numpy as np
import polars as pl
import pytest

import multiform
from multiform import DiagnosisPlanner
from multiform.cli import main


@pytest.fixture(scope="session")
def ward(tmp_path_factory):
    """plan.mfm asks for sex, age and a scan; words.mfm for an answer of which `quit` is a category; several.mfm for a
    test of two results."""
    path = tmp_path_factory.mktemp("ward")
    random = np.random.default_rng(0)
    ill = random.integers(0, 2, 240)
    people = pl.DataFrame(
        {
            "sex": random.choice(["m", "w"], 240),
            "age": random.integers(29, 70, 240) + 8 * ill,
            "scan": (ill + random.normal(0, 0.4, 240)).round(3),
            "answer": np.where(random.random(240) < 0.5, "go on", "quit"),
            "ill": np.array(["nein", "ja"])[ill],
        }
    )
    people.write_csv(path / "people.csv")
    (path / "costs.csv").write_text("test,cost\nsex,1\nage,1\nscan,100\n")
    words = ["plan", path / "people.csv", "-t", "ill", "--costs", path / "costs.csv", "-o", path / "plan.mfm", "-q"]
    assert main([str(word) for word in [*words, "--known", "sex,age"]]) == 0
    quick = {"level": 0.01, "random_state": 0}
    asked = DiagnosisPlanner({"answer": 1, "scan": 100}, known=["answer"], **quick)
    multiform.save(asked.fit(people["answer", "scan"], people["ill"].to_numpy()), path / "words.mfm")
    several = DiagnosisPlanner({"talk": 1, "scan": 100}, features={"talk": ["sex", "age"]}, known=["talk"], **quick)
    multiform.save(several.fit(people["sex", "age", "scan"], people["ill"].to_numpy()), path / "several.mfm")
    return path


@pytest.fixture
def sit(call, monkeypatch):
    """Diagnose with these lines typed: exit code, standard output, standard error."""

    def run(plan, *lines, options=()):
        text = "".join(f"{line}\n" for line in lines).encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        return call("diagnose", plan, *options)

    return run


def events(path):
    return json.loads(path.read_text())["events"]


def test_quit_is_no_sex(ward, sit):
    code, out, err = sit(ward / "plan.mfm", "quit")
    assert code == 0
    assert "sex (m, w):" in err
    assert "The case was left before there was any result." in err
    assert "not finished; next is sex" in out


def test_an_age_of_540_is_asked_for_again(ward, sit):
    code, out, err = sit(ward / "plan.mfm", "w", "540", "54", "quit")
    assert code == 0
    assert "age (29 to 7" in err
    assert "age is 540, and patients had 29 to 7" in err
    assert "If it is so, type it again: it is then recorded, and not used." in err
    assert "note:" not in out
    assert "-e sex=w -e age=54.0" in err


@pytest.mark.parametrize(
    "lines", [["540", "540"], ["540!"], ["age=540!"], ["age=540", "age=540"], ["540", "54x", "540!"]]
)
def test_one_can_insist(ward, sit, lines, tmp_path):
    case = tmp_path / "case.json"
    code, out, err = sit(ward / "plan.mfm", "w", *lines, "quit", options=["--session", case])
    assert code == 0
    assert [event["values"] for event in events(case)] == [{"sex": "w"}, {"age": 540.0}]
    assert "note: age is 540, and patients had 29 to 7" in out
    assert "it is recorded, and not used." in out
    assert json.loads(case.read_text())["notes"]
    assert f"The case is saved in {case}; the same command goes on with it." in err


def test_another_value_in_between_is_no_insisting(ward, sit, tmp_path):
    case = tmp_path / "case.json"
    sit(ward / "plan.mfm", "w", "540", "541", "540", "quit", options=["--session", case])
    assert [event["observe"] for event in events(case)] == ["sex"]


def test_undo_skip_and_na(ward, sit, tmp_path):
    case = tmp_path / "case.json"
    code, _, err = sit(ward / "plan.mfm", "undo", "m", "undo", "W", "skip", "na", options=["--session", case])
    assert code == 0
    assert "there is nothing to take back." in err
    assert events(case) == [
        {"observe": "sex", "values": {"sex": "W"}},
        {"observe": "age", "values": {"age": None}},
        {"not_available": "scan"},
    ]


def test_help_says_what_can_be_typed(ward, sit):
    _, _, err = sit(ward / "plan.mfm", "help", "quit")
    for word in ("undo", "skip", "na", "quit", "NAME=VALUE", ":quit", "!"):
        assert word in err.split("help shows what else you can type.")[1]


def test_results_may_be_volunteered(ward, sit, tmp_path):
    case = tmp_path / "case.json"
    code, _, err = sit(ward / "plan.mfm", "scan=0,4", "x=3", "m", "quit", options=["--session", case])
    assert code == 0
    assert "The plan has no test 'x'; its tests are sex, age, scan." in err
    assert [event["values"] for event in events(case)] == [{"scan": 0.4}, {"sex": "m"}]


def test_a_category_comes_before_a_command_of_the_same_name(ward, sit, tmp_path):
    case = tmp_path / "case.json"
    sit(ward / "words.mfm", "quit", ":quit", options=["--session", case])
    assert events(case) == [{"observe": "answer", "values": {"answer": "quit"}}]
    case.unlink()
    sit(ward / "words.mfm", ":quit", options=["--session", case])
    assert events(case) == []


def test_a_test_of_several_results(ward, sit, tmp_path, call):
    case = tmp_path / "case.json"
    code, _, err = sit(ward / "several.mfm", "m", "undo", "w", "540", "54", ":quit", options=["--session", case])
    assert code == 0
    assert "age is 540, and patients had" in err
    assert events(case) == [{"observe": "talk", "values": {"sex": "w", "age": 54.0}}]
    code, _, err = call("diagnose", ward / "several.mfm", "-e", "talk=sex:w,age:540", "--json")
    assert code == 1
    assert "age is 540, and patients had 29 to 7" in err
    code, out, _ = call("diagnose", ward / "several.mfm", "-e", "talk=sex:w,age:540!", "--json")
    assert code == 0
    assert json.loads(out)["notes"][0].startswith("age is 540, and patients had 29 to 7")
    assert call("diagnose", ward / "several.mfm", "-e", "talk=shoe:3", "--json")[0] == 1
    _, _, err = sit(ward / "several.mfm", "w", "quit")
    assert "The case was left before there was any result." in err


def test_what_was_given_can_be_given_again(ward, sit, call):
    _, _, err = sit(ward / "several.mfm", "w", "540!", "quit")
    words = shlex.split(err.split(f"{ward / 'several.mfm'} ")[-1])
    assert words == ["-e", "talk=sex:w,age:540.0!"]
    assert call("diagnose", ward / "several.mfm", *words, "--json")[0] == 0


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("age=540", "age is 540, and patients had 29 to 7"),
        ("sex=quit", "sex is quit, and patients had m, w. If it is so, put a ! after it: it is then recorded, and not"),
        ("age=old", "age is a number; got 'old'."),
    ],
)
def test_programs_get_the_same_sentence_and_nothing_is_stored(ward, call, tmp_path, given, sentence):
    case = tmp_path / "case.json"
    assert call("diagnose", ward / "plan.mfm", "--json", "--session", case, "-e", "scan=0.4")[0] == 0
    before = case.read_bytes()
    code, out, _ = call("diagnose", ward / "plan.mfm", "--json", "--session", case, "-e", given)
    assert code == 1
    assert sentence in json.loads(out)["error"]
    assert case.read_bytes() == before


def test_programs_can_insist(ward, call_json, tmp_path):
    case = tmp_path / "case.json"
    without = call_json("diagnose", ward / "plan.mfm", "-e", "sex=m")
    told = call_json("diagnose", ward / "plan.mfm", "-e", "sex=m", "-e", "age=540!", "--session", case)
    assert told["chances"] == without["chances"]
    assert told["loyalty"] != "strong"
    assert [line["test"] for line in told["bill"]] == ["sex", "age"]
    assert told["notes"][0].startswith("age is 540, and patients had 29 to 7")
    again = call_json("diagnose", ward / "plan.mfm", "--session", case)
    assert again["notes"] == told["notes"]
    assert call_json("diagnose", ward / "plan.mfm", "-e", "sex=M", "-e", "age=")["notes"] == []
