"""A promise of the plan's accuracy, or of its sensitivity, that holds with a given confidence.

A quarter of the patients is put aside before anything is decided, at random and not within classes, for a stratified
part is no independent sample; of a patient with several rows, one. The plans at the levels up to the one that was
chosen, all evidence first, are then procedures that were fixed without these patients, and are tested on them in turn
(`multiform.triage.certify_in_turn`): with probability `confidence` the plan that passes last keeps every claim for new
patients, whatever the models are worth and however few the patients.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from multiform._typing import Array, Indices
from multiform.diagnosis._plan import Plan
from multiform.diagnosis._results import Results
from multiform.diagnosis._search import SearchProof
from multiform.triage import Certificate, Claim, TargetNotReachedWarning, certify_in_turn, samples_needed

if TYPE_CHECKING:
    from multiform.diagnosis._planning import Planning

SHARE_ASIDE = 0.25


def put_aside(n: int, groups: Indices | None, seed: int) -> tuple[Indices, Indices]:
    """The rows that a promise is tested on, one of each patient; and the rows of all other patients."""
    rng = np.random.default_rng(seed)
    own = np.arange(n) if groups is None else np.asarray(groups)
    aside = rng.permutation(int(own.max()) + 1)[: max(1, round(SHARE_ASIDE * (int(own.max()) + 1)))]
    kept = np.flatnonzero(~np.isin(own, aside))
    shuffled = rng.permutation(n)
    _, first = np.unique(own[shuffled], return_index=True)
    one_each = np.sort(shuffled[first])
    return one_each[np.isin(own[one_each], aside)], kept


@dataclass(frozen=True)
class Aside:
    """Patients that no decision has seen, and what is claimed of them.

    Attributes
    ----------
    results : Results
    target : array, shape (n,)
    claims : dict of str to Claim
        What is promised, by how it is said.
    confidence : float
    """

    results: Results
    target: Array
    claims: Mapping[str, Claim]
    confidence: float

    @classmethod
    def of(
        cls,
        results: Results,
        target: Array,
        classes: Sequence[Any],
        target_accuracy: float | None,
        target_recall: Mapping[Any, float] | None,
        confidence: float,
    ) -> Aside:
        """The claims that a user's targets make."""
        claims = {}
        if target_accuracy is not None:
            claims[f"an accuracy of {target_accuracy:g}"] = Claim(np.ones(len(target), dtype=bool), target_accuracy)
        for label, share in (target_recall or {}).items():
            scope = np.asarray(target == list(classes).index(label))
            claims[f"a sensitivity of {share:g} for {label}"] = Claim(scope, float(share))
        return cls(results, target, claims, float(confidence))

    def certified(
        self, planning: Planning, levels: Sequence[float], stacklevel: int
    ) -> tuple[tuple[float, Plan, SearchProof] | None, Certificate | None]:
        """The last of these levels that is proven in turn, with the plan that was; and the evidence.

        None, and a warning, if the first is not proven.
        """
        made: list[tuple[Plan, SearchProof]] = []

        def right(level: float) -> Array:
            made.append(planning.made(level))
            return np.asarray(planning.followed(made[-1][0], level, self.results)[1] == self.target)

        passed, found = certify_in_turn(
            (right(level) for level in levels), list(self.claims.values()), confidence=self.confidence
        )
        if passed or found is None:
            return (levels[passed - 1], *made[passed - 1]), found
        said = "; ".join(
            self._evidence(what, claim, n, n_right)
            for (what, claim), (n, n_right) in zip(self.claims.items(), found.recalls, strict=True)
        )
        warnings.warn(
            f"DiagnosisPlanner cannot promise with confidence {self.confidence:g} {' and '.join(self.claims)}, not "
            f"with all evidence: {said}. Give more patients, or lower targets; the plan is made without a promise.",
            TargetNotReachedWarning,
            stacklevel=stacklevel + 1,
        )
        return None, found

    def _evidence(self, what: str, claim: Claim, n: int, n_right: int) -> str:
        """What the patients at hand say of a claim."""
        needed = samples_needed(claim.target, 1 - self.confidence)
        if n < needed:
            return f"for {what} at least {needed} such patients must be put aside, and there are {n}"
        proven = float(scipy.stats.beta.ppf(1 - self.confidence, n_right, n - n_right + 1)) if n_right else 0.0
        return f"for {what}, {n_right} of {n} that were put aside are answered right, which proves {proven:.3f}"
