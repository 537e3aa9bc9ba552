"""The examples of docs/serve.md that are for a shell."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest

from multiform import LoyaltyClassifier
from multiform.datasets import load_heart_disease
from multiform.tables import TableClassifier
from multiform.web import Limits
from tests.web.conftest import served

PAGE = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
EXAMPLES = [block for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL) if "curl" in block]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not on this machine")
def test_the_examples_of_the_page(tmp_path):
    heart = load_heart_disease()
    frame = pl.DataFrame({name: heart.data[:, place] for place, name in enumerate(heart.feature_names)})
    model = TableClassifier(LoyaltyClassifier(cv=3, random_state=0)).fit(frame, heart.target_names[heart.target])
    frame.head(5).write_csv(tmp_path / "new.csv")
    told = []
    with served(model) as server:
        names = os.environ | {"ADDRESS": server.address, "TOKEN": server.token, "no_proxy": "*"}
        for example in EXAMPLES:
            done = subprocess.run(["bash", "-euc", example], env=names, cwd=tmp_path, capture_output=True, check=True)
            told.append(done.stdout)
    assert len(told) == 3
    assert set(json.loads(told[0])["answers"][0]) >= {"label", "chance", "loyalty", "chance of present"}
    assert (tmp_path / "answers.csv").read_text().startswith("label,chance,loyalty")
    changes = json.loads(told[2])["change"]["changes"]
    assert not {"age", "sex"} & {one["column"] for one in changes}


def test_the_limits_are_those_of_the_page():
    limits = Limits()
    assert f"{limits.body_bytes // 2**20} MiB, {limits.body_seconds:g} seconds" in PAGE
    assert f"| all bodies at once | {limits.all_bytes // 2**20} MiB |" in PAGE
    assert f"| JSON, but for lists of numbers | {limits.json_bytes // 2**20} MiB |" in PAGE
    assert f"| values in a body | {limits.cells // 10**6} million |" in PAGE
    assert f"| requests at once | {limits.requests} |" in PAGE
    assert f"| connections | {limits.connections} |" in PAGE
    assert f"| cases of a plan in memory | {limits.sessions:,};" in PAGE
