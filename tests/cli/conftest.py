"""A folder with tables and models as a person would have them, made once."""

import json

import numpy as np
import polars as pl
import pytest

from multiform.cli import main


def people(n, seed):
    """A table with a column of every role, and a target that can be learnt."""
    random = np.random.default_rng(seed)
    kind = random.integers(0, 3, n)
    words = np.array(["tired", "well", "cough", "fever", "rest", "better", "worse", "slow", "quick", "night"])
    return pl.DataFrame(
        {
            "patient_id": [f"P{seed}-{row:05d}" for row in range(n)],
            "age": [
                None if random.random() < 0.1 else round(float(value), 1) for value in random.normal(40 + 12 * kind, 9)
            ],
            "city": [
                None if random.random() < 0.05 else ["Rome", "Oslo", "Bern", "Kyiv"][min(3, k + random.integers(0, 2))]
                for k in kind
            ],
            "visit": [f"2024-{1 + row % 12:02d}-{1 + row % 28:02d}" for row in range(n)],
            "note": [" ".join(random.choice(words, 5)) + (" severe" if k == 2 else "") for k in kind],
            "ward": ["main"] * n,
            "level": np.array(["mild", "none", "severe"])[kind],
        }
    )


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """train.csv, test.csv, model.mfm (loyalty), promise.mfm (triage)."""
    path = tmp_path_factory.mktemp("people")
    people(300, 0).write_csv(path / "train.csv")
    people(200, 1).write_csv(path / "test.csv")
    common = ["--target", "level", "--quiet", "--max-iter", "30"]
    assert main(["fit", str(path / "train.csv"), "-o", str(path / "model.mfm"), *common]) == 0
    arguments = ["--target-accuracy", "0.6", "--noise", "0.3", *common]
    assert main(["fit", str(path / "train.csv"), "-o", str(path / "promise.mfm"), *arguments]) == 0
    return path


@pytest.fixture(scope="session")
def clinic(tmp_path_factory):
    """patients.csv, costs.csv and plan.mfm: a cheap question, a sharp scan, a useless horoscope and a colour."""
    path = tmp_path_factory.mktemp("clinic")
    random = np.random.default_rng(0)
    ill = random.integers(0, 2, 240)
    pl.DataFrame(
        {
            "question": (ill + random.normal(0, 0.6, 240)).round(3),
            "scan": [
                None if row % 20 == 0 else round(value, 3)
                for row, value in enumerate(ill + random.normal(0, 0.25, 240))
            ],
            "horoscope": random.choice(["leo", "aries", "virgo"], 240),
            "ill": np.array(["no", "yes"])[ill],
        }
    ).write_csv(path / "patients.csv")
    (path / "costs.csv").write_text(
        "test,cost,group,cost_in_group\nquestion,1,,\nscan,100,star,90\nhoroscope,50,star,5\n"
    )
    words = [
        "plan",
        path / "patients.csv",
        "--target",
        "ill",
        "--costs",
        path / "costs.csv",
        "-o",
        path / "plan.mfm",
        "-q",
    ]
    assert main([str(word) for word in words]) == 0
    return path


@pytest.fixture
def call(capsys):
    """Run a command in this process: exit code, standard output, standard error."""

    def run(*words):
        capsys.readouterr()
        code = main([str(word) for word in words])
        found = capsys.readouterr()
        return code, found.out, found.err

    return run


@pytest.fixture
def call_json(call):
    """Run a command with --json, which must succeed: the object."""

    def run(*words):
        code, out, err = call(*words, "--json")
        assert code == 0, err
        assert err == ""
        return json.loads(out)

    return run
