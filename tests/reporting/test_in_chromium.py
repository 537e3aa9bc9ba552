"""The report in a real browser: it renders, complains of nothing, shows its pictures and fits a phone."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from multiform import LoyaltyClassifier
from multiform.reporting import report
from tests.reporting.browser import BINARY, chromium

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BINARY is None, reason="no Chromium on this machine: install chromium to see the report in it"),
]

# How many different colours each picture has, drawn at its natural size.
COLOURS = """
[...document.images].map(image => {
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
    const context = canvas.getContext('2d');
    context.drawImage(image, 0, 0);
    const pixels = new Uint32Array(context.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
    return new Set(pixels).size;
})
"""
# What sticks out of the window on the right, by its tag and its first words.
OVERFLOW = """
[...document.body.querySelectorAll('*')]
    .filter(element => element.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5
        && getComputedStyle(element.closest('thead') || element).position !== 'absolute')
    .map(element => element.tagName + ': ' + element.textContent.trim().slice(0, 60))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two reports: of digits, and of data that would rather be a programme."""
    folder = tmp_path_factory.mktemp("reports")
    X, y = load_digits(return_X_y=True)
    model = LoyaltyClassifier(cv=2, random_state=0).fit(X[:400], y[:400])
    report(model, X[400:700], y[400:700], X_train=X[:400], y_train=y[:400], title="Digits").save(folder / "digits.html")
    rng = np.random.default_rng(0)
    evil = "<script>window.fooled = true; console.error('fooled')</script>"
    names = [evil, '"><img src=x onerror="window.fooled = true">', "wide" * 60]
    table = pd.DataFrame(rng.normal(size=(80, 3)), columns=names)
    labels = np.array([evil, "</svg></style>" + evil, "名前 $x^2$ & <b>"])[np.digitize(table[names[2]], [-0.5, 0.5])]
    model = LoyaltyClassifier(LogisticRegression(), cv=2).fit(table, labels)
    page = report(model, table, labels, title=evil, command=evil * 3, baselines=False)
    page.save(folder / "evil.html")
    return folder


@pytest.fixture(scope="module")
def browser():
    with chromium() as page:
        yield page


@pytest.mark.parametrize("width", [1200, 768, 360, 290])
@pytest.mark.parametrize("name", ["digits", "evil"])
def test_it_renders_and_fits(browser, folder, name, width):
    browser.complaints.clear()
    browser.requests.clear()
    browser.open(folder / f"{name}.html", width)
    assert browser.complaints == []
    assert all(request.startswith(("file:", "data:")) for request in browser.requests)
    assert browser.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert browser.evaluate(OVERFLOW) == []
    assert browser.evaluate("window.fooled === undefined")
    assert browser.evaluate("document.scripts.length") == 0


@pytest.mark.parametrize("name", ["digits", "evil"])
def test_its_pictures_are_not_empty(browser, folder, name):
    browser.open(folder / f"{name}.html", 1200)
    sizes = browser.evaluate("[...document.images].map(image => [image.naturalWidth, image.complete])")
    assert len(sizes) >= 4
    assert all(width > 100 and complete for width, complete in sizes)
    assert min(browser.evaluate(COLOURS)) > 20


def test_hostile_text_is_shown_as_text(browser, folder):
    browser.open(folder / "evil.html", 1200)
    assert browser.evaluate("document.querySelector('h1').textContent").startswith("<script>window.fooled")
    assert browser.evaluate("document.title").startswith("<script>window.fooled")
    assert "名前 $x^2$ & <b>" in browser.evaluate("document.body.innerText")


def test_letters_can_be_read_on_a_phone(browser, folder):
    """No text below 11 pixels, and pictures as wide as the text."""
    browser.open(folder / "digits.html", 360)
    smallest = browser.evaluate(
        "Math.min(...[...document.querySelectorAll('main *')].map(e => parseFloat(getComputedStyle(e).fontSize)))"
    )
    assert smallest >= 11
    widths = browser.evaluate("[...document.images].map(image => image.getBoundingClientRect().width)")
    assert min(widths) > 200
    assert max(widths) <= 360


def test_it_can_be_printed(browser, folder):
    browser.open(folder / "digits.html", 1200)
    printed = browser.printed()
    assert printed.startswith(b"%PDF")
    assert 3 <= printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") + printed.count(b"/Type/Page/") <= 30


def test_links_lead_to_sections(browser, folder):
    browser.open(folder / "digits.html", 1200)
    targets = browser.evaluate(
        "[...document.links].map(link => document.querySelector(link.getAttribute('href')) !== null)"
    )
    assert len(targets) >= 6
    assert all(targets)
