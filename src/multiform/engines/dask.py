"""A cluster of dask.distributed: its workers, tasks that have a home there, and members that are spread over them.

A task is given to a worker by name, because what it needs lies there. When that worker dies its tasks get another home,
and begin anew: each is a function of what the caller holds, so the answer is the same. Every wait has a limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from multiform._typing import Array, Floats
from multiform.engines.base import TrainingState
from multiform.engines.cpu import CpuEngine
from multiform.engines.reference import ReferenceEngine
from multiform.runtime import effective_threads, kernel_name
from multiform.separators import Rows, Separators
from multiform.solvers import ModelBatch, Moments, Solver, TrainingProblem

__all__ = ["DaskEngine", "Kept", "Task", "Workers", "release", "threads_here"]

LOOK_SECONDS = 0.2  # between two looks at who is still there
FETCH_SECONDS = 30.0
SEND_SECONDS = 10.0  # until a worker is there to send to
AGAIN_SECONDS = 10.0  # until Dask has begun to make again what was lost with a worker
SLICE_SECONDS = 1.0  # that a worker trains on after Ctrl-C here
# What a user may set in Dask's configuration, seconds.
PATIENCE = "multiform.patience", 600.0  # without any answer to a question
FOR_WORKERS = "multiform.wait-for-workers", 30.0  # where a cluster has none


Task = tuple[int, tuple[Any, ...]]  # a place, and what is asked there


class Kept:
    """A value that is sent to a worker once, when the first task there needs it."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self._futures: dict[str, Any] = {}

    def at(self, home: str, client: Any) -> Any:
        """Its future on that worker."""
        if home not in self._futures or self._futures[home].status in ("cancelled", "lost"):
            self._futures[home] = client.scatter([self.value], workers=[home], hash=False, timeout=SEND_SECONDS)[0]
        return self._futures[home]


class Workers:
    """The workers of a cluster, as so many places; a place whose worker is gone moves to another one.

    Parameters
    ----------
    name : str
        Who asks, for sentences.
    """

    def __init__(self, name: str) -> None:
        self.client, self._name = _client(name), name
        self._homes = sorted(self._alive())
        self._greeted: dict[str, Any] = {}  # workers that came later, and their answer

    @property
    def n_places(self) -> int:
        return len(self._homes)

    def home(self, place: int) -> str:
        """The address of the worker that has this place now."""
        return self._homes[place]

    def asked(
        self,
        function: Callable[..., Any],
        tasks: Sequence[Task],
        what: str,
        then: Sequence[Sequence[Task]] = (),
        *,
        stay: bool = False,
    ) -> list[Any]:
        """The answers of `function` to every task, (place, arguments); a `Kept` among these is sent as its value.

        Parameters
        ----------
        what : str
            What is waited for, for a sentence.
        then : sequence of sequences of tasks
            Rounds that follow. Their tasks also get the answers of the round before, which workers tell each other; the
            answers are those of the last round. When a worker dies, it goes on from the last round of which all
            answers are still there.
        stay : bool
            Whether a place stays with another one where it is, though a new worker could have it.
        """
        if not stay:
            self._spread_out()
        rounds = [tasks, *then]
        last = rounds[-1]
        waiting: dict[int, Any] = {}
        before: dict[int, list[Any]] = {}  # the futures of earlier rounds, until a later one is done
        answers: dict[int, Any] = {}
        heard = time.monotonic()
        try:
            while left := [number for number in range(len(last)) if number not in answers]:
                if missing := [number for number in left if number not in waiting]:
                    waiting |= self._submitted(function, rounds, missing, before)
                self._wait(list(waiting.values()))
                _forget(before, max((number for number in before if _all_done(before[number])), default=0))
                for number, future in list(waiting.items()):
                    if future.status == "error":
                        self._raise(future.exception(), what)
                    if future.status == "finished" and (answer := self._fetched(future)) is not None:
                        answers[number] = answer[0]
                    if future.status in ("cancelled", "lost") or number in answers:
                        del waiting[number]
                if len(answers) > len(last) - len(left):
                    heard = time.monotonic()
                    continue
                needed = [*(task for earlier in rounds[:-1] for task in earlier), *(last[number] for number in left)]
                moved = self._moved({place for place, _ in needed})
                again = [number for number in waiting if moved and (then or last[number][0] in moved)]
                release([waiting.pop(number) for number in again])
                if any(_is_lost(arguments, time.monotonic() - heard) for _, arguments in needed):
                    raise RuntimeError(
                        f"{self._name} has lost what {what} come from: the connection to the cluster broke, or "
                        "somebody cancelled it. Fit again."
                    )
                if time.monotonic() - heard > (patience := _seconds(PATIENCE)):
                    raise TimeoutError(
                        f"{self._name} has waited {patience:.0f} s for {what}, and no answer came from "
                        f"{', '.join(sorted({self._homes[last[number][0]] for number in left}))}. See the "
                        f"dashboard of the cluster; {PATIENCE[0]} of Dask's configuration is how long it waits."
                    )
        finally:
            release(waiting.values())  # after Ctrl-C, or an error of one of them
            _forget(before, len(rounds))
        return [answers[number] for number in range(len(last))]

    def wait_for(self, futures: Sequence[Any], what: str) -> None:
        """Until all of these are there, which somebody else has asked for."""
        from distributed import wait

        try:
            wait(list(futures), timeout=(patience := _seconds(PATIENCE)))
        except TimeoutError as error:
            raise TimeoutError(
                f"{self._name} has waited {patience:.0f} s for {what}, which the cluster is still computing; "
                f"{PATIENCE[0]} of Dask's configuration is how long it waits."
            ) from error

    def _submitted(
        self,
        function: Callable[..., Any],
        rounds: Sequence[Sequence[Task]],
        wanted: list[int],
        before: dict[int, list[Any]],
    ) -> dict[int, Any]:
        """The futures of the wanted tasks of the last round; none of those whose home cannot be reached just now.

        What leads to them goes on from the last round `before` that is there, and is added to these.
        """
        there = max((number for number in before if self._is_there(before[number])), default=-1)
        told = [before[there]] if there >= 0 else []
        _forget(before, there)
        for later in [number for number in before if number > there]:
            release(before.pop(later))
        for number in range(there + 1, len(rounds) - 1):
            futures = [self._future(function, place, (*arguments, *told)) for place, arguments in rounds[number]]
            if any(future is None for future in futures):
                return {}
            before[number], told = futures, [futures]
        found = {}
        for one in wanted:
            place, arguments = rounds[-1][one]
            if (future := self._future(function, place, (*arguments, *told))) is not None:
                found[one] = future
        return found

    def _is_there(self, futures: list[Any]) -> bool:
        """Whether somebody who is alive has each of these."""
        if not _all_done(futures):
            return False
        held = self.client.who_has(futures)
        return all(held.get(future.key) for future in futures)

    def _future(self, function: Callable[..., Any], place: int, arguments: tuple[Any, ...]) -> Any:
        """The future of a task at its home; None where that cannot be reached just now."""
        from distributed import CancelledError

        home = self._homes[place]
        try:
            sent = [one.at(home, self.client) if isinstance(one, Kept) else one for one in arguments]
            return self.client.submit(function, *sent, workers=[home], pure=False)
        except (OSError, TimeoutError, CancelledError, KeyError):  # the last: of an address that is gone
            return None

    def _wait(self, futures: list[Any]) -> None:
        from distributed import CancelledError, wait

        if not futures:
            time.sleep(LOOK_SECONDS)
            return
        with suppress(TimeoutError, CancelledError):
            wait(futures, timeout=LOOK_SECONDS, return_when="FIRST_COMPLETED")

    def _fetched(self, future: Any) -> tuple[Any] | None:
        """The answer of a finished task, in a tuple; None where it was lost with its worker."""
        from distributed import CancelledError

        seconds = LOOK_SECONDS
        while future.status == "finished" and seconds < FETCH_SECONDS:  # a lost one is finished no more
            try:
                return (future.result(timeout=seconds),)
            except TimeoutError:
                seconds *= 2
            except (CancelledError, OSError):
                break
        return None

    def _raise(self, error: Any, what: str) -> None:
        from distributed.scheduler import KilledWorker

        if isinstance(error, KilledWorker):
            raise RuntimeError(
                f"{self._name} has lost worker after worker at {what}: they were killed, perhaps for lack of memory. "
                "Give workers more memory, or smaller partitions."
            ) from error
        raise error

    # ------------------------------------------------------------------------------------------------ who is there

    def _alive(self) -> list[str]:
        """The addresses of all workers; waits for the first one."""
        until = time.monotonic() + (seconds := _seconds(FOR_WORKERS))
        while not (found := list(self.client.nthreads())):
            if time.monotonic() > until:
                raise TimeoutError(
                    f"{self._name} has waited {seconds:.0f} s for a worker, and the cluster at "
                    f"{self.client.scheduler.address} has none: start some; {FOR_WORKERS[0]} of Dask's configuration "
                    "is how long it waits."
                )
            time.sleep(0.1)
        return found

    def _moved(self, places: set[int]) -> set[int]:
        """Those of the places that had to move, as their worker is gone."""
        alive = sorted(self._alive())
        gone = {place for place in places if self._homes[place] not in alive}
        for place in sorted(gone):
            self._homes[place] = min(alive, key=self._homes.count)
        return gone

    def _spread_out(self) -> None:
        """Where two places share a worker and another has none, one moves there, once that one has loaded our code."""
        if len(set(self._homes)) == len(self._homes):
            return
        idle = sorted(set(self._alive()) - set(self._homes))
        for home in idle:
            if home not in self._greeted:
                self._greeted[home] = self.client.submit(kernel_name, workers=[home], pure=False)
        idle = [home for home in idle if self._greeted[home].status == "finished"]
        for place, home in enumerate(self._homes):
            if idle and self._homes.index(home) < place:
                self._homes[place] = idle.pop(0)


def release(futures: Iterable[Any]) -> None:
    """Nobody here wants these any more. (To cancel them would end the connection, where other tasks need them.)"""
    for future in futures:
        future.release()


def _all_done(futures: Iterable[Any]) -> bool:
    return all(future.status == "finished" for future in futures)


def _forget(rounds: dict[int, list[Any]], until: int) -> None:
    """Release the futures of the rounds before this one."""
    for number in [number for number in rounds if number < until]:
        release(rounds.pop(number))


def _is_lost(arguments: Iterable[Any], seconds: float) -> bool:
    """Whether a future among these, or in a list of them, will never be there, when nothing was heard for so long."""
    gone = ("cancelled", "lost") if seconds > AGAIN_SECONDS else ("cancelled",)
    return any(
        _is_lost(one, seconds) if isinstance(one, list) else getattr(one, "status", None) in gone for one in arguments
    )


def _client(name: str) -> Any:
    try:
        from distributed import default_client
    except ImportError as error:
        raise ImportError("A cluster is reached by dask.distributed: pip install 'multiform[dask]'.") from error
    try:
        return default_client()
    except ValueError as error:
        raise ValueError(
            f"{name} finds no client of a cluster: make one first, as in client = dask.distributed.Client()."
        ) from error


def _seconds(setting: tuple[str, float]) -> float:
    import dask

    return float(dask.config.get(*setting))


def threads_here(n_jobs: int | None) -> int:
    """The threads that a task may use on its worker."""
    from distributed import get_worker

    n_threads = int(get_worker().state.nthreads)
    return n_threads if n_jobs is None else min(n_threads, effective_threads(n_jobs))


# ------------------------------------------------------------------------------------------------- members over workers


class DaskEngine:
    """Members of a batch spread over the workers of the current client, X sent once to each.

    A worker trains its members as it would alone, so they are what one machine finds. Separators are evaluated here,
    where the rows are.

    Parameters
    ----------
    n_jobs : int or None
        Threads at most on each worker, and here.
    """

    reads_sparse = True

    def __init__(self, n_jobs: int | None = None) -> None:
        self._n_jobs = n_jobs
        self._workers: Workers | None = None
        self._problem: Kept | None = None
        self._states: list[_DaskState] = []

    def begin(
        self, problem: TrainingProblem, batch: ModelBatch, solver: Solver, moments: Sequence[Moments] | None = None
    ) -> TrainingState:
        if self._workers is None:
            self._workers = Workers("device='dask'")
        kept = self._problem
        if kept is None or kept.value.rows is not problem.rows or kept.value.target is not problem.target:
            kept = self._problem = Kept(problem)
        state = _DaskState(self._workers, kept, batch, solver, moments, self._n_jobs)
        self._states.append(state)
        return state

    def values(self, rows: Rows, separators: Separators) -> Array:
        return _engine(effective_threads(self._n_jobs)).values(rows, separators)

    def release(self) -> None:
        """The workers let go of X, and of members that were not trained to their end."""
        for state in self._states:
            state.release()
        self._problem, self._states = None, []


class _DaskState:
    """Some of the members on each worker, which keeps their state between two slices; one that is lost begins anew."""

    _numbers = count()

    def __init__(
        self,
        workers: Workers,
        problem: Kept,
        batch: ModelBatch,
        solver: Solver,
        moments: Sequence[Moments] | None,
        n_jobs: int | None,
    ) -> None:
        self._workers, self._last = workers, solver.n_passes
        shares = np.array_split(np.arange(len(batch)), min(workers.n_places, len(batch)))
        name = f"{workers.client.id}-{next(self._numbers)}"
        self._parts: list[tuple[Any, ...]] = []
        for share in shares:
            gone_before = None if moments is None else [moments[member] for member in share]
            part = Kept((batch.part(share), gone_before))
            self._parts.append((f"{name}-{len(self._parts)}", problem, part, solver, n_jobs))
        self._told = [_Told(0, [[] for _ in share], {}) for share in shares]
        self._found: list[_Found | None] = [None] * len(shares)

    @property
    def passes(self) -> int:
        return min(told.passes for told in self._told)

    @property
    def losses(self) -> list[list[float]]:
        return [losses for told in self._told for losses in told.losses]

    @property
    def counts(self) -> dict[str, int]:
        return {name: sum(told.counts[name] for told in self._told) for name in self._told[0].counts}

    @property
    def coefficients(self) -> list[Floats]:
        return [one for found in self._fetched() for one in found.coefficients]

    @property
    def moments(self) -> list[Moments] | None:
        moments = [one for found in self._fetched() for one in found.moments or ()]
        return moments or None

    def advance(self, until: int, seconds: float) -> None:
        behind = [place for place, told in enumerate(self._told) if told.passes < until]
        answers = self._asked(_advanced, behind, until, max(seconds, SLICE_SECONDS))
        for place, (told, found) in zip(behind, answers, strict=True):
            self._told[place], self._found[place] = told, found

    def _fetched(self) -> list[_Found]:
        missing = [place for place, found in enumerate(self._found) if found is None]
        for place, found in zip(missing, self._asked(_looked_at, missing, self.passes, 0.0), strict=True):
            self._found[place] = found
        return [found for found in self._found if found is not None]

    def _asked(self, function: Callable[..., Any], places: list[int], until: int, seconds: float) -> list[Any]:
        tasks = [(place, (*self._parts[place], until, seconds)) for place in places]
        return self._workers.asked(function, tasks, "members of a batch")

    def release(self) -> None:
        """Workers forget the members that are not trained to their end, and cannot be asked for them any more."""
        unfinished = [place for place, told in enumerate(self._told) if told.passes < self._last]
        self._workers.asked(_forgotten, [(place, self._parts[place][:1]) for place in unfinished], "an end")


class _Told(NamedTuple):
    """How far the members on a worker are."""

    passes: int
    losses: list[list[float]]
    counts: dict[str, int]


class _Found(NamedTuple):
    """What they have come to."""

    coefficients: list[Floats]
    moments: list[Moments] | None


# What a worker is asked. A state is kept between two questions, and begun where there is none.


def _advanced(*arguments: Any) -> tuple[_Told, _Found | None]:
    key, *_, solver, _, until, seconds = arguments
    state = _state(*arguments[:5])
    state.advance(until, seconds)
    told = _Told(state.passes, state.losses, state.counts)
    if state.passes < solver.n_passes:
        return told, None
    _states().pop(key, None)
    return told, _Found(state.coefficients, state.moments)


def _looked_at(*arguments: Any) -> _Found:
    *which, until, _ = arguments
    state = _state(*which)
    while state.passes < until:  # it was lost, and is caught up with
        state.advance(until, SLICE_SECONDS)
    return _Found([one.copy() for one in state.coefficients], state.moments)


def _forgotten(key: str) -> None:
    _states().pop(key, None)


def _state(
    key: str,
    problem: TrainingProblem,
    part: tuple[ModelBatch, list[Moments] | None],
    solver: Solver,
    n_jobs: int | None,
) -> TrainingState:
    if (state := _states().get(key)) is None:
        state = _states()[key] = _engine(threads_here(n_jobs)).begin(problem, part[0], solver, part[1])
    return state


def _engine(n_threads: int) -> CpuEngine | ReferenceEngine:
    kernel = kernel_name()
    return ReferenceEngine() if kernel == "reference" else CpuEngine(kernel, n_threads)


def _states() -> dict[str, TrainingState]:
    from distributed import get_worker

    found: dict[str, TrainingState] = vars(get_worker()).setdefault("multiform_states", {})
    return found
