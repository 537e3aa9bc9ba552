"""Random quadratics for hypothesis: every shape a zero set can take, degenerate ones on purpose."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from multiform.geometry import MemberFunction, QuadraticPolynomial

KINDS = (
    "indefinite",
    "definite",
    "rank one",
    "diagonal",
    "linear",
    "constant",
    "zero",
    "no constant",
    "units",
)


def make_polynomial(kind: str, p: int, seed: int) -> QuadraticPolynomial:
    rng = np.random.default_rng(seed)
    matrix, vector, constant = rng.normal(size=(p, p)), rng.normal(size=p), float(rng.normal())
    if kind == "definite":
        matrix = matrix @ matrix.T * rng.choice([-1.0, 1.0])
    elif kind == "rank one":
        matrix = np.outer(matrix[0], matrix[0]) * rng.choice([-1.0, 1.0])
    elif kind == "diagonal":
        matrix = np.diag(rng.choice([-1.0, 0.0, 1.0], size=p))
        vector = vector * rng.integers(0, 2, size=p)
    elif kind in ("linear", "constant", "zero"):
        matrix = np.zeros((p, p))
        vector = vector if kind == "linear" else np.zeros(p)
        constant = 0.0 if kind == "zero" else constant
    elif kind == "no constant":
        vector, constant = np.zeros(p), 0.0
    elif kind == "units":
        unit = 10.0 ** rng.uniform(-6, 6, size=p)
        matrix, vector = matrix * np.outer(unit, unit), vector * unit
    return QuadraticPolynomial(matrix, vector, constant)


def make_member(kind: str, p: int, q: int, seed: int) -> MemberFunction:
    rng = np.random.default_rng(seed)
    components, offsets = rng.normal(size=(q, p)), rng.normal(size=q)
    if kind == "rank one":
        components = np.outer(rng.normal(size=q), components[0])
    elif kind == "constant":
        components = np.zeros((q, p))
    elif kind == "zero":
        components, offsets = np.zeros((q, p)), np.zeros(q)
    elif kind == "absent features":
        components[:, rng.random(p) < 0.5] = 0.0
    elif kind == "touches zero":
        offsets = components @ rng.normal(size=p)
    elif kind == "units":
        components = components * 10.0 ** rng.uniform(-6, 6, size=p)
    return MemberFunction(components, offsets)


MEMBER_KINDS = ("random", "rank one", "constant", "zero", "absent features", "touches zero", "units")

# No deadline: a busy machine is not a failure.
quick = settings(max_examples=25, deadline=None)

seeds = st.integers(0, 2**32 - 1)
polynomials = st.builds(make_polynomial, st.sampled_from(KINDS), st.integers(1, 6), seeds)
members = st.builds(make_member, st.sampled_from(MEMBER_KINDS), st.integers(1, 6), st.integers(1, 9), seeds)
