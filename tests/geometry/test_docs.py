"""The page on geometry: every snippet runs and shows what it says."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "geometry.md"


def test_snippets_of_the_page_run():
    pytest.importorskip("pandas")
    pytest.importorskip("matplotlib")
    result = doctest.testfile(
        str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    )
    assert result.attempted > 30
    assert result.failed == 0
