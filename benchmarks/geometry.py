"""What the geometry costs: certified radii against bare eigendecompositions, constructions at large p.

A radius solves one problem per other class; the yardstick is the eigendecomposition of one small symmetric
matrix per sample, which a solver that does not share work between the samples would need at least.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.measure import interleaved, threads
from benchmarks.options import benchmark_parser
from benchmarks.tables import Table, publish, run_description
from multiform.geometry import (
    MemberFunction,
    QuadraticPolynomial,
    Separators,
    certified_radius,
    counterfactuals,
    difference_of_members,
    member_from_polynomial,
    pairwise_from_separators,
    separators_from_pairwise,
)

N_SAMPLES, N_FEATURES = 10_000, 20
SHAPES = (
    (2, 8),
    (3, 8),
    (3, 21),
    (10, 8),
)  # classes, rows of each separator; 21 rows is a quadratic discriminant
LARGE = 200
YARDSTICK = "eigh of one p x p matrix per sample"


def random_separators(m: int, q: int, p: int, seed: int) -> Separators:
    """Separators with standard normal entries: boundaries of every signature."""
    rng = np.random.default_rng(seed)
    return Separators(rng.standard_normal((m, q, p)), rng.standard_normal((m, q)))


def radii(seed: int) -> dict[str, Callable[[], Any]]:
    """Certified radii and counterfactuals of 10,000 samples in 20 features."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N_SAMPLES, N_FEATURES))
    stack = rng.standard_normal((N_SAMPLES, N_FEATURES, N_FEATURES))
    calls: dict[str, Callable[[], Any]] = {YARDSTICK: partial(np.linalg.eigh, stack + stack.transpose(0, 2, 1))}
    for m, q in SHAPES:
        model = random_separators(m, q, N_FEATURES, seed)
        calls[f"certified_radius, m={m}, q={q}"] = partial(certified_radius, model, X)
        calls[f"counterfactuals, m={m}, q={q}"] = partial(counterfactuals, model, X)
    return calls


def constructions(seed: int) -> dict[str, Callable[[], Any]]:
    """The lemmas and Theorem 1 in 200 variables."""
    rng = np.random.default_rng(seed)
    member = MemberFunction(rng.standard_normal((LARGE, LARGE)), rng.standard_normal(LARGE))
    nonnegative = member.to_polynomial()
    indefinite = QuadraticPolynomial(rng.standard_normal((LARGE, LARGE)), rng.standard_normal(LARGE))
    pairwise = pairwise_from_separators(random_separators(3, 20, LARGE, seed))
    return {
        "Lemma 1, spectral": partial(member_from_polynomial, nonnegative, method="spectral"),
        "Lemma 1, the paper's elimination": partial(member_from_polynomial, nonnegative, method="elimination"),
        "Lemma 2, spectral": partial(difference_of_members, indefinite, method="spectral"),
        "Lemma 2, the paper's monomials": partial(difference_of_members, indefinite, method="monomial"),
        "Theorem 1, compact, m=3": partial(separators_from_pairwise, pairwise, method="compact"),
        "Theorem 1, the paper's, m=3": partial(separators_from_pairwise, pairwise, method="paper"),
    }


def main(argv: list[str]) -> int:
    """Let all calls take turns, print and write the tables."""
    parser = benchmark_parser("geometry", __doc__)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(argv)
    with threads(options.n_jobs):
        radius_times = interleaved(radii(options.seed), options.repeats)
        construction_times = interleaved(constructions(options.seed), options.repeats)

    first = Table(
        f"{N_SAMPLES} samples, p={N_FEATURES}, {options.n_jobs} threads",
        ["what", "ms", "over the yardstick"],
        {"ms": ".1f", "over the yardstick": ".2f"},
    )
    for name, time in radius_times.items():
        first.append({"what": name, "ms": 1e3 * time, "over the yardstick": time / radius_times[YARDSTICK]})
    second = Table(f"constructions in p={LARGE} variables", ["what", "ms"], {"ms": ".1f"})
    for name, time in construction_times.items():
        second.append({"what": name, "ms": 1e3 * time})
    publish([first, second], "geometry", options.output, run_description("geometry", argv, options.seed))
    return 0
