"""A classifier from given separators."""

import numpy as np
import pytest

from multiform import QMSClassifier

A = np.array([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [0.0, 2.0]]])
B = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 8.0]])


def test_it_is_the_formula():
    """Circles round (0, 0), (4, 0) and (0, 4), the last one twice as steep."""
    model = QMSClassifier.from_separators(A, B, ["a", "b", "c"])
    X = np.array([[1.0, 1.0], [3.0, 0.5], [0.0, 3.5]])
    expected = [[2, 10, 4 * (1 + 9)], [9.25, 1.25, 4 * (9 + 12.25)], [12.25, 16 + 12.25, 1]]
    np.testing.assert_allclose(model.member_values(X), expected)
    np.testing.assert_allclose(model.member_values(X.astype(np.float32)), expected, rtol=1e-5)
    assert list(model.predict(X)) == ["a", "b", "c"]
    np.testing.assert_allclose(model.decision_function(X), -np.log(expected))


def test_temperature_and_names():
    pandas = pytest.importorskip("pandas")
    model = QMSClassifier.from_separators(A, B, [0, 1, 2], feature_names=["u", "v"], temperature=2.0)
    frame = pandas.DataFrame({"u": [1.0, 2.0], "v": [0.0, 1.0]})
    f = model.member_values(frame)
    np.testing.assert_allclose(model.predict_proba(frame), f**-0.5 / (f**-0.5).sum(axis=1, keepdims=True))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[["v", "u"]])


def test_round_trip_of_a_fitted_model(blobs):
    X, y = blobs
    model = QMSClassifier(random_state=0).fit(X, y)
    again = QMSClassifier.from_separators(
        model.components_, model.offsets_, model.classes_, temperature=model.temperature_
    )
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), rtol=1e-6)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("arguments", "keywords", "message"),
    [
        ((A[0], B, [0, 1, 2]), {}, r"components must have the shape \(m, q, p\) and offsets \(m, q\)"),
        ((A, B[:, :1], [0, 1, 2]), {}, r"and offsets \(m, q\); got \(3, 2, 2\) and \(3, 1\)"),
        ((A, B, [0, 1]), {}, "classes must name each of the 3 separators"),
        ((A[:1], B[:1], [0]), {}, "at least 2"),
        ((A, B, [0, 0, 1]), {}, "classes must be sorted and distinct"),
        ((A, B, [2, 1, 0]), {}, "classes must be sorted and distinct"),
        ((A * np.nan, B, [0, 1, 2]), {}, "components and offsets must be finite"),
        ((A, B, [0, 1, 2]), {"temperature": 0.0}, "temperature must be greater than 0; got 0.0"),
    ],
)
def test_what_is_refused(arguments, keywords, message):
    with pytest.raises(ValueError, match=message):
        QMSClassifier.from_separators(*arguments, **keywords)
