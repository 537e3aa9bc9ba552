"""Costs that matter: losses of errors, promises, tests in rounds, panels, hours."""

import itertools
import json
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.naive_bayes import GaussianNB

from multiform import DiagnosisPlanner, QMSClassifier, load, save
from multiform.diagnosis import DiagnosisSession, Plan, Tariff, read_price_list
from multiform.diagnosis._losses import Losses, excess, expected, worths
from multiform.diagnosis._promise import put_aside
from multiform.diagnosis._rounds import InRounds
from multiform.diagnosis._tariff import tariff_and_features
from multiform.triage import Claim, TargetNotReachedWarning, certify_in_turn

pytestmark = pytest.mark.filterwarnings("ignore::multiform.columns.UnfamiliarWarning")

COSTS = {"talk": 1.0, "blood": 8.0, "sugar": 6.0, "scan": 30.0}
DURATIONS = {"blood": 24.0, "sugar": 24.0, "scan": 48.0}
LOSSES = {"ill": {"well": 9.0}, "well": {"ill": 1.0}}


def people(n, seed=0):
    random = np.random.default_rng(seed)
    ill = random.random(n) < 0.4
    X = np.column_stack([ill + random.normal(0, spread, n) for spread in (0.9, 0.7, 0.8, 0.5)])
    return X, np.where(ill, "ill", "well")


def planner(**changes):
    plain = {"estimator": QMSClassifier(n_components=2, max_iter=6, noise=1.0), "cv": 3, "level": 0.02}
    return DiagnosisPlanner(COSTS, **({**plain, "random_state": 0} | changes))


@pytest.fixture(scope="module")
def slow():
    """Results take their time, and an hour costs something."""
    return planner(durations=DURATIONS, hour_price=0.5, discounts={"needle": {"blood": 5.0, "sugar": 3.0}}).fit(
        *people(200)
    )


@pytest.fixture(scope="module")
def planning(slow):
    return slow._prepare(*people(200))[-1]


# ------------------------------------------------------------------------------------------------------------- losses


@given(st.integers(0, 2**32 - 1), st.integers(2, 4))
def test_the_answer_of_the_most_worth_has_the_least_expected_loss(seed, m):
    random = np.random.default_rng(seed)
    matrix = random.uniform(0.5, 9, (m, m)) * (1 - np.eye(m))
    losses = Losses.of(matrix, np.arange(m))
    chances = random.dirichlet(np.ones(m), 20)
    by_hand = np.array([[sum(chance[j] * matrix[j, k] for j in range(m)) for k in range(m)] for chance in chances])
    worth = worths(chances, losses)
    answer = worth.argmax(axis=1)
    np.testing.assert_array_equal(answer, by_hand.argmin(axis=1))
    np.testing.assert_allclose(worth.sum(axis=1), 1)
    own = by_hand[np.arange(20), answer]
    np.testing.assert_allclose(losses.dearest * expected(chances, answer, losses), own)
    np.testing.assert_allclose(
        losses.dearest * excess(chances, np.zeros(20, dtype=int), losses),
        by_hand[:, 0] - by_hand.min(axis=1),
        atol=1e-12,
    )


def test_equal_losses_are_no_losses():
    X, y = people(150)
    plain = planner().fit(X, y)
    equal = planner(losses=[[0, 1], [1, 0]], loss_unit="error").fit(X, y)
    assert plain.order_ == equal.order_
    np.testing.assert_array_equal(plain.predict(X), equal.predict(X))
    assert plain.expected_cost_ == pytest.approx(equal.expected_cost_)
    assert plain.frontier_[0].loss == pytest.approx(equal.frontier_[0].loss)


def test_missed_cases_become_false_alarms(tmp_path):
    X, y = people(300)
    fresh, truth = people(1_000, 1)
    found = planner(losses=LOSSES, loss_unit="error").fit(X, y)
    answers, plain = found.predict(fresh), planner().fit(X, y).predict(fresh)
    missed, alarms = (truth == "ill") & (answers == "well"), (truth == "well") & (answers == "ill")
    assert missed.mean() < 0.6 * ((truth == "ill") & (plain == "well")).mean()
    loss = 9 * missed.mean() + alarms.mean()
    assert loss < 9 * ((truth == "ill") & (plain == "well")).mean() + ((truth == "well") & (plain == "ill")).mean()
    save(found, tmp_path / "plan.mfm")
    again = load(tmp_path / "plan.mfm")
    np.testing.assert_array_equal(again.predict(fresh), answers)
    bought = found.acquire(fresh[:50])
    chances = found.predict_proba(fresh[:50])
    own = np.searchsorted(found.classes_, bought.answer)
    np.testing.assert_allclose(bought.chance, chances[np.arange(50), own])  # of the answer, likeliest or not


def test_losses_in_money_choose_the_level_of_the_least_sum():
    X, y = people(200)
    dear = {truth: {answer: 1000 * loss for answer, loss in own.items()} for truth, own in LOSSES.items()}
    careful, careless = (planner(losses=one, level="auto").fit(X, y) for one in (dear, LOSSES))
    for found in (careful, careless):
        sums = {point.level: point.cost + point.guarded_loss for point in found.frontier_}
        assert sums[found.level_] == min(sums.values())
    assert careless.expected_cost_ < 0.3 * careful.expected_cost_


def test_nothing_is_asked_where_errors_cost_less_than_any_test():
    X, y = people(200)
    cheap = {"ill": {"well": 0.02}, "well": {"ill": 0.01}}
    found = planner(losses=cheap, level="auto").fit(X, y)
    assert found.expected_cost_ == 0.0
    assert found.stopped_at_once_ == 1.0
    assert found.acquire(X).cost.max() == 0.0


def test_evaluation_counts_losses_and_who_is_found():
    X, y = people(120)
    evaluation = planner(losses=LOSSES).evaluate(X, y, cv=2, frontier=False)
    row = evaluation.plan
    shares = [(y == name).mean() for name in evaluation.classes]
    errors = [(1 - recall) * share for recall, share in zip(row.recalls, shares, strict=True)]
    assert row.loss == pytest.approx(9 * errors[0] + 1 * errors[1])
    assert row.accuracy == pytest.approx(1 - sum(errors))
    assert "in all" in str(evaluation)
    assert "found by the plan: ill" in str(evaluation)


# ------------------------------------------------------------------------------------------------------------ promises


def test_procedures_pass_in_turn():
    """By hand: 60 of 60 right prove .95 at 95 %, 59 of 60 do not; what comes after a failure is not asked."""
    right = np.ones(60, dtype=bool)
    one_wrong = right.copy()
    one_wrong[0] = False
    asked = []

    def procedures():
        for one in (right, right, one_wrong, right):
            asked.append(one)
            yield one

    passed, found = certify_in_turn(procedures(), [Claim(np.ones(60, dtype=bool), 0.95)], confidence=0.95)
    assert binom.cdf(0, 60, 0.05) < 0.05 < binom.cdf(1, 60, 0.05)
    assert (passed, len(asked), found.attained, found.recalls) == (2, 3, True, ((60, 60),))
    scope = np.arange(60) < 30
    passed, found = certify_in_turn([right], [Claim(~scope, 0.9), Claim(scope, 0.95)], confidence=0.95)
    assert (passed, found.attained, found.recalls) == (0, False, ((30, 30), (30, 30)))


def test_nobody_is_put_aside_twice():
    groups = np.repeat(np.arange(40), 3)
    aside, kept = put_aside(120, groups, 0)
    assert len(aside) == 10 == len({*groups[aside]})
    assert not {*groups[aside]} & {*groups[kept]}
    assert len(kept) == 90


def test_what_is_promised_was_tested_on_the_others(tmp_path):
    X, y = people(400)
    about = {"losses": LOSSES, "loss_unit": "error", "tolerance": 0.1, "level": "auto"}
    found = planner(target_recall={"ill": 0.8}, confidence=0.9, **about)
    found.fit(X, y)
    assert found.promise_.attained
    assert found.promise_.n_tested == 100
    (n_ill, n_found), *_ = found.promise_.recalls
    assert binom.cdf(n_ill - n_found, n_ill, 0.2) <= 0.1
    save(found, tmp_path / "plan.mfm")
    assert load(tmp_path / "plan.mfm").promise_ == found.promise_


def test_too_few_for_a_promise_is_said():
    X, y = people(120)
    with pytest.warns(TargetNotReachedWarning, match=r"at least 299 such patients must be put aside, and there are 30"):
        found = planner(target_accuracy=0.99, confidence=0.95).fit(X, y)
    assert not found.promise_.attained
    assert found.level_ == 0.02


@pytest.mark.slow
@pytest.mark.parametrize("targets", [{"target_accuracy": 0.89}, {"target_recall": {"ill": 0.85}}])
def test_promises_are_broken_as_seldom_as_they_say(targets):
    """200 draws: the targets are what all evidence nearly reaches, so that most promises that are made are broken."""
    fresh, truth = people(20_000, 12_345)
    asked = truth == "ill" if "target_recall" in targets else np.ones(len(truth), dtype=bool)
    made = broken = 0
    for seed in range(200):
        X, y = people(240, seed)
        about = {"estimator": GaussianNB(), "cv": 3, "level": 0.05, "confidence": 0.9, "random_state": seed}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = DiagnosisPlanner({"blood": 8.0, "scan": 30.0}, **about, **targets).fit(X[:, [1, 3]], y)
            if found.promise_.attained:
                made += 1
                right = found.predict(fresh[:, [1, 3]]) == truth
                broken += right[asked].mean() < (0.89 if "target_accuracy" in targets else 0.85)
    print(f"{targets}: {made} promises of 200 were made, {broken} broken")
    assert made
    assert broken <= binom.ppf(0.999, 200, 0.1)


# -------------------------------------------------------------------------------------------------------------- rounds


def test_one_waits_for_the_slowest():
    tariff = Tariff.of(COSTS, durations=DURATIONS, hour_price=0.5, requires={"scan": ["blood"]})
    assert tariff.hours(["talk", "blood", "sugar"]) == 24
    assert tariff.panel_hours == 72  # the scan is ordered when the blood is there
    assert tariff.panel_cost == 45 + 0.5 * 72


def test_a_plan_in_rounds_costs_no_more_than_one_by_one(planning):
    """On the patients and doubts that it was made from: with what is forgone, as plans are judged."""
    everybody = np.ones(planning.n, dtype=bool)
    stopped = lambda sets: planning.judge.stopped(0.02, sets)  # noqa: E731
    for search in planning.in_rounds.searches:
        order = search.plan(0.02)[0]
        whole, cost = planning.in_rounds.cut(order, stopped, everybody)
        *_, ahead = planning.in_rounds._one_by_one(order, stopped)
        start = planning._leaving(stopped, 0)
        one_by_one = ahead[0][~start].sum() + planning.in_rounds._forgone(0)[start].sum()
        assert cost <= one_by_one + 1e-6
        assert whole.tests == order.tests


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_best_cut_is_found(planning, seed):
    """Against all cuts of an order of four tests, every one slow, for patients who stop at random."""
    random = np.random.default_rng(seed)
    rounds = InRounds(planning)
    rounds.tariff = replace(planning.tariff, durations=tuple(random.integers(1, 60, 4).astype(float)))
    plan = Plan.of_order((2, 0, 3, 1), 0)
    leaves = list(random.random((4, planning.n)) < 0.4)
    given_up = list(random.uniform(0, 3, (4, planning.n)))
    prices = [rounds.tariff.price(t, held) for t, held in zip(plan.tests, plan.held, strict=True)]
    later = np.zeros(planning.n)
    ahead = [later] * 4
    for node in reversed(range(4)):
        wait = 0.5 * rounds.tariff.duration(plan.tests[node])
        later = prices[node] + wait + np.where(leaves[node], given_up[node], later)
        ahead[node] = later

    def cost_of(cuts):
        alive, total = np.ones(planning.n, dtype=bool), 0.0
        for begin, end in itertools.pairwise((0, *cuts, 4)):
            wait = max(rounds.tariff.duration(plan.tests[k]) for k in range(begin, end))
            total += alive.sum() * (sum(prices[begin:end]) + 0.5 * wait)
            leaving = alive & leaves[end - 1]
            total += given_up[end - 1][leaving].sum()
            alive &= ~leaving
        return total

    best = min(cost_of(cuts) for n in range(4) for cuts in itertools.combinations((1, 2, 3), n))
    found = rounds._best(plan, [0, 1, 2, 3], np.ones(planning.n, dtype=bool), 0.0, leaves, given_up, ahead)
    assert found.cost == pytest.approx(cost_of(found.cuts[:-1]))
    assert found.cost <= 1.02 * best  # one label at a place: nearly the best


def test_free_waiting_is_the_plan_without_it():
    X, y = people(150)
    plain, timed = planner().fit(X, y), planner(durations=DURATIONS).fit(X, y)
    assert plain.plan_ == timed.plan_
    assert plain.expected_cost_ == timed.expected_cost_
    assert timed.expected_hours_ > 0 == plain.expected_hours_


def test_dear_hours_are_fewer():
    X, y = people(200)
    hours = [planner(durations=DURATIONS, hour_price=price).fit(X, y).expected_hours_ for price in (0, 5)]
    assert hours[1] < hours[0]


def test_nobody_waits_longer_than_allowed():
    X, y = people(200)
    found = planner(durations=DURATIONS, max_hours=24).fit(X, y)
    bought = found.acquire(people(200, 1)[0])
    assert bought.hours.max() == 24
    assert not any("scan" in tests for tests in bought.tests)
    frame = bought.to_frame()
    assert list(frame.columns)[:2] == ["cost", "hours"]
    # Without the scan, for which there is no time, more is missed, and that is said.
    assert found.plan_accuracy_ < found.full_accuracy_


def test_a_limit_to_the_hours_changes_nothing_where_nothing_takes_time():
    X, y = people(150)
    assert planner().fit(X, y).plan_ == planner(max_hours=3).fit(X, y).plan_


def test_a_budget_holds_with_what_waiting_costs():
    X, y = people(200)
    found = planner(durations=DURATIONS, hour_price=0.5, budget=30).fit(X, y)
    bought = found.acquire(people(200, 1)[0])
    assert 20 < bought.cost.max() <= 30


@pytest.mark.parametrize("said", [False, True])
def test_a_session_waits_as_the_plan_does(slow, said):
    """Results come in any order; the orders may be said, or not."""
    random = np.random.default_rng(3)
    asked, _ = people(40, 2)
    bought = slow.acquire(asked)
    assert any(slow.plan_.joined)
    assert "and at the same time" in slow.flow_chart()
    for i, row in enumerate(asked):
        session = slow.start()
        while not session.finished:
            tests = session.next_round
            if said:
                session.order()
                assert session.pending == [one.name for one in tests]
                session = DiagnosisSession.from_json(slow, session.to_json())  # of another day
                assert all(one.ordered and not one.cost for one in session.next_round)
            names = [one.name for one in tests]
            for name in random.permutation(names) if said else names:
                session.observe(name, row[slow.tariff_.position(name)])
        assert session.spent == pytest.approx(bought.cost[i])
        assert session.hours == bought.hours[i]
        assert session.diagnosis == bought.answer[i]
        assert f"waiting, {session.hours:g} h" in bought.bill(i)


def test_what_was_ordered_is_paid_for_and_told(slow):
    session = slow.start().order("sugar", "blood")
    assert session.pending == ["sugar", "blood"]
    assert session.bill == {"sugar": 6.0, "blood": 5.0}
    told = session.as_dict()
    assert told["pending"] == ["sugar", "blood"]
    assert told["spent"] == 11.0
    assert told["hours"] == 0.0
    assert "ordered, and not yet there: sugar, blood" in str(session)
    assert session.observe("sugar", 0.5).pending == ["blood"]
    assert session.spent == 11.0 + 0.5 * 24
    assert session.undo().undo().pending == ["sugar"]
    assert session.not_available("sugar").pending == []
    assert session.spent == 6.0
    with pytest.raises(ValueError, match="'sugar' was said to be not available"):
        session.order("blood", "sugar")
    assert session.pending == []
    with pytest.raises(ValueError, match="'blood' has been ordered already"):
        session.order("blood").order("blood")
    assert json.loads(session.to_json())["events"][-1] == {"order": "blood"}


def test_rounds_are_kept_in_a_file(slow, tmp_path):
    save(slow, tmp_path / "plan.mfm")
    again = load(tmp_path / "plan.mfm")
    assert again.plan_ == slow.plan_
    assert again.tariff_ == slow.tariff_
    np.testing.assert_array_equal(again.acquire(people(30, 4)[0]).hours, slow.acquire(people(30, 4)[0]).hours)


# -------------------------------------------------------------------------------------------------------------- panels


def test_a_panel_costs_what_its_tests_cost_at_once():
    costs = pd.DataFrame(
        {
            "test": ["age", "chol", "hdl", "sugar"],
            "cost": [1, 7, None, 5],
            "discount": [None, "needle", None, "needle"],
            "discounted_cost": [None, 4, None, 2],
            "duration": [None, 24, 30, 2],
            "panel": [None, "lipids", "lipids", None],
        }
    )
    tariff, features = tariff_and_features(costs, None, (), {"sugar": "hdl"}, None, hour_price=1.0)
    assert tariff.tests == ("age", "lipids", "sugar")
    assert features == [["age"], ["chol", "hdl"], ["sugar"]]
    assert tariff.bill(["lipids", "sugar"]) == [7.0, 2.0]
    assert tariff.hours(["lipids"]) == 30
    assert tariff.required == (0, 0, 0b10)
    prices = {"a": 3.0, "b": 4.0}
    both, _ = tariff_and_features(prices, {"x": {"a": 1, "b": 1}}, (), None, None, panels={"ab": ["a", "b"]})
    assert both.prices == (4.0,)
    assert both.discounted == (2.0,)


def test_a_panel_is_observed_at_once():
    X, y = people(150)
    found = planner(panels={"draw": ["blood", "sugar"]}).fit(X, y)
    assert "draw" in found.order_
    assert found.tariff_.prices[1] == 14.0
    session = found.start().observe("draw", {"blood": 0.4, "sugar": 0.9})
    assert session.bill == {"draw": 14.0}
    assert session.observed == {"blood": 0.4, "sugar": 0.9}


def test_a_table_of_costs_has_it_all(tmp_path):
    path = tmp_path / "costs.csv"
    path.write_text("test,cost,duration,panel\nage,1,,\nchol,7,24,lipids\nhdl,,24,lipids\n")
    prices = read_price_list(path)
    assert prices.costs == {"age": 1.0, "chol": 7.0, "hdl": 0.0}
    assert prices.durations == {"chol": 24.0, "hdl": 24.0}
    assert prices.panels == {"lipids": ["chol", "hdl"]}


# ------------------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"losses": {"ill": {"well": 5}}}, "a loss for every error; there is none for the answer 'ill'"),
        ({"losses": {"sick": {"well": 5}}}, "must map each true class .* the classes are"),
        ({"losses": [[0, 1, 2]]}, "a row for each true class and a column for each answer"),
        ({"losses": [[0, -1], [1, 0]]}, "finite and not negative, 0 for the right answer"),
        ({"losses": LOSSES, "theta": 0.9}, "theta of DiagnosisPlanner is an accuracy, and losses decide"),
        ({"losses": LOSSES, "target_accuracy": 0.9}, "or give confidence to have it promised"),
        ({"target_recall": {"ill": 0.9}}, "target_recall of DiagnosisPlanner is a promise; give confidence"),
        ({"confidence": 0.9}, "needs something to promise"),
        ({"target_recall": {"sick": 0.9}, "confidence": 0.9}, "must map classes to numbers"),
        ({"durations": {"bloods": 3}}, "durations of DiagnosisPlanner: no test is named 'bloods'"),
        ({"durations": {"blood": -3}}, r"durations\['blood'\] of DiagnosisPlanner must be a number of hours"),
        ({"panels": {"draw": ["blood", "x"]}}, r"panels\['draw'\] of DiagnosisPlanner: no test is named 'x'"),
        ({"panels": {"a": ["blood"], "b": ["blood"]}}, "is in two panels"),
        ({"panels": {"talk": ["blood", "sugar"]}}, "no other test may have its name"),
        ({"panels": {"draw": ["blood", "sugar"]}, "known": ["blood"]}, "names a part of the panel 'draw'"),
    ],
)
def test_refusals(parameters, message):
    with pytest.raises(ValueError, match=message):
        planner(**parameters).fit(*people(40))
