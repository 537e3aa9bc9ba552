"""A fit over the rows of a Dask collection, trained where they lie; `streaming` says what is learnt, this file by whom.

The partitions of a worker are a place. In a round every place advances its own copy of the separators by some steps
over its own rows, from common coefficients and moments; these are then averaged, weighted by rows, in the order of the
places. So a round is a function of the last average: when a worker dies its place moves, and it goes on from the last
round whose answers are all still there.

    theta, m, v  <-  sum over places of (rows of the place / rows) * (theta, m, v) of the place

Rows stay on the workers: what leaves them are classes and their counts, figures of columns, and separators.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone

from multiform._typing import Array, Indices
from multiform.blocks import Block, side_by_side
from multiform.engines.dask import Kept, Task, Workers, release, threads_here
from multiform.solvers import Moments
from multiform.streaming import (
    BUFFER_BYTES,
    Known,
    Look,
    Plan,
    Shown,
    State,
    Streamed,
    as_read,
    check_numbers,
    warn_of_sorted_rows,
)

__all__ = ["fit_on_cluster"]

Shared = tuple[Any, str, int]  # the model and its name, the seed

LOCAL_STEPS = 16, 2_000  # of a place between two averages, at least and at most
LEAST_ROUNDS = 8  # of a fit
ROUNDS_TIMES_ROWS = 100  # rounds of a fit, times rows of a place per coefficient: who knows little meets often
WORTH_MOVING = 3  # passes that are left, for the rows of a place to move to a worker that came later
AT_ONCE = 8  # rounds that the workers do without asking: each is told the answers of the last one by the others
CELLS_AT_ONCE = 100_000_000  # that a place trains over in these, where they are of several passes: about a second
WITH_THE_TASK = 4_000_000  # bytes of a state that are sent with a question; more are sent before it
WITH_EVERY_TASK = 100_000  # bytes of what all rounds need that are sent with each; more are sent to a worker once


def fit_on_cluster(model: Any, X: Any, y: Any, seed: int) -> tuple[Streamed, list[str] | None]:
    """The separators of a QMSClassifier for the rows of a Dask collection, and the names of its columns."""
    name = type(model).__name__
    parts = partitions_of(X, y, name)
    workers = Workers(name)
    places = _placed(workers, X, len(parts.delayed))
    blocks = _on_their_workers(workers, parts, places, model.missing)
    try:
        return _fitted(model, name, workers, blocks, places, seed), parts.names
    except BaseException:
        release(blocks)  # a traceback must not hold what workers are still to read
        raise


def _fitted(model: Any, name: str, workers: Workers, blocks: list[Any], places: Indices, seed: int) -> Streamed:
    homes = [(int(place), np.flatnonzero(places == place)) for place in np.unique(places)]
    sizes = np.zeros(len(blocks), dtype=np.int64)
    asked = [(place, ([blocks[number] for number in numbers],)) for place, numbers in homes]
    for (_, numbers), found in zip(homes, workers.asked(_n_rows, asked, "the rows"), strict=True):
        sizes[numbers] = found
    shared = _sent((clone(model).set_params(device="cpu", verbose=0), name, seed))
    look = _looked_at(workers, shared, asked)
    known: Known
    (known,) = workers.asked(_known, [(places[0], (look,))], "what was seen")
    plan = Plan.of(model, known)
    settled = _sent((known, plan))
    (state,) = workers.asked(_starts, [(places[0], (shared, look, settled))], "a start")
    shown = Shown(model, plan)
    own = [numbers[sizes[numbers] > 0] for _, numbers in homes]
    own = [numbers for numbers in own if len(numbers)]
    most = max(int(sizes[numbers].sum()) for numbers in own)
    n_rounds = rounds_a_pass(most, state.coefficients[0].size, plan)
    turns = [(number, turn) for number in range(plan.n_passes) for turn in range(n_rounds)]
    at_once = rounds_at_once(n_rounds, most * known.n_features)
    done = [_Done()] * plan.n_passes
    for first in range(0, len(turns), at_once):
        last = min(first + at_once, len(turns))
        rounds: list[list[Task]] = []
        for at in range(first, last):
            seeds, (begin, end) = [seed, *turns[at]], (at / len(turns), (at + 1) / len(turns))
            rounds.append([])
            for numbers in own:
                pieces = _pieces(numbers, sizes, turns[at][1], n_rounds, seeds[:2])
                rows = [blocks[piece.block] for piece in pieces]
                rounds[-1].append((int(places[numbers[0]]), (shared, settled, rows, pieces, seeds, begin, end)))
        # The last one only averages: one answer comes here instead of one from each place.
        rounds.append([(int(places[own[0][0]]), (shared, settled, [], [], [], 1.0, 1.0))])
        common = state if state.n_bytes < WITH_THE_TASK else Kept(state)
        tasks = [(place, (*arguments, common)) for place, arguments in rounds[0]]
        with shown.part(first / len(turns), last / len(turns)):
            answer: _Answer
            stay = len(turns) - first < WORTH_MOVING * n_rounds
            (answer,) = workers.asked(_advanced, tasks, "a round", rounds[1:], stay=stay)
        state = answer.state
        for number, more in answer.earlier.items():
            done[number] = done[number].plus(more)
            shown.show(number, done[number].n, done[number].loss / max(1, done[number].n))
    shown.close()
    if any(one.lacks_a_class for one in done):
        warn_of_sorted_rows(name)
    (found,) = workers.asked(_calibrated, [(places[0], (shared, look, settled, state))], "the chances")
    separators, classes, temperature, judged = found
    losses = [one.loss / one.n for one in done]
    return Streamed(separators, classes, temperature, judged, plan, losses, known.gaussian)


def rounds_a_pass(n_rows: int, n_coefficients: int, plan: Plan) -> int:
    """How often the places average in a pass, the largest of them having so many rows.

    Places that have many rows for each coefficient come to nearly the same, and seldom need to meet.
    """
    n_steps = n_rows / plan.batch_size
    most, least = (max(1, round(n_steps / steps)) for steps in LOCAL_STEPS)
    enough = max(LEAST_ROUNDS, ROUNDS_TIMES_ROWS * n_coefficients / n_rows)
    return max(least, min(most, math.ceil(enough / plan.n_passes)))


def rounds_at_once(n_rounds: int, n_cells: int) -> int:
    """How many rounds the workers do before the client hears of them: those of a pass, or of several short ones."""
    return min(AT_ONCE, max(n_rounds, int(CELLS_AT_ONCE * n_rounds / max(1, n_cells))))


def averaged(states: Sequence[tuple[State, int]]) -> State:
    """The mean of states, each of so many rows, summed in their order; where none has any, they are all the same."""
    states = [(state, n) for state, n in states if n] or [(states[0][0], 1)]
    shares = np.array([n for _, n in states]) / sum(n for _, n in states)

    def mean(arrays: Sequence[Array]) -> Array:
        total = np.zeros(arrays[0].shape)
        for share, one in zip(shares, arrays, strict=True):
            total += share * one
        return total.astype(np.float32)

    coefficients = [mean(ones) for ones in zip(*(state.coefficients for state, _ in states), strict=True)]
    moments: list[Moments] = []
    for ones in zip(*(state.moments or [] for state, _ in states), strict=True):
        first, second, steps = zip(*ones, strict=True)
        moments.append((mean(first), mean(second), max(steps)))
    return State(coefficients, moments)


def _sent(value: Any) -> Any:
    """What every round needs: a small value goes with each question, which is sooner there than one sent before it."""
    return value if len(pickle.dumps(value)) < WITH_EVERY_TASK else Kept(value)


class _Piece(NamedTuple):
    """Some rows of a block, in the order that it has in this pass."""

    block: int
    begin: int
    end: int


def _pieces(numbers: Indices, sizes: Indices, turn: int, n_rounds: int, seeds: list[int]) -> list[_Piece]:
    """What a place trains over in a round: its blocks in an order drawn for the pass, cut into as many parts."""
    order = np.random.default_rng([*seeds, int(numbers[0])]).permutation(numbers)
    ends = np.cumsum(sizes[order])
    begin, end = (int(ends[-1]) * which // n_rounds for which in (turn, turn + 1))
    pieces = []
    for block, last in zip(order.tolist(), ends.tolist(), strict=True):
        first = last - int(sizes[block])
        if first < end and last > begin:
            pieces.append(_Piece(block, max(begin, first) - first, min(end, last) - first))
    return pieces


# ---------------------------------------------------------------------------------------------- where the rows are


class Partitions(NamedTuple):
    """Parts of X and y, computed by nobody yet, and the names of the columns."""

    delayed: list[tuple[Any, Any]]
    names: list[str] | None
    target: str | None


def partitions_of(X: Any, y: Any, name: str) -> Partitions:
    """The partitions of a Dask array or data frame; y another collection, or the name of a column."""
    from dask import array  # its functions have no types

    names: list[str] | None = None
    target: str | None = None
    if isinstance(X, array.Array):
        if X.ndim != 2:
            raise ValueError(f"X of {name} must have samples in rows, shape (n, p); got {X.ndim} dimensions.")
        X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        if not hasattr(y, "dask"):
            if np.isnan(X.shape[0]) or y is None or isinstance(y, str):
                raise ValueError(
                    f"y of {name} must be a Dask array, with the partitions of X, whose sizes are not known; got "
                    f"{type(y).__name__}."
                )
            y = array.from_array(np.asarray(y), chunks=X.shape[0])
    else:
        names = [str(column) for column in X.columns]
        if isinstance(y, str):
            if y not in names:
                raise ValueError(f"y names the column {y!r}, which is not there; there are {', '.join(names[:20])}.")
            names.remove(y)
            target = y
        elif not hasattr(y, "dask"):
            raise ValueError(
                f"y of {name} must be a column of the Dask data frame X, its name or a Dask collection of the same "
                f"partitions; got {type(y).__name__}."
            )
    if target is not None:
        return Partitions([(part, None) for part in X.to_delayed()], names, target)
    known = isinstance(X, array.Array) and isinstance(y, array.Array) and not np.isnan([X.shape[0], *y.shape]).any()
    if known and y.shape != X.shape[:1]:
        raise ValueError(f"y of {name} must have the shape ({X.shape[0]},); got {y.shape}.")
    y = y.rechunk((X.chunks[0],)) if known else y
    of_X, of_y = (np.ravel(one.to_delayed()).tolist() for one in (X, y))
    if len(of_X) != len(of_y):
        raise ValueError(
            f"X and y of {name} must have the same partitions; got {len(of_X)} and {len(of_y)}, of sizes that are not "
            "known. Compute these (compute_chunk_sizes of arrays), or take y from the same data frame."
        )
    return Partitions(list(zip(of_X, of_y, strict=True)), names, target)


def _placed(workers: Workers, X: Any, n_partitions: int) -> Indices:
    """The place of each partition: where it lies already, else as many for each worker, in their order."""
    from dask.core import flatten
    from distributed import futures_of

    places = np.sort(np.arange(n_partitions) * workers.n_places // max(1, n_partitions))
    keys = list(flatten(X.__dask_keys__()))
    futures = futures_of(X)
    if futures and len(keys) == n_partitions:
        workers.wait_for(futures, "the partitions of X")
        held = workers.client.who_has(futures)
        homes = {workers.home(place): place for place in range(workers.n_places)}
        for number, key in enumerate(keys):
            for home in sorted(held.get(key, held.get(str(key), ()))):
                places[number] = homes.get(home, places[number])
    return places


def _on_their_workers(workers: Workers, parts: Partitions, places: Indices, missing: str) -> list[Any]:
    """A future of every block; one that is lost with its worker is made again, by another."""
    from dask import delayed

    blocks: dict[int, Any] = {}
    for place in np.unique(places):
        numbers = np.flatnonzero(places == place).tolist()
        tasks = [
            delayed(_block)(number, *parts.delayed[number], parts.names, parts.target, missing) for number in numbers
        ]
        home = {"workers": [workers.home(int(place))], "allow_other_workers": True}
        blocks.update(zip(numbers, workers.client.compute(tasks, **home), strict=True))
    return [blocks[number] for number in range(len(places))]


def _looked_at(workers: Workers, shared: Shared | Kept, blocks: list[tuple[int, tuple[list[Any]]]]) -> Any:
    """A future of the look at all rows: the blocks of every place, then all places together.

    What it needs is in the tasks themselves, so that Dask can do again what is lost with a worker.
    """
    looks = []
    shared = shared.value if isinstance(shared, Kept) else shared
    for place, own in blocks:
        options = {"workers": [workers.home(place)], "allow_other_workers": True, "pure": False}
        looks.append(workers.client.submit(_look, shared, *own, **options))
    return workers.client.submit(_together, looks, pure=False)


# ---------------------------------------------------------------------------------------------- what workers are asked


class _Done(NamedTuple):
    """Rows that were trained over, the sum of their losses, and whether some round of them lacked a frequent class."""

    n: int = 0
    loss: float = 0.0
    lacks_a_class: bool = False

    def plus(self, *others: _Done) -> _Done:
        n, loss, lacks = zip(self, *others, strict=True)
        return _Done(sum(n), sum(loss), any(lacks))


class _Answer(NamedTuple):
    """What a place has come to in a round of a pass; what it has done in it, and all places in the rounds before."""

    state: State
    number: int  # of the pass
    own: _Done
    earlier: dict[int, _Done]  # by pass


def _block(number: int, X: Any, y: Any, names: list[str] | None, target: str | None, missing: str) -> Block:
    """A partition as it is trained on."""
    what = f"partition {number} of X"
    labels = np.asarray(X[target] if y is None else y)
    if labels.dtype.kind == "O":
        labels = np.array([None if type(one).__name__ == "NAType" else one for one in labels], dtype=object)
    if names is not None:
        columns = [np.asarray(X[column]) for column in names]
        for column, values in zip(names, columns, strict=True):
            if values.dtype.kind not in "fiub":
                raise ValueError(f"Column {column!r} of {what} holds {X[column].dtype}, and blocks must hold numbers.")
        rows = side_by_side(columns)
    elif issparse(X):
        raise ValueError(
            f"Partition {number} of X is sparse, and a fit on Dask reads dense partitions: make them dense "
            "(X.map_blocks(lambda part: part.toarray())), or fit one SciPy matrix, whose zeros cost nothing."
        )
    else:
        rows = np.asarray(X)
    if rows.ndim != 2 or labels.shape != (len(rows),) or rows.dtype.kind not in "fiub":
        raise ValueError(
            f"Partition {number} of X must be numbers of shape (n, p), with labels of shape (n,); got {rows.dtype} of "
            f"shape {rows.shape}, and {labels.dtype} of shape {labels.shape}."
        )
    if labels.dtype.kind == "O":
        labels = np.array(labels.tolist()) if len(labels) and all(isinstance(one, str) for one in labels) else labels
    if labels.dtype.kind in "fO" and any(one is None or bool(one != one) for one in labels.tolist()):
        raise ValueError(f"y has missing values in {what.removesuffix(' of X')}; leave these rows out.")
    block = as_read(Block(number << 32, np.ascontiguousarray(rows), labels))
    check_numbers(block.X, names, what, missing)
    return block


def _n_rows(blocks: list[Block]) -> list[int]:
    return [len(block.y) for block in blocks]


def _look(shared: Shared, blocks: list[Block]) -> Look:
    model, _, seed = shared
    look = Look(_here(model), seed)
    for block in blocks:
        if len(block.y):
            look.add(block)
    return look


def _together(looks: list[Look]) -> Look:
    first, *others = looks
    whole = first.copy()
    for look in others:
        whole.merge(look)
    return whole


def _known(look: Look) -> Known:
    return look.known().without_rows()


def _starts(shared: Shared, look: Look, settled: tuple[Known, Plan]) -> State:
    model, _, seed = shared
    return State(look.known().starts(_here(model), settled[1], seed))


def _advanced(
    shared: Shared,
    settled: tuple[Known, Plan],
    blocks: list[Block],
    pieces: list[_Piece],
    seeds: list[int],
    begin: float,
    end: float,
    before: State | list[_Answer],
) -> _Answer:
    (model, name, _), (known, plan) = shared, settled
    if isinstance(before, State):
        state, earlier = before, {}
    else:
        state = averaged([(answer.state, answer.own.n) for answer in before])
        number = before[0].number
        so_far = before[0].earlier.get(number, _Done())
        earlier = before[0].earlier | {number: so_far.plus(*(answer.own for answer in before))}
    taken = []
    for piece, block in zip(pieces, blocks, strict=True):
        order = np.random.default_rng([*seeds[:2], piece.block]).permutation(len(block.y))[piece.begin : piece.end]
        taken.append((block, order[known.trained_on(block)[order]]))
    n = sum(len(rows) for _, rows in taken)
    own = _Done()
    for place, (X, y) in enumerate(_gathered(taken)):
        target = known.codes(y, name)
        first, last = (begin + (end - begin) * done / n for done in (own.n, own.n + len(y)))
        seeds_here = [*seeds, pieces[0].block, place]
        state, loss = plan.advance(_here(model), known, X, target, state, seeds_here, first, last)
        own = own.plus(_Done(len(y), loss * len(y), known.lacks_a_frequent_class(target)))
    return _Answer(state, seeds[1] if seeds else 0, own, earlier)


def _gathered(taken: list[tuple[Block, Indices]]) -> Iterator[tuple[Array, Array]]:
    """These rows and their labels in this order, so many at a time, every time in the same memory.

    The workers of a machine share the speed of its memory: a row is read where it lies, and written once.
    """
    n = sum(len(rows) for _, rows in taken)
    if not n:
        return
    dtype, n_features = np.result_type(*(block.X for block, _ in taken)), taken[0][0].X.shape[1]
    X = np.empty((min(n, max(1, BUFFER_BYTES // (n_features * min(dtype.itemsize, 4)))), n_features), dtype)
    labels: list[Array] = []
    held = 0
    for block, rows in taken:
        left = rows
        while len(left):
            some, left = np.split(left, [len(X) - held])
            place = X[held : held + len(some)]
            if block.X.dtype == dtype:
                np.take(block.X, some, axis=0, out=place, mode="clip")  # to raise, it would make a copy
            else:
                place[:] = block.X[some]
            labels.append(block.y[some])
            held += len(some)
            if held == len(X):
                yield X, np.concatenate(labels)
                held, labels = 0, []
    if held:
        yield X[:held], np.concatenate(labels)


def _calibrated(shared: Shared, look: Look, settled: tuple[Known, Plan], state: State) -> Any:
    return look.known().calibrated(_here(shared[0]), settled[1], state)


def _here(model: Any) -> Any:
    """The model with the threads of this worker; a round must not wait for scikit-learn's `clone`."""
    model = copy(model)
    model.n_jobs = threads_here(model.n_jobs)
    return model
