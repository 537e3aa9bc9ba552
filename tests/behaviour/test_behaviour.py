"""Every public estimator answers as it did: the cases against their stored arrays."""

import re

import numpy as np
import pytest

from tests.behaviour.cases import CASES
from tests.behaviour.comparison import STORED, compare, stored, stored_cases


@pytest.mark.parametrize("name", CASES)
def test_answers_are_as_stored(name):
    for package in CASES[name].needs:
        pytest.importorskip(package)
    assert compare(CASES[name](), stored(name)).wrong == []


def test_what_is_stored_is_tested():
    assert stored_cases() == CASES.keys()
    assert sum(path.stat().st_size for path in STORED.iterdir()) < 1_000_000


@pytest.mark.parametrize(
    ("found", "match"),
    [
        (np.array([1.0, 2.0 + 1e-4]), "differs by"),
        (np.array([1.0, np.nan]), "differs by inf"),
        (np.array([1.0, 2.0], dtype=np.float32), "float32"),
        (np.array([1, 2]), "int"),
        (np.array([1.0]), r"\(1,\)"),
    ],
)
def test_a_difference_is_noticed(found, match):
    expected = {"values": np.array([1.0, 2.0])}
    assert compare(expected, expected) == (True, 0.0, [])
    [said] = compare({"values": found}, expected).wrong
    assert re.search(match, said)


def test_rounding_is_close_and_words_are_not():
    values, words = np.array([1.0, 1e6]), np.array(["a", "b"])
    verdict = compare({"values": values * (1 + 1e-7), "words": words}, {"values": values, "words": words})
    assert not verdict.same_bits
    assert verdict.wrong == []
    assert compare({"words": words}, {"words": words[::-1]}).wrong == ["words differs in 2 of 2"]
    assert compare({}, {"words": words}).wrong == ["words is missing"]
