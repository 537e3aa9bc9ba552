"""The report: what it says is what the model does, and whatever stands in the data is harmless."""

import re
import sys
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits, make_blobs
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import multiform
from multiform import DiagnosisPlanner, LoyaltyClassifier, QMSClassifier, QMSClassifierCV, TriageClassifier
from multiform.columns import UnfamiliarWarning
from multiform.metrics import proportion, type_words
from multiform.reporting import Report, _pictures, importances, report
from multiform.reporting._answers import ask
from multiform.reporting._pictures import Picture, plain
from multiform.reporting._results import compare, difference, kind_of, read_columns

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")


class Outline(HTMLParser):
    """The ids, the headings, the number of pictures and the tags of a page; refuses what is not closed."""

    EMPTY = ("meta", "link", "img", "br")

    def __init__(self, page):
        super().__init__()
        self.ids, self.images, self.tags, self.text, self._open = [], [], set(), [], []
        self.feed(page)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        attributes = dict(attrs)
        self.ids += [attributes["id"]] if "id" in attributes else []
        if tag == "img":
            self.images.append(attributes)
        assert not any(name.startswith("on") for name in attributes)
        if tag not in self.EMPTY:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def words(page):
    """What a reader sees, with single spaces."""
    return " ".join(" ".join(Outline(page).text).split())


@pytest.fixture
def drawing():
    """Ask for this where pictures matter."""


@pytest.fixture(autouse=True)
def _no_drawing(request, monkeypatch):
    """Drawing takes most of the time; `page` and `hostile` are drawn, for the tests that look at pictures."""
    if "drawing" not in request.fixturenames:
        monkeypatch.setattr(_pictures, "drawn", lambda draw, alt, size: Picture("data:,", alt))


@pytest.fixture(scope="module")
def samples():
    X, y = make_blobs(900, n_features=4, centers=3, cluster_std=3.5, random_state=0)
    return X, np.array(["ash", "beech", "cedar"])[y]


@pytest.fixture(scope="module")
def loyal(samples):
    return LoyaltyClassifier(random_state=0).fit(samples[0][:300], samples[1][:300])


@pytest.fixture(scope="module")
def page(loyal, samples):
    return report(loyal, samples[0][300:], samples[1][300:], command="make trees & more", title="Trees <young>")


def test_shares_of_partners_are_told():
    X, y = load_digits(return_X_y=True)
    poor = {"noise": (3.0,), "encodings": ["plain"], "max_iter": 1, "random_state": 0}
    model = QMSClassifierCV(partners=[ExtraTreesClassifier(4)], **poor).fit(X[:300], y[:300])
    page = report(model, X[300:400], y[300:400], baselines=False)
    assert f"QMS {model.shares_['QMS']:.0%}, ExtraTreesClassifier" in page.html
    alone = QMSClassifierCV(partners=None, **poor).fit(X[:300], y[:300])
    assert "<dt>Shares</dt>" not in report(alone, X[300:400], y[300:400], baselines=False).html


def test_it_says_how_well_the_model_does(page, loyal, samples):
    X, y = samples[0][300:], samples[1][300:]
    accuracy = (loyal.predict(X) == y).mean()
    assert page.figures["accuracy"] == accuracy
    assert page.figures["n_samples"] == 600
    assert set(page.figures["baselines"]) == {"majority class", "logistic regression", "random forest"}
    text = words(page.html)
    assert f"LoyaltyClassifier is right on {accuracy:.1%} of 600 rows" in text
    assert re.search(r"The best baseline, [a-z ]+ \(cross-validated on these rows\), is right on", text)
    assert "5-fold cross-validation within all of the rows of this report" in text
    assert repr(page) == f"Report(accuracy={accuracy:.4f}, n_samples=600)"


def test_every_section_is_there_with_its_pictures(page):
    outline = Outline(page.html)
    sections = ["data", "results", "found", "chances", "importance", "confusion", "trust", "doubts", "columns", "made"]
    assert outline.ids == sections
    assert len(outline.images) == 4 + 3 + 1 + 1  # classes, results, chances, columns; a matrix a type; risk; loyalty
    for image in outline.images:
        assert image["src"].startswith("data:image/svg+xml;base64,")
        assert image["alt"]
    links = re.findall(r'href="#(\w+)"', page.html)
    assert set(links) == set(outline.ids)


def test_it_loads_nothing_from_anywhere(page):
    assert "script" not in Outline(page.html).tags
    addresses = re.findall(r'(?:src|href)="([^"]*)"', page.html)
    assert all(address.startswith(("data:", "#")) for address in addresses)
    assert "@import" not in page.html
    assert "url(" not in page.html


def test_loyalty_types_stand_beside_their_estimates(page, loyal, samples):
    X, y = samples[0][300:], samples[1][300:]
    kinds, right = loyal.predict_loyalty(X), loyal.predict(X) == y
    text = words(page.html)
    for level, expected in zip(loyal.levels_, loyal.loyalty_table_.accuracy, strict=True):
        own = kinds == level
        assert f"{type_words(level)} {own.sum()} {own.mean():.1%}" in text
        assert f"{right[own].mean():.1%} (" in text
        assert f"{expected:.1%}" in text


def test_least_sure_samples_and_surest_mistakes_are_those(page, loyal, samples):
    X, y = samples[0][300:], samples[1][300:]
    score, right = loyal.loyalty_score(X), loyal.predict(X) == y
    least = np.argsort(score, kind="stable")[:8]
    mistakes = [i for i in np.argsort(-score, kind="stable") if not right[i]][:8]
    rows = [int(row) for row in re.findall(r'<td data-label="Row">(\d+)</td>', page.html)]
    assert rows == [*least, *mistakes]


def test_provenance(page):
    text = words(page.html)
    assert "make trees & more" in text
    assert "LoyaltyClassifier(random_state=0)" in text.replace(" ", "")
    assert f"scikit-learn {sys.modules['sklearn'].__version__}" in text
    assert "multiform" in text


@pytest.mark.parametrize(
    ("wrap", "has_loyalty", "has_promise"),
    [
        (lambda X, y: QMSClassifier(random_state=0).fit(X, y), False, False),
        (lambda X, y: QMSClassifierCV(cv=3, random_state=0).fit(X, y), False, False),
        (lambda X, y: make_pipeline(SimpleImputer(), LoyaltyClassifier(cv=2, random_state=0)).fit(X, y), True, False),
        (
            lambda X, y: TriageClassifier(
                make_pipeline(SimpleImputer(), LoyaltyClassifier(cv=2, random_state=0)),
                target_accuracy=0.75,
                random_state=0,
            ).fit(X, y),
            True,
            True,
        ),
        (
            lambda X, y: make_pipeline(
                SimpleImputer(), TriageClassifier(QMSClassifier(random_state=0), target_accuracy=0.75, random_state=0)
            ).fit(X, y),
            False,
            True,
        ),
        (lambda X, y: FrozenEstimator(LoyaltyClassifier(cv=2, random_state=0).fit(X, y)), True, False),
        (lambda X, y: LogisticRegression().fit(X, y), False, False),
        (lambda X, y: LinearSVC().fit(X, y), False, False),
    ],
)
def test_any_model_is_asked_all_that_it_knows(samples, wrap, has_loyalty, has_promise):
    X, y = samples
    page = report(wrap(X[:600], y[:600]), X[600:], y[600:], baselines=False)
    text = words(page.html)
    assert ("Loyalty types" in text) == has_loyalty
    assert ("The promise" in text) == has_promise
    assert ("coverage" in page.figures) == has_promise
    assert "How far to trust it" in text


def test_a_model_that_only_answers(samples):
    class Stubborn(DummyClassifier):
        predict_proba = property()

    X, y = samples
    page = report(Stubborn().fit(X, y), X, y, baselines=False)
    assert "How far to trust it" not in words(page.html)
    assert "aurc" not in page.figures


def test_the_promise_is_judged(samples):
    X, y = samples
    triage = TriageClassifier(LoyaltyClassifier(random_state=0), target_accuracy=0.75, random_state=0)
    triage.fit(X[:600], y[:600])
    accepted = ~triage.defer(X[600:])
    right = triage.predict(X[600:])[accepted] == y[600:][accepted]
    page = report(triage, X[600:], y[600:], baselines=False)
    assert page.figures["coverage"] == accepted.mean()
    assert page.figures["accepted_accuracy"] == right.mean()
    text = words(page.html)
    assert "With confidence 95%, at least 75.0% of the accepted answers are right (exact guarantee)" in text
    assert "the promise is kept" in text
    shuffled = np.random.default_rng(0).permutation(y[600:])
    assert "the promise is not kept" in words(report(triage, X[600:], shuffled, baselines=False).html)


def test_every_promise_is_listed():
    X, y = make_blobs(3000, centers=[[-2, 0], [2, 0]], random_state=0)
    labels = np.array(["well", "ill"])[y]
    settings = {"target_accuracy": 0.9, "target_recall": {"ill": 0.9}, "by": _side, "random_state": 0}
    triage = TriageClassifier(QMSClassifier(n_components=2, noise=0.3, random_state=0), **settings)
    triage.fit(X[:2000], labels[:2000])
    found = words(report(triage, X[2000:], labels[2000:], baselines=False).html)
    assert "All that was promised" in found
    for promise in triage.report(X[2000:], labels[2000:]).promises:
        assert f"{promise.what} {promise.count} {promise.share:.1%} 90.0%" in found


def _side(X):
    return np.where(np.asarray(X)[:, 1] > 0, "up", "down")


@pytest.mark.filterwarnings("ignore::multiform.triage.TargetNotReachedWarning")
def test_a_promise_that_accepts_nothing(samples):
    X, y = samples
    noise = np.random.default_rng(0).permutation(y)
    triage = TriageClassifier(QMSClassifier(random_state=0), target_accuracy=0.9, random_state=0).fit(X, noise)
    page = report(triage, X, noise, baselines=False)
    assert "everything is deferred" in words(page.html)
    assert page.figures["accepted_accuracy"] is None


def test_baselines_on_training_data_see_that_alone(samples, loyal):
    X, y = samples
    page = report(loyal, X[300:], y[300:], X_train=X[:300], y_train=y[:300])
    own = LogisticRegression(max_iter=200)
    scale = X[:300].mean(axis=0), X[:300].std(axis=0)
    own.fit((X[:300] - scale[0]) / scale[1], y[:300])
    expected = own.score((X[300:] - scale[0]) / scale[1], y[300:])
    assert page.figures["baselines"]["logistic regression"] == pytest.approx(expected, abs=1e-9)
    values, counts = np.unique(y[:300], return_counts=True)
    majority = (y[300:] == values[counts.argmax()]).mean()
    assert page.figures["baselines"]["majority class"] == pytest.approx(majority)
    assert "Baselines were trained on the training data and judged on all of the rows" in words(page.html)


def test_many_samples_are_thinned_for_the_baselines_and_it_says_so(monkeypatch):
    monkeypatch.setattr("multiform.reporting._results.MOST_ROWS", 200)
    X, y = make_blobs(350, n_features=2, centers=2, random_state=0)
    baselines, rows, how, _ = compare(X, y, None, None, seed=0)
    assert len(rows) == len(baselines[0].labels) == 200
    assert "within 200 rows drawn at random from the rows of this report" in how
    monkeypatch.setattr("multiform.reporting._results._most_training_rows", lambda X: 60)
    _, _, how, _ = compare(X, y, X, y, seed=0)
    assert "trained on 60 rows of the training data and judged on 200 rows drawn at random" in how


def test_very_few_samples(blobs):
    X, y = blobs
    model = QMSClassifier(random_state=0).fit(X, y)
    page = report(model, X[:3], y[:3])
    assert page.figures["baselines"].keys() == {"majority class"}
    assert report(model, X[:1], y[:1]).figures["n_samples"] == 1


def test_frames_with_words_gaps_and_dates():
    rng = np.random.default_rng(0)
    n = 120
    frame = pd.DataFrame(
        {
            "height": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "kind": rng.choice(["a", "b", None], n),
            "day": pd.date_range("2026-01-01", periods=n),
            "flag": rng.random(n) < 0.5,
            "whole": pd.array([None, *range(n - 1)], dtype="Int64"),
        },
        index=[f"patient {i}" for i in range(n)],
    )
    y = np.where(frame["kind"] == "a", "yes", "no")

    class OnKind(DummyClassifier):
        def predict_proba(self, X):
            first = np.asarray(X["kind"] == "a", dtype=float)
            return np.column_stack([1 - first, first]) * 0.8 + 0.1

        def predict(self, X):
            return self.classes_[self.predict_proba(X).argmax(axis=1)]

    pl = pytest.importorskip("polars")
    same = {name: [None if pd.isna(value) else value for value in frame[name].tolist()] for name in frame.columns}
    for table in (frame, pl.DataFrame(same)):
        page = report(OnKind().fit(frame, y), table, y, baselines=False)
        assert page.figures["accuracy"] == 1
        text = words(page.html)
        assert "kind text" in text
        assert "not shown (a date)" in text
    for other in compare(frame, y, frame, y, seed=0)[0][1:]:  # they see the words
        assert (other.labels == y).mean() > 0.9
    kinds = {name: kind_of(column) for name, column in read_columns(frame).items()}
    assert kinds == {"height": "number", "kind": "text", "day": "date", "flag": "number", "whole": "number"}
    assert "patient " not in words(
        report(OnKind().fit(frame, y), frame, y, baselines=False).html
    )  # names are not shown


def test_sparse_data(samples):
    X, y = scipy.sparse.csr_matrix(np.round(samples[0])), samples[1]
    page = report(QMSClassifier(random_state=0).fit(X, y), X, y, baselines=False)
    assert "X is sparse" in words(page.html)
    for other in compare(X, y, X, y, seed=0)[0][1:]:
        assert (other.labels == y).mean() > 0.5


HOSTILE = "<script>alert('x')</script>"


@pytest.fixture(scope="module")
def hostile():
    """Everything that a table may hold and a page should not: markup, formulas, control and direction characters."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(90, 3)), columns=[HOSTILE, "{{ 7 * 7 }}", '"><img src=x onerror=alert(1)>'])
    classes = np.array([HOSTILE, "$\\frac$ and $x_{$", "\x00\x1b[31m\u202eabc\ud800" + "long" * 60])
    y = classes[(X.iloc[:, 0] > 0).astype(int) + (X.iloc[:, 1] > 0.5)]
    model = LoyaltyClassifier(LogisticRegression(), cv=2).fit(X, y)
    return report(model, X, y, X_train=X, y_train=y, title=HOSTILE, command=HOSTILE)


def test_whatever_stands_in_the_data_is_escaped(hostile):
    outline = Outline(hostile.html)
    assert "script" not in outline.tags
    assert not any("onerror" in image for image in outline.images)
    assert hostile.html.count("<script") == 0
    text = " ".join(outline.text)
    assert HOSTILE in text
    assert "{{ 7 * 7 }}" in text
    for forbidden in ("\x00", "\x1b", "\u202e", "\ud800"):
        assert forbidden not in hostile.html


# What a page is made of; anything else would have come from the data.
TAGS = set(re.findall(r"<([a-z]\w*)", (files("multiform.reporting") / "template.html").read_text(encoding="utf-8")))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(names=["", "0", "\x00", "00"])
@example(names=["x", "a", "a\x00", "t"])
@given(names=st.lists(st.text(max_size=30), min_size=4, max_size=4, unique=True))
def test_any_text_is_text(names):
    """Columns, classes, title and command may be anything at all; the page stays a page and says what they are."""
    X = pd.DataFrame({names[0]: [0.0, 1.0, 2.0, 3.0]})
    y = np.array([names[1], names[1], names[2], names[2]], dtype=object)
    odd = report(_LargeIsLast(y), X, y, title=names[3] or "x", command=names[3], baselines=False)
    outline = Outline(odd.html)
    assert outline.tags <= TAGS
    assert odd.figures["accuracy"] == 1
    shown = "".join(outline.text)
    for name in names[:3]:
        assert plain(name) in shown
    odd.html.encode()


class _LargeIsLast:
    """A model that looks at no names: the last label for 2 and more, the first for less."""

    def __init__(self, y):
        self.classes_, self._last = np.unique(y), np.unique(y) == y[-1:]

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def predict_proba(self, X):
        return np.where(X.to_numpy() >= 2, self._last, ~self._last).astype(float)


def test_labels_that_numpy_takes_for_one_another_are_told_apart():
    """Text with a NUL at its end is other text, and the number 1 is not the text "1"."""
    X = np.arange(80.0)[:, None]
    y = np.array(["a", "a\0"] * 40, dtype=object)
    always = DummyClassifier(strategy="constant", constant="a").fit(X, y)
    page = report(always, X, y, X_train=X, y_train=y)
    assert page.figures["accuracy"] == page.figures["baselines"]["majority class"] == 0.5
    answers = ask(always, X, y)
    assert answers.classes.tolist() == ["a", "a\0"]
    assert (np.bincount(answers.truth).tolist(), np.bincount(answers.labels).tolist()) == ([40, 40], [80])
    rows = re.findall(r'<td class="head">(a.?)</td><td class="n" data-label="Rows">(\d+)</td>.*?>([\d.]+)%', page.html)
    assert rows == [("a\N{REPLACEMENT CHARACTER}", "40", "0.0"), ("a", "40", "100.0")]

    numbers = DummyClassifier().fit(X, np.arange(80) % 2)
    mixed = np.array([0, "1"] * 40, dtype=object)
    assert ask(numbers, X, mixed).classes.tolist() == [0, 1, "1"]
    assert report(numbers, X, mixed, baselines=False).figures["accuracy"] == 0.5


@given(st.text(), st.integers(2, 50))
def test_plain_text_is_printable_and_short(text, most):
    found = plain(text, most)
    assert found.isprintable()
    assert len(found) <= most
    assert plain(found, most) == found


def test_it_is_saved_whole_or_not_at_all(page, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    assert page.save(str(path)) == path
    assert path.read_text(encoding="utf-8") == page.html
    monkeypatch.setattr("os.replace", _full)
    with pytest.raises(OSError, match="no room"):
        Report("other", page.figures).save(path)
    assert path.read_text(encoding="utf-8") == page.html
    assert list(tmp_path.iterdir()) == [path]


def _full(*_):
    raise OSError("no room")


def test_the_same_call_gives_the_same_page(loyal, samples, drawing):
    pages = [report(loyal, samples[0][:100], samples[1][:100], baselines=False).html for _ in range(2)]
    assert pages[0] == pages[1]


def test_in_a_notebook_it_is_a_frame_of_its_own(page):
    shown = page._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "<!doctype" not in shown


def test_many_classes(drawing):
    X, y = make_blobs(800, n_features=8, centers=40, random_state=0)
    page = report(QMSClassifier(random_state=0).fit(X, y), X, y, baselines=False)
    assert "The 30 of 40 classes that are recognised least" in words(page.html)


def test_a_plan_is_shown_and_followed(drawing):
    rng = np.random.default_rng(0)
    ill = rng.integers(0, 2, 200)
    X = pd.DataFrame({name: ill + rng.normal(0, s, 200) for name, s in {"question": 0.6, "scan": 0.3}.items()})
    planner = DiagnosisPlanner({"question": 1, "scan": 100}, cv=3, tolerance=0.02, random_state=0).fit(X, ill)
    model = QMSClassifier(random_state=0).fit(X, ill)
    text = words(report(model, X, ill, plan=planner, baselines=False).html)
    assert "What to measure" in text
    assert f"expected to cost {planner.expected_cost_:.2f} a patient" in text
    assert f"the mean bill is {planner.acquire(X).cost.mean():.2f}" in text
    # A planner answers, too, and is its own plan.
    assert "What to measure" in words(report(planner, X, ill, baselines=False).html)
    # A report on other columns shows the plan without following it.
    other = QMSClassifier(random_state=0).fit(X.rename(columns={"scan": "x"}), ill)
    text = words(report(other, X.rename(columns={"scan": "x"}), ill, plan=planner, baselines=False).html)
    assert "What to measure" in text
    assert "the mean bill is" not in text


@pytest.fixture(scope="module")
def hospital():
    """A table with all that says who somebody is, and a model of it."""
    pl = pytest.importorskip("polars")
    from multiform.tables import TableClassifier

    rng = np.random.default_rng(0)
    n = 240
    table = pl.DataFrame(
        {
            "number": [f"P-{i:04d}" for i in range(n)],
            "Nachname": rng.choice(["Meier", "Huber", "Vogt"], n),
            "born": [f"19{40 + i % 50}-03-{1 + i % 28:02d}" for i in range(n)],
            "note": [
                " ".join(rng.choice(["seen", "by", "doctor", "Frankenstein", "today", "again"], 4)) for _ in range(n)
            ],
            "ward": rng.choice(["north", "south"], n),
            "height": rng.normal(170, 8, n).round(1),
        }
    ).with_columns(ward=pl.when(pl.int_range(n) == 7).then(pl.lit("isolation")).otherwise("ward"))
    size = np.where(table["height"].to_numpy() + rng.normal(0, 4, n) > 170, "tall", "short")
    inner = QMSClassifier(noise=0.25, n_components=3, random_state=0)
    model = TableClassifier(LoyaltyClassifier(inner, cv=2, random_state=0))
    model.fit(table[:120].with_columns(size=pl.Series(size[:120])), "size")
    strange = table[120:].with_columns(
        born=pl.when(pl.int_range(120) == 3).then(pl.lit("1801-01-01")).otherwise("born")
    )
    return model, strange, size[120:]


def test_who_somebody_is_is_not_shown(hospital):
    model, table, y = hospital
    page = report(model, table, y, baselines=False)
    assert "<title>Predicting size: LoyaltyClassifier on 120 rows</title>" in page.html
    text = words(page.html)
    for told in ("What the model makes of it", "Loyalty types", "north", "strong (sure)", "Rows are counted from 1"):
        assert told in text
    for secret in (r"P-\d{4}", "Meier", r"19\d\d-03", "1801", "Frankenstein", "isolation"):
        assert not re.search(secret, text), secret
    assert "Column born: 1 cells unlike training; values are not shown (a date)" in text


def test_an_anonymous_report_shows_no_row_and_no_value(hospital):
    model, table, y = hospital
    page = report(model, table, y, baselines=False, anonymous=True, command="multiform report Meier.csv")
    text = words(page.html)
    assert "it shows figures of groups, no value of a column and no single row" in text
    heights = [f"{value:.4g}" for value in (table["height"].min(), table["height"].max())]
    for secret in ("Meier", "north", "1801", "counted from", *heights):
        assert secret not in text, secret
    assert 'data-label="Row"' not in page.html


def test_settings_are_those_of_the_file(hospital, tmp_path):
    model, table, y = hospital
    multiform.save(model, tmp_path / "m.mfm", notes={"command": "multiform fit ours.csv"})
    page = report(multiform.load(tmp_path / "m.mfm"), table, y, baselines=False, model_file=tmp_path / "m.mfm")
    text = words(page.html)
    assert "QMSClassifier(n_components=3,noise=0.25,random_state=0)" in text.replace(" ", "")
    assert "Training came to noise 0.25, components" in text
    assert "multiform fit ours.csv" in text


def test_who_is_found(hospital):
    model, table, y = hospital
    text = words(report(model, table, y, baselines=False, positive="tall").html)
    with pytest.warns(UnfamiliarWarning):
        own, called = y == "tall", model.predict(table) == "tall"
    share = round(100 * called[own].mean())
    assert f"Of 100 rows with size = tall, {share} are found and {100 - share} are missed" in text
    assert "From a chance of" in text
    assert "Rows by the chance that tall was given" in text
    with pytest.raises(ValueError, match=r"'tal' is no class of the model; its classes are .*'tall'"):
        report(model, table, y, positive="tal")


def test_columns_that_matter(hospital):
    model, table, y = hospital
    figures = report(model, table, y, baselines=False).figures["importance"]
    first, *others = figures["columns"]
    assert first["column"] == "height"
    assert first["accuracy_lost"]["low"] > 0.1
    assert first["exact_contribution"] > max(one["exact_contribution"] for one in others)
    assert sum(one["exact_contribution"] for one in figures["columns"]) == pytest.approx(1)
    assert {one["column"] for one in figures["columns"]} == {column.name for column in model.columns_ if column.width}


@pytest.mark.parametrize("make", [np.asarray, lambda X: pd.DataFrame(X, columns=["a", "b", "c", "d"])])
def test_importance_is_that_of_scikit_learn(samples, make):
    """Blocks of equal size, added up, are all rows: the same figures, from the same shuffles."""
    X, y = make(samples[0][:400]), samples[1][:400]
    model = LogisticRegression(max_iter=500).fit(X, y)
    found = importances(model, X, y)
    expected = permutation_importance(model, X, y, n_repeats=5, random_state=0).importances_mean
    told = {one.column: one for one in found.columns}
    names = ["a", "b", "c", "d"] if hasattr(X, "columns") else ["x0", "x1", "x2", "x3"]
    assert [told[name].accuracy.value for name in names] == pytest.approx(expected)
    assert all(one.accuracy.low <= one.accuracy.value <= one.accuracy.high for one in found.columns)
    assert found.columns[0].contribution is None


def test_importance_is_bounded(samples, monkeypatch):
    X, y = samples
    monkeypatch.setattr("multiform.reporting._importance.MOST_ROWS", 100)
    monkeypatch.setattr("multiform.reporting._importance.MOST_COLUMNS", 2)
    model = QMSClassifier(random_state=0).fit(X, y)
    found = importances(model, X, y)
    assert (found.n_rows, found.n_of, found.n_left_out, len(found.columns)) == (100, 900, 2, 2)
    assert "100 rows drawn at random of the 900 rows. 2 further columns were not shuffled." in found.how
    assert importances(model, X[:30], y[:30]) is None


def test_labels_of_another_type_are_the_same_labels(blobs):
    X, y = blobs
    model = QMSClassifier(random_state=0).fit(X, y)
    assert report(model, X, y.astype(float), baselines=False).figures["accuracy"] == model.score(X, y)


def test_a_class_that_the_model_does_not_know_is_an_error_of_its(blobs):
    X, y = blobs
    model = QMSClassifier(random_state=0).fit(X[y < 2], y[y < 2])
    page = report(model, X, y, baselines=False)
    assert page.figures["accuracy"] == (model.predict(X) == y).mean()
    assert "log_loss" not in page.figures or page.figures["log_loss"] > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [0, 1]}, r"y of report must hold one label per sample, 300; got the shape \(2,\)"),
        ({"y": [None, *[0] * 299]}, "y of report lacks 1 of its 300 labels; leave those samples out"),
        ({"y": [np.nan] * 300}, "y of report lacks 300 of its 300 labels"),
        ({"y": ["a"] * 300}, "None of the labels given to report is a class of the model: the labels are"),
        ({"X_train": [[0]]}, "X_train and y_train of report must be given together; got only X_train"),
        ({"target_accuracy": 1.5}, "target_accuracy of report must be between 0 and 1, both excluded; got 1.5"),
    ],
)
def test_what_is_wrong_gets_a_sentence(blobs, change, message):
    X, y = blobs
    model = QMSClassifier(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=message):
        report(model, **({"X": X, "y": y} | change))


def test_no_sample_at_all(blobs):
    X, y = blobs
    with pytest.raises(ValueError, match="report needs at least one labelled sample; got none"):
        ask(QMSClassifier(random_state=0).fit(X, y), X[:0], y[:0])


@pytest.mark.parametrize("package", ["jinja2", "matplotlib"])
def test_without_its_extra_a_sentence_says_what_to_install(blobs, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    model = QMSClassifier(random_state=0).fit(*blobs)
    with pytest.raises(
        ImportError, match=rf'report needs {package}; install it with pip install "multiform\[report\]"'
    ):
        report(model, *blobs)


def test_it_is_reached_from_the_package():
    assert multiform.report is report
    with pytest.raises(AttributeError, match="no attribute 'reports'"):
        _ = multiform.reports


def test_intervals():
    """Wilson's formula, and the paired difference, restated."""
    n, k, z = 50, 45, 1.959964
    share = k / n
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    found = proportion(k, n)
    assert (found.value, found.low, found.high) == pytest.approx((0.9, middle - half, middle + half), abs=1e-6)
    right, other = np.array([1, 1, 0, 1]), np.array([1, 0, 0, 0])
    gained = difference(right, other)
    assert gained.value == 0.5
    assert gained.high - gained.value == pytest.approx(1.96 * 0.5 / 2)


def test_a_picture_of_digits_is_not_too_large(drawing):
    X, y = load_digits(return_X_y=True)
    page = report(QMSClassifier(random_state=0).fit(X, y), X, y, baselines=False)
    assert len(page.html) < 400_000


def test_what_lies_far_below_does_not_squeeze_the_rest():
    """The intervals of good models can be told apart beside a baseline of 10 %."""

    def row(name, n_right):
        return {"name": name, "accuracy": proportion(n_right, 1000)}

    import matplotlib.pyplot as plt

    def limits(rows):
        figure = plt.figure()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_pictures, "drawn", lambda draw, alt, size: draw(figure))
            _pictures.results_picture(rows)
        found = figure.axes[0].get_xlim(), [text.get_text() for text in figure.axes[0].texts]
        plt.close(figure)
        return found

    good = [row("this model", 970), row("forest", 960)]
    (left, right), texts = limits([*good, row("majority class", 100)])
    assert left > 0.9
    assert right < 1
    assert texts == ["97.0%", "96.0%", "10.0%"]
    (left, _), _ = limits([*good, row("logistic regression", 900)])
    assert left < 0.9
