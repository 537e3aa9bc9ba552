"""A stranger's file: whatever its words are, pages show them as text."""

from html.parser import HTMLParser

import numpy as np
import polars as pl
import pytest

import multiform
from multiform.tables import TableClassifier
from tests.web.conftest import served

EVIL = "</title></script><script>alert(1)</script><img src=x onerror=alert(2)>\"' onfocus=alert(3) autofocus {{7*7}}"
HTML = {"accept": "text/html"}


class Page(HTMLParser):
    """What a browser would make of a page: its elements, and its text."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data


def check(response, status=200):
    """The page runs nothing but our own script, loads nothing from elsewhere, and shows the words."""
    assert response.status_code == status, response.text
    page = Page(response.text)
    for tag, attributes in page.elements:
        assert tag not in ("img", "iframe", "object", "embed", "base"), tag
        assert not [name for name in attributes if name.startswith("on") or name == "style"], attributes
        for name in ("src", "href", "action", "formaction", "data"):
            link = attributes.get(name) or "/"
            assert link.startswith(("/", "#")), link
            assert not link.startswith("//"), link
    scripts = [attributes for tag, attributes in page.elements if tag == "script"]
    assert [list(attributes) for attributes in scripts] in ([], [["src", "defer"]], [["defer", "src"]]), scripts
    assert "49" not in page.text or "{{7*7}}" in page.text
    return page


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A plan and a model, saved under a name, with columns, categories, tests and classes that would do harm."""
    folder = tmp_path_factory.mktemp("hostile")
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 200)
    labels = np.array([f"a{EVIL}", f"b{EVIL}"])[y]
    columns = {f"x{EVIL}": y + random.normal(0, 0.4, 200), f"c{EVIL}": np.array([f"p{EVIL}", f"q{EVIL}"])[y]}
    model = TableClassifier(multiform.QMSClassifier(2, noise=0.3, max_iter=10, random_state=0))
    multiform.save(model.fit(pl.DataFrame(columns), labels), folder / "m<b>.mfm")
    planner = multiform.DiagnosisPlanner(dict.fromkeys(columns, 1.0), random_state=0)
    multiform.save(planner.fit(pl.DataFrame(columns).to_pandas(), labels), folder / "p<b>.mfm")
    return folder


def test_a_model_of_a_stranger(files):
    with served(files / "m<b>.mfm") as server, server.browser() as browser:
        form = check(browser.get("/", headers=HTML))
        assert f"x{EVIL[:40]}" in form.text
        assert f"p{EVIL[:40]}" in form.text
        assert "m<b>.mfm" in form.text
        fields = {"f0": "1.0", "f1": f"q{EVIL}"}
        answer = browser.post("/cases", data=fields, headers=HTML, follow_redirects=True)
        check(answer, answer.status_code)
        assert answer.status_code == 200
        strange = browser.post("/cases", data={"f0": EVIL, "f1": EVIL}, headers=HTML, follow_redirects=True)
        check(strange, strange.status_code)
        table = f'"x{EVIL.replace(chr(34), chr(34) * 2)}","c{EVIL.replace(chr(34), chr(34) * 2)}"\n1.0,"{EVIL[:20]}"\n'
        sent = {"table": (f"{EVIL[:60]}.csv", table.encode(), "text/csv")}
        check(browser.post("/table", files=sent, headers=HTML, follow_redirects=True))
        check(browser.get(f"/no/such/{EVIL}", headers=HTML), 404)


def test_a_plan_of_a_stranger(files):
    with served(files / "p<b>.mfm") as server, server.browser() as browser:
        begin = check(browser.get("/", headers=HTML))
        assert f"a{EVIL[:40]}" in begin.text
        where = browser.post("/cases", data={"action": "observe", "test": "0", "f0": "1.0"}).headers["location"]
        case = check(browser.get(where, headers=HTML))
        assert f"x{EVIL[:40]}" in case.text
        check(browser.get(f"{where}/summary", headers=HTML))
        wrong = browser.post(where, data={"action": "correct", "test": "0", "f0": EVIL, "version": "1"}, headers=HTML)
        check(wrong, wrong.status_code)


def test_refusals_do_not_repeat_a_page(files):
    """What was sent comes back as JSON that no browser reads as a page."""
    with served(files / "m<b>.mfm") as server, server.client() as client:
        response = client.post("/v1/predict", json={"rows": [{EVIL: {}}]}, headers={"accept": "text/html, */*"})
        assert response.status_code == 422
        assert response.headers["content-type"] == "application/problem+json"
        assert response.headers["x-content-type-options"] == "nosniff"
