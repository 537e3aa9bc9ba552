"""Trust, regret and doubt, each against its definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit
from scipy.stats import norm

from multiform.diagnosis._judge import (
    NOBODY_STOPS,
    Judge,
    calibrated,
    expected_regret,
    fit_correction,
    fit_law,
    fit_sharpness,
    fit_trust,
    regret,
    suffices,
)
from multiform.diagnosis._search import unpack


class Recorded:
    """Models that answer what was written down: log odds that grow with S, and noise that shrinks."""

    def __init__(self, n=40, n_tests=9):
        rng = np.random.default_rng(0)

        self.target, self.n_classes = rng.integers(0, 2, n).astype(np.int32), 2
        self.fold, self.n_folds = np.arange(n) % 3, 3
        self._sign, self._n_sets = rng.normal(size=n), 1 << n_tests

    def fit(self, sets):
        pass

    def unseen(self, tests):
        share = (tests + 1) / self._n_sets
        odds = 3 * share * self._sign + (1 - share) * np.random.default_rng(tests).normal(size=len(self._sign))
        return np.column_stack([-odds / 2, odds / 2]).astype(np.float32)


@pytest.fixture
def judge():
    models = Recorded()
    return Judge.learnt(models, "regret", 511, [1, 37, 200])


@given(st.floats(0, 8), st.floats(0, 3), st.floats(0.05, 4))
def test_regret_is_the_expected_gain(sureness, slope, spread):
    expected, _ = quad(
        lambda z: max(0.0, np.tanh(-(slope * sureness + spread * z) / 2)) * norm.pdf(z), -9, 0, limit=200
    )
    assert expected_regret(np.array([sureness]), slope, spread)[0] == pytest.approx(expected, abs=2e-4)


def test_what_full_evidence_cannot_change_is_not_regretted():
    assert expected_regret(np.array([0.5]), 1.0, 0.0)[0] == 0
    unsure_but_settled, sure_but_open = (
        expected_regret(np.array([0.5]), 1.0, 0.1),
        expected_regret(np.array([2.0]), 1.0, 3.0),
    )
    assert unsure_but_settled[0] < 1e-5 < sure_but_open[0]


def test_sharpness_minimises_the_penalised_log_loss():
    rng = np.random.default_rng(0)
    odds = rng.normal(0, 2, 300)
    target = (rng.random(300) < expit(1.7 * odds)).astype(np.int32)
    scores = np.column_stack([-odds / 2, odds / 2]).astype(np.float32)

    def loss(log_a, pull):
        signed = np.where(target == 1, odds, -odds)
        return np.log1p(np.exp(-np.exp(log_a) * signed)).sum() + pull / 2 * (log_a + 1) ** 2

    for pull in (0.0, 10.0, 1000.0):
        best = minimize_scalar(loss, bounds=(-3, 3), args=(pull,), method="bounded").x
        assert fit_sharpness(scores[None], target, -1.0, pull)[0] == pytest.approx(best, abs=0.01)


def test_slope_and_spread_of_what_is_to_come():
    """Full evidence is as sure as the set, plus noise of standard deviation 0.5."""
    rng = np.random.default_rng(0)
    odds = rng.normal(0, 2, 4000)
    later = odds + rng.normal(0, 0.5, 4000)
    target = (rng.random(4000) < expit(later)).astype(np.int32)
    scores = np.column_stack([-odds / 2, odds / 2]).astype(np.float32)
    full = np.column_stack([expit(-later), expit(later)])
    [(sharpness, slope, spread, *_, narrowing)] = fit_trust(scores[None], full, target, 0.0)
    assert narrowing == pytest.approx(0, abs=0.05)
    assert sharpness == pytest.approx(1, abs=0.1)
    assert slope == pytest.approx(1, abs=0.1)
    assert spread == pytest.approx(0.5, abs=0.05)


def test_what_is_to_come_narrows_for_those_who_are_sure():
    """Of two kinds of patients the set tells one nearly everything and the other nothing; the law knows it of both."""
    rng = np.random.default_rng(0)
    sure = np.repeat([0.2, 4.0], 500) + rng.normal(0, 0.1, 1000)
    later = np.where(sure > 2, sure + rng.normal(0, 0.3, 1000), rng.normal(0, 4.0, 1000))
    (slope,), (spread,), (narrowing,) = fit_law(sure[None], later[None])
    assert slope == pytest.approx(1, abs=0.05)
    assert spread * np.exp(-narrowing * 0.2) == pytest.approx(4, rel=0.1)
    assert spread * np.exp(-narrowing * 4.0) == pytest.approx(0.3, rel=0.1)


def test_the_correction_minimises_the_penalised_deviance():
    """Poisson's quasi-likelihood of what was forgone, with stretch drawn to 1 and the shifts to 0."""
    rng = np.random.default_rng(0)
    normal, answer = rng.uniform(1e-4, 0.3, 500), rng.integers(0, 2, 500)
    forgone = np.where(rng.random(500) < 3 * normal**0.7 * np.where(answer, 0.5, 0.2), rng.random(500), 0.0)

    def loss(one):
        expected = 0.01 * (normal / 0.01) ** one[0] * np.exp(one[1 + answer])
        deviance = (expected - forgone * np.log(expected)).sum()
        return deviance + 5.0 * (one[0] - 1) ** 2 + 2.0 * (one[1:] ** 2).sum()

    [found] = fit_correction(normal[None], answer[None], forgone[None], 2)
    best = minimize(loss, [1.0, 0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9}).x
    np.testing.assert_allclose(found, best, atol=0.01)


def test_corrected_regrets_are_what_is_forgone():
    """All say the same at first, a tenth of them wrongly: the normal law fails, and the mean is right all the same."""
    rng = np.random.default_rng(0)
    target = (rng.random(3000) < 0.1).astype(np.int32)
    odds = rng.normal(-2.2, 0.05, 3000)
    full = np.where(target[:, None] == [0, 1], 0.999, 0.001)
    scores = np.column_stack([-odds / 2, odds / 2]).astype(np.float32)
    [trust] = fit_trust(scores[None], full, target, 0.0)
    sharpness, slope, spread, *_, narrowing = trust
    assert narrowing < 0.3  # all are as sure
    chances = calibrated(sharpness, scores)
    forgone = full.max(axis=1) - full[np.arange(3000), chances.argmax(axis=1)]
    assert regret(trust, chances).mean() == pytest.approx(forgone.mean(), rel=0.1)
    sure = np.log(chances.max(axis=1) / chances.min(axis=1))
    normal = expected_regret(sure, slope, spread * np.exp(-narrowing * sure.mean()))
    assert normal.mean() < 0.7 * forgone.mean()


def test_doubts(judge):
    _, _, doubt = judge.opinion(37)
    sharpness, slope, spread, stretch, *shifts, narrowing = judge.trusts[37]
    chances = calibrated(sharpness, judge.models.unseen(37))
    chance = chances.max(axis=1)
    sure = np.log(chance / (1 - chance))
    normal = np.array([expected_regret(one, slope, spread * np.exp(-narrowing * one)) for one in sure])
    shift = np.array(shifts)[chances.argmax(axis=1)]
    np.testing.assert_allclose(doubt, 0.01 * (normal / 0.01) ** stretch * np.exp(shift), rtol=1e-5)
    other = Judge(judge.models, "calibrated", 511, judge.common, judge.full)
    np.testing.assert_allclose(other.opinion(37)[2], 1 - chance, rtol=1e-5)
    assert suffices(judge.opinion(511)[2], NOBODY_STOPS).all()  # on full evidence there is nothing left to buy
    assert not suffices(doubt, NOBODY_STOPS).any()


def test_a_held_out_patient_does_not_calibrate_its_own_doubt(judge):
    """The doubts of a fold come from a trust that was learnt on the other two."""
    models, scores = judge.models, judge.models.unseen(37)
    for fold in range(3):
        own, blind = models.fold == fold, judge.without(fold)
        [trust] = fit_trust(scores[None, ~own], judge.full[~own], models.target[~own], judge.common)
        chances = calibrated(trust[0], scores)
        _, _, doubt = blind.unseen(37, np.flatnonzero(own))
        np.testing.assert_allclose(doubt, regret(trust, chances[own]), rtol=1e-5)
        assert not np.allclose(doubt, judge.opinion(37)[2][own], rtol=1e-4)
        np.testing.assert_allclose(blind.opinion(37)[2], regret(trust, chances), rtol=1e-5)
        own_chance = chances[np.arange(40), models.target][~own]
        assert blind.log_loss(37) == pytest.approx(-np.log(own_chance).mean())


def test_the_labels_of_a_fold_have_no_part_in_a_blind_judge(judge):
    """With all labels of the fold turned round, what it thinks stays the same; what the judge thinks does not."""
    models = judge.models
    before, blind = judge.log_loss(37), judge.without(1)
    blind_before = blind.opinion(37)[2], blind.log_loss(37)
    models.target = np.where(models.fold == 1, 1 - models.target, models.target)
    turned = Judge(models, "regret", 511, judge.common, judge.full)
    np.testing.assert_array_equal(turned.without(1).opinion(37)[2], blind_before[0])
    assert turned.without(1).log_loss(37) == blind_before[1]
    assert turned.log_loss(37) != pytest.approx(before)


def test_what_is_remembered_is_what_was_said(judge):
    sets = np.arange(512)
    first = [judge.unseen_answer(int(one)) for one in sets]
    for one in (0, 255, 256, 511):
        np.testing.assert_array_equal(first[one], judge.opinion(one)[0])
    level = 0.05
    stopped = unpack(judge.stopped(level, sets), 40)
    for one in (0, 100, 300, 511):
        np.testing.assert_array_equal(stopped[one], judge.opinion(one)[2] <= np.float32(level))


def test_chances_of_no_evidence_are_the_shares(judge):
    np.testing.assert_allclose(judge.opinion(0)[1], calibrated(1.0, judge.models.unseen(0)))


def test_a_doubt_on_the_way_remembers_those_before(judge):
    """The first small one is not believed at once; what is small for a while is, and full evidence ends all doubt."""
    opinion = judge.walk(judge.unseen, 40)
    some = np.arange(5, 20)
    first, second = (judge.unseen(tests, np.arange(40))[2] for tests in (1, 3))
    np.testing.assert_array_equal(opinion(1, np.arange(40))[2], first)
    mixed = np.sqrt(first * second)[some]
    np.testing.assert_allclose(opinion(3, some)[2], mixed, rtol=1e-6)
    np.testing.assert_allclose(opinion(3, some)[2], np.sqrt(mixed * second[some]), rtol=1e-6)  # nothing new came
    np.testing.assert_array_equal(opinion(3, np.arange(5))[2], np.sqrt(first * second)[:5].astype(np.float32))
    assert np.isneginf(opinion(511, some)[2]).all()
    for rule in ("calibrated", "loyalty"):  # what these say is no estimate of what comes later
        assert Judge(judge.models, rule, 511, judge.common, judge.full).memory == 0
