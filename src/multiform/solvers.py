"""What is to be trained (a problem, a batch of members) and how (settings of Adam and CPM); `engines` do it.

All of these are constant values: plain settings and arrays. X is never copied per member.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from multiform._typing import Floats, Indices, Ints
from multiform.runtime import in_threads, single_threaded_blas
from multiform.separators import Rows
from multiform.starts import ENOUGH_SAMPLES, FEW_COLUMNS, ClassScatter, drawn_start, drawn_starts

__all__ = ["AdamSolver", "CpmSolver", "ModelBatch", "Moments", "Solver", "TrainingProblem"]

SOLVED_TOGETHER = 16  # sets of samples that members look at, each in memory
ROW_RATE = 4.0  # a step by rows against one by coefficients, measured (docs/defaults.md)

# Adam's running means of the gradient and of its square, and how many steps they have seen. By rows there is no first
# one, shape (m, q, 0), and the second has the shape (m, q).
Moments = tuple[Floats, Floats, int]


@dataclass(frozen=True)
class AdamSolver:
    """Minibatch Adam (Kingma and Ba 2015) on the ratio loss (Chang 2021), with a cosine schedule.

    It visits mostly the samples that still have an active pair.

    Parameters
    ----------
    n_passes : int
        The length of the schedule.
    batch_size : int
    learning_rate : float
        Of the first step, relative to the size of the initial coefficients, 1 / sqrt(p).
    beta1, beta2, epsilon : float
        Adam's own.
    revisit : float in [0, 1]
        A sample without an active pair (every ``f_y / f_j`` at most alpha) has no gradient. It is visited in a pass
        only with this chance, to see whether that is still so; 1 visits every sample in every pass.
    final_rate : float in [0, 1]
        The learning rate at the end of the schedule, as a share of the first; 1 keeps it constant.
    by_row : bool
        For sparse rows: one second moment for every row of every ``A_k`` instead of one for every coefficient, and no
        first one (`beta1` has no meaning), so that a step costs the entries of its batch, and nothing is put off.
    """

    n_passes: int
    batch_size: int = 256
    learning_rate: float = 0.07
    beta1: float = 0.8
    beta2: float = 0.99
    epsilon: float = 1e-8
    revisit: float = 0.2
    final_rate: float = 0.0
    by_row: bool = False

    def rate(self, n_features: int) -> float:
        return (ROW_RATE if self.by_row else 1.0) * self.learning_rate / float(np.sqrt(n_features))

    def no_moments(self, coefficients: Floats) -> tuple[Floats, Floats]:
        """Both moments before the first step."""
        if self.by_row:
            return np.zeros((*coefficients.shape[:2], 0), np.float32), np.zeros(coefficients.shape[:2], np.float32)
        return np.zeros_like(coefficients), np.zeros_like(coefficients)


@dataclass(frozen=True)
class CpmSolver:
    """The coordinate perturbation method of the paper (2.3), literal or row-synchronous.

    One coordinate at a time, at most two nearby points, one each way; move if the loss falls, else stay.

    The paper leaves the size of a perturbation open. Here every coordinate has its own: it grows by `grow` after a move
    and shrinks by `shrink` when neither point was lower; the direction of the last move is tried first.

    The other settings are the departures from the literal algorithm; `literal` turns all of them off.

    Parameters
    ----------
    n_passes : int
        Sweeps over all coordinates.
    step : float
        The first perturbation, relative to the size of the initial coefficients, 1 / sqrt(p).
    grow, shrink : float
    smallest, largest : float
        Limits of a perturbation, in the same unit.
    synchronous : bool
        Row r of every class moves against the other separators frozen, then the new f are exchanged, then the next row
        follows. This is what runs in parallel. Otherwise one class after the other.
    frozen_own : bool
        For the length of a row, which terms of an own-class sample are active stays frozen, so that its m - 1 terms are
        one multiplication; so does the slope of the loss by the noise energy.
    slack : float in [0, 1]
        A pair with ``f_y / f_j <= slack * alpha`` sits out the sweep; 0 keeps all.
    revisit : float in [0, 1]
        Chance that a sample without an active pair is looked at when a sweep begins; 1 looks at all.
    max_entries : int
        A sweep uses a fresh random part of the samples, at most so many (sample, class) entries a class; 0 uses all.
    ramp : int
        The first sweeps use 1/ramp, 2/ramp, ... of `max_entries`; 1 uses all of them at once.
    """

    n_passes: int
    step: float = 0.5
    grow: float = 1.3
    shrink: float = 0.5
    smallest: float = 1e-6
    largest: float = 0.7
    synchronous: bool = True
    frozen_own: bool = True
    slack: float = 1.0
    revisit: float = 0.3
    max_entries: int = 4096
    ramp: int = 4

    def literal(self) -> CpmSolver:
        """The paper's algorithm to the letter."""
        return replace(self, synchronous=False, frozen_own=False, slack=0.0, revisit=1.0, max_entries=0, ramp=1)

    def initial_steps(self, coefficients: Floats) -> Floats:
        """Perturbations in proportion to the initial size of A; those of b are larger by sqrt(p), as b is."""
        steps = np.full_like(coefficients, self.step / np.sqrt(coefficients.shape[2] - 1))
        steps[:, :, -1] = self.step
        return steps

    def limits(self, n_features: int) -> dict[str, float]:
        unit = 1 / float(np.sqrt(n_features))
        return {
            "smallest": self.smallest * unit,
            "largest": self.largest * unit,
            "largest_offset": self.largest,
        }


Solver = AdamSolver | CpmSolver


@dataclass(frozen=True)
class TrainingProblem:
    """One matrix and its labels.

    Parameters
    ----------
    rows : Rows
        X as an engine reads it.
    target : array of int32, shape (n,)
        Class indices, 0 to n_classes - 1.
    n_classes : int
    """

    rows: Rows
    target: Ints
    n_classes: int

    @property
    def n_features(self) -> int:
        return self.rows.n_features


@dataclass(frozen=True)
class ModelBatch:
    """How the members of a batch differ.

    Parameters
    ----------
    n_components : int
        q, the rows of every A_k.
    alpha : float
        The floor of the ratio loss.
    class_weight : array of float32, shape (B, m)
        The weight of each class's part of the loss.
    noise : array of float32, shape (B,)
        Standard deviation of the input noise, in scaled units, that the loss is averaged over (closed form).
    seed : array of uint64, shape (B,)
    sample_weight : array of float32, shape (n,) or (B, n), or None
        0 leaves a sample out, so a fold is a mask of zeros.
    columns : sequence of arrays of int32, or None
        The features that each member sees, ascending.
    start : sequence of arrays of float32, shape (m, q, p_b + 1), or None
        A_k and b_k side by side, in scaled units, to start from; drawn from the seed when None.
    """

    n_components: int
    alpha: float
    class_weight: Floats
    noise: Floats
    seed: npt.NDArray[np.uint64]
    sample_weight: Floats | None = None
    columns: Sequence[Ints] | None = None
    start: Sequence[Floats] | None = None

    def __len__(self) -> int:
        return len(self.seed)

    def member_weight(self, member: int) -> Floats | None:
        if self.sample_weight is None or self.sample_weight.ndim == 1:
            return self.sample_weight
        weight: Floats = self.sample_weight[member]
        return weight

    def part(self, members: Sequence[int] | Indices) -> ModelBatch:
        """Some of the members."""
        own = None if self.sample_weight is None or self.sample_weight.ndim == 1 else self.sample_weight
        return replace(
            self,
            class_weight=self.class_weight[members],
            noise=self.noise[members],
            seed=self.seed[members],
            sample_weight=self.sample_weight if own is None else own[members],
            columns=None if self.columns is None else [self.columns[member] for member in members],
            start=None if self.start is None else [self.start[member] for member in members],
        )

    def member_columns(self, member: int) -> Ints | None:
        return None if self.columns is None else self.columns[member]

    def starts(self, problem: TrainingProblem) -> Iterator[Floats]:
        """The start of every member in turn, each an array of its own."""
        distinct, which = self.distinct_starts(problem)
        last = dict(zip(which, range(len(self)), strict=True))  # who needs no copy
        for member, number in enumerate(which):
            yield distinct[number] if last[number] == member else distinct[number].copy()

    def distinct_starts(self, problem: TrainingProblem, n_threads: int = 1) -> tuple[list[Floats], list[int]]:
        """The starts, and which of them each member has: members share one that differ in nothing it depends on."""
        n_members = len(self)
        if self.start is not None:
            return [self.initial_coefficients(problem, member) for member in range(n_members)], list(range(n_members))
        own = None if self.sample_weight is None or self.sample_weight.ndim == 1 else self.sample_weight
        # What is looked at, and so costs time: samples and columns; of many samples a part, drawn from the seed.
        few = len(problem.target) <= ENOUGH_SAMPLES
        looks = [
            (
                b"" if own is None else own[member].tobytes(),
                b"" if self.columns is None else self.columns[member].tobytes(),
                0 if few else seed,
            )
            for member, seed in enumerate(self.seed.tolist())
        ]
        keys = list(zip(looks, self.noise.tolist(), self.seed.tolist(), strict=True))
        first: dict[object, int] = {}  # who is the first with each start
        for member, key in enumerate(keys):
            first.setdefault(key, member)
        numbers = {key: number for number, key in enumerate(first)}
        by_look: dict[object, list[int]] = {}
        for member in first.values():
            by_look.setdefault(looks[member], []).append(member)

        def drawn_from(looked_at: list[list[int]]) -> list[tuple[int, Floats]]:
            scatters = [scatter for one in looked_at for scatter in [self._scatter(problem, one[0])] * len(one)]
            members = [member for one in looked_at for member in one]
            noise, seeds = self.noise[members].tolist(), self.seed[members].tolist()
            return list(zip(members, drawn_starts(scatters, self.n_components, noise, seeds), strict=True))

        # Small matrices are solved together, which costs little more than one; what is large, one after the other.
        together = SOLVED_TOGETHER if few and self.columns is None and problem.n_features <= FEW_COLUMNS else 1
        looked_at = list(by_look.values())
        groups = [looked_at[first : first + together] for first in range(0, len(looked_at), together)]
        if few or n_threads == 1:
            parts = list(map(drawn_from, groups))
        else:
            with single_threaded_blas():
                parts = in_threads(drawn_from, groups, n_threads)
        drawn = {member: start for part in parts for member, start in part}
        return [drawn[member] for member in first.values()], [numbers[key] for key in keys]

    def initial_coefficients(self, problem: TrainingProblem, member: int) -> Floats:
        """The start of a member, given or drawn (`starts`)."""
        if self.start is not None:
            return np.array(self.start[member], dtype=np.float32, order="C")
        scatter = self._scatter(problem, member)
        return drawn_start(scatter, self.n_components, float(self.noise[member]), int(self.seed[member]))

    def _scatter(self, problem: TrainingProblem, member: int) -> ClassScatter:
        return ClassScatter(problem, self.member_weight(member), self.member_columns(member), int(self.seed[member]))
