"""What the pictures show is what the metrics count; where they are drawn is up to the caller."""

import builtins

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from multiform.displays import ConfusionTensorDisplay, LoyaltyDisplay, RiskCoverageDisplay
from multiform.metrics import LoyaltyTable, aurc, confusion_tensor, loyalty_table, risk_coverage_curve

plt = pytest.importorskip("matplotlib.pyplot")

TRUE = np.array(["cat", "cat", "dog", "dog", "dog", "cow"])
PRED = np.array(["cat", "dog", "dog", "dog", "cat", "cow"])
TYPES = np.array(["strong", "weak", "strong", "strong", "normal", "normal"])
TRUST = np.array([0.9, 0.3, 0.8, 0.8, 0.5, 0.6])


@pytest.fixture(autouse=True)
def close_figures():
    plt.switch_backend("agg")
    yield
    plt.close("all")


class Loyal(ClassifierMixin, BaseEstimator):
    """Knows the six samples above by their number."""

    loyalty_table_ = LoyaltyTable(("strong", "normal", "weak"), np.array([60, 30, 10]), np.array([57, 21, 5]))

    def predict(self, X):
        return PRED[X]

    def predict_loyalty(self, X):
        return TYPES[X]

    def loyalty_score(self, X):
        return TRUST[X]


ROWS = np.arange(6)


def test_tensor_layers_are_drawn_in_order():
    display = ConfusionTensorDisplay.from_predictions(TRUE, PRED, TYPES)
    np.testing.assert_array_equal(display.tensor, confusion_tensor(TRUE, PRED, TYPES))
    assert [axis.get_title() for axis in display.axes_] == [
        "strong (sure)\n3 rows, 100.0% right",
        "normal (usual)\n2 rows, 50.0% right",
        "weak (unsure)\n1 rows, 0.0% right",
    ]
    assert display.ax_ is display.axes_[0]
    assert display.figure_ is display.ax_.figure
    assert [tick.get_text() for tick in display.ax_.get_xticklabels()] == ["cat", "cow", "dog"]
    assert display.ax_.get_ylabel() == "True label"


def test_tensor_cells_hold_counts_and_row_shares():
    display = ConfusionTensorDisplay.from_predictions(TRUE, PRED, TYPES)
    for index, count in np.ndenumerate(display.tensor):
        text = display.text_[index]
        assert (text is None) if count == 0 else (text.get_text() == str(count))
    strong = np.asarray(display.axes_[0].images[0].get_array())
    np.testing.assert_allclose(strong, [[1, 0, 0], [0, 0, 0], [0, 0, 1]])  # no cow is strong


def test_tensor_texts_contrast_with_their_cells():
    display = ConfusionTensorDisplay.from_predictions(TRUE, PRED, TYPES)
    image = display.axes_[0].images[0]
    for (_, i, j), text in np.ndenumerate(display.text_):
        if text is not None and text.axes is display.axes_[0]:
            red, green, blue, _ = image.cmap(image.norm(image.get_array()[i, j]))
            bright = 0.299 * red + 0.587 * green + 0.114 * blue
            assert abs(bright - (text.get_color() == "white")) > 0.4


def test_tensor_weights_and_many_classes():
    display = ConfusionTensorDisplay.from_predictions(TRUE, PRED, TYPES, sample_weight=np.full(6, 0.5))
    assert display.text_[0, 2, 2].get_text() == "1"
    many = ConfusionTensorDisplay(np.ones((3, 25, 25), dtype=int)).plot()
    assert many.text_ is None


def test_tensor_on_given_axes():
    figure, axes = plt.subplots(3, 1)
    display = ConfusionTensorDisplay.from_estimator(Loyal(), ROWS, TRUE, ax=axes, colorbar=False)
    assert display.figure_ is figure
    assert len(figure.axes) == 3
    with pytest.raises(ValueError, match="one Axes per layer, 3; got 2"):
        display.plot(ax=axes[:2])


def test_curve_is_the_metric():
    display = RiskCoverageDisplay.from_predictions(TRUE, PRED, TRUST, name="pets")
    coverage, risk, _ = risk_coverage_curve(TRUE, PRED, TRUST)
    np.testing.assert_array_equal(display.line_.get_xdata(), coverage)
    np.testing.assert_array_equal(display.line_.get_ydata(), risk)
    label = display.ax_.get_legend().get_texts()[0].get_text()
    assert label == f"pets (AURC = {aurc(TRUE, PRED, TRUST):.4f})"


def test_curves_share_axes_without_hiding_or_matching_each_other():
    first = RiskCoverageDisplay.from_predictions(TRUE, TRUE, TRUST, name="right")
    second = RiskCoverageDisplay.from_predictions(TRUE, PRED, TRUST, name="less so", ax=first.ax_)
    third = RiskCoverageDisplay.from_predictions(TRUE, PRED[::-1], TRUST, name="bad", ax=first.ax_)
    looks = {(d.line_.get_color(), d.line_.get_linestyle()) for d in (first, second, third)}
    assert len(looks) == 3
    assert first.ax_.get_ylim()[1] >= third.risk.max()
    assert first.ax_.get_ylim()[0] == 0
    assert len(first.ax_.get_legend().get_texts()) == 3


def test_curve_marks_the_target():
    display = RiskCoverageDisplay.from_predictions(TRUE, PRED, TRUST, target_accuracy=0.8)
    mark = display.ax_.lines[-1]
    # Errors come at the fifth and sixth sample: 4 of 6 without one, then 1/5 = 0.2 is still allowed.
    assert mark.get_xdata()[0] == pytest.approx(5 / 6)
    assert display.ax_.texts[0].get_text() == "accuracy 0.8 up to a coverage of 0.833"
    missed = RiskCoverageDisplay.from_predictions(["a"], ["b"], [1.0], target_accuracy=0.8)
    assert missed.ax_.texts[0].get_text() == "accuracy 0.8: not reached"


def test_curve_of_an_estimator():
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=1000).fit(X, y)
    display = RiskCoverageDisplay.from_estimator(model, X, y)
    assert display.name == "LogisticRegression"
    expected = risk_coverage_curve(y, model.predict(X), model.predict_proba(X).max(axis=1))
    np.testing.assert_array_equal(display.risk, expected[1])


def heights(axis):
    return np.array([[bar.get_height() for bar in group] for group in axis.containers])


def test_loyalty_bars_estimated_beside_actual():
    display = LoyaltyDisplay.from_estimator(Loyal(), ROWS, TRUE)
    actual = loyalty_table(TRUE, PRED, TYPES)
    shares, accuracies = map(heights, display.axes_)
    np.testing.assert_allclose(shares, [[0.6, 0.3, 0.1], actual.share])
    np.testing.assert_allclose(accuracies, [[0.95, 0.7, 0.5], actual.accuracy])
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert legend == ["estimated", "actual"]


def test_loyalty_bars_alone_and_with_an_empty_type():
    display = LoyaltyDisplay.from_predictions(TRUE[:1], PRED[:1], TYPES[:1])
    assert heights(display.axes_[1]).tolist() == [[1, 0, 0]]
    assert [text.get_text() for text in display.axes_[1].texts] == ["100.0%", "none", "none"]
    assert display.ax_.get_legend() is None


def test_loyalty_tables_must_match():
    other = LoyaltyTable(("good", "bad"), np.array([1, 1]), np.array([1, 0]))
    with pytest.raises(ValueError, match="tables of the same loyalty types"):
        LoyaltyDisplay(loyalty_table(TRUE, PRED, TYPES), estimated=other).plot()
    with pytest.raises(ValueError, match="must hold two Axes"):
        LoyaltyDisplay(other).plot(ax=plt.subplots()[1])


def test_finer_types_follow_the_estimate():
    levels = ("sure", "fair", "poor", "none")
    estimated = LoyaltyTable(levels, np.array([4, 3, 2, 1]), np.array([4, 2, 1, 0]))
    display = LoyaltyDisplay.from_predictions([0, 1], [0, 0], ["sure", "none"], estimated=estimated)
    assert display.actual.levels == levels


@pytest.mark.parametrize(
    "display",
    [
        ConfusionTensorDisplay(np.ones((3, 2, 2), dtype=int)),
        RiskCoverageDisplay(np.array([1.0]), np.array([0.5])),
        LoyaltyDisplay(loyalty_table(TRUE, PRED, TYPES)),
    ],
)
def test_without_matplotlib_the_extra_is_named(display, monkeypatch):
    real_import = builtins.__import__

    def no_matplotlib(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_matplotlib)
    name = type(display).__name__
    with pytest.raises(ImportError, match=rf'{name}.plot needs matplotlib.*"multiform\[plots\]"'):
        display.plot()
