"""AACO (Valancius, Lennon, Oliva, ICML 2024): the acquisition-conditioned oracle, approximated by neighbours.

After their public method (github lupalab/aaco), written anew. The training patients nearest to a patient on what is
known stand for what is not. Random sets of further tests are tried on them, and none; the best is

    argmin over sets v of  mean over neighbours of CE(y, f(x on known and v))  +  price x cost(v),

of it the test that alone lowers the loss most is bought, and so on until none is best. The predictor f is the masked
network of this benchmark (theirs is boosted trees, or known). Where they begin with a test chosen by hand, all training
patients are neighbours here. Its parameter is the price of a full panel in nats of loss.
"""

from collections.abc import Iterator

import numpy as np

from benchmarks.contest import Answers, Array, Fold, rival
from benchmarks.masked_network import MaskedNetwork
from multiform.diagnosis import Tariff

NEIGHBOURS = 20
MASKS = 128  # random sets at each step (the authors': 1,000), or all where they are no more
PRICES = (0.05, 0.15, 0.4, 1.0, 2.5, 6.0)


def set_costs(tariff: Tariff, sets: Array) -> Array:
    """What sets of tests (bool, one a row) cost: the least surcharge of a discount opens it."""
    surcharge = np.array(tariff.prices) - np.array(tariff.discounted)
    own = np.array([one or f"alone {t}" for t, one in enumerate(tariff.discounts)])
    cost = sets @ np.array(tariff.discounted)
    for one in np.unique(own):
        cheapest = np.where(sets[:, own == one], surcharge[own == one], np.inf).min(axis=1)
        cost = cost + np.where(np.isinf(cheapest), 0.0, cheapest)
    return cost


def aaco(fold: Fold) -> Iterator[tuple[str, Answers]]:
    learnt = MaskedNetwork(fold)
    torch = learnt.torch
    rng = np.random.default_rng(fold.seed)
    rows, asked, d = np.asarray(fold.rows), np.asarray(fold.asked), learnt.n_tests
    panel = fold.tariff.panel_cost

    def expected(neighbours: Array, sets: Array) -> Array:
        """The mean loss of neighbours on each set."""
        who = np.tile(neighbours, len(sets))
        masks = torch.from_numpy(np.repeat(sets, len(neighbours), axis=0).astype(np.float32))
        with torch.no_grad():
            logits = learnt.answered(learnt.rows[who], masks)
            loss = torch.nn.functional.cross_entropy(logits, learnt.target[who], reduction="none")
        return loss.numpy().reshape(len(sets), len(neighbours)).mean(axis=1)

    def considered(patient: Array, held: Array) -> tuple[Array, Array, Array]:
        """Sets that begin with `held` itself and with one test more each, their loss, and what they cost further."""
        known = held[fold.owner]
        distance = ((rows[:, known] - patient[known]) ** 2).sum(axis=1)
        near = np.argsort(distance, kind="stable")[:NEIGHBOURS] if held.any() else np.arange(len(rows))
        single = np.eye(d, dtype=bool)[~held]
        if d <= 7:
            random = (np.arange(1 << d)[:, None] >> np.arange(d) & 1).astype(bool)
        else:  # as many tests as you like, each number as often
            random = rng.random((MASKS, d)).argsort(axis=1) < rng.integers(1, d, (MASKS, 1))
        sets = np.vstack([held, held | single, held | random])
        if len(near) > 10 * NEIGHBOURS:
            near = rng.permutation(near)[: 10 * NEIGHBOURS]
        return sets, expected(near, sets), (set_costs(fold.tariff, sets) - set_costs(fold.tariff, held[None])) / panel

    orders: dict[float, list[list[int]]] = {price: [] for price in PRICES}
    start = considered(asked[0], np.zeros(d, dtype=bool))
    for patient in asked:
        looked = {b"": start}  # what is considered does not depend on the price
        for price in PRICES:
            held, order = np.zeros(d, dtype=bool), []  # type: Array, list[int]
            while not held.all():
                key = held.tobytes() if order else b""
                if key not in looked:
                    looked[key] = considered(patient, held)
                sets, loss, cost = looked[key]
                best = sets[(loss + price * cost).argmin()] & ~held
                if not best.any():
                    break
                tests = np.flatnonzero(~held)
                wanted = best[tests]
                t = int(tests[wanted][loss[1 : len(tests) + 1][wanted].argmin()])
                held[t] = True
                order.append(t)
            orders[price].append(order)
    for price in PRICES:
        found = np.full((len(asked), d), -1)
        masks = np.zeros((len(asked), d), dtype=np.float32)
        for place, order in enumerate(orders[price]):
            found[place, : len(order)] = order
            masks[place, order] = 1.0
        with torch.no_grad():
            answer = learnt.answered(learnt.asked, torch.from_numpy(masks)).argmax(dim=1).numpy()
        yield f"price {price:g}", (found, answer)


AACO = {"AACO": rival(aaco, "benchmarks/aaco.py", "benchmarks/masked_network.py", "torch")}
