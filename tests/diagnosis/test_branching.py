"""Plans that branch on results, one classifier for all sets, and gaps that are tests which were not done."""

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier

from multiform import DiagnosisPlanner, QMSClassifier, load, save
from multiform.diagnosis import FewPatientsWarning, ThetaNotReachedWarning, WeakEvidenceWarning
from multiform.diagnosis._masked import Bends, MaskedClassifier, MaskedModels
from tests.diagnosis.worlds import COSTS, patients

pytestmark = pytest.mark.filterwarnings("ignore::multiform.columns.UnfamiliarWarning")


def cube(n, seed=0, n_idle=3):
    """The first test says which three of the others tell the class, one of eight; a test alone tells nothing."""
    rng = np.random.default_rng(seed)
    context, y = rng.integers(0, 2, n), rng.integers(0, 8, n)
    X = rng.integers(0, 2, (n, 7 + n_idle)) + rng.normal(0, 0.1, (n, 7 + n_idle))
    for bit in range(3):
        X[np.arange(n), 1 + 3 * context + bit] = (y >> bit & 1) + rng.normal(0, 0.1, n)
    X[:, 0] = context
    return X, y


@pytest.fixture(scope="module")
def branching():
    X, y = cube(500)
    costs = {f"t{k}": 1.0 for k in range(X.shape[1])}
    return DiagnosisPlanner(costs, policy="adaptive", search="beam", level=0.05, cv=3, random_state=0).fit(X, y)


def test_a_test_that_only_says_which_others_matter_comes_first(branching):
    """One step ahead sees nothing in it; the plan buys it, looks at the result, and buys three of nine."""
    X, y = cube(1000, seed=1)
    bought = branching.acquire(X)
    assert branching.plan_.tests[0] == 0
    assert bought.cost.mean() < 5
    assert (bought.answer == y).mean() > 0.95
    for context in (0, 1):
        own = {f"t{1 + 3 * context + bit}" for bit in range(3)}
        others = [own <= set(tests) for tests, row in zip(bought.tests, X, strict=True) if row[0] == context]
        assert np.mean(others) > 0.9


def test_a_tree_is_told_in_words_and_kept_in_a_file(branching, tmp_path):
    text = branching.flow_chart()
    assert "if t0 is at most 0.5:" in text or "if t0 is above 0.5:" in text
    assert "otherwise:" in text
    save(branching, tmp_path / "plan.mfm")
    again, (X, _) = load(tmp_path / "plan.mfm"), cube(200, seed=2)
    assert again.flow_chart() == text
    np.testing.assert_array_equal(again.predict_proba(X), branching.predict_proba(X))


def test_a_session_goes_the_same_way(branching):
    X, _ = cube(30, seed=3)
    X[::4, 1:3] = np.nan
    bought = branching.acquire(X)
    for i, row in enumerate(X):
        session, done = branching.start(), []
        while not session.finished:
            name = session.next_evidence.name
            value = row[branching.tariff_.position(name)]
            if np.isnan(value):
                session.not_available(name)
            else:
                session.observe(name, value)
                done.append(name)
        assert (tuple(done), session.diagnosis) == (bought.tests[i], bought.answer[i])


def test_masked_models_say_what_the_formula_says():
    """The sum over tests of precomputed terms is the member function of the inputs with zeros for what is unknown."""
    X, y = patients(120)
    folds = np.stack([np.arange(120) % 3, np.arange(120) // 2 % 2])  # two draws: models 0 to 2, and 3 and 4
    models = MaskedModels(X.astype(np.float32), y.astype(np.int32), folds, np.arange(4), 2, None, (), 0, 1, n_tests=4)
    tests = 0b1010
    known = np.array([False, True, False, True])
    inputs = np.hstack([np.where(known, X, 0), np.tile(known, (120, 1))])
    quadratics = models.classifier.masked
    for i in (0, 7, 50):
        own = [folds[0, i], 3 + folds[1, i]]
        A, b, noise = (part[own] for part in (quadratics.components, quadratics.offsets, quadratics.energy))
        f = ((A @ inputs[i] - b) ** 2).sum(axis=2) + noise
        np.testing.assert_allclose(models.unseen(tests)[i], -np.log(f).mean(axis=0), rtol=2e-3, atol=2e-3)


def test_a_patient_is_judged_by_models_that_have_not_seen_it():
    """Labels of a patient, turned around, change no score of its own; others' change."""
    X, y = patients(60)
    folds = np.stack([np.arange(60) % 3, np.arange(60) // 2 % 2])
    changed = y.copy()
    changed[7] = 1 - changed[7]
    how = QMSClassifier(noise=1.0)
    told = [
        MaskedModels(X.astype(np.float32), target.astype(np.int32), folds, np.arange(4), 2, how, (), 0, 1, n_tests=4)
        for target in (y, changed)
    ]
    own = [folds[0, 7], 3 + folds[1, 7]]
    np.testing.assert_array_equal(told[0]._idle[own], told[1]._idle[own])  # of what is idle others have decided
    for tests in (0b0011, 0b1011):
        before, after = (models.unseen(tests) for models in told)
        np.testing.assert_array_equal(before[7], after[7])
        assert not np.array_equal(before, after)


def test_tests_that_tell_nothing_are_left_out():
    """What tells stays; most of the noise goes, and its results then change no answer."""
    X, y = patients(240)
    X = np.hstack([X[:, :2], np.random.default_rng(1).normal(size=(240, 8))]).astype(np.float32)
    models = MaskedModels(
        X,
        y.astype(np.int32),
        np.arange(240)[None] % 3,
        np.arange(10),
        2,
        QMSClassifier(noise=1.0),
        (),
        0,
        1,
        n_tests=10,
    )
    assert not models._idle[:, :2].any()
    idle = models._idle.all(axis=0)
    assert idle[2:].sum() >= 4
    other = np.where(idle, 3.0, X).astype(np.float32)
    np.testing.assert_array_equal(models.scores(0b1111111111, X), models.scores(0b1111111111, other))
    everything_told = models.scores(0b1111111111, np.where(idle, X, X + 3).astype(np.float32))
    assert not np.array_equal(models.scores(0b1111111111, X), everything_told)


def test_all_evidence_is_read_bent_where_that_is_better():
    """A wave of a number is no quadratic of it; a given estimator reads what it is given."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)).astype(np.float32)
    y = (np.abs(np.abs(X[:, 0]) - 0.7) < 0.45).astype(np.int32)
    about = X, y, np.arange(300)[None] % 3, np.arange(2), 2
    models = MaskedModels(*about, None, (), 0, 1, n_tests=2)
    straight = MaskedModels(*about, QMSClassifier(), (), 0, 1, n_tests=2)
    right = [(one.unseen(0b11).argmax(axis=1) == y).mean() for one in (models, straight)]
    assert right[0] > right[1] + 0.05
    assert not len(straight.classifier.bends.columns)
    classifier = models.classifier
    again = MaskedClassifier.from_state({**models.kept(False).state()}, 2, 2, np.arange(2))
    np.testing.assert_array_equal(again.scores(0b11, X), classifier.scores(0b11, X))
    wrong = classifier.state() | {"bends": {"columns": np.array([0, 2]), "knots": classifier.bends.knots}}
    with pytest.raises(ValueError, match="bends are of columns that there are not"):
        MaskedClassifier.from_state(wrong, 2, 2, np.arange(2))
    wrong["bends"] = {"columns": classifier.bends.columns, "knots": -classifier.bends.knots}
    with pytest.raises(ValueError, match="knots do not ascend"):
        MaskedClassifier.from_state(wrong, 2, 2, np.arange(2))


def test_the_tents_of_a_number():
    rows = np.array([[-9.0], [0.0], [0.5], [1.0], [3.0], [9.0]], dtype=np.float32)
    bends = Bends(np.array([0]), np.array([[0.0, 1.0, 2.0, 4.0, 5.0]], dtype=np.float32))
    told = [[1, 0, 0, 0], [1, 0, 0, 0], [0.5, 0.5, 0, 0], [0, 1, 0, 0], [0, 0, 0.5, 0.5], [0, 0, 0, 0]]
    np.testing.assert_array_equal(bends.beside(rows), np.hstack([rows, told]))
    assert bends.owner(np.array([3])).tolist() == [3] * 5


def test_what_was_not_done_is_not_billed_not_guessed_and_not_needed():
    X, y = patients(400)
    planner = DiagnosisPlanner(COSTS, level=0.01, random_state=0).fit(X[:300], y[:300])
    new = X[300:].copy()
    new[:, 0] = np.nan
    bought = planner.acquire(new)
    assert np.isnan(bought.prices[:, 0]).all()
    other = new.copy()
    other[:, 0] = 99.0  # whatever is there is looked at, and strange: it was done, is paid for, and not used
    paid = planner.acquire(other)
    np.testing.assert_array_equal(paid.answer, bought.answer)
    np.testing.assert_allclose(paid.cost, bought.cost + COSTS["talk"])
    np.testing.assert_array_equal(planner.predict_full(new), planner.predict_full(other))


def test_records_with_gaps_that_a_clinician_chose():
    """A scan is done where talk is not clear. The plan says so much of it as those tell who had it."""
    X, y = patients(900)
    X[(np.abs(X[:, 0] - 0.5) > 0.8), 2] = np.nan
    planner = DiagnosisPlanner(COSTS, level=0.01, random_state=0).fit(X[:500], y[:500])
    fresh, truth = patients(900, seed=5)  # of whom everybody can have every test
    assert (planner.predict(fresh) == truth).mean() > (planner.predict(X[500:]) == y[500:]).mean() - 0.05
    bought = planner.acquire(X[500:])
    assert not np.any(~np.isnan(bought.prices[:, 2]) & np.isnan(X[500:, 2]))


def test_a_budget_is_never_exceeded():
    X, y = patients(300)
    planner = DiagnosisPlanner(COSTS, budget=60.0, cv=3, random_state=0).fit(X, y)
    bought = planner.acquire(patients(200, seed=4)[0])
    assert bought.cost.max() <= 60
    assert "scan" not in planner.order_  # which costs 100
    assert planner.expected_cost_ > 0
    with pytest.warns(ThetaNotReachedWarning, match=r"budget=0.5 .* buys no test, the cheapest of which costs 1; "):
        nothing = DiagnosisPlanner(COSTS, budget=0.5, cv=3, random_state=0).fit(X, y)
    with pytest.warns(ThetaNotReachedWarning, match=r"budget=60 .* does not buy target_accuracy=0.99; within it "):
        DiagnosisPlanner(COSTS, budget=60, target_accuracy=0.99, cv=3, random_state=0).fit(X, y)
    assert nothing.order_ == []
    assert set(nothing.predict(X)) <= {0, 1}
    # What the money does not buy is missed, and the plan says so.
    fresh, truth = patients(600, seed=5)
    assert planner.plan_accuracy_ < planner.full_accuracy_
    assert abs(planner.plan_accuracy_ - (planner.predict(fresh) == truth).mean()) < 0.08
    assert nothing.plan_accuracy_ < 0.65 < nothing.full_accuracy_


def test_a_target_accuracy_is_paid_for_and_no_more():
    X, y = patients(300)
    shares = []
    for target in (0.7, 0.89):
        planner = DiagnosisPlanner(COSTS, target_accuracy=target, random_state=0).fit(X, y)
        assert planner.plan_accuracy_ >= target - 0.02
        shares.append(planner.expected_cost_)
    assert shares[0] < shares[1]
    with pytest.warns(ThetaNotReachedWarning, match=r"keeps target_accuracy=0.999; .* of the cost \d.* answered right"):
        DiagnosisPlanner(COSTS, target_accuracy=0.999, cv=2, random_state=0).fit(X[:120], y[:120])


@pytest.mark.parametrize("policy", ["fixed", "adaptive"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_eight_patients_buy_everything_and_lose_nothing_by_it(policy):
    X, y = patients(8)
    planner = DiagnosisPlanner(COSTS, policy=policy, cv=2, random_state=0).fit(X, y)
    assert planner.level_ == 0.0
    assert planner.plan_accuracy_ == planner.full_accuracy_


def test_few_patients_and_weak_evidence_are_said():
    X, y = patients(300)
    with pytest.warns(FewPatientsWarning, match="40 patients, 20 of them 0"):
        DiagnosisPlanner(COSTS, level=0.01, cv=2, random_state=0).fit(X[np.argsort(y)[130:170]], np.repeat([0, 1], 20))
    rare = np.zeros(300, dtype=int)
    rare[:3] = 1
    with pytest.warns() as told:
        planner = DiagnosisPlanner(COSTS, level=0.01, cv=2, random_state=0).fit(X, rare)
    assert any("300 patients, 3 of them 1" in str(one.message) for one in told)
    assert planner.predict(X).shape == (300,)
    noise = np.random.default_rng(3).normal(size=(200, 4))
    mostly = (np.arange(200) % 5 == 0).astype(int)
    with pytest.warns() as told:
        DiagnosisPlanner(
            COSTS, level=0.01, cv=4, estimator=DummyClassifier(strategy="stratified", random_state=0), random_state=0
        ).fit(noise, mostly)
    assert any(one.category is WeakEvidenceWarning and "for 80.0%" in str(one.message) for one in told)


def test_what_is_no_evidence_gets_a_sentence():
    X, y = patients(100)
    days = pd.date_range("2026-01-01", periods=100)
    for told in (days, pd.Series(days.date, dtype=object), pd.Series((days - days[0]).to_pytimedelta(), dtype=object)):
        frame = pd.DataFrame(X, columns=list(COSTS)).assign(talk=told)
        with pytest.raises(ValueError, match=r"'talk' of DiagnosisPlanner holds dates"):
            DiagnosisPlanner(COSTS).fit(frame, y)
    for nothing in (None, np.nan, pd.NA, " "):
        labels = pd.Series(np.where(y, "ill", "well"), dtype=object)
        labels[3] = nothing
        with pytest.raises(ValueError, match=r"y of DiagnosisPlanner, .* has no value for 1 of 100 patients"):
            DiagnosisPlanner(COSTS).fit(X, labels)
    with pytest.raises(ValueError, match=r"n_samples=100, 1 of them True\. Give more patients"):
        DiagnosisPlanner(COSTS).fit(X, np.arange(100) == 7)


@pytest.mark.slow
def test_five_hundred_tests(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 150)
    X = rng.normal(size=(150, 500))
    X[:, 400] += 3 * y
    costs = {f"t{t}": 1.0 for t in range(500)}
    planner = DiagnosisPlanner(costs, level=0.02, cv=3, beam_width=2, random_state=0).fit(X, y)
    assert planner.order_[0] == "t400"
    assert planner.acquire(X).cost_share < 0.5
    save(planner, tmp_path / "plan.mfm")
    np.testing.assert_array_equal(load(tmp_path / "plan.mfm").predict(X), planner.predict(X))
