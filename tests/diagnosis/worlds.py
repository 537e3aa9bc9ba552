"""Synthetic patients whose truth is known."""

import numpy as np

COSTS = {"talk": 1.0, "blood": 20.0, "scan": 100.0, "noise": 60.0}


def patients(n=300, seed=0):
    """Two classes; talk says much, blood a little more, scan the same as talk and blood again, noise nothing."""
    rng = np.random.default_rng(seed)
    ill = rng.integers(0, 2, n)
    talk = ill + rng.normal(0, 0.6, n)
    blood = ill + rng.normal(0, 0.9, n)
    scan = ill + rng.normal(0, 1.1, n)
    return np.column_stack([talk, blood, scan, rng.normal(size=n)]), ill


def easy_and_hard(n=400, seed=0):
    """Half of the patients are easy: a tells the truth about them, and that it does; b tells it about all; c nothing.

    The optimal policy is known: a for everybody, then b for those about whom a was silent.
    """
    rng = np.random.default_rng(seed)
    ill, easy = rng.integers(0, 2, n), rng.random(n) < 0.5
    a = np.where(easy, np.where(ill, 2, -2), 0) + rng.normal(0, 0.1, n)
    return np.column_stack([a, 3 * ill + rng.normal(0, 0.5, n), rng.normal(size=n)]), ill, easy


def gated(n=600, seed=0):
    """The type (known to the first question) says which of two dear tests tells the truth; the other one is noise.

    An adaptive plan asks and buys the right one; a fixed order must buy both for some.
    """
    rng = np.random.default_rng(seed)
    ill = rng.integers(0, 2, n)
    lean = rng.normal(0, 1, n) + 1.2 * ill
    kind = lean > 0.6
    first = np.where(kind, ill + rng.normal(0, 0.35, n), rng.normal(0.5, 0.6, n))
    second = np.where(kind, rng.normal(0.5, 0.6, n), ill + rng.normal(0, 0.35, n))
    return np.column_stack([lean, first, second]), ill
