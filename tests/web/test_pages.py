"""The pages without a browser: forms, languages, versions of a case, tables."""

import json
import re
import time
from pathlib import Path

import polars as pl
import pytest

from tests.web import samples
from tests.web.conftest import served

pytest.importorskip("starlette")
import multiform
from multiform.tables import TableClassifier
from multiform.web import application
from multiform.web._forms import as_number


@pytest.fixture(scope="module")
def bedside():
    with served(samples.plan()) as server, server.browser() as browser:
        server.page = browser
        yield server


@pytest.fixture(scope="module")
def desk():
    with served(samples.table_model()) as server, server.browser() as browser:
        server.page = browser
        yield server


def begun(browser, **form):
    """The address of a new case with a first entry."""
    answer = browser.post("/cases", data={"action": "observe", "test": "0", "version": "0", "f0": "61"} | form)
    assert answer.status_code == 303
    return answer.headers["location"]


@pytest.mark.parametrize("text", ["", "1,2,3", "1.2.3", "nan", "inf", "1e999", "0x10", "١"])
def test_what_is_no_number(text):
    assert as_number(text) in (None, 1.0)  # digits of other scripts are digits


# ------------------------------------------------------------------------------------------------------------ a plan


def test_nothing_is_kept_until_something_is_known(bedside):
    browser = bedside.page
    before = len(bedside.app.state.sessions)
    assert browser.get("/").status_code == 200
    answer = browser.post("/cases", data={"action": "observe", "test": "0", "version": "0", "f0": "old"})
    assert answer.status_code == 200
    assert "got “old”" in answer.text
    assert len(bedside.app.state.sessions) == before
    begun(browser)
    assert len(bedside.app.state.sessions) == before + 1


def test_the_page_says_what_the_command_says(bedside):
    """The same session, so the same diagnosis, chance, bill and next test."""
    browser = bedside.page
    where = begun(browser)
    browser.post(where, data={"action": "observe", "test": "1", "version": "1", "f1": "yes"})
    session = samples.plan().start().observe("age", 61).observe("pain", "yes")
    page = browser.get(where).text
    assert f'<p class="big">{session.diagnosis}</p>' in page
    assert f"right with a chance of {session.chance:.0%}".replace("%", "\xa0%") in page
    assert f'id="next-title" class="big">{session.next_evidence.name}<' in page
    assert f"{session.spent:.2f}" in page
    assert f"Of the patients at this point, {session.next_evidence.share:.0%}".replace("%", "\xa0%") in page


def test_ordered_and_not_yet_there(bedside):
    browser = bedside.page
    where = begun(browser)
    sessions = bedside.app.state.sessions
    case = sessions._cases[where.rsplit("/", 1)[1]]
    asked = [one.name for one in case.session.next_round]
    assert browser.post(where, data={"action": "order", "version": "1"}).status_code == 303
    page = browser.get(where).text
    assert case.session.pending == asked
    assert f"Ordered, and not yet there: {', '.join(asked)}." in page
    assert "ordered, not yet there</td>" in page
    assert "ordered and paid for" in page
    assert page.count("ordered and paid for</text>") == len(asked)  # in the path ahead
    refused = browser.post(where, data={"action": "order", "version": "2"})
    assert refused.status_code == 422
    assert "There is nothing to order; name the tests." in refused.text
    assert f'name="version" value="{case.version}"' in refused.text  # where the case stands, and one goes on


def test_any_test_is_ordered_or_impossible_or_without_a_result(bedside):
    """As `multiform diagnose` takes NAME=ordered, NAME=na and NAME=."""
    browser = bedside.page
    where = begun(browser)
    for version, (action, test) in enumerate((("ordered", 2), ("unavailable", 3), ("skip", 1)), 1):
        assert browser.post(where, data={"action": action, "test": test, "version": version}).status_code == 303
    session = samples.plan().start().observe("age", 61)
    session.order("blood").not_available("pressure").observe("pain", None)
    case = bedside.app.state.sessions._cases[where.rsplit("/", 1)[1]].session
    assert case.as_dict() == session.as_dict()
    assert case.pending == ["blood"]
    unchosen = browser.post(where, data={"action": "unavailable", "test": "", "version": "4"})
    assert unchosen.status_code == 422
    assert "Choose the test first." in unchosen.text


def test_what_is_known_after_the_end_may_bring_doubt_back(bedside):
    """The plan asks no further, though tests are left: neither page says that there are none."""
    browser = bedside.page
    where = begun(browser)
    for version, form in enumerate(
        ({"action": "observe", "test": "1", "f1": "yes"}, {"action": "observe", "test": "3", "f4": "150"}), 1
    ):
        assert browser.post(where, data=form | {"version": str(version)}).status_code == 303
    case = bedside.app.state.sessions._cases[where.rsplit("/", 1)[1]]
    assert case.session.finished
    browser.post(where, data={"action": "correct", "test": "0", "f0": "20", "version": "3"})
    case.session.finished = True  # as it stays, once it was
    case.session.__dict__["_doubt"] = case.session._doubt + 1.0
    assert not case.session.suffices
    for page in (browser.get(where).text, browser.get(f"{where}/summary").text):
        assert "The plan asks for no further test, though all that is known together" in page
        assert "no test is left" not in page


def test_a_number_a_little_beyond_training_is_used_and_noted(bedside, desk):
    """Farther beyond it would be asked for again, or be taken as unknown."""
    note = "age is 85, beyond what training had (20 to 84), though not far. It is used."
    where = begun(bedside.page, f0="85")
    for page in (where, f"{where}/summary"):
        assert note in bedside.page.get(page).text
    assert "It is used" not in bedside.page.get(begun(bedside.page, f0="84")).text
    case = {"f0": "85", "f1": "yes", "f2": "150", "f3": "7", "f4": "2024-05-05"}
    answer = desk.page.post("/cases", data=case).headers["location"].partition("#")[0]
    assert note in desk.page.get(answer).text
    far = desk.page.post("/cases", data=case | {"f0": "500"}).headers["location"].partition("#")[0]
    assert "It is used" not in desk.page.get(far).text
    assert "age is 500, and training had 20 to 84. It is taken as unknown." in desk.page.get(far).text


def test_a_result_says_of_which_test_it_is(bedside):
    """Of a test of several; what it is called is not what it costs."""
    page = bedside.page.get("/").text
    assert page.count('<span class="soft small">(blood)</span>') == 2
    assert "(pressure)" not in page


def test_what_the_foot_of_a_page_promises():
    """Where other machines may ask, it is not the reader's computer that the page runs on."""
    for names, told in (
        ((), "Runs on this computer alone"),
        (("*",), "Runs on the computer that this page comes from"),
    ):
        with served(samples.plan(), names=("127.0.0.1", *names)) as server, server.browser() as browser:
            assert told in browser.get("/").text
            assert told in browser.get("/nowhere", headers={"accept": "text/html"}).text


def test_a_form_that_comes_late_changes_nothing(bedside):
    browser = bedside.page
    where = begun(browser)
    assert browser.post(where, data={"action": "unavailable", "test": "1", "version": "1"}).status_code == 303
    for action in ("undo", "delete"):
        late = browser.post(where, data={"action": action, "version": "1"})
        assert late.headers["location"] == f"{where}?changed"
    page = browser.get(late.headers["location"]).text
    assert "has gone on since this page was shown" in page
    assert "cannot be done" in page


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"action": "explode", "version": "1"},
        {"action": "observe", "test": "99", "version": "1"},
        {"action": "observe", "test": "-1", "version": "1"},
        {"action": "remove", "event": "7", "version": "1"},
        {"action": "undo"},
        {"action": "undo", "version": "²"},
    ],
)
def test_forms_that_no_page_sends(bedside, form):
    browser = bedside.page
    where = begun(browser)
    before = browser.get(f"{where}/session.json").text
    assert browser.post(where, data=form).status_code == 400
    assert browser.get(f"{where}/session.json").text == before


def test_a_test_that_was_done_is_not_done_again(bedside):
    browser = bedside.page
    where = begun(browser)
    answer = browser.post(where, data={"action": "observe", "test": "0", "version": "1", "f0": "50"})
    assert answer.status_code == 422
    assert json.loads(browser.get(f"{where}/session.json").text)["events"] == [
        {"observe": "age", "values": {"age": 61.0}}
    ]


def test_a_downloaded_case_goes_on(bedside):
    browser = bedside.page
    where = begun(browser)
    kept = browser.get(f"{where}/session.json")
    assert kept.headers["content-disposition"] == 'attachment; filename="case.json"'
    assert browser.post(where, data={"action": "delete", "version": "1"}).headers["location"] == "/"
    assert browser.get(where, headers={"accept": "text/html"}).status_code == 404
    again = browser.post("/cases/file", files={"session": ("case.json", kept.content)})
    assert browser.get(f"{again.headers['location']}/session.json").text == kept.text


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"\xff\xfe", b"[1]", b'{"format": 1, "tests": ["x"], "events": []}', b"[" * 5000]
)
def test_a_file_that_is_no_case(bedside, content):
    browser = bedside.page
    answer = browser.post("/cases/file", files={"session": ("case.json", content)}, headers={"accept": "text/html"})
    assert answer.status_code == 422
    assert "does not hold a case of this plan" in answer.text


def test_forms_without_a_file(bedside):
    browser = bedside.page
    assert browser.post("/cases/file", data={"session": "x"}).status_code == 415
    assert browser.post("/cases/file", files={"other": ("x.json", b"{}")}).status_code == 400
    broken = {"content-type": "multipart/form-data; boundary=x"}
    assert browser.post("/cases/file", content=b"no part", headers=broken).status_code == 400


def test_the_path_ahead(bedside):
    """What is known at the start comes first, then the plan's own order; what was done is gone past."""
    session = samples.plan().start()
    assert [step.test for step in session.ahead] == ["age", "pain", "pressure", "blood"]
    session.observe("age", 61).observe("pressure", 130)
    assert [step.test for step in session.ahead] == ["pain", "blood"]
    assert session.ahead[0].came == 1
    session.not_available("blood")
    assert [step.test for step in session.ahead] == ["pain"]
    session.observe("pain", "sometimes")
    assert session.ahead == []
    assert session.finished


def test_a_language_is_chosen(bedside):
    browser = bedside.page
    answer = browser.post("/language", data={"language": "de", "back": "/"})
    assert answer.headers["location"] == "/"
    assert '<html lang="de">' in browser.get("/").text
    assert browser.get("/cases").headers["location"] == "/"
    for back in ("https://elsewhere.example/", "//elsewhere.example", "/\\elsewhere.example", "javascript:1"):
        assert browser.post("/language", data={"language": "en", "back": back}).headers["location"] == "/"
    assert '<html lang="en">' in browser.get("/").text


# ------------------------------------------------------------------------------------------------------ a classifier

CASE = {"f0": "61", "f1": "yes", "f2": "150", "f3": "7,1", "f4": "2024-05-05"}


def test_an_answer_is_the_models(desk):
    browser = desk.page
    page = browser.get(browser.post("/cases", data=CASE).headers["location"].partition("#")[0]).text
    row = {"age (years)": [61.0], "pain": ["yes"], "pressure (mmHg)": [150.0], "sugar (mmol/l)": [7.1]}
    answers, _ = samples.table_model().answers(pl.DataFrame(row | {"examined": ["2024-05-05"]}))
    assert f'<p class="big">{answers["label"][0]}</p>' in page
    assert f"right with a chance of {answers['chance'][0]:.0%}".replace("%", "\xa0%") in page
    assert "Given. The model makes no promise" in page


def test_what_a_model_cannot_say_is_said():
    """That a change was looked for, and where; that no column decides alone; or that the model does not know."""
    model, n = samples.table_model(), 12
    y = samples.patients()["state"]
    alike = pl.DataFrame({f"x{k}": (y == "ill").cast(float) for k in range(n)})
    fitted = TableClassifier(multiform.QMSClassifier(random_state=0)).fit(alike, y)
    with served(fitted) as server, server.browser() as browser:
        where = browser.post("/cases", data={f"f{k}": "1" for k in range(n)}).headers["location"].partition("#")[0]
        page = browser.get(where).text
        assert "No change was found that alters the answer: up to three of the open columns" in page
    with served(model) as server, server.browser() as browser:
        server.app.state.model.model.seen_, before = {}, server.app.state.model.model.seen_
        try:
            page = browser.get(browser.post("/cases", data=CASE).headers["location"].partition("#")[0]).text
        finally:
            server.app.state.model.model.seen_ = before
        assert "This model does not say what holds its decisions." in page
        assert "does not know what its columns looked like in training, so no change can be looked for" in page


@pytest.mark.parametrize("model", ["triage_model", "plain_model", "hostile_model"])
def test_every_kind_of_model_has_its_pages(model):
    with served(getattr(samples, model)()) as server, server.browser() as browser:
        form = {"f0": "61", "f1": "5", "f2": "1", "f3": "{{ 7 * 7 }}"} if model != "triage_model" else CASE
        page = browser.get("/")
        assert page.status_code == 200
        answer = browser.post("/cases", data=form)
        where = answer.headers["location"].partition("#")[0]
        page = browser.get(where).text
        assert "What holds the decision" in page
        assert samples.EVIL not in page
        beside = browser.post(f"{where}/compare", data=form | {"f0": "30"})
        page = browser.get(beside.headers["location"])
        assert page.status_code == 200
        assert page.text.count('class="differs"') == 1
        locked = browser.post(f"{where}/locks", data={"lock-f0": "yes"})
        assert "checked" in browser.get(locked.headers["location"].partition("#")[0]).text


ENSEMBLES = ["plain", "gaps", "refuses gaps", "words", "partners", "codes", "loyalty", "triage"]


@pytest.mark.parametrize("kind", ENSEMBLES)
def test_ensembles_without_a_table_say_what_holds_and_what_would_alter(kind, tmp_path):
    multiform.save(samples.ensemble(kind), tmp_path / "model.mfm")
    model = multiform.load(tmp_path / "model.mfm")
    cells = {"age": "58", "pain": "yes", "sugar": "6,1", "pressure": ""}
    order = {"gaps": ["age", "sugar", "pressure"], "codes": ["age", "pain", "sugar"]}
    order = order.get(kind, ["age", "sugar", "pain", "pressure"])
    cells |= {"pain": "2"} if kind == "codes" else {}
    form = {f"f{place}": cells[name] for place, name in enumerate(order)}
    with served(tmp_path / "model.mfm") as server, server.browser() as browser, server.client() as program:
        page = browser.get(browser.post("/cases", data=form).headers["location"].partition("#")[0]).text
        assert "as a normal distribution" in page
        assert ">for " in page.partition("What holds the decision")[2]
        assert "Answer then" in page
        first = program.post("/v1/predict", json={"rows": [_case(model, cells)]}).json()["answers"][0]
        change = program.post("/v1/change", json={"case": _case(model, cells)}).json()["change"]
        altered = _case(model, cells) | {one["column"]: one["to"] for one in change["changes"]}
        assert 1 <= len(change["changes"]) <= 3
        assert change["label"] != first["label"]
        then = program.post("/v1/predict", json={"rows": [altered]}).json()["answers"][0]
        assert then["label"] == change["label"]
        told = program.post("/v1/assess", json={"case": _case(model, cells)}).json()
        assert told["deciding"][0]["change"] > 0.01
        assert "pressure (mmHg)" not in {one["column"] for one in told["deciding"]}  # it is not known anyway


def _case(model, cells):
    """The case as a program sends it."""
    values = {"age": 58.0, "sugar": 6.1, "pressure": None, "pain": 2.0 if cells["pain"] == "2" else "yes"}
    if not hasattr(model, "feature_names_in_"):
        return {"x0": values["age"], "x1": values["pain"], "x2": values["sugar"]}
    return {name: values[name.split()[0]] for name in model.feature_names_in_}


def test_a_word_that_training_did_not_have_is_taken_as_missing():
    model = samples.ensemble("words")
    with served(model) as server, server.browser() as browser:
        form = {"f0": "58", "f1": "6,1", "f2": "on Sundays", "f3": ""}
        page = browser.get(browser.post("/cases", data=form).headers["location"].partition("#")[0]).text
        assert "pain is on Sundays, and training had no, sometimes, yes or missing. It is taken as unknown." in page
        choices = re.search(r'(?s)<select id="f2".*?</select>', browser.get("/").text)[0]
        assert all(f">{one}<" in choices for one in ("no", "sometimes", "yes"))
        table = samples.patients().select(model.feature_names_in_.tolist())
        where = sent(browser, "new.csv", table.write_csv().encode())
        found = pl.read_csv(browser.get(f"{where}/answers.csv").content, infer_schema=False)
        assert found["label"].to_list() == model.predict(table.to_pandas()).tolist()
        assert "does not know what the numbers of its training looked like" in browser.get(where).text


@pytest.mark.parametrize(
    ("threshold", "told"),
    [
        (0.5, "An answer is given from 0.500 on."),
        (0.999, "The answer is not sure enough for the promise"),
        (float("inf"), "No answer of this class is given"),
        (float("-inf"), "Given: it is covered by the promise that 85\xa0%"),
    ],
)
def test_why_an_answer_is_given_or_deferred(threshold, told):
    import copy

    model = copy.deepcopy(samples.triage_model())
    model.estimator_.thresholds_[:] = threshold
    with served(model) as server, server.browser() as browser:
        page = browser.get(browser.post("/cases", data=CASE).headers["location"].partition("#")[0]).text
    assert told in page
    assert ("How sure the answer is" in page) == (threshold > float("-inf"))


def test_numbers_beyond_everything():
    with served(samples.plain_model()) as server, server.browser() as browser:
        page = browser.get(browser.post("/cases", data={"f0": "1e308", "f1": "5"}).headers["location"]).text
        assert 'value="1e+308"' in page
        assert "No change of the open columns alters the answer" in page


GOLDEN = sorted((Path(__file__).parents[1] / "files" / "golden" / "0.1.0").glob("*.mfm"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_files_of_the_first_version_have_pages(path):
    """They know nothing of what training looked like."""
    if path.stem == "patches":
        with pytest.raises(ValueError, match="holds no classifier and no plan, but ImagePatches"):
            application(path)
        return
    with served(path) as server, server.browser() as browser:
        page = browser.get("/").text
        assert f" · {path.name}</title>" in page
        keys = re.findall(r'id="(f\d+)"', page)
        choices = dict(
            re.findall(r'<select id="(f\d+)"[^>]*>\s*<option[^>]*>[^<]*</option>\s*<option value="([^"]*)"', page)
        )
        dates = set(re.findall(r'id="(f\d+)"[^>]*type="date"', page))
        form = {key: choices.get(key, "2020-02-02" if key in dates else "1") for key in keys}
        if "Next test" in page:
            answer = browser.post("/cases", data=form | {"action": "observe", "test": "0", "version": "0"})
        elif keys:
            answer = browser.post("/cases", data=form)
        else:
            assert "too many for a form" in page
            return
        assert answer.status_code == 303, answer.text
        assert browser.get(answer.headers["location"].partition("#")[0]).status_code == 200


def test_a_model_of_very_many_columns_has_no_form():
    import numpy as np

    from multiform import QMSClassifier

    X = np.random.default_rng(0).normal(size=(40, 300))
    with served(QMSClassifier(random_state=0).fit(X, X[:, 0] > 0)) as server, server.browser() as browser:
        page = browser.get("/").text
    assert "The model reads 300 columns, too many for a form" in page


def sent(browser, name, content, **form):
    """The address of a table that was sent, when it is done."""
    answer = browser.post("/table", files={"table": (name, content)}, data=form)
    assert answer.status_code == 303, answer.text
    for _ in range(600):
        if browser.get(f"{answer.headers['location']}/progress").json()["done"]:
            return answer.headers["location"]
        time.sleep(0.02)
    raise AssertionError("the table is not answered")


def test_a_table_is_answered_row_by_row(desk):
    browser = desk.page
    table = samples.patients().drop("state").with_columns(pl.col("pain").replace("no", "=1+1"))
    where = sent(browser, "new.csv", table.write_csv().encode())
    found = pl.read_csv(browser.get(f"{where}/answers.csv").content, infer_schema=False)
    answers, _ = samples.table_model().answers(table)
    assert found["label"].to_list() == answers["label"].to_list()
    assert "'=1+1" in found["pain"].to_list()  # a spreadsheet program runs nothing of it
    page = browser.get(where).text
    assert "400 rows are answered." in page
    assert "pain has shifted:" in page
    assert "pain =1+1 (training: no, sometimes, yes)" in page
    assert browser.get(f"{where}/report").status_code == 404
    assert browser.post(where, data={}).headers["location"] == "/table"
    assert browser.get(where).status_code == 404


@pytest.mark.parametrize(
    "suffix",
    ["parquet", "pq", "tsv", "tab", "txt", "csv.gz", "arrow", "feather", "ipc", "lz4.arrow", "stream.arrow", "xlsx"],
)
def test_tables_of_other_formats(desk, suffix, tmp_path):
    import gzip

    import pyarrow.feather

    path, table = tmp_path / f"new.{suffix}", samples.patients().drop("state")
    if suffix in ("parquet", "pq"):
        table.write_parquet(path)
    elif suffix in ("tsv", "tab"):
        table.write_csv(path, separator="\t")
    elif suffix == "txt":
        table.write_csv(path)
    elif suffix == "csv.gz":
        path.write_bytes(gzip.compress(table.write_csv().encode()))
    elif suffix == "xlsx":
        table.write_excel(path)
    elif suffix == "stream.arrow":
        table.write_ipc_stream(path)
    elif suffix == "feather":  # as pandas writes it: with LZ4, and categories
        pyarrow.feather.write_feather(table.to_pandas().astype({"pain": "category"}), path)
    else:
        table.write_ipc(path, compression="lz4" if suffix.startswith("lz4") else "uncompressed")
    browser = desk.page
    where = sent(browser, path.name, path.read_bytes())
    assert "400 rows are answered." in browser.get(where).text
    found = pl.read_csv(browser.get(f"{where}/answers.csv").content, infer_schema=False)
    answers, _ = samples.table_model().answers(table)
    assert found["label"].to_list() == answers["label"].to_list()


def test_a_labelled_table_of_a_model_without_names():
    """It knows its columns by their order, of which the column with the truth is none."""
    table = samples.patients().select("age (years)", "pain", "sugar (mmol/l)", "state")
    table = table.with_columns(pl.col("pain").replace_strict({"no": 0, "sometimes": 1, "yes": 2}))
    with served(samples.ensemble("codes")) as server, server.browser() as browser:
        page = browser.get(sent(browser, "t.csv", table.write_csv().encode(), target="state")).text
        assert "% of 400 rows are answered rightly" in page
        page = browser.get(sent(browser, "t.csv", table.write_csv().encode())).text
        assert "The model reads 3 columns of numbers, and the table has 4." in page
        page = browser.get(sent(browser, "t.csv", table.write_csv().encode(), target="truth")).text
        assert "The model reads 3 columns" in page


def test_how_a_table_was_read_is_said(desk):
    """As a German spreadsheet program writes it: decimal commas, cp1252, a title above."""
    rows = samples.patients().drop("state").head(30).write_csv(separator=";").replace(".", ",")
    where = sent(desk.page, "münchen.csv", ("Bericht für Köln\n" + rows).encode("cp1252"))
    page = desk.page.get(where).text
    assert "30 rows are answered." in page
    assert "münchen.csv is read as Windows-1252 (western Europe) text" in page
    assert "--encoding" not in page
    assert "münchen.csv: line 2 names the columns" in page
    german = desk.page.get(where, headers={"accept-language": "de"}).text
    assert "münchen.csv wird als Text in Windows-1252 (Westeuropa) gelesen." in german
    assert "münchen.csv: Zeile 2 nennt die Spalten" in german


def test_a_labelled_table_has_a_report(desk):
    pytest.importorskip("matplotlib")
    browser = desk.page
    where = sent(browser, "old.csv", samples.patients().write_csv().encode())
    page = browser.get(where)
    assert f'<iframe class="report" src="{where}/report"' in page.text
    assert "100% of the rows are rows that the model was trained on" in page.text
    german = browser.get(where, headers={"accept-language": "de"}).text
    assert re.search(r"\d\d,\d\s% von 400 Zeilen sind richtig beantwortet", german)
    assert "100% der Zeilen sind solche, mit denen das Modell trainiert wurde" in german
    assert "frame-src 'self'" in page.headers["content-security-policy"]
    report = browser.get(f"{where}/report")
    assert "style-src 'sha256-" in report.headers["content-security-policy"]
    assert "unsafe" not in report.headers["content-security-policy"]
    assert report.headers["x-frame-options"] == "SAMEORIGIN"
    assert "attachment" in browser.get(f"{where}/report.html").headers["content-disposition"]


def test_a_labelled_table_without_one_of_the_classes(desk):
    table = samples.patients().filter(pl.col("state") == "ill")
    page = desk.page.get(sent(desk.page, "ill.csv", table.write_csv().encode()))
    assert page.status_code == 200
    assert re.findall(r"healthy</th>.*", page.text)[-1].count("–") == 2


def test_a_labelled_table_of_which_nothing_is_given():
    table = samples.patients().with_columns(pl.col("age (years)") * 30)
    with served(samples.triage_model()) as server, server.browser() as browser:
        page = browser.get(sent(browser, "odd.csv", table.write_csv().encode())).text
    assert "None of these answers is given." in page
    assert "0.0\xa0% are right" not in page


def test_tables_that_cannot_be_answered(desk):
    browser = desk.page
    page = browser.get(sent(browser, "a.csv", b"a,b\n1,2\n")).text
    assert "The table has no column &#39;age (years)&#39;, which the model needs" in page
    assert browser.get(sent(browser, "a.csv", b"")).text.count("a.csv is empty") == 1
    assert "cannot be read as parquet" in browser.get(sent(browser, "a.parquet", b"no")).text
    assert "the body is no Arrow stream" in browser.get(sent(browser, "a.arrow", b"no")).text
    page = browser.get(sent(browser, "c.csv", samples.patients().drop("pain").write_csv().encode())).text
    assert "c.csv: The table has no column &#39;pain&#39;" in page
    assert browser.post("/table", files={"table": ("a.exe", b"")}).status_code == 415


def test_small_files_that_unpack_to_much(desk, tmp_path, monkeypatch):
    import gzip

    from multiform.web import _dropped

    monkeypatch.setattr(_dropped, "MOST_BYTES", 2**20)
    browser, table = desk.page, samples.patients().drop("state").head(30)
    long = table.with_columns(pl.lit("x" * 2**16).alias("pain"))
    many = pl.DataFrame({"age (years)": pl.zeros(1_000_001, eager=True)})
    for number, frame in enumerate((long, many)):
        frame.write_parquet(tmp_path / f"{number}.parquet")
        frame.write_ipc(tmp_path / f"{number}.arrow", compression="zstd")
        (tmp_path / f"{number}.csv.gz").write_bytes(gzip.compress(frame.write_csv().encode()))
    assert all(path.stat().st_size < 2**20 for path in tmp_path.iterdir())
    for path in sorted(tmp_path.iterdir()):
        page = browser.get(sent(browser, path.name, path.read_bytes())).text
        assert "MB, unpacked" in page, path.name


def test_what_is_sent_never_touches_the_disk(desk, monkeypatch):
    import tempfile

    def rollover(self):
        raise AssertionError("a file was written")

    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", rollover)
    table = samples.patients().drop("state")
    content = pl.concat([table] * 200).write_csv().encode()
    assert len(content) > 2 * 2**20
    assert "80,000 rows are answered." in desk.page.get(sent(desk.page, "new.csv", content)).text


def test_few_tables_are_kept(desk):
    browser = desk.page
    content = samples.patients().drop("state").head(3).write_csv().encode()
    addresses = [sent(browser, "new.csv", content) for _ in range(5)]
    assert [browser.get(where).status_code for where in addresses] == [404, 200, 200, 200, 200]


def test_a_refusal_says_nothing_of_the_model(desk):
    import httpx

    page = httpx.get(desk.address, headers={"accept": "text/html"}, trust_env=False)
    assert page.status_code == 401
    assert "TableClassifier" not in page.text
    assert "text/html" in page.headers["content-type"]
