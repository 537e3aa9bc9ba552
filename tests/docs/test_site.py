"""The site: every page is in it, and what is built needs no network."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import multiform
from multiform import datasets, displays, geometry, metrics

DOCS = Path(__file__).parents[2] / "docs"
# What a browser would fetch by itself when a page is opened.
FETCHED = re.compile(
    r'<(?:link[^>]*?rel="(?:stylesheet|preload|icon|shortcut icon)"[^>]*?href|(?:script|img|iframe)[^>]*?src)="([^"]*)"'
)


def test_every_page_stands_in_the_contents():
    listed = re.findall(r"^([\w-]+)$", (DOCS / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    pages = {path.stem for path in DOCS.glob("*.md")} - {"index"}
    assert pages <= set(listed)


def test_every_public_name_stands_in_the_api():
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^   ([\w.]+)$", text, re.MULTILINE))
    assert {name for name in multiform.__all__ if not name.startswith("__")} <= listed
    for module in (datasets, displays):
        own = {f"{module.__name__.removeprefix('multiform.')}.{name}" for name in module.__all__}
        assert own <= listed
    for module, aside in ((geometry, "Error|Contributions|Counterfactuals|Report"), (metrics, "[A-Z]|neg_")):
        short = module.__name__.removeprefix("multiform.")
        own = {f"{short}.{name}" for name in module.__all__ if not re.search(aside, name)}
        assert own <= listed


def test_figures_of_the_benchmarks_are_those_of_the_readme():
    """The page holds no table of its own, so it cannot disagree."""
    text = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    included = re.findall(r":start-after: (.*)\n:end-before: (.*)\n", text)
    assert len(included) == 3
    for begin, end in included:
        assert readme.index(begin) < readme.index(end)
    assert not re.search(r"\| *\d+\.\d+ *\|", text)


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_needs_no_network(tmp_path):
    for needed in ("sphinx", "myst_parser", "numpydoc", "sphinx_gallery", "furo", "latex2mathml"):
        pytest.importorskip(needed)
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(DOCS), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        for address in FETCHED.findall(page.read_text(encoding="utf-8")):
            assert not address.startswith(("http:", "https:", "//")), f"{page.name} fetches {address}"
    for style in tmp_path.rglob("*.css"):
        text = style.read_text(encoding="utf-8", errors="ignore")
        assert not re.search(r"""(?:@import|url\()\s*["']?(?:https?:)?//""", text), style.name
    mathematics = (tmp_path / "mathematics.html").read_text(encoding="utf-8")
    assert mathematics.count("<math") > 30
