"""What goes wrong on a cluster: workers that die, workers that are not there, answers that do not come, Ctrl-C."""

import os
import signal
import tempfile
import threading
import time

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster, wait

from multiform import LoyaltyClassifier, QMSClassifier
from multiform import cluster as cluster_room
from multiform.engines.dask import Workers
from tests.cluster.test_rows import drawn


def test_a_question_without_an_answer_is_given_up(client):
    asked = Workers("A test")
    with (
        dask.config.set({"multiform.patience": 0.2}),
        pytest.raises(TimeoutError, match=r"A test has waited 0 s for a long sleep, and no answer came from tcp://"),
    ):
        asked.asked(time.sleep, [(0, (3,))], "a long sleep")


def test_an_error_of_a_worker_is_the_error_of_the_call(client):
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        Workers("A test").asked(lambda x: 1 / x, [(0, (1,)), (1, (0,))], "a quotient")


def test_places_whose_worker_is_gone_move_and_tasks_begin_anew(client):
    asked = Workers("A test")
    asked._homes[1] = "tcp://127.0.0.1:9"  # where nobody is
    assert asked.asked(abs, [(0, (-1,)), (1, (-2,))], "numbers") == [1, 2]
    assert asked._homes == [asked.home(0), *(set(client.nthreads()) - {asked.home(0)})]


def test_a_place_moves_to_a_worker_that_has_none_unless_it_is_to_stay(client):
    asked = Workers("A test")
    first, second, *_ = asked._homes
    asked._homes[1] = first
    tasks = [(place, (-place,)) for place in range(asked.n_places)]
    assert asked.asked(abs, tasks, "numbers", stay=True) == [*range(asked.n_places)]
    assert asked._homes[:2] == [first, first]
    asked.asked(abs, tasks, "numbers")  # which greets the second one
    wait(list(asked._greeted.values()), timeout=60)
    asked.asked(abs, tasks, "numbers")
    assert asked._homes[:2] == [first, second]


def test_rounds_follow_each_other_on_the_workers(client):
    def told(number, before):
        return [number, before]

    tasks = [(0, ("a", None)), (1, ("b", None))]
    then = [[(0, ("c",)), (1, ("d",))], [(1, ("e",))]]
    c, d = (["c", [["a", None], ["b", None]]], ["d", [["a", None], ["b", None]]])
    assert Workers("A test").asked(told, tasks, "letters", then) == [["e", [c, d]]]


def noted(folder, number, before=()):
    """A round of a place: a file is left behind, and the sum of what was before."""
    time.sleep(0.5)
    handle, _ = tempfile.mkstemp(prefix=f"{number}-", dir=folder)
    os.close(handle)
    return number + sum(before)


@pytest.fixture
def four():
    with (
        LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        yield client


def killing(monkeypatch, client, function, after, place=1):
    """The worker of a place is killed once a function has been asked for so often, every pass being a question."""
    monkeypatch.setattr(cluster_room, "CELLS_AT_ONCE", 0)
    whole, rounds = Workers.asked, []

    def asked(self, asked_of, tasks, what, then=(), **more):
        if asked_of.__name__ == function:
            rounds.append(len(tasks))
            if len(rounds) == after:
                pids = client.run(os.getpid)
                victim = pids[self.home(place)]
                threading.Timer(0.05, os.kill, (victim, signal.SIGKILL)).start()
        return whole(self, asked_of, tasks, what, then, **more)

    monkeypatch.setattr(Workers, "asked", asked)
    return rounds


@pytest.mark.slow
@pytest.mark.parametrize(
    ("persisted", "function", "after", "place"),
    [(False, "_advanced", 2, 1), (True, "_advanced", 2, 1), (False, "_n_rows", 1, 2), (False, "_calibrated", 1, 0)],
)
def test_a_worker_that_is_killed_changes_nothing(four, monkeypatch, persisted, function, after, place):
    X, y = (da.from_array(part, chunks=(4_000, *part.shape[1:])) for part in drawn(64_000, 0))
    X, y = four.persist([X, y]) if persisted else (X, y)
    monkeypatch.setattr(cluster_room, "WORTH_MOVING", 0 if persisted else 3)  # whether a new worker gets the place
    # Where persisted partitions lie decides which of them are a place, and so the model.
    monkeypatch.setattr(cluster_room, "_placed", lambda workers, X, n: np.arange(n) % 4)
    expected = QMSClassifier(random_state=0, max_iter=2).fit(X, y)
    rounds = killing(monkeypatch, four, function, after, place)
    model = QMSClassifier(random_state=0, max_iter=2).fit(X, y)
    assert len(rounds) >= after
    np.testing.assert_array_equal(model.components_, expected.components_)
    assert model.temperature_ == expected.temperature_


@pytest.mark.slow
def test_rounds_that_are_done_are_not_done_again(four, tmp_path):
    asked = Workers("A test")
    rounds = [[(place, (str(tmp_path), 10 * turn + place)) for place in range(4)] for turn in range(6)]
    victim = four.run(os.getpid)[asked.home(2)]
    asked.asked(noted, [(place, (str(tmp_path), -1)) for place in range(4)], "that this file is loaded")
    threading.Timer(2, os.kill, (victim, signal.SIGKILL)).start()  # in the fourth round, or near it
    expected = [0] * 4
    for turn in range(6):
        expected = [10 * turn + place + sum(expected) * (turn > 0) for place in range(4)]
    assert asked.asked(noted, rounds[0], "a sum", rounds[1:]) == expected
    often = {
        name: len(list(tmp_path.glob(f"{name}-*"))) for name in (number for one in rounds for _, (_, number) in one)
    }
    assert [often[place] for place in range(4)] == [1, 1, 1, 1]
    assert min(often.values()) == 1


@pytest.mark.slow
def test_members_of_a_killed_worker_are_trained_again(four, monkeypatch):
    X, y = drawn(20_000, 0)
    expected = LoyaltyClassifier(QMSClassifier(random_state=0), random_state=0).fit(X, y)
    killing(monkeypatch, four, "_advanced", 2)
    model = LoyaltyClassifier(QMSClassifier(random_state=0, device="dask"), random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.loyalty_score(X), expected.loyalty_score(X))


@pytest.mark.slow
def test_a_cluster_without_workers_gets_a_sentence():
    X, y = (da.from_array(part, chunks=(4_000, *part.shape[1:])) for part in drawn(8_000, 0))
    with (
        dask.config.set({"multiform.wait-for-workers": 1}),
        LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=50) as cluster,
        Client(cluster),
        pytest.raises(TimeoutError, match=r"QMSClassifier has waited 1 s for a worker, and the cluster at .* has none"),
    ):
        QMSClassifier(random_state=0).fit(X, y)


@pytest.mark.slow
def test_an_interrupt_ends_a_fit_at_once_and_leaves_nothing_behind(client):
    X, y = (da.from_array(part, chunks=(4_000, *part.shape[1:])) for part in drawn(64_000, 0))
    model = QMSClassifier(random_state=0, max_iter=1_000)
    main = threading.main_thread().ident
    threading.Timer(5, signal.pthread_kill, (main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        model.fit(X, y)
    assert not hasattr(model, "components_")
    time.sleep(1)
    assert not any(client.processing().values())
