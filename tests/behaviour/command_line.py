"""The command line on small files: the numbers of its answers, not its words."""

import io
import json
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np

from tests.behaviour.registry import needing

COMMAND = ("click", "polars", "rich", "safetensors")


def run(*words, typed=None):
    """Run a command in this process; what it wrote to standard output."""
    from multiform.cli import main

    out, err = io.StringIO(), io.StringIO()
    before = sys.stdin
    if typed is not None:
        sys.stdin = io.TextIOWrapper(io.BytesIO("".join(f"{line}\n" for line in typed).encode()))
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = main([str(word) for word in words])
    finally:
        sys.stdin = before
    assert code == 0, err.getvalue()
    return out.getvalue()


def run_json(*words):
    return json.loads(run(*words, "--json"))


def numbers(told, *, but=()):
    """All numbers and decisions in an answer, and their places in it; texts are left out."""
    found = {}

    def walk(value, place):
        if isinstance(value, dict):
            for key, entry in value.items():
                if key not in but:
                    walk(entry, f"{place} {key}".strip())
        elif isinstance(value, list):
            for number, entry in enumerate(value):
                walk(entry, f"{place} {number}")
        elif isinstance(value, bool | int | float):
            found[place] = value
        elif value is None:
            found[place] = np.nan

    walk(told, "")
    places = sorted(found)  # labels are counted in any order
    return {"places": places, "numbers": [float(found[place]) for place in places]}


def named(prefix, arrays):
    return {f"{prefix}: {name}": value for name, value in arrays.items()}


def fitted(folder, *options, drop="note"):
    """fit, predict, evaluate and info of one model; texts are dropped, as in `tables`."""
    import polars as pl

    from tests.behaviour.tables import odd, visits

    train, test, model, answers = (folder / name for name in ("train.csv", "test.csv", "m.mfm", "answers.csv"))
    visits(150, 0).write_csv(train)
    odd(30).write_csv(test)
    settings = ("--target", "level", "--components", "3", "--max-iter", "4", "--seed", "0", "--drop", drop, *options)
    fit = run_json("fit", train, "-o", model, *settings)
    predicted = run_json("predict", model, test, "-o", answers, "--chances", "--keep", "patient")
    evaluated = run_json("evaluate", model, test)
    info = run_json("info", model)
    table = pl.read_csv(answers)
    return {
        **named("fit", numbers(fit, but=("seconds", "bytes", "model"))),
        "fit: roles": [column["role"] for column in fit["columns"]],
        "fit: kind": fit["kind"],
        **named("predict", numbers(predicted, but=("output",))),
        **named("evaluate", numbers(evaluated)),
        **named("answers", {name: table[name].to_numpy() for name in table.columns}),
        **named("info", numbers(info["training"])),
        "info: classes": info["classes"],
        "info: columns": [column["name"] for column in info["columns"]],
        "info: kind": info["kind"],
    }


@needing(*COMMAND)
def qms():
    with tempfile.TemporaryDirectory() as folder:
        return fitted(Path(folder), "--model", "qms", "--noise", "1", "--balanced")


@needing(*COMMAND)
def texts():
    """With the texts: only what does not depend on folds."""
    with tempfile.TemporaryDirectory() as folder:
        told = fitted(Path(folder), "--model", "qms", "--noise", "1", drop="ward")
    return {name: told[name] for name in ("fit: roles", "answers: label", "info: columns", "predict: numbers")}


@needing(*COMMAND)
def cpm():
    with tempfile.TemporaryDirectory() as folder:
        return fitted(Path(folder), "--model", "qms", "--solver", "cpm", "--noise", "1", "--max-iter", "2")


@needing(*COMMAND)
def cv():
    with tempfile.TemporaryDirectory() as folder:
        return fitted(Path(folder), "--model", "cv")


@needing(*COMMAND)
def loyalty():
    """The default model, its noise chosen."""
    with tempfile.TemporaryDirectory() as folder:
        return fitted(Path(folder))


@needing(*COMMAND)
def triage():
    with tempfile.TemporaryDirectory() as folder:
        return fitted(Path(folder), "--target-accuracy", "0.45", "--confidence", "0.9", "--noise", "1")


def clinic(folder):
    """Patients and prices: a cheap question, a sharp scan, a useless horoscope."""
    import polars as pl

    random = np.random.default_rng(15)
    ill = np.arange(150) % 2
    scans = (ill + random.normal(0, 0.3, 150)).round(3).tolist()
    pl.DataFrame(
        {
            "question": (ill + random.normal(0, 0.6, 150)).round(3),
            "scan": [None if row % 20 == 0 else value for row, value in enumerate(scans)],
            "horoscope": random.choice(["leo", "aries", "virgo"], 150),
            "ill": np.array(["no", "yes"])[ill],
        }
    ).write_csv(folder / "patients.csv")
    prices = "test,cost,group,cost_in_group\nquestion,1,,\nscan,100,star,90\nhoroscope,50,star,5\n"
    (folder / "costs.csv").write_text(prices)
    return folder / "patients.csv", folder / "costs.csv"


@needing(*COMMAND)
def plan_and_diagnose():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        patients, costs = clinic(folder)
        plan, case = folder / "plan.mfm", folder / "case.json"
        told = run_json("plan", patients, "-t", "ill", "--costs", costs, "-o", plan, "--tolerance", "0.02")
        stations = {
            "at first": run_json("diagnose", plan),
            "unsure": run_json("diagnose", plan, "-e", "question=0.45", "--session", case),
            "later": run_json("diagnose", plan, "-e", "scan=1.2", "--session", case),
            "not available": run_json("diagnose", plan, "-e", "question=0.5", "-e", "scan=na"),
        }
        # An answer that cannot be read is asked for again, and undo takes one back.
        run("diagnose", plan, "--session", folder / "typed.json", typed=["0.5", "undo", "much", "0,45", "0.9", "leo"])
        stations["typed"] = run_json("diagnose", plan, "--session", folder / "typed.json")
        info = run_json("info", plan)
    shown = named("plan", numbers(told)) | {"plan: order": [step["test"] for step in told["order"]]}
    for station, where in stations.items():
        shown |= named(station, numbers(where, but=("next",)))
        shown[f"{station}: decided"] = [where["diagnosis"], where["loyalty"]]
        shown[f"{station}: next"] = "" if where["next"] is None else where["next"]["test"]
        shown[f"{station}: bill"] = [step["test"] for step in where["bill"]]
    return shown | {"info: kind": info["kind"], "info: classes": info["classes"]}


@needing(*COMMAND)
def adaptive_plan():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        patients, costs = clinic(folder)
        told = run_json(
            "plan", patients, "-t", "ill", "--costs", costs, "-o", folder / "plan.mfm", "--policy", "adaptive",
            "--known", "question", "--stop", "calibrated", "--tolerance", "0.02",
            "--seed", "1",  # with 0 a patient stands so near the level that rounding decides
        )  # fmt: skip
    return numbers(told) | {"order": [step["test"] for step in told["order"]]}
