"""The README and the pages under docs/: their code runs and prints what they show, their links lead somewhere."""

import re
from pathlib import Path

import pytest

from multiform.solvers import CpmSolver
from tests.docs.blocks import python_blocks, run, same_output

ROOT = Path(__file__).parents[2]
# docs/geometry.md is tested with the geometry.
PAGES = [
    "README.md",
    *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")) if path.stem != "geometry"),
]
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
# Pages of prose; all others show something that runs.
PROSE = {
    "docs/api.md",
    "docs/benchmarks.md",
    "docs/command-line.md",
    "docs/index.md",
    "docs/mathematics.md",
    "docs/page.md",
}
# What the blocks of a page import beyond the test extra.
NEEDS = {
    "docs/export.md": ("onnxruntime", "skl2onnx", "skops"),
    "docs/how-far-to-trust.md": ("polars",),
    "docs/report.md": ("jinja2",),
    "docs/serve.md": ("starlette", "uvicorn"),
    "docs/start.md": ("jinja2", "safetensors"),
    "docs/text-columns.md": ("polars", "pandas"),
}


@pytest.mark.parametrize("page", PAGES)
def test_blocks_run_and_print_what_the_page_shows(page):
    for needed in ("matplotlib", *NEEDS.get(page, ())):
        pytest.importorskip(needed)
    n_run = 0
    for block, printed in run(ROOT / page):
        if block.is_doctest:
            assert printed == ""  # a doctest prints its failures
        elif block.output is not None:
            assert same_output(block.output["text"], printed), f"{page}, line {block.line}, prints\n{printed}"
        n_run += 1
    assert n_run > 0 or page in PROSE


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md"])
def test_links_lead_to_files(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = [target for target in LINK.findall(text) if "://" not in target]
    assert [target for target in targets if not ((ROOT / page).parent / target).exists()] == []


def test_the_readme_shows_every_main_class():
    shown = "".join(block.text for block in python_blocks((ROOT / "README.md").read_text(encoding="utf-8")))
    for name in ("QMSClassifier(", "QMSClassifierCV(", "LoyaltyClassifier(", "TriageClassifier(", "certified_radius("):
        assert name in shown


def test_every_setting_of_cpm_is_explained():
    text = (ROOT / "docs" / "solvers.md").read_text(encoding="utf-8")
    for name in set(CpmSolver.__dataclass_fields__) - {"n_passes"}:
        assert f"`{name}`" in text, name


def test_files_named_in_the_tour_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tour = text[text.index("| question") : text.index("`benchmarks/` is")]
    names = re.findall(r"`([a-z_]+/|[a-z_]+\.(?:py|cpp|hpp|inl))`", tour)
    package = ROOT / "src" / "multiform"
    assert len(names) > 20
    for name in names:
        assert any((package / folder / name).exists() for folder in ("", "engines", "solvers", "core", "web")), name


def test_a_wrong_page_is_caught(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint('good', 1)\n```\n\n```text\nbad 1\n```\n\n```python\n>>> 1 + 1\n3\n\n```\n")
    (plain, printed), (doctest, failure) = run(page)
    assert not same_output(plain.output["text"], printed)
    assert "Failed example" in failure
    assert doctest.is_doctest
