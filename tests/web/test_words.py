"""Words: complete in every language, and no sentence that a person at the page can meet is left in English."""

import ast
import base64
import html
import json
import re
from importlib.resources import files
from pathlib import Path
from string import Formatter

import numpy as np
import polars as pl
import pytest

import multiform
from tests.web import samples
from tests.web.conftest import served

pytest.importorskip("starlette")
from multiform import LoyaltyClassifier, QMSClassifier, TriageClassifier
from multiform.columns import Seen
from multiform.tables import TableClassifier
from multiform.web._model import opened
from multiform.web._report import in_words
from multiform.web._words import Words, chosen, languages

ROOM = files("multiform.web")
GERMAN = {"accept": "text/html", "accept-language": "de"}


def known(code):
    return json.loads((ROOM / "words" / f"{code}.json").read_text(encoding="utf-8"))


def places(sentence):
    return {name for _, name, _, _ in Formatter().parse(sentence) if name}


def test_languages_have_the_same_sentences_with_the_same_places():
    """Of a sentence of the library, a translation may leave something out."""
    english, german = known("en"), known("de")
    assert {path.name for path in (ROOM / "words").iterdir()} == {"en.json", "de.json"}
    english = {key: text for key, text in english.items() if not key.startswith("shown_")}
    assert list(english) == list(german)
    for key, text in english.items():
        if key.startswith(("said_", "in_report_")):
            assert places(german[key]) <= places(text), key
        else:
            assert places(german[key]) == places(text), key


def test_every_sentence_is_used_and_every_sentence_that_is_used_is_there():
    texts = [path.read_text(encoding="utf-8") for path in ROOM.iterdir() if path.name.endswith(".py")]
    texts += [path.read_text(encoding="utf-8") for path in (ROOM / "templates").iterdir()]
    used = set(re.findall(r"(?:\bw|words|speak)(?:\.raw)?\(\s*['\"]([a-z0-9_]+)['\"]", "\n".join(texts)))
    ours = set(known("en"))
    composed = {key for key in ours if key.startswith(("loyalty_", "error_4", "said_", "shown_", "in_report_"))}
    composed |= {"decimal", "thousands", "language"}
    quoted = {key for key in ours if any(f'"{key}"' in text or f"'{key}'" in text for text in texts)}
    assert used <= ours | {"loyalty_"}
    assert ours - composed - quoted == set()


@pytest.mark.parametrize(
    ("cookie", "accepted", "found"),
    [
        (None, "", "en"),
        (None, "de-CH, de;q=0.9, en;q=0.8", "de"),
        (None, "fr, en;q=0.2, de;q=0.1", "en"),
        ("de", "en", "de"),
        ("xx", "de", "de"),
        (None, "de;q=" + "9" * 1000, "en"),
        (None, ", ;;q=,*", "en"),
    ],
)
def test_the_language_is_the_readers(cookie, accepted, found):
    assert chosen(languages(), cookie, accepted).code == found


def test_numbers_as_one_writes_them():
    words = languages()["de"]
    assert [words.number(x) for x in (0, 1234567, 0.5, -2.25, 1e-7)] == ["0", "1.234.567", "0,5", "−2,25", "1e−07"]
    assert [words.percent(x) for x in (0, 0.001, 0.5, 0.9999, 1)] == [
        "0\xa0%",
        "<\xa01\xa0%",
        "50\xa0%",
        ">\xa099\xa0%",
        "100\xa0%",
    ]
    assert words.money(1234.5) == "1.234,50"
    assert isinstance(words, Words)


def test_an_unknown_language_is_refused():
    with pytest.raises(ValueError, match="language of application must be one of de, en; got 'fr'"):
        languages("fr")


# ---------------------------------------------------------------------------------------- sentences of the library


def test_no_page_speaks_of_options_of_the_command_line():
    """German never does; English says something else where the library does."""
    english, german = known("en"), known("de")
    named = {key for key, text in english.items() if key.startswith("said_") and re.search(r"--\w", text)}
    assert {key for key, text in german.items() if re.search(r"--\w", text)} == set()
    page = languages()["en"]
    for key in named:
        values = {place: f"7{number}" for number, place in enumerate(sorted(places(english[key])))}
        for before in ("", "a.csv: "):
            told = page.translated(before + english[key].format(**values))
            assert "--" not in told
            assert all(value in told for value in values.values()), told


def test_a_sentence_of_the_library_is_told_with_its_values():
    english, german = languages()["en"], languages()["de"]
    said = "new.csv, line 1234, column 'a<b': the model needs a number; got '1.5 mg'."
    assert (
        english.said(said)
        == "new.csv, line 1234, column &#39;a&lt;b&#39;: the model needs a number; got &#39;1.5 mg&#39;."
    )
    told = "new.csv, Zeile 1234, Spalte &#39;a&lt;b&#39;: Das Modell braucht eine Zahl; hier steht &#39;1.5 mg&#39;."
    assert german.said(said) == told
    assert german.translated("a body may have 67,108,864 bytes; send fewer rows at a time.") == (
        "Gesendet werden dürfen höchstens 67.108.864 Bytes; senden Sie weniger Zeilen auf einmal."
    )
    said = "The table has no column 'age', which the model needs; it has 'a', 'b' and 12 more."
    assert german.translated(said) == (
        "Die Tabelle hat keine Spalte 'age', die das Modell braucht; sie hat 'a', 'b' und 12 weitere."
    )
    for said in (
        "a.csv, line 7: the record that begins here has more than 256,000,000 bytes.",
        "a.csv, line 7, column 'b': the line has 1 cell, and the first line names 2 columns.",
        "a.csv, line 7, column 5: the line has 5 cells, and the first line names 4 columns.",
    ):
        assert german.translated(said).startswith("a.csv, Zeile 7")
    assert german.said("nobody has translated <this>.") == '<span lang="en">nobody has translated &lt;this&gt;.</span>'
    assert german.translated("a.csv: nobody has translated this.") is None


# Modules whose sentences come to a page, and those of their functions that no page calls.
REACHED = {
    "web/_app.py": {"serve", "listening_at"},
    "web/_arrow.py": {"_unpacked"},  # a reason in another sentence
    "web/_bedside.py": set(),
    "web/_dropped.py": set(),
    "web/_guard.py": {"Access.__init__"},
    "web/_kept.py": {"__getitem__"},  # a page of its own: error_404_case
    "web/_model.py": {
        "opened",
        "_target",
        "_series",
        "_whole",
        "least_change",
    },  # of forms no cell is a list
    "web/_questions.py": set(),
    "web/_render.py": set(),
    "web/_sessions.py": {"unknown_case"},
    "web/_tables.py": set(),
    "columns/_cells.py": {"polars", "as_frame"},
    "columns/_frames.py": {"learn_frame", "_learnt", "places_of"},
    "tables/_familiarity.py": {"warn"},
    "tables/_figures.py": {"compared"},  # of two models
    "tables/_labels.py": {"learn_labels"},
    "tables/_matrix.py": set(),
    "tables/_reading.py": {"sources", "_format_of", "_read_npz", "batches"},  # of one table in memory
    "tables/_encoding.py": {"_become"},  # no encoding is named
    "tables/_workbooks.py": set(),
    "diagnosis/_session.py": {"written"},
    "reporting/_answers.py": set(),
}
# What the page makes so that it cannot be; and what is put together, and tried below.
NEVER = (
    "Its sheet 7 is empty",
    "7 has no sheet 7",
    "y of report must hold one label per sample",
    "7, line 7, 7: the line has",
    "7: the record that begins",
    "<",
)


def sentences(path, skipped):
    """Every sentence that a module raises, 7 in the place of each value."""

    def text(node):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        if isinstance(node, ast.JoinedStr):
            return "".join(part.value if isinstance(part, ast.Constant) else value(part) for part in node.values)
        return "<"

    def value(node):
        return "there are no rows." if re.search(r"\.(sentence|detail)\b|^error$", ast.unparse(node.value)) else "7"

    def walk(node, inside):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside = [*inside, node.name]
            if node.name in skipped or ".".join(inside) in skipped:
                return
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            place = {"Problem": 1, "TableError": 0, "ValueError": 0, "UnfamiliarValue": 0}.get(node.func.id)
            if place is not None and len(node.args) > place:
                found = node.args[place]
                for one in (found.body, found.orelse) if isinstance(found, ast.IfExp) else (found,):
                    yield text(one)
        for child in ast.iter_child_nodes(node):
            yield from walk(child, inside)

    return [one for one in walk(ast.parse(path.read_text(encoding="utf-8")), []) if not one.startswith(NEVER)]


@pytest.mark.parametrize("module", sorted(REACHED))
def test_no_sentence_that_a_page_can_show_is_english(module):
    """Whoever changes a sentence of the library changes its pattern in words/en.json, and those of its translations."""
    german = languages()["de"]
    found = sentences(Path(multiform.__file__).parent / module, REACHED[module])
    lacking = [one for one in found if german.translated(one) is None and german.translated(f"a: {one}") is None]
    assert lacking == []


# What scikit-learn says, and what is put together.
ELSEWHERE = ("said_too_large_number", "said_holds_nan", "said_nearest_is", "said_nearest_are")


def test_no_pattern_is_of_a_sentence_that_nobody_says():
    """The longest piece of each stands in the sources."""
    room = Path(multiform.__file__).parent
    texts = []
    for path in (
        path
        for one in ("web", "columns", "tables", "diagnosis", "reporting", ".")
        for path in (room / one).glob("*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                texts.append("".join(one.value if isinstance(one, ast.Constant) else "{}" for one in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    whole = "\n".join(texts)
    lost = []
    for key, text in known("en").items():
        longest = max(re.split(r"\{\w+\}|[;:,.]", text), key=len).strip()
        if key.startswith("said_") and key not in ELSEWHERE and longest not in whole:
            lost.append((key, longest))
    assert lost == []


def test_the_walk_finds_sentences():
    found = sentences(Path(multiform.__file__).parent / "tables/_reading.py", set())
    assert "7 is empty; its first line must name the columns." in found
    assert len(found) > 20


def test_every_way_in_which_a_column_shifts_is_told_in_german():
    german = languages()["de"]
    random = np.random.default_rng(0)
    numbers, words = Seen.of_numbers(random.normal(size=300)), Seen.of_texts(["m", "w"] * 150)
    pairs = [
        (numbers, numbers.look(random.normal(5, 1, 300))),
        (numbers, numbers.look(np.full(300, np.nan))),
        (numbers, numbers.look(np.full(300, np.nan), np.ones(300, dtype=bool))),
        (words, words.look(["m"] * 300)),
        (words, words.look(["x"] * 300)),
    ]
    told = [shift.sentence for seen, (_, tally) in pairs for shift in seen.shifts("a", tally, 1)]
    assert len(told) >= 5
    assert [one for one in told if german.translated(one) is None] == []


ENGLISH = re.compile(r"\b(the|is|are|of|and|not|has|have|with|this|there|which|it|to)\b", re.IGNORECASE)


def english_words(page):
    """English words in what a German page says itself, and not in what it shows of the model or of the reader."""
    body = re.sub(r"(?s)<(script|style|template|code)\b.*?</\1>|<button[^>]*lang=.en.*?</button>", " ", page)
    text = re.sub(r"<[^>]*>", " ", body).replace("&#39;", "'")
    return ENGLISH.findall(re.sub(r"'[^']*'|“[^”]*”|„[^“]*“|\[[^]]*\]|[\w.-]+\.(csv|parquet|arrow|json)", " ", text))


BAD_TABLES = {
    "lacks.csv": b"a,b\n1,2\n",
    "empty.csv": b"",
    "head.csv": b"a,b\n",
    "open.csv": b'a,b\n"1,2\n',
    "short.csv": b"a,b\n1\n2,3\n",
    "twice.csv": b"a,a\n1,2\n",
    "zero.csv": b"a,\x00b\n1,2\n",
    "return.csv": b"a,b\r1,2\r",
    "no.parquet": b"no",
    "no.arrow": b"no",
    "bad.csv.gz": b"\x1f\x8b\x08\x00broken",
}


def test_a_german_page_is_german(tmp_path):
    """All views of all kinds of models, and everything that goes wrong there."""
    shown = {}

    def look(browser, what, answer):
        while answer.status_code == 303:
            answer = browser.get(answer.headers["location"].partition("#")[0], headers=GERMAN)
        shown[what] = answer.text
        return str(answer.url.path)

    def table(browser, name, content):
        where = look(browser, name, browser.post("/table", files={"table": (name, content)}, headers=GERMAN))
        for _ in range(600):
            if not where.startswith("/tables") or browser.get(f"{where}/progress").json()["done"]:
                break
        look(browser, name, browser.get(where, headers=GERMAN))

    with served(samples.plan()) as server, server.browser() as browser:
        look(browser, "start", browser.get("/", headers=GERMAN))
        form = {"action": "observe", "test": "0", "version": "0"}
        look(browser, "to mend", browser.post("/cases", data=form | {"f0": "old"}, headers=GERMAN))
        look(browser, "strange", browser.post("/cases", data=form | {"f0": "800"}, headers=GERMAN))
        insisted = form | {"f0": "800", "insist-f0": "yes"}
        where = look(browser, "going on", browser.post("/cases", data=insisted, headers=GERMAN))
        look(browser, "correcting", browser.get(f"{where}?correct=0", headers=GERMAN))
        look(browser, "late", browser.get(f"{where}?changed", headers=GERMAN))
        look(browser, "again", browser.post(where, data=form | {"version": "1", "f0": "50"}, headers=GERMAN))
        look(browser, "summary", browser.get(f"{where}/summary", headers=GERMAN))
        look(browser, "unknown", browser.get("/cases/none", headers=GERMAN))
        look(browser, "nowhere", browser.get("/nowhere", headers=GERMAN))
        look(browser, "method", browser.post("/", headers=GERMAN))
        look(browser, "form", browser.post(where, data={}, headers=GERMAN))
        look(browser, "nothing to undo", browser.post("/cases", data={"action": "undo"}, headers=GERMAN))
        for number, text in enumerate(
            (b"no", b'{"format": 9, "tests": [], "events": []}', b'{"format": 1, "tests": [], "events": []}')
        ):
            sent = browser.post("/cases/file", files={"session": ("case.json", text)}, headers=GERMAN)
            look(browser, f"session {number}", sent)
    for name in ("table_model", "triage_model", "plain_model"):
        with served(getattr(samples, name)()) as server, server.browser() as browser:
            case = {"f0": "61", "f1": "yes", "f2": "150", "f3": "7,1", "f4": "2024-05-05"}
            case = {"f0": "61", "f1": "5,1"} if name == "plain_model" else case
            look(browser, f"{name} start", browser.get("/", headers=GERMAN))
            where = look(browser, f"{name} answer", browser.post("/cases", data=case, headers=GERMAN))
            look(browser, f"{name} strange", browser.post("/cases", data=case | {"f0": "9000"}, headers=GERMAN))
            look(browser, f"{name} mend", browser.post("/cases", data=case | {"f0": "old"}, headers=GERMAN))
            look(browser, f"{name} large", browser.post("/cases", data=case | {"f0": "1e308"}, headers=GERMAN))
            look(browser, f"{name} beside", browser.get(f"{where}/compare", headers=GERMAN))
            look(browser, f"{name} compare", browser.post(f"{where}/compare", data=case, headers=GERMAN))
            look(browser, f"{name} table", browser.get("/table", headers=GERMAN))
            for bad, content in BAD_TABLES.items():
                table(browser, bad, content)
                shown[f"{name} {bad}"] = shown.pop(bad)
            good = samples.patients().head(60)
            odd = good.with_columns(pl.col("age (years)") * 9, pl.lit("never").alias("pain"))
            table(browser, "good.csv", good.drop("state").write_csv().encode())
            table(browser, "odd.csv", odd.drop("state").write_csv().encode())
            table(browser, "words.csv", good.drop("state").write_csv().replace("\n", "\nx", 1).encode())
    with served(samples.plan()) as server:
        import httpx

        shown["no token"] = httpx.get(server.address, headers=GERMAN, trust_env=False).text
        other = GERMAN | {"host": "elsewhere.example"}
        shown["other host"] = httpx.get(server.address, headers=other, trust_env=False).text
    assert len(shown) > 50
    assert {what: found for what, page in shown.items() if (found := english_words(page))} == {}
    assert not [what for what, page in shown.items() if '<html lang="de">' not in page]


# ------------------------------------------------------------------------------------------------------- the report

ENGLISH = re.compile(r"\b(the|of|is|are|rows|to|and|that|not|with|given|right|class)\b", re.IGNORECASE)


def shown(document):
    """Every text of a page and of the pictures in it."""
    for part in re.split(r"(<style.*?</style>|<[^>]*>)", document, flags=re.DOTALL):
        if not part.startswith("<"):
            yield " ".join(html.unescape(part).split())
            continue
        yield from (html.unescape(text) for _, text in re.findall(r'\b(data-label|alt)="([^"]*)"', part))
        for picture in re.findall(r"data:image/svg\+xml;base64,([^\"]*)", part):
            yield from shown(base64.b64decode(picture).decode())


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_report_is_in_the_language_of_the_page(n_classes):
    random = np.random.default_rng(0)
    y = random.integers(0, n_classes, 120)
    table = pl.DataFrame({"Alter": 50 + 8 * y + random.normal(0, 6, 120), "Sex": random.choice(["m", "w"], 120)})
    labels = np.array(["nein", "ja", "unklar"])[y]
    estimator = LoyaltyClassifier(QMSClassifier(noise=1.0, max_iter=3), cv=2, random_state=0)
    if n_classes == 3:
        estimator = TriageClassifier(estimator, target_accuracy=0.2, random_state=0)
    model = TableClassifier(estimator).fit(table.with_columns(krank=pl.Series(labels)), "krank")
    new = table.with_columns(pl.Series("Alter", [900.0, *table["Alter"][1:]]), krank=pl.Series(labels))
    document, _ = opened(model).report(new, "krank")
    german = in_words(document, languages()["de"])
    assert '<html lang="de">' in german
    left = [text for text in shown(german) if ENGLISH.search(text.replace("--cost-of-miss", ""))]
    assert left == []
    assert "Von 100 Zeilen mit krank = ja werden" in german or n_classes == 3
    assert not re.search(r"AUC \d\.\d", " ".join(shown(german)))
    assert "Anteil der beantworteten Zeilen" in " ".join(shown(german))
    assert german.count("<td") == document.count("<td")
    assert in_words(document, languages()["en"]) == document


def test_a_type_that_no_row_has_is_told_in_german():
    told = "Loyalty types. strong: 0% of the rows; normal: 100% of the rows, 73.3% right."
    german = languages()["de"].translated(told, "in_report_")
    assert german == "Loyalitätstypen. stark: 0% der Zeilen; normal: 100% der Zeilen, 73,3% richtig."
