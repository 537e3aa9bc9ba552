"""What models say of themselves is true: tables with repeated rows, weights, discrete columns.

The minimal cases are those of the issue that found folds by content; benchmarks/honesty.py has the statistics.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import honesty
from multiform import LoyaltyClassifier, QMSClassifier, QMSClassifierCV
from multiform.folds import RepeatedRowsWarning

ROWS = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])


@pytest.fixture(scope="module")
def repeated():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (1000, 2)).astype(float)
    return X, rng.random(1000) < 0.2 + 0.6 * X[:, 0]


@pytest.mark.parametrize(("n", "unseen"), [(200, 200), (1_200, 300), (4_000, 1_000)])
def test_a_classifier_knows_how_good_it_is_on_new_samples(n, unseen):
    def drawn(n, seed):
        random = np.random.default_rng(seed)
        X = random.standard_normal((n, 6))
        return X, X[:, 0] + X[:, 1] * X[:, 2] + random.standard_normal(n) > 0

    fresh = drawn(5_000, 1_000)
    models = [QMSClassifier(random_state=seed).fit(*drawn(n, seed)) for seed in range(6)]
    assert {model.oof_samples_ for model in models} == {unseen}
    gap = np.mean([model.oof_accuracy_ - model.score(*fresh) for model in models])
    assert abs(gap) < 3 * np.sqrt(0.25 / (len(models) * unseen)) + 0.01
    models[0].partial_fit(*drawn(100, 50))
    assert not hasattr(models[0], "oof_accuracy_")
    assert not hasattr(QMSClassifier(calibrate=False).fit(*drawn(100, 0)), "oof_samples_")


def test_chances_on_four_distinct_rows(repeated):
    for model in (QMSClassifier(random_state=0), QMSClassifierCV(random_state=0), LoyaltyClassifier(random_state=0)):
        chances = model.fit(*repeated).predict_proba(ROWS)[:, 1]
        np.testing.assert_allclose(chances, [0.2, 0.2, 0.8, 0.8], atol=0.09)


def test_estimates_on_four_distinct_rows(repeated):
    assert QMSClassifier(random_state=0).fit(*repeated).oof_accuracy_ == pytest.approx(0.8, abs=0.06)  # of 250 samples
    assert QMSClassifierCV(random_state=0).fit(*repeated).oof_accuracy_ == pytest.approx(0.8, abs=0.03)
    table = LoyaltyClassifier(random_state=0).fit(*repeated).loyalty_table_
    assert table.overall_accuracy == pytest.approx(0.8, abs=0.03)


@settings(max_examples=4, derandomize=True)
@given(st.lists(st.floats(0.03, 0.97), min_size=4, max_size=4), st.integers(0, 1000))
def test_chances_on_discrete_rows_converge_to_the_shares(shares, seed):
    """f_k = p_k^(-1/2) minimises the ratio loss at alpha 0, so that f^(-1/T) with T = 1/2 is the share."""
    rng = np.random.default_rng(seed)
    which = rng.integers(4, size=12_000)
    y = rng.random(12_000) < np.array(shares)[which]
    for model in (QMSClassifier(alpha=0.0, noise=0.0), QMSClassifierCV(), LoyaltyClassifier()):
        model.set_params(random_state=0)
        few = np.abs(model.fit(ROWS[which[:200]], y[:200]).predict_proba(ROWS)[:, 1] - shares)
        many = np.abs(model.fit(ROWS[which], y).predict_proba(ROWS)[:, 1] - shares)
        assert many.mean() < 0.04, model
        assert many.mean() < few.mean() + 0.01, model


def test_the_ratio_loss_is_proper_without_alpha():
    """A restatement: sum_k p_k sum_j f_k / f_j is least at f_k = p_k^(-1/2), whatever p."""
    rng = np.random.default_rng(0)

    def loss(p, f):
        ratio = f[:, None] / f[None, :]
        return p @ (ratio.sum(axis=1) - 1)

    for m in (2, 3, 6):
        p = rng.dirichlet(np.ones(m))
        best = p**-0.5
        others = best * np.exp(rng.normal(size=(200, m)) * rng.choice([0.01, 0.3, 2.0], size=(200, 1)))
        assert all(loss(p, best) <= loss(p, other) + 1e-12 for other in others)


# ------------------------------------------------------------------------------------------------------- weights


def _mean_chance(model, X, y, weight, X_new, repeat):
    """Over many seeds: the mean chance of the second class, and its standard error."""
    means = []
    for seed in range(24):
        model.set_params(random_state=seed)
        if repeat:
            model.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
        else:
            model.fit(X, y, sample_weight=weight)
        means.append(model.predict_proba(X_new)[:, 1])
    return np.mean(means, axis=0), np.std(means, axis=0) / np.sqrt(len(means) - 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [QMSClassifier(), QMSClassifierCV(), LoyaltyClassifier()], ids=lambda model: type(model).__name__
)
@pytest.mark.parametrize("columns", ["discrete", "continuous"])
@pytest.mark.filterwarnings("ignore::multiform.folds.RepeatedRowsWarning")
def test_weight_2_and_a_repeated_row_agree_in_distribution(model, columns):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (300, 3)).astype(float) if columns == "discrete" else rng.normal(size=(300, 3))
    y = (rng.random(300) < 1 / (1 + np.exp(-2 * X[:, 0] + X[:, 1]))).astype(int)
    weight = rng.integers(1, 4, size=300)
    X_new = X[:50]
    weighted, error = _mean_chance(model, X, y, weight, X_new, repeat=False)
    repeated, error_too = _mean_chance(model, X, y, weight, X_new, repeat=True)
    scatter = np.hypot(error, error_too).mean()
    assert scatter < 0.02  # else the next line would say nothing
    assert np.abs(weighted - repeated).mean() < 3 * scatter


def test_a_table_of_counts_is_judged_as_its_rows():
    """Eight rows with their counts are a thousand rows. Held out whole, a row would meet the other label only."""
    X = np.repeat([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], 2, axis=0)
    y, counts = np.tile([0, 1], 4), np.array([200, 50, 196, 49, 52, 208, 49, 196])
    for model in (QMSClassifierCV(random_state=0), LoyaltyClassifier(random_state=0)):
        model.fit(X, y, sample_weight=counts)
        said = model.oof_accuracy_ if isinstance(model, QMSClassifierCV) else model.loyalty_table_.overall_accuracy
        assert said == pytest.approx(0.8, abs=0.01)
    for model in (QMSClassifier(), QMSClassifierCV(), LoyaltyClassifier()):
        chances = model.set_params(random_state=0).fit(X, y, sample_weight=counts).predict_proba(X)
        np.testing.assert_allclose(chances[:, 1], np.repeat([0.2, 0.2, 0.8, 0.8], 2), atol=0.09)


def test_weights_of_a_sample_with_a_group_of_its_own_stay_together():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.integers(2, size=60)
    weight = rng.integers(1, 4, size=60)
    with pytest.warns(RepeatedRowsWarning, match="give each sample a group of its own"):
        leaky = QMSClassifierCV(noise=[0.01], random_state=0).fit(X, y, weight)
    sound = QMSClassifierCV(noise=[0.01], random_state=0).fit(X, y, weight, groups=np.arange(60))
    assert leaky.oof_accuracy_ > sound.oof_accuracy_ + 0.1  # the labels are noise


@pytest.mark.parametrize("cv", [3, "splits"])
def test_weight_0_is_removal(cv):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y, used = (X[:, 0] > 0).astype(int), np.arange(80) % 4 > 0
    X_junk = np.where(used[:, None], X, 1e6)
    groups = np.arange(80) // 2
    given = [(np.flatnonzero(groups % 3 != k), np.flatnonzero(groups % 3 == k)) for k in range(3)]
    place = np.cumsum(used) - 1
    kept = [(place[train[used[train]]], place[test[used[test]]]) for train, test in given]
    for kind in (QMSClassifierCV, LoyaltyClassifier):
        zero = kind(cv=3 if cv == 3 else given, random_state=0)
        gone = kind(cv=3 if cv == 3 else kept, random_state=0)
        zero.fit(X_junk, y, sample_weight=used * 1.0, groups=groups)
        gone.fit(X[used], y[used], sample_weight=np.ones(used.sum()), groups=groups[used])
        np.testing.assert_array_equal(zero.predict_proba(X), gone.predict_proba(X))


# ---------------------------------------------------------------------------------------------------- statistics


@pytest.mark.slow
@pytest.mark.parametrize("name", honesty.ESTIMATORS)
def test_estimates_are_true_in_the_mean(name):
    """240 tables of six kinds: mean of (estimated - actual) within two standard errors and one point."""
    seed, most = (0, 1_000) if name == "DiagnosisPlanner" else (61, 5_000)
    rows = [
        row
        for kind in honesty.KINDS
        for number in range(40)
        for row in honesty.one_table(kind, number, seed, [name], most)
    ]
    found = {what: (mean, error) for _, what, kind, _, mean, error in honesty.summary(rows) if kind == "all"}
    assert "chance" in found
    for what, (mean, error) in found.items():
        assert abs(mean) <= min(1, 2 * error), (what, mean, error)
