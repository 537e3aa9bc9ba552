"""The cheapest order: which test next, for all patients alike, when it is decided who stops where.

`stopped[S]` is the set of patients who would stop on the evidence set S. Under the order ``t_1, t_2, ...`` with
the sets ``S_k = {t_1 .. t_k}``, who stopped stays stopped, so the patients alive after k tests are

    A_0 = everybody - stopped[S_0],      A_k = A_{k-1} - stopped[S_k],

and the expected cost is ``sum_k price(t_k | S_{k-1}) |A_{k-1}| / n``. Patients are bits of 64-bit words.

Of two orders that cost the same, the better one lets people stop where they have less to regret. So whoever stops on S
may be charged ``forgone[S, i]``, what the accuracy that i gives up there is worth, and an order is judged by

    (sum_k price(t_k | S_{k-1}) |A_{k-1}|  +  sum_k sum_{i in A_{k-1} - A_k} forgone[S_k, i]) / n.

The exact search is label setting over evidence sets, layer by layer. A label is a way to reach a set: its cost so far
(with what was forgone) and who is alive. At the same set, a label is dominated by one that costs no more and leaves no
other patient alive, for every continuation is then no cheaper. A label is also dropped if a lower bound on what it must
still cost takes it past the best order known. Two bounds hold, and the larger one counts:

    sum_{i in A} h_i(S),  h_i(S) = forgone[S, i] if i stops on S, else min_t price(t | S) + h_i(S + t)

(each patient an order of its own), and, N(S) being those whom no subset of S stops,

    g(S) = min_t price(t | S) |N(S)| + g(S + t)

(one order for all, and the fewest alive).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from multiform._typing import Array, Bools, Doubles, Floats, Indices
from multiform.diagnosis._tariff import Tariff, as_sets

Sets = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Labels = tuple[Sets, Doubles, Words, Array]  # of each: the set, the cost so far, who is alive, and the order so far
Stopped = Callable[[Sets], Words]  # who stops on each of these sets: shape (n_sets, n_words)
Forgone = Callable[[Sets], Floats]  # what each patient gives up by stopping on each of these sets: (n_sets, n_patients)

EXACT_UP_TO = 16  # tests: 65,536 evidence sets
SLACK = 1e-9  # costs this close, relative to the panel, are equal
SHARES_AHEAD = (1.0, 0.5, 0.25, 0.1)  # of the remaining panel that the beam expects the living to pay
SUMMED_AT_ONCE = 8192  # labels


@dataclass(frozen=True)
class SearchProof:
    """What is known about the order that was found, on the estimate.

    Attributes
    ----------
    optimal : bool
        Whether no order is cheaper, proven.
    cost : float
        Expected cost of the order found, with what is forgone under it where the search was charged for that.
    lower_bound : float
        No order costs less; 0 when nothing was proven.
    n_labels : int
        Ways to reach an evidence set that the search looked at.
    """

    optimal: bool
    cost: float
    lower_bound: float
    n_labels: int

    @property
    def gap(self) -> float:
        """How much cheaper the best order could be, as a share of the cost found."""
        return 0.0 if self.cost == 0 else (self.cost - self.lower_bound) / self.cost


def pack(patients: Bools) -> Words:
    """Booleans along the last axis as bits of 64-bit words, the rest of the last word 0."""
    n = patients.shape[-1]
    padded = np.zeros((*patients.shape[:-1], -(-max(n, 1) // 64) * 64), dtype=bool)
    padded[..., :n] = patients
    return np.packbits(padded, axis=-1, bitorder="little").view(np.uint64)


def unpack(words: Words, n: int) -> Bools:
    """The inverse of `pack`."""
    bits = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=-1, bitorder="little")
    return np.asarray(bits[..., :n].astype(bool))


def popcount(words: Words) -> Array:
    """How many patients each row holds."""
    if hasattr(np, "bitwise_count"):
        return np.asarray(np.bitwise_count(words).sum(axis=-1), dtype=np.int64)
    return np.asarray(_ONES[np.ascontiguousarray(words).view(np.uint8)].sum(axis=-1), dtype=np.int64)  # NumPy 1.26


_ONES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1).astype(np.int64)


def remaining_price(tariff: Tariff, sets: Sets) -> Doubles:
    """What all tests outside each set still cost, with the discounts: shape (len(sets),)."""
    total = np.zeros(len(sets))
    for t, price in enumerate(tariff.discounted):
        total += np.where((sets >> t & 1) != 0, 0.0, price)
    for discount in dict.fromkeys(name for name in tariff.discounts if name is not None):  # in order: sums are rounded
        members = [t for t, name in enumerate(tariff.discounts) if name == discount]
        begun = (sets & (sum(1 << t for t in members) & ~tariff.known)) != 0
        surcharge = np.full(len(sets), np.inf)  # of the cheapest one to begin with
        for t in members:
            extra = tariff.prices[t] - tariff.discounted[t]
            surcharge = np.where((sets >> t & 1) != 0, surcharge, np.minimum(surcharge, extra))
        total += np.where(begun | np.isinf(surcharge), 0.0, surcharge)
    return total


def beam_order(
    tariff: Tariff,
    stopped: Stopped,
    forgone: Forgone,
    alive: Words,
    start: int,
    width: int,
    promising: Callable[[Sets], Bools] | None = None,
    few: int = 0,
) -> tuple[tuple[int, ...], SearchProof]:
    """A good order for the patients of `alive`: the `width` most promising labels of each layer go on.

    A label is judged by what it would cost if everybody alive went on to pay a given share of what all remaining tests
    cost. No share is right for every label (the whole favours dear tests early, little of it cheap ones), so each of
    several shares has its own part of the beam.

    For sets of shape (L,), `promising` says which tests to consider next, shape (L, n_tests). So many patients as `few`
    are not worth a search: when no more are alive, they take all remaining tests.
    """
    n = max(1, int(popcount(alive)))
    held, cost, alive, orders = _first(as_sets([start], len(tariff)), alive, stopped, forgone)
    best_cost, best_order, n_labels = np.inf, (), 1  # type: float, tuple[int, ...], int
    while True:
        counts = popcount(alive)
        prices = tariff.price_table(held)
        if promising is not None:
            prices = np.where(promising(held), prices, np.inf)
        finished = (counts <= few) | ~np.isfinite(prices).any(axis=1)  # nobody to search for, or nowhere to go
        if finished.any():
            cost = np.where(finished, cost + counts * remaining_price(tariff, held), cost)
            first = np.flatnonzero(finished)[np.argmin(cost[finished])]
            if cost[first] < best_cost:
                best_cost, best_order = float(cost[first]), tuple(int(t) for t in orders[first])
        going = ~finished & (cost < best_cost)
        held, alive, cost, orders, prices = held[going], alive[going], cost[going], orders[going], prices[going]
        if not len(held):
            break
        held, cost, alive, orders = _next(prices, held, cost, alive, orders, stopped, forgone)
        n_labels += len(held)
        ahead = popcount(alive) * remaining_price(tariff, held)
        kept = np.unique(np.concatenate([_best_labels(held, cost + share * ahead, width) for share in SHARES_AHEAD]))
        held, cost, alive, orders = held[kept], cost[kept], alive[kept], orders[kept]
    return best_order, SearchProof(False, best_cost / n, 0.0, n_labels)


def _first(held: Sets, alive: Words, stopped: Stopped, forgone: Forgone) -> Labels:
    """The label that has bought nothing yet; some need no test."""
    stops = stopped(held)
    return held, _summed(forgone, held, alive & stops), alive & ~stops, np.empty((1, 0), dtype=np.int16)


def _next(
    prices: Doubles, held: Sets, cost: Doubles, alive: Words, orders: Array, stopped: Stopped, forgone: Forgone
) -> Labels:
    """Every label after each test that it may buy, where its price is finite."""
    parent, test = np.nonzero(np.isfinite(prices))
    after = held[parent] | np.array([1 << t for t in test.tolist()], dtype=held.dtype)
    stops = stopped(after)
    paid = cost[parent] + prices[parent, test] * popcount(alive)[parent]
    paid += _summed(forgone, after, alive[parent] & stops)
    return after, paid, alive[parent] & ~stops, np.column_stack([orders[parent], test.astype(np.int16)])


def _summed(table: Forgone, held: Sets, patients: Words) -> Doubles:
    """Of each label, what the table says of its set, summed over its patients."""
    total = np.zeros(len(held))
    for begin in range(0, len(held), SUMMED_AT_ONCE):
        part = slice(begin, begin + SUMMED_AT_ONCE)
        found = table(held[part])
        total[part] = np.einsum("li,li->l", found, unpack(patients[part], found.shape[1]), dtype=np.float64)
    return total


def _best_labels(held: Sets, judged: Doubles, width: int) -> Indices:
    """The best-judged label of each set, and of these the best."""
    place = np.unique(held, return_inverse=True)[1]
    ranked = np.lexsort((judged, place))
    firsts = ranked[np.append(True, np.diff(place[ranked]) != 0)]
    share = -(-width // len(SHARES_AHEAD))
    return np.asarray(firsts[np.argsort(judged[firsts], kind="stable")[:share]])


def exact_order(
    tariff: Tariff,
    stopped: Words,
    forgone: Floats,
    alive: Words,
    start: int,
    incumbent: tuple[tuple[int, ...], float],
    time_limit: float = np.inf,
) -> tuple[tuple[int, ...], SearchProof]:
    """The cheapest order for the patients of `alive`, proven; or the gap that is left at the time limit.

    `stopped` says who stops on every set, shape (2 ** n_tests, n_words), and `forgone` what those who do are charged,
    shape (2 ** n_tests, n_patients). `incumbent` is an order to beat and what it costs; the time limit is in seconds.
    """
    deadline = time.monotonic() + time_limit
    n = max(1, int(popcount(alive)))
    slack = SLACK * max(tariff.panel_cost, 1e-300) * n
    one_order, own_orders = _bounds(tariff, stopped, forgone, alive, start)
    best, upper = incumbent[0], incumbent[1] * n
    tables = stopped.__getitem__, forgone.__getitem__
    held, cost, alive, orders = _first(as_sets([start], len(tariff)), alive, *tables)
    n_labels = 1
    while len(held):
        held, cost, alive, orders = _next(tariff.price_table(held), held, cost, alive, orders, *tables)
        n_labels += len(held)
        done = popcount(alive) == 0
        if done.any():
            first = np.flatnonzero(done)[np.argmin(cost[done])]
            if cost[first] < upper - slack:
                upper, best = float(cost[first]), tuple(orders[first].tolist())
        bound = cost + one_order[held]
        kept = np.flatnonzero(~done & (bound < upper - slack))
        if time.monotonic() > deadline:  # every open label is still to be paid for
            lower = float(np.append(bound[kept], upper).min())
            return best, SearchProof(lower >= upper - slack, upper / n, lower / n, n_labels)
        kept = kept[_undominated(held[kept], cost[kept], alive[kept])]
        ahead = _summed(own_orders.__getitem__, held[kept], alive[kept])
        kept = kept[cost[kept] + np.maximum(ahead, one_order[held[kept]]) < upper - slack]
        held, cost, alive, orders = held[kept], cost[kept], alive[kept], orders[kept]
    return best, SearchProof(True, upper / n, upper / n, n_labels)


def _undominated(held: Sets, cost: Doubles, alive: Words) -> Indices:
    """The labels that no other one at the same set dominates; of equal ones, the first."""
    ranked = np.lexsort((popcount(alive), cost, held))
    edges = np.append(np.flatnonzero(np.diff(held[ranked], prepend=held[ranked[:1]] - 1)), len(ranked))
    kept: list[np.intp] = []
    for begin, end in itertools.pairwise(edges):
        open_ = ranked[begin:end]  # of one set, in order of cost
        while len(open_) > 1:
            first, open_ = open_[0], open_[1:]
            kept.append(first)
            open_ = open_[(alive[first] & ~alive[open_]).any(axis=1)]  # somebody is alive under the first only
        kept.extend(open_)
    return np.array(kept, dtype=np.intp)


def _bounds(tariff: Tariff, stopped: Words, forgone: Floats, alive: Words, start: int) -> tuple[Doubles, Floats]:
    """On what those alive at each set must still pay: together, g(S), and each patient, h_i(S)."""
    n_tests, n_patients = len(tariff), 64 * stopped.shape[1]  # at the end of the last word there is nobody
    sets = np.arange(1 << n_tests, dtype=np.int64)
    prices = tariff.price_table(sets)
    size = popcount(sets.astype(np.uint64)[:, None])
    never = ~stopped & alive  # N(S): alive whatever the order, among the supersets of the start
    for layer in range(n_tests + 1):
        at = sets[(size == layer) & (sets & start == start)]
        for t in range(n_tests):
            before = at[(at >> t & 1 != 0) & ((at ^ (1 << t)) & start == start)]
            never[before] &= never[before ^ (1 << t)]
    counts = popcount(never)
    one_order, own_orders = np.zeros(len(sets)), np.zeros((len(sets), n_patients), dtype=np.float32)
    for layer in reversed(range(n_tests)):
        at = sets[size == layer]
        cheapest = np.full((len(at), n_patients), np.inf, dtype=np.float32)
        together = np.full(len(at), np.inf)
        for t in range(n_tests):
            open_ = np.flatnonzero(np.isfinite(prices[at, t]))
            after = at[open_] | (1 << t)
            price = prices[at[open_], t]
            # float32, rounded down: a bound must stay one
            own = (price[:, None] + own_orders[after]).astype(np.float32) * np.float32(1 - 1e-6)
            cheapest[open_] = np.minimum(cheapest[open_], own)
            together[open_] = np.minimum(together[open_], price * counts[at[open_]] + one_order[after])
        given_up = np.zeros(cheapest.shape, dtype=np.float32)
        given_up[:, : forgone.shape[1]] = forgone[at]
        own_orders[at] = np.where(unpack(stopped[at], n_patients), given_up, cheapest)
        one_order[at] = np.where(np.isfinite(together), together, 0)
    return one_order, own_orders
