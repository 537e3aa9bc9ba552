"""The cheapest order: the exact search against every order there is."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiform.diagnosis import Tariff
from multiform.diagnosis._search import beam_order, exact_order, pack, popcount, unpack


def world(seed, n_tests, n=50, precedence=True):
    """Random prices, discounts, precedence, and who stops where: not monotone, everybody on full evidence."""
    rng = np.random.default_rng(seed)
    names = [f"t{t}" for t in range(n_tests)]
    prices = np.round(rng.exponential(10, n_tests) + 0.1, 2)
    costs = dict(zip(names, prices.tolist(), strict=True))
    discounts = {}
    if n_tests >= 3 and rng.random() < 0.7:
        members = rng.permutation(n_tests)[: rng.integers(2, n_tests)]
        discounts = {"g": {names[t]: float(np.round(prices[t] * rng.random(), 2)) for t in members}}
    requires = {}
    if precedence and n_tests >= 2 and rng.random() < 0.4:
        first, second = rng.permutation(n_tests)[:2]
        requires = {names[first]: names[second]}
    known = [names[rng.integers(n_tests)]] if rng.random() < 0.2 else []
    tariff = Tariff.of(costs, discounts, known, requires)
    size = np.array([bin(s).count("1") for s in range(1 << n_tests)])
    stops = rng.random((1 << n_tests, n)) < (size / n_tests)[:, None] * rng.random() * 0.8
    stops[-1] = True
    return tariff, stops


def cheapest_by_hand(tariff, stops, forgone=None):
    """Every order, every patient, one after the other."""
    n = stops.shape[1]
    forgone = np.zeros(stops.shape) if forgone is None else forgone
    open_tests = [t for t in range(len(tariff)) if not tariff.known >> t & 1]
    best = np.inf
    for order in itertools.permutations(open_tests):
        held, alive, fine = tariff.known, ~stops[tariff.known], True
        total = forgone[held, ~alive].sum()
        for t in order:
            if tariff.required[t] & ~held:
                fine = False
                break
            total += alive.sum() * tariff.price(t, held)
            held |= 1 << t
            total += forgone[held, alive & stops[held]].sum()
            alive &= ~stops[held]
        if fine:
            best = min(best, total / n)
    return best


def search(tariff, stops, width=3, time_limit=np.inf, forgone=None):
    packed, everybody = pack(stops), pack(np.ones(stops.shape[1], dtype=bool))
    forgone = np.zeros(stops.shape, dtype=np.float32) if forgone is None else forgone
    beam = beam_order(tariff, lambda sets: packed[sets], forgone.__getitem__, everybody, tariff.known, width)
    incumbent = beam[0], beam[1].cost
    return beam, exact_order(tariff, packed, forgone, everybody, tariff.known, incumbent, time_limit)


@given(st.integers(0, 10**6), st.integers(1, 6))
@settings(max_examples=60)
def test_exact_is_exhaustive(seed, n_tests):
    tariff, stops = world(seed, n_tests)
    (_, found), (_, proof) = search(tariff, stops)
    assert proof.optimal
    assert proof.gap == 0
    assert proof.cost == pytest.approx(cheapest_by_hand(tariff, stops))
    assert found.cost >= proof.cost - 1e-9
    assert not found.optimal


@given(st.integers(0, 10**6), st.integers(1, 6), st.floats(0.01, 100))
@settings(max_examples=60)
def test_exact_is_exhaustive_where_stopping_is_charged(seed, n_tests, worth):
    tariff, stops = world(seed, n_tests)
    forgone = (worth * np.random.default_rng(seed).random(stops.shape) ** 4).astype(np.float32)
    forgone[-1] = 0  # on full evidence nothing is forgone
    (_, found), (_, proof) = search(tariff, stops, forgone=forgone)
    assert proof.optimal
    assert proof.cost == pytest.approx(cheapest_by_hand(tariff, stops, forgone))
    assert found.cost >= proof.cost * (1 - 1e-6)


def test_of_two_orders_the_one_with_less_to_regret():
    """After a or after b everybody stops; b costs a little more and forgoes less."""
    tariff = Tariff.of({"a": 10, "b": 11})
    stops = np.array([[False], [True], [True], [True]])
    forgone = np.array([[0], [3], [1], [0]], dtype=np.float32)
    for order, proof in search(tariff, stops):
        assert (order, proof.cost) == ((0,), 10)
    for order, proof in search(tariff, stops, forgone=forgone):
        assert (order, proof.cost) == ((1,), 12)


def test_a_search_that_may_go_nowhere_buys_the_rest():
    """No next test is promising after the first one: those alive pay for all that remain."""
    tariff = Tariff.of({"a": 1, "b": 2, "c": 4})
    packed = pack(np.array([[False]] * 7 + [[True]]))
    order, proof = beam_order(
        tariff,
        lambda sets: packed[sets],
        lambda sets: np.zeros((len(sets), 1), dtype=np.float32),
        pack(np.ones(1, dtype=bool)),
        0,
        3,
        lambda sets: (sets == 0)[:, None],
    )
    assert len(order) == 1
    assert proof.cost == 7


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_exact_is_exhaustive_with_seven_tests(seed):
    tariff, stops = world(seed, 7)
    assert search(tariff, stops)[1][1].cost == pytest.approx(cheapest_by_hand(tariff, stops))


@given(st.integers(0, 10**6))
def test_the_cost_of_an_order_is_the_sum_over_patients(seed):
    tariff, stops = world(seed, 5, n=70)
    (order, proof), _ = search(tariff, stops)
    bills = 0.0
    for patient in stops.T:
        held = tariff.known
        for t in order:
            if patient[held]:
                break
            bills += tariff.price(t, held)
            held |= 1 << t
            if patient[held]:
                break
    assert proof.cost == pytest.approx(bills / stops.shape[1])


def test_who_stopped_stays_stopped():
    """Everybody stops on {a}, nobody on {a, b}: after a nothing is paid."""
    tariff = Tariff.of({"a": 1, "b": 5, "c": 5})
    stops = np.zeros((8, 4), dtype=bool)
    stops[0b001] = stops[0b111] = True
    (order, _), (best, proof) = search(tariff, stops)
    assert order == best == (0,)
    assert proof.cost == 1


def test_a_discount_decides():
    """Alone, b and c cost more than a; with the discount the pair is cheaper."""
    stops = np.zeros((8, 10), dtype=bool)
    stops[[0b110, 0b111, 0b001]] = True
    dear, cheap = Tariff.of({"a": 12, "b": 10, "c": 10}), {"g": {"b": 1, "c": 1}}
    assert search(dear, stops)[1][0] == (0,)
    _, (order, proof) = search(Tariff.of({"a": 12, "b": 10, "c": 10}, cheap), stops)
    assert set(order) == {1, 2}
    assert proof.cost == 11


def test_the_gap_at_the_time_limit_is_honest():
    tariff, stops = world(3, 8, n=200, precedence=False)
    _, (_, certificate) = search(tariff, stops, width=1, time_limit=0)
    _, (_, proven) = search(tariff, stops)
    assert proven.optimal
    assert certificate.lower_bound <= proven.cost + 1e-9 <= certificate.cost + 2e-9
    assert certificate.gap == pytest.approx(1 - certificate.lower_bound / certificate.cost)
    assert certificate.optimal == (certificate.gap == 0)


def test_no_patient_needs_a_test():
    tariff = Tariff.of({"a": 1, "b": 2})
    (order, _), (best, proof) = search(tariff, np.ones((4, 5), dtype=bool))
    assert order == best == ()
    assert proof.cost == 0


@given(st.integers(1, 200), st.integers(0, 10**6))
def test_packing(n, seed):
    patients = np.random.default_rng(seed).random((3, n)) < 0.5
    words = pack(patients)
    np.testing.assert_array_equal(unpack(words, n), patients)
    np.testing.assert_array_equal(popcount(words), patients.sum(axis=1))


def test_packing_without_bitwise_count(monkeypatch):
    patients = np.random.default_rng(0).random((5, 130)) < 0.5
    monkeypatch.delattr(np, "bitwise_count", raising=False)  # as in NumPy 1.26
    np.testing.assert_array_equal(popcount(pack(patients)), patients.sum(axis=1))


def test_sums_are_the_same_in_every_process():
    """Words have another hash in every process; added up in that order, sums would be rounded in another way."""
    program = """
import numpy as np
from multiform.diagnosis._search import remaining_price
from multiform.diagnosis._tariff import tariff_and_features
costs = {f"test{k}": 0.1 + 0.7 * k for k in range(10)}
discounts = {f"discount{g}": {f"test{2 * g}": 0.03, f"test{2 * g + 1}": 0.07 * (g + 1)} for g in range(5)}
tariff, _ = tariff_and_features(costs, discounts, (), None, None)
print(remaining_price(tariff, np.arange(1024)).tobytes().hex())
"""
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in range(4)
    }
    assert len(printed) == 1
