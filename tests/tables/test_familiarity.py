"""A table unlike training: what is said of it, and what is answered."""

import warnings

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

import multiform
from multiform import LoyaltyClassifier, QMSClassifier, TriageClassifier
from multiform.tables import Familiarity, TableClassifier, UnfamiliarWarning
from tests.files.models import model, table

ASKED = ("predict", "predict_proba", "predict_loyalty", "loyalty_score", "defer")


def patients(n=400, seed=0):
    """Age without a gap, pulse with some, a category, and a target that depends on all of them."""
    rng = np.random.default_rng(seed)
    age, pulse, sex = rng.normal(54, 9, n).round(1), rng.normal(80, 12, n).round(1), rng.choice(["m", "w"], n)
    score = (age - 54) / 9 + (pulse - 80) / 12 + (sex == "m") + rng.normal(size=n)
    gaps = rng.random(n) < 0.1
    return pl.DataFrame({"age": age, "pulse": pl.Series(np.where(gaps, np.nan, pulse)).fill_nan(None), "sex": sex}), (
        np.where(score > 0.5, "ill", "well")
    )


def fitted(estimator):
    return TableClassifier(estimator).fit(*patients())


def loyalty(**parameters):
    return LoyaltyClassifier(QMSClassifier(noise=0.5, max_iter=30, random_state=0), cv=3, random_state=0, **parameters)


def changed():
    """The first six rows, five of them with a cell that training could not have."""
    frame = patients(40, 1)[0][:6]
    return frame.with_columns(
        age=pl.Series(["540", "old", "", *frame["age"][3:].cast(str)]),
        sex=pl.Series(["m", "w", "m", "quit", "w", "m"]),
        pulse=pl.Series([70.0, None, 80.0, 80.0, 2.0, 90.0]),
    )


def quietly(found, name, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnfamiliarWarning)
        return getattr(found, name)(X)


def test_cells_are_named():
    found = fitted(loyalty()).familiarity(changed())
    assert found.unfamiliar.tolist() == [True, True, True, True, True, False]
    assert found.n_unfamiliar == 5
    cells = found.cells
    assert cells.columns == ["row", "column", "value", "seen"]
    assert [row[:3] for row in cells.rows()] == [
        (0, "age", "540"),
        (1, "age", "old"),
        (2, "age", None),
        (3, "sex", "quit"),
        (4, "pulse", "2"),
    ]
    assert cells["seen"][3] == "m, w"
    notes = found.notes().to_list()
    assert notes[3] == "sex quit (training: m, w)"
    assert notes[2].startswith("age missing (training: ")
    assert notes[5] is None


def test_an_unknown_cell_is_averaged_over_what_training_had():
    """The definition, by hand: the mean of the chances with 16 evenly spaced training values in its place."""
    wrapped = fitted(LogisticRegression(max_iter=1000))
    (frame, _), asked = patients(), changed()
    chances = quietly(wrapped, "predict_proba", asked)
    ages = np.sort(frame["age"].to_numpy())
    row = asked[:1].with_columns(age=pl.lit(54.0))
    tried = [wrapped.predict_proba(row.with_columns(age=pl.lit(float(age)))) for age in ages]
    np.testing.assert_allclose(chances[0], np.mean(tried, axis=0)[0], atol=0.01)  # all 400 values, and not 16
    both = [
        wrapped.predict_proba(asked[3:4].with_columns(age=pl.lit(float(asked["age"][3])), sex=pl.lit(sex)))
        for sex in "mw"
    ]
    shares = frame["sex"].value_counts().sort("sex")["count"].to_numpy() / len(frame)
    np.testing.assert_allclose(chances[3], (shares @ np.vstack(both)), atol=0.02)
    np.testing.assert_allclose(chances[5], wrapped.predict_proba(asked[5:])[0], rtol=1e-12)  # one row, and six


def test_what_does_not_depend_on_the_cell_is_not_changed_by_it():
    wrapped = fitted(LogisticRegression(max_iter=1000))
    wrapped.estimator_.coef_[:, wrapped.encoded_names().index("age")] = 0
    usual = patients(40, 1)[0]
    odd = usual.with_columns(age=pl.lit(1e6))
    np.testing.assert_allclose(quietly(wrapped, "predict_proba", odd), wrapped.predict_proba(usual))


@pytest.mark.parametrize(
    "estimator",
    [
        QMSClassifier(noise=0.5, max_iter=30, random_state=0),
        loyalty(),
        loyalty(beta=(0.01, 0.3)),
        TriageClassifier(loyalty(), target_accuracy=0.6, random_state=0),
        TriageClassifier(
            QMSClassifier(max_iter=30, random_state=0),
            target_accuracy=0.6,
            random_state=0,
            fallback=LogisticRegression(),
        ),
        TriageClassifier(
            QMSClassifier(max_iter=30, random_state=0), target_accuracy=0.6, random_state=0, defer_label="ask"
        ),
    ],
    ids=["qms", "loyalty", "ladder", "triage", "fallback", "defer_label"],
)
def test_one_rule_for_every_answer(estimator):
    wrapped = fitted(estimator)
    asked, usual = changed(), patients(40, 1)[0]
    answers, found = wrapped.answers(asked, chances=True)
    said = {name: quietly(wrapped, name, asked) for name in ASKED if hasattr(wrapped, name)}
    strange = found.unfamiliar
    chances = said["predict_proba"]
    assert answers["label"].to_list() == said["predict"].tolist()
    np.testing.assert_allclose(answers["chance of ill"], chances[:, 0])
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert (answers["chance"].to_numpy()[strange] == chances[strange].max(axis=1)).all()
    if getattr(estimator, "defer_label", None) is None:
        assert (said["predict"] == wrapped.classes_[chances.argmax(axis=1)])[strange].all()
    else:
        assert set(said["predict"][strange]) == {"ask"}
    if "predict_loyalty" in said:
        assert not any(level.startswith("strong") for level in said["predict_loyalty"][strange])
        assert any(level.startswith("strong") for level in wrapped.predict_loyalty(usual))  # it can be said
        assert answers["loyalty"].to_list() == said["predict_loyalty"].tolist()
        np.testing.assert_array_equal(said["loyalty_score"][strange], chances[strange].max(axis=1))
    if "defer" in said:
        assert said["defer"][strange].all()
        assert not wrapped.defer(usual).all()
        assert answers["accepted"].to_list() == (~said["defer"]).tolist()


def test_without_chances_the_cells_are_missing():
    wrapped = fitted(SVC())
    asked = changed()
    gaps = asked.with_columns(
        age=pl.Series([None] * 3 + [float(age) for age in asked["age"][3:]]),
        pulse=pl.Series([70.0, None, 80.0, 80.0, None, 90.0]),
    )
    assert (
        quietly(wrapped, "predict", asked)[[0, 1, 2, 4, 5]].tolist()
        == quietly(wrapped, "predict", gaps)[[0, 1, 2, 4, 5]].tolist()
    )
    assert wrapped.familiarity(asked).n_unfamiliar == 5
    assert not hasattr(wrapped, "predict_proba")


def test_a_warning_a_call():
    wrapped = fitted(loyalty())
    for name in ("predict", "predict_proba", "predict_loyalty", "loyalty_score"):
        with pytest.warns(
            UnfamiliarWarning, match=r"5 of 6 rows have cells unlike .*Column 'age'.*`familiarity`"
        ) as told:
            getattr(wrapped, name)(changed())
        assert len(told) == 1
        assert told[0].filename == __file__
    wrapped.predict(patients(40, 1)[0])  # warnings are errors
    wrapped.answers(changed())  # returns what it found
    wrapped.transform(changed())


def test_a_shifted_column_is_warned_of():
    wrapped = fitted(loyalty())
    older = patients(60, 2)[0].with_columns(age=pl.col("age").clip(56, 66))
    (shift,) = wrapped.familiarity(older).shifts
    assert shift.column == "age"
    with pytest.warns(UnfamiliarWarning, match=r"0 of 60 rows .*Column 'age' has shifted since training: mean"):
        wrapped.predict(older)
    assert wrapped.familiarity(patients(60, 2)[0]).shifts == []


@settings(max_examples=25)
@given(cuts=st.lists(st.integers(0, 60), max_size=4))
def test_parts_are_the_whole(cuts):
    fitted = model("table")
    odd = table()[:60].with_columns(
        sepal=pl.Series(["tall", "77"] + ["5"] * 58), site=pl.Series(["a"] * 30 + ["z"] * 10 + [None] * 20)
    )
    whole = fitted.familiarity(odd)
    added = Familiarity()
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), 60], strict=True):
        added += fitted.familiarity(odd[start:stop])
    assert added.cells.equals(whole.cells)
    assert added.notes().equals(whole.notes())
    assert added.sentences() == whole.sentences()
    assert added.as_dict() == added.counted().as_dict() == whole.as_dict()


def test_every_role():
    fitted = model("table")
    odd = table()[:20].with_columns(
        site=pl.Series(["new"] * 3 + ["a"] * 17),  # category
        sepal=pl.Series(["tall"] * 2 + ["5"] * 18),  # number
        grade=pl.Series([None] + ["9"] * 4 + ["1"] * 15),  # code
        day=pl.Series(["1999-01-01"] + ["2024-05-05"] * 18 + ["soon"]),
        note=pl.Series(["nothing known here"] + [None] + ["small river"] * 18),
        id=pl.Series(["whatever"] * 20),  # not used
    )
    found = fitted.familiarity(odd)
    assert {name: rows.tolist() for name, rows in found.rows.items()} == {
        "site": [0, 1, 2],
        "sepal": [0, 1],
        "grade": [0, 1, 2, 3, 4],
        "day": [0, 19],
        "note": [0, 1],
    }
    assert fitted.familiarity(table()).n_unfamiliar == 0
    assert len(quietly(fitted, "predict", odd)) == 20


def test_training_is_familiar_in_rare_values_too():
    """Values that share the column "other" keep their names."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"x": rng.normal(size=300), "place": [f"p{k}" for k in rng.geometric(0.1, 300)]})
    wrapped = TableClassifier(LogisticRegression(), most_categories=3).fit(frame, frame["x"].to_numpy() > 0)
    assert wrapped.columns_[1].has_other
    assert wrapped.familiarity(frame).n_unfamiliar == 0
    assert wrapped.familiarity(frame[:1].with_columns(place=pl.lit("nowhere"))).n_unfamiliar == 1


def test_a_model_of_an_earlier_version_answers_as_it_did():
    wrapped = fitted(LogisticRegression(max_iter=1000))
    state = wrapped._get_state()
    del state["seen_"]
    old = TableClassifier()
    old._set_state(state)
    found = old.familiarity(changed())
    assert (found.n_unfamiliar, found.sentences()) == (0, [])
    assert "unfamiliar" not in old.answers(changed())[0].columns
    far = old.predict_proba(changed()[:1])
    np.testing.assert_array_equal(far, wrapped.estimator_.predict_proba(old.transform(changed()[:1])))
    assert "seen_" not in old._get_state()


def test_many_unknown_rows_are_answered_in_pieces(monkeypatch):
    from multiform.tables import _familiarity

    wrapped = fitted(LogisticRegression(max_iter=1000))
    odd = patients(100, 3)[0].with_columns(age=pl.lit(999.0), sex=pl.lit("x"))
    at_once = quietly(wrapped, "predict_proba", odd)
    monkeypatch.setattr(_familiarity, "MOST_CELLS", 16 * 4 * 7)
    np.testing.assert_allclose(quietly(wrapped, "predict_proba", odd), at_once)


def test_a_report_of_an_odd_table():
    """Rows are numbered, baselines read both tables alike, and the page says what is odd."""
    pytest.importorskip("jinja2")
    frame, y = patients(200)
    wrapped = TableClassifier(loyalty()).fit(frame, y)
    asked = frame[:40].with_columns(age=pl.Series(["old", "540", *frame["age"][2:40].cast(str)])).to_pandas()
    asked.index = [f"patient {row}" for row in range(40)]
    page = multiform.report(wrapped, asked, y[:40], X_train=frame, y_train=y)
    assert "2 of 40 rows have a cell that is unlike the training table" in page.html
    assert '<td data-label="Row">2</td><td data-label="Column">age</td>' in page.html
    assert "patient 1" not in page.html
    assert page.figures["baselines"]["logistic regression"] > 0.5
