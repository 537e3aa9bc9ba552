"""DiagnosisPlanner: what it plans, buys, answers and refuses."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from multiform import DiagnosisPlanner, QMSClassifier, load, save
from multiform.diagnosis import ThetaNotReachedWarning, WeakEvidenceWarning
from tests.diagnosis.worlds import COSTS, easy_and_hard, gated, patients

# Of many fresh patients, one or the other has a result beyond what so few training patients had.
pytestmark = pytest.mark.filterwarnings("ignore::multiform.columns.UnfamiliarWarning")


@pytest.fixture(scope="module")
def data():
    X, y = patients(500)
    return X[:300], y[:300], X[300:], y[300:]


@pytest.fixture(scope="module")
def fitted(data):
    X, y, *_ = data
    return DiagnosisPlanner(COSTS, random_state=0).fit(X, y)


def test_the_cheap_question_comes_first_and_nonsense_is_rarely_bought(data, fitted):
    bought = fitted.acquire(data[2])
    assert fitted.order_[0] == "talk"
    assert sorted(fitted.order_) == sorted(COSTS)
    shares = {test: np.mean([test in one for one in bought.tests]) for test in COSTS}
    assert shares["talk"] > 0.99
    assert shares["noise"] < 0.2
    assert bought.cost_share < 0.6


def test_accuracy_is_kept(data, fitted):
    _, _, X, y = data
    full, planned = fitted.predict_full(X) == y, fitted.predict(X) == y
    assert planned.mean() >= full.mean() - 0.03


def test_theta_is_of_unseen_patients(data):
    """Scrambled labels: in-sample, a nearest neighbour would promise 1; nobody can keep more than a half."""
    X, y, *_ = data
    scrambled = np.random.default_rng(0).permutation(y)
    planner = DiagnosisPlanner(COSTS, estimator=KNeighborsClassifier(1), level=0.2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakEvidenceWarning)
        assert planner.fit(X, scrambled).theta_ < 0.65


def test_the_bills_add_up(data, fitted):
    bought = fitted.acquire(data[2])
    np.testing.assert_allclose(np.nansum(bought.prices, axis=1), bought.cost)
    for i in range(20):
        assert sum(fitted.tariff_.bill(bought.tests[i])) == pytest.approx(bought.cost[i])
        paid = [bought.prices[i, bought.test_names.index(test)] for test in bought.tests[i]]
        assert paid == fitted.tariff_.bill(bought.tests[i])
    assert bought.cost_share == pytest.approx(bought.cost.mean() / fitted.panel_cost_)


def test_the_expected_cost_is_the_mean_bill_of_unseen_training_patients(data, fitted):
    """Followed by hand, patient by patient, with the doubts of models that have not seen them."""
    *_, planning = fitted._prepare(*data[:2])
    judge, tariff = planning.judge, fitted.tariff_
    order = [tariff.position(test) for test in fitted.order_]

    def followed(memory, eases):
        total, regret = 0.0, 0.0
        for i in range(300):
            held = 0
            doubt = judge.opinion(held)[2][i]
            for t, ease in zip(order, eases, strict=False):
                if doubt <= np.float32(fitted.level_ * ease):
                    break
                total += tariff.price(t, held)
                held |= 1 << t
                now = judge.opinion(held)[2][i]
                doubt = np.float32(doubt**memory * now ** (1 - memory)) if held != tariff.everything else now
            regret += max(judge.opinion(held)[2][i], 0)  # on full evidence there is none
        return total / 300, regret / 300

    assert fitted.expected_cost_ == pytest.approx(followed(judge.memory, fitted.plan_.eases)[0])
    assert fitted.certificate_.optimal
    cost, regret = followed(0.0, [1.0] * len(order))  # the search takes each set for itself, at one level
    assert fitted.certificate_.cost == pytest.approx(cost + fitted.error_price * tariff.panel_cost * regret)


def test_only_what_is_bought_is_looked_at(data, fitted):
    """Poison what was not bought: nothing changes."""
    X = data[2].copy()
    bought = fitted.acquire(X)
    X[np.isnan(bought.prices)] = 1e6
    again = fitted.acquire(X)
    np.testing.assert_array_equal(again.answer, bought.answer)
    assert again.tests == bought.tests


def test_the_frontier_rises(fitted):
    careful, careless = fitted.frontier_[0], fitted.frontier_[-1]
    assert careful.cost > careless.cost
    assert careful.loss < careless.loss
    chosen = next(point for point in fitted.frontier_ if point.level == fitted.level_)
    assert chosen.guarded_loss <= fitted.tolerance
    assert all(point.guarded_loss > fitted.tolerance for point in fitted.frontier_ if point.cost < chosen.cost)


def test_same_seed_same_plan(data, fitted):
    X, y, X_new, _ = data
    again = clone(fitted).fit(X, y)
    assert again.order_ == fitted.order_
    np.testing.assert_array_equal(again.predict_proba(X_new), fitted.predict_proba(X_new))


def test_a_level_that_is_given_makes_the_plan_that_chose_it(data, fitted):
    X, y, X_new, _ = data
    again = clone(fitted).set_params(level=fitted.level_).fit(X, y)
    assert again.order_ == fitted.order_
    np.testing.assert_array_equal(again.acquire(X_new).cost, fitted.acquire(X_new).cost)
    np.testing.assert_array_equal(again.predict(X_new), fitted.predict(X_new))


def test_a_pickled_plan_is_the_same(data, fitted):
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.predict(data[2]), fitted.predict(data[2]))
    assert copy.start().next_evidence == fitted.start().next_evidence


def test_the_time_limit_leaves_a_gap_and_a_valid_plan(data):
    X, y, X_new, _ = data
    planner = DiagnosisPlanner(COSTS, search="exact", level=0.01, cv=3, time_limit=0, beam_width=1, random_state=0)
    certificate = planner.fit(X, y).certificate_
    assert 0 <= certificate.lower_bound <= certificate.cost
    assert certificate.gap == pytest.approx(1 - certificate.lower_bound / certificate.cost)
    proven = clone(planner).set_params(time_limit=60).fit(X, y)
    assert proven.certificate_.optimal
    assert certificate.lower_bound <= proven.certificate_.cost + 1e-9 <= certificate.cost + 2e-9
    assert len(planner.predict(X_new)) == len(X_new)


def test_skops_holds_a_plan(data, fitted):
    skops = pytest.importorskip("skops.io")
    written = skops.dumps(fitted)
    again = skops.loads(written, trusted=skops.get_untrusted_types(data=written))
    np.testing.assert_array_equal(again.predict(data[2]), fitted.predict(data[2]))


def test_frames_of_either_kind(data):
    X, y, X_new, _ = data
    planner = DiagnosisPlanner(COSTS, level=0.01, random_state=0)
    names = list(COSTS)
    pandas_frame = pd.DataFrame(X, columns=names)[names[::-1]].assign(nothing="x")
    first = planner.fit(pandas_frame, y).predict(pd.DataFrame(X_new, columns=names))
    second = planner.fit(pl.DataFrame(X, schema=names), y).predict(pl.DataFrame(X_new, schema=names))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, planner.fit(X, y).predict(X_new))
    assert list(planner.feature_names_in_) == names


def test_a_frame_may_count_its_columns_and_know_na():
    X, y = patients(200)
    frame = pd.DataFrame(X[:, :2]).convert_dtypes()
    frame.loc[::6, 1] = pd.NA
    planner = DiagnosisPlanner({0: 1.0, 1: 20.0}, level=0.01, cv=3, random_state=0).fit(frame, y)
    assert planner.encoding_.codes[1].has_missing
    assert (planner.predict(frame) == y).mean() > 0.75


def test_words_and_missing_values():
    X, y = patients(300)
    frame = pd.DataFrame(X, columns=list(COSTS))
    frame["talk"] = np.select([X[:, 0] < 0.3, X[:, 0] < 0.7], ["well", "so-so"], "bad")
    frame.loc[::7, "talk"] = None
    frame.loc[::5, "blood"] = np.nan
    planner = DiagnosisPlanner(COSTS, level=0.01, random_state=0).fit(frame, y)
    bought = planner.acquire(frame.assign(talk=None))
    assert np.isfinite(bought.cost).all()
    assert (bought.chance >= 0.5).all()
    assert (planner.predict(frame) == y).mean() > 0.75
    # A test whose result is missing was not done: nobody pays for it, and none is bought in its name.
    first = planner.order_[0]
    without = frame.assign(**{first: np.nan})
    bought = planner.acquire(without)
    assert np.isnan(bought.prices[:, planner.tariff_.position(first)]).all()
    assert not any(first in tests for tests in bought.tests)
    # Or it was done all the same, if that is what a gap means here: it is paid.
    paid = planner.set_params(missing="finding").fit(frame, y).acquire(without)
    assert (paid.prices[:, planner.tariff_.position(first)] == COSTS[first]).all()


def test_several_features_of_one_test():
    X, y = patients(300)
    planner = DiagnosisPlanner(
        {"visit": 5.0, "scan": 100.0}, features={"visit": ["talk", "blood"]}, level=0.01, random_state=0
    ).fit(pd.DataFrame(X, columns=list(COSTS)), y)
    assert list(planner.feature_names_in_) == ["talk", "blood", "scan"]
    assert planner.order_[0] == "visit"
    session = planner.start()
    assert session.next_evidence.features == ("talk", "blood")
    session.observe("visit", {"talk": 2.0})
    assert session.observed == {"talk": 2.0, "blood": None}


def test_known_and_required_evidence():
    X, y = patients(300)
    planner = DiagnosisPlanner(COSTS, known=["talk"], requires={"blood": "scan"}, level=0.01, random_state=0).fit(X, y)
    assert "talk" not in planner.order_
    assert planner.order_.index("scan") < planner.order_.index("blood")
    assert planner.panel_cost_ == 180
    assert all("talk" not in one for one in planner.acquire(X).tests)


def test_discounts_change_the_plan():
    """Blood costs nearly nothing once the scan was bought: it follows at once."""
    X, y = patients(400)
    shared = {"lab": {"scan": 100.0, "blood": 0.01}}
    planner = DiagnosisPlanner({**COSTS, "blood": 90.0}, discounts=shared, level=0.002, random_state=0).fit(X, y)
    order = planner.order_
    assert planner.panel_cost_ == pytest.approx(1 + 90 + 100 + 60)
    assert abs(order.index("scan") - order.index("blood")) == 1


def test_theta_given(data, fitted, tmp_path):
    X, y, *_ = data
    low = DiagnosisPlanner(COSTS, theta=0.7, random_state=0).fit(X, y)
    assert low.theta_ == 0.7
    assert low.expected_cost_ <= fitted.expected_cost_
    with pytest.warns(ThetaNotReachedWarning, match=r"keeps theta=1.000 .* buys all evidence"):
        impossible = DiagnosisPlanner(COSTS, theta=1.0, cv=2, random_state=0).fit(X, y)
    assert impossible.expected_cost_ == pytest.approx(impossible.panel_cost_)
    np.testing.assert_array_equal(impossible.predict(X), impossible.predict_full(X))
    save(impossible, tmp_path / "plan.mfm")  # a plan that buys everything is a plan, too
    np.testing.assert_array_equal(load(tmp_path / "plan.mfm").predict(X), impossible.predict(X))


@pytest.mark.parametrize("stop", ["calibrated", "loyalty"])
def test_other_rules(data, stop):
    X, y, X_new, y_new = data
    planner = DiagnosisPlanner(COSTS, stop=stop, tolerance=0.02, beta=(0.1, 0.4), cv=3, random_state=0).fit(X, y)
    bought = planner.acquire(X_new)
    assert bought.cost_share < 0.95
    assert (bought.answer == y_new).mean() >= (planner.predict_full(X_new) == y_new).mean() - 0.04


@pytest.mark.slow
def test_the_regret_is_cheaper_also_for_few_patients():
    """A patient whose answer is unsure and would stay so stops by the regret, and buys everything by the chance."""
    X_new, y_new = patients(2000, seed=99)
    share, change = {"regret": [], "calibrated": []}, {"regret": [], "calibrated": []}
    for seed in range(1, 6):
        X, y = patients(120, seed=seed)
        for stop in share:
            planner = DiagnosisPlanner(COSTS, stop=stop, tolerance=0.01, random_state=0).fit(X, y)
            bought = planner.acquire(X_new)
            share[stop].append(bought.cost_share)
            change[stop].append((bought.answer == y_new).mean() - (planner.predict_full(X_new) == y_new).mean())
    assert np.mean(share["regret"]) < 0.85 * np.mean(share["calibrated"])
    assert np.mean(change["regret"]) > max(-0.012, np.mean(change["calibrated"]) - 0.003)


def test_loyalty_stops_the_strong(data):
    """Definition 6 on what the altered models answer: exactly one class keeps the patient although held back."""
    X, y, *_ = data
    planner = DiagnosisPlanner(COSTS, stop="loyalty", beta=0.2, level=0.2, random_state=0).fit(X, y)
    *_, planning = planner._prepare(X, y)
    judge = planning.judge
    claims = judge.models.claims(0b0001)
    np.testing.assert_array_equal(judge.opinion(0b0001)[2] <= np.float32(0.2), claims[0] == 1)


def test_a_beam_trains_only_what_it_visits(data):
    X, y, X_new, y_new = data
    planner = DiagnosisPlanner(COSTS, search="beam", beam_width=2, cv=3, random_state=0).fit(X, y)
    assert not planner.certificate_.optimal
    assert (planner.predict(X_new) == y_new).mean() > 0.8


def test_the_folds_plans_train_nothing(data):
    X, y, *_ = data
    costly = LogisticRegression()
    planner = DiagnosisPlanner(COSTS, estimator=costly, search="beam", beam_width=2, cv=3, level=0.01, random_state=0)
    *_, planning = planner._prepare(X, y)
    planner._decide(planning)
    known, folds = planning.judge.models.sets, planning.judge.models.fold
    plan, _ = planning.blind_to(0).plan(0.01, folds != 0)
    assert planning.judge.models.sets == known
    assert sorted(plan.order) == [0, 1, 2, 3]


def test_a_test_that_tells_only_after_another_is_found():
    """Alone, the sign of a product says nothing of its factors; after one of them, the other one tells the truth."""
    n, names = 400, ["first", "second", *(f"idle{t}" for t in range(14))]
    times = []  # as much as the most telling of the others, in each of some worlds
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, len(names)))
        y = (X[:, 0] * X[:, 1] > 0).astype(int)
        X[:, 0] += y  # says a little alone, which is where the greedy order begins
        planner = DiagnosisPlanner(dict.fromkeys(names, 1.0), level=0.02, cv=3, random_state=0)
        *_, planning = planner._prepare(X, y)
        order, telling = planning.information
        assert order[:2] == (0, 1)
        times.append(telling[1] / max(telling[2:]))
        alone = planning.judge.log_loss(0) - planning.judge.log_loss(0b10)
        assert telling[1] > 10 * alone
    assert np.median(times) > 5


def test_the_price_of_an_error_moves_the_order():
    """Cheap and unsure, or dear and sure: at a level that allows both, the price of an error decides."""
    rng = np.random.default_rng(0)
    ill = rng.integers(0, 2, 400)
    X = np.column_stack([ill + rng.normal(0, 0.45, 400), ill + rng.normal(0, 0.15, 400)])
    planner = DiagnosisPlanner({"cheap": 8.0, "dear": 10.0}, stop="calibrated", level=0.35, random_state=0)
    thrifty = planner.set_params(error_price=0.0).fit(X, ill)
    assert (thrifty.order_[0], thrifty.expected_cost_ < 9.5) == ("cheap", True)
    careful = planner.set_params(error_price=50.0).fit(X, ill)
    assert (careful.order_[0], careful.expected_cost_) == ("dear", pytest.approx(10, abs=0.1))


@pytest.mark.slow
def test_sixty_tests():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    X = y[:, None] * rng.uniform(0, 1, 60) + rng.normal(size=(200, 60))
    costs = {f"t{t}": float(price) for t, price in enumerate(rng.exponential(10, 60) + 1)}
    planner = DiagnosisPlanner(costs, random_state=0, tolerance=0.02, beam_width=4).fit(X, y)
    assert len(planner.order_) == 60
    assert planner.acquire(X[:20]).cost_share < 1


def test_other_classifiers(data):
    X, y, X_new, y_new = data
    planner = DiagnosisPlanner(COSTS, estimator=LogisticRegression(), level=0.01, random_state=0).fit(X, y)
    assert (planner.predict(X_new) == y_new).mean() > 0.8
    own = DiagnosisPlanner(COSTS, estimator=QMSClassifier(3, noise=0.7), level=0.01, random_state=0).fit(X, y)
    assert own.judge_.models.masked.components.shape[2] == 3
    assert own.judge_.models.full.components.shape[2] == 3


def test_three_classes():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    X = np.column_stack([(y == 0) + rng.normal(0, 0.4, 400), (y == 1) + rng.normal(0, 0.4, 400)])
    labels = np.array(["flu", "cold", "none"])[y]
    planner = DiagnosisPlanner({"a": 1, "b": 5}, level=0.01, random_state=0).fit(X, labels)
    assert set(planner.predict(X)) <= set(labels)
    np.testing.assert_allclose(planner.predict_proba(X).sum(axis=1), 1)
    assert planner.start().observe("a", 1.5).loyalty in ("strong", "normal", "weak")


def test_the_known_optimum_is_found():
    X, y, easy = easy_and_hard()
    planner = DiagnosisPlanner({"a": 1.0, "b": 10.0, "c": 4.0}, random_state=0).fit(X, y)
    assert planner.order_[:2] == ["a", "b"]
    assert planner.expected_cost_ == pytest.approx(1 + 10 * (1 - easy.mean()), rel=0.03)
    X_new, y_new, easy_new = easy_and_hard(seed=1)
    bought = planner.acquire(X_new)
    assert (bought.answer == y_new).mean() > 0.99
    assert np.mean([one == ("a",) for one in bought.tests] == easy_new) > 0.97


def test_an_adaptive_plan_is_a_tree():
    X, y = gated()
    costs = {"lean": 1.0, "first": 50.0, "second": 50.0}
    plans = {
        policy: DiagnosisPlanner(costs, policy=policy, level=0.03, random_state=0).fit(X, y)
        for policy in ("fixed", "adaptive")
    }
    assert plans["fixed"].plan_.is_fixed
    assert not plans["adaptive"].plan_.is_fixed
    assert plans["adaptive"].expected_cost_ < 0.95 * plans["fixed"].expected_cost_
    X_new, _ = gated(seed=1)
    costs_new = {policy: plan.acquire(X_new).cost.mean() for policy, plan in plans.items()}
    assert costs_new["adaptive"] < costs_new["fixed"]
    for node, after in enumerate(plans["adaptive"].plan_.following):
        held = plans["adaptive"].plan_.held[node] | 1 << plans["adaptive"].plan_.tests[node]
        assert all(plans["adaptive"].plan_.held[k] == held for k in after if k >= 0)


def test_the_flow_chart_counts_everybody(fitted):
    text = fitted.flow_chart()
    assert text.splitlines()[1].startswith("talk")
    assert f"expected cost {fitted.expected_cost_:.2f}" in text
    stopped = sum(sum(stops) for _, *stops in fitted.traffic_)
    assert stopped + fitted.stopped_at_once_ == pytest.approx(1)
    assert "full panel" in fitted.acquire(np.zeros((1, 4))).bill(0)


def test_tables_of_acquisitions(data, fitted):
    bought = fitted.acquire(data[2][:5])
    frame = bought.to_frame()
    assert list(frame.columns) == ["cost", "n_tests", "tests", "answer", "chance"]
    assert len(str(bought).splitlines()) == 6
    assert len(bought) == 5


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"costs": {"talk": 1}}, "must have a column for each of the 1 features"),
        ({"features": {"x": ["talk"]}}, "features of DiagnosisPlanner: no test is named 'x'"),
        ({"features": {"talk": 3}}, r"features\['talk'\] of DiagnosisPlanner must be a name or a sequence of names"),
        ({"features": {"talk": []}}, r"features\['talk'\] of DiagnosisPlanner is empty"),
        ({"features": {"talk": ["blood"]}}, "belong to two tests"),
        ({"estimator": LinearRegression()}, "must be a classifier"),
        ({"beta": 1.5}, "beta of DiagnosisPlanner must hold numbers"),
        ({"policy": "random"}, "'policy' parameter of DiagnosisPlanner"),
    ],
)
def test_refusals_leave_nothing_half_fitted(data, parameters, message):
    X, y, *_ = data
    planner = DiagnosisPlanner(**{"costs": COSTS, **parameters})
    with pytest.raises(ValueError, match=message):
        planner.fit(X[:100], y[:100])
    with pytest.raises(NotFittedError):
        planner.predict(X)


def test_more_refusals(data, fitted):
    X, y, *_ = data
    with pytest.raises(ValueError, match=r"names \['scan'\], which X has no column for"):
        DiagnosisPlanner({"scan": 1}).fit(pd.DataFrame({"talk": X[:, 0]}), y)
    with pytest.raises(ValueError, match="at least 2 classes in y; got 1 class, 0"):
        DiagnosisPlanner(COSTS).fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match=r"Every fold of cv .* n_samples=4"):
        DiagnosisPlanner(COSTS).fit(X[:4], [0, 0, 0, 1])
    with pytest.raises(ValueError, match="is missing for every patient"):
        DiagnosisPlanner(COSTS).fit(np.column_stack([np.full(len(X), np.nan), X[:, 1:]]), y)
    with pytest.raises(ValueError, match="infinite for some patient"):
        DiagnosisPlanner(COSTS).fit(np.where(X > 1, np.inf, X), y)
    with pytest.raises(ValueError, match=r"search='exact' .* up to 16 tests; costs names 17"):
        DiagnosisPlanner({f"t{t}": 1 for t in range(17)}, search="exact").fit(np.zeros((300, 17)), y)
    with pytest.raises(ValueError, match="must have the 4 columns of fit"):
        fitted.predict(X[:, :2])
    with pytest.raises(ValueError, match=r"lacks the columns \['blood', 'scan', 'noise'\]"):
        fitted.predict(pd.DataFrame({"talk": X[:, 0]}))
    with pytest.raises(ValueError, match="holds no patient"):
        fitted.predict(X[:0])
    with pytest.raises(ValueError, match="was a number for every training patient"):
        fitted.predict(pd.DataFrame(X, columns=list(COSTS)).assign(talk="bad"))
    with pytest.raises(ValueError, match="takes no sample_weight in fit"):
        DiagnosisPlanner(COSTS, estimator=KNeighborsClassifier(), stop="loyalty").fit(X, y)


def test_a_beam_from_what_is_known_divides_by_no_infinite_price():
    """What may not be bought has an infinite price; it is left out before anything is divided by it."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 150)
    X = rng.normal(size=(150, 5)) + y[:, None] * np.array([0.3, 0.6, 1.0, 1.5, 2.0])
    costs = {f"x{i}": float(i + 1) for i in range(5)}
    for stop in ("calibrated", "regret"):
        planner = DiagnosisPlanner(
            costs, known=["x0"], policy="adaptive", search="beam", stop=stop, level=0.02, random_state=0
        )
        assert "x0" not in planner.fit(X, y).order_
