"""Sensitivity and its like, areas, calibration and paired differences, against scikit-learn, SciPy and counting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, norm
from sklearn.metrics import average_precision_score, confusion_matrix, log_loss, roc_auc_score

from multiform.metrics import (
    calibration,
    compare_answers,
    one_against_rest,
    pr_auc,
    proportion,
    roc_auc,
    threshold_table,
)


@given(st.integers(1, 200), st.data())
def test_a_share_has_the_interval_of_scipy(n, data):
    k = data.draw(st.integers(0, n))
    expected = binomtest(k, n).proportion_ci(0.95, method="wilson")
    assert proportion(k, n) == pytest.approx((k / n, expected.low, expected.high), abs=1e-12)


def test_nothing_has_no_share():
    assert proportion(0, 0) is None
    found = one_against_rest(np.zeros(4, dtype=bool), np.zeros(4, dtype=bool))
    assert found["sensitivity"] is None
    assert found["ppv"] is None
    assert found["specificity"].value == found["npv"].value == 1.0


def drawn(n=400, share=0.3, apart=1.0, seed=0, digits=1):
    random = np.random.default_rng(seed)
    own = random.random(n) < share
    return own, norm.cdf(random.normal(size=n) + apart * own).round(digits)


def test_figures_are_those_of_scikit_learn():
    own, chance = drawn()
    (spared, alarms), (missed, found) = confusion_matrix(own, chance >= 0.6)
    figures = one_against_rest(own, chance >= 0.6)
    assert figures["sensitivity"].value == found / (found + missed)
    assert figures["specificity"].value == spared / (spared + alarms)
    assert figures["ppv"].value == found / (found + alarms)
    assert figures["npv"].value == spared / (spared + missed)
    assert roc_auc(own, chance).value == pytest.approx(roc_auc_score(own, chance))
    assert pr_auc(own, chance).value == pytest.approx(average_precision_score(own, chance))


def test_areas_of_one_kind_of_row_do_not_exist():
    assert roc_auc(np.ones(3, dtype=bool), np.arange(3.0)) is None
    assert pr_auc(np.zeros(3, dtype=bool), np.arange(3.0)) is None


def test_delong_variance_is_that_of_the_definition():
    """Var A = s10^2 / n1 + s01^2 / n0, over the shares of pairs in the right order, pair by pair."""
    own, chance = drawn(60)
    pairs = chance[own][:, None] - chance[~own][None]
    right = (pairs > 0) + (pairs == 0) / 2
    variance = right.mean(axis=1).var() / own.sum() + right.mean(axis=0).var() / (~own).sum()
    area, low, high = roc_auc(own, chance)
    n = area * (1 - area) / variance
    middle = (area + 1.96**2 / 2 / n) / (1 + 1.96**2 / n)
    assert (low + high) / 2 == pytest.approx(middle, abs=1e-4)
    assert high - low < 5 * np.sqrt(variance)


def test_classes_that_are_parted_wholly_are_not_certain():
    own = np.arange(20) < 10
    area = roc_auc(own, own.astype(float))
    assert area[::2] == pytest.approx((1.0, 1.0))
    assert 0.6 < area.low < 0.8  # ten rows of each


@pytest.mark.slow
@pytest.mark.parametrize(("n", "share", "apart"), [(60, 0.3, 1.0), (60, 0.5, 4.0), (300, 0.1, 1.5), (2000, 0.05, 1.0)])
def test_intervals_hold_the_truth(n, share, apart):
    truth = norm.cdf(apart / np.sqrt(2))
    precision = pr_auc(*drawn(400_000, share, apart, seed=1, digits=9)).value
    areas, precisions = [], []
    for seed in range(1000):
        found = drawn(n, share, apart, seed=seed + 2, digits=9)
        area, average = roc_auc(*found), pr_auc(*found)
        areas.append(area.low <= truth <= area.high)
        precisions.append(average.low <= precision <= average.high)
    assert np.mean(areas) > 0.91
    assert np.mean(precisions) > 0.92


def test_thresholds():
    own, chance = drawn()
    rows = threshold_table(own, chance, [0.25], cost_of_miss=4)
    assert [row["threshold"] for row in rows] == [0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    called = [row["called"] for row in rows]
    assert called == sorted(called, reverse=True)
    row = rows[5]
    assert row["called"] == (chance >= 0.25).sum()
    assert row["cost"] == pytest.approx(100 * np.mean(np.where(own, 4 * (chance < 0.25), chance >= 0.25)))


def test_calibration_counts_every_row_once():
    own, chance = drawn(digits=6)
    groups = calibration(own, chance)
    assert len(groups) == 10
    assert sum(group["rows"] for group in groups) == len(own)
    assert sum(group["rows"] * group["share"].value for group in groups) == pytest.approx(own.sum())
    assert sum(group["rows"] * group["chance"] for group in groups) == pytest.approx(chance.sum())
    (single,) = calibration(own, np.full(len(own), 0.4))
    assert single["rows"] == len(own)


def test_two_classifiers_that_are_the_same():
    own, chance = drawn()
    chances = np.column_stack([1 - chance, chance])
    said = (chance > 0.5).astype(int)
    found = compare_answers(own.astype(int), (said, said), (chances, chances))
    assert found["p_value"] == 1.0
    for name in ("accuracy", "log_loss", "roc_auc"):
        value, low, high = found[name]["difference"]
        assert value == 0
        assert low <= 0 <= high
    assert found["accuracy"]["difference"].high > 0  # rows that were not seen may differ


def test_paired_differences():
    own, chance = drawn(seed=3)
    _, other = drawn(seed=3, apart=0.4)
    truth = own.astype(int)
    said = tuple((one > 0.5).astype(int) for one in (chance, other))
    chances = tuple(np.column_stack([1 - one, one]).clip(0.001, 0.999) for one in (chance, other))
    found = compare_answers(truth, said, chances)
    gain = np.mean(said[1] == truth) - np.mean(said[0] == truth)
    assert found["accuracy"]["difference"].value == pytest.approx(gain)
    assert found["accuracy"]["difference"].low < gain < found["accuracy"]["difference"].high
    losses = [log_loss(truth, one) for one in chances]
    assert found["log_loss"]["difference"].value == pytest.approx(losses[1] - losses[0])
    areas = [roc_auc_score(own, one[:, 1]) for one in chances]
    assert found["roc_auc"]["difference"].value == pytest.approx(areas[1] - areas[0])
    rows = found["rows"]
    assert sum(rows.values()) == len(own)
    assert found["p_value"] == binomtest(rows["only_first"], rows["only_first"] + rows["only_second"]).pvalue


def test_the_area_of_many_classes_is_the_mean_over_each_against_the_rest():
    random = np.random.default_rng(0)
    truth = random.integers(0, 3, 300)
    chances = random.dirichlet([1, 1, 1], 300) + np.eye(3)[truth] / 2
    chances /= chances.sum(axis=1, keepdims=True)
    found = compare_answers(truth, (truth, truth), (chances, chances))["roc_auc"]
    assert found["first"] == pytest.approx(roc_auc_score(truth, chances, multi_class="ovr"))


@pytest.mark.slow
def test_paired_intervals_hold_the_truth():
    """Two noisy views of the same rows: differences of accuracy and area, which are known."""
    truths = norm.cdf(0.5) - norm.cdf(0.4), norm.cdf(1 / np.sqrt(2)) - norm.cdf(0.8 / np.sqrt(2))
    held = []
    for seed in range(1000):
        random = np.random.default_rng(seed)
        own, common = random.integers(0, 2, 300), random.normal(size=300)
        views = [
            apart * (own - 0.5) + np.sqrt(0.7) * common + np.sqrt(0.3) * random.normal(size=300) for apart in (0.8, 1.0)
        ]
        chances = tuple(np.column_stack([1 - norm.cdf(one), norm.cdf(one)]) for one in views)
        found = compare_answers(own, tuple((one > 0).astype(int) for one in views), chances)
        gains = found["accuracy"]["difference"], found["roc_auc"]["difference"]
        held.append([low <= truth <= high for truth, (_, low, high) in zip(truths, gains, strict=True)])
    assert (np.mean(held, axis=0) > 0.93).all()
