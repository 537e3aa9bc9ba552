"""The readable twins that judge the compiled kernels: plain NumPy, one sample or coordinate at a time, in float64.

They follow the same order of samples and the same rules, so that on small problems they make the same moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multiform._typing import Doubles, Floats, Indices, Ints
from multiform.engines.base import TrainingState
from multiform.separators import Rows, Separators
from multiform.solvers import AdamSolver, CpmSolver, ModelBatch, Moments, Solver, TrainingProblem

__all__ = ["ReferenceEngine", "SplitMix", "ratio_loss"]

_WORD = 0xFFFFFFFFFFFFFFFF


class SplitMix:
    """SplitMix64, as in the core: a seed, a counter."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _WORD

    def next(self) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & _WORD
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _WORD
        return z ^ (z >> 31)

    def below(self, bound: int) -> int:
        return ((self.next() >> 32) * bound) >> 32

    def uniform(self) -> float:
        return (self.next() >> 40) * 2.0**-24

    def shuffle(self, items: list[int]) -> None:
        for i in range(len(items), 1, -1):
            j = self.below(i)
            items[i - 1], items[j] = items[j], items[i - 1]


def ratio_loss(f: Doubles, target: Ints, weight: Doubles, alpha: float) -> tuple[float, Doubles]:
    """The loss (2.2) of member values f (n, m), and its slope by f.

    loss = sum_i w_i sum_{j != y} max(alpha, f_y / f_j);  d/d f_y = w sum_{active j} 1 / f_j;  d/d f_j = -w f_y / f_j^2.
    """
    f = np.maximum(f, 1e-30)
    rows = np.arange(len(f))
    ratio = f[rows, target][:, None] / f
    ratio[rows, target] = -np.inf
    active = ratio > alpha
    loss = np.maximum(ratio, alpha)
    loss[rows, target] = 0
    slope = np.where(active, -ratio / f, 0)
    slope[rows, target] = np.where(active, 1 / f, 0).sum(axis=1)
    return float(weight @ loss.sum(axis=1)), weight[:, None] * slope


@dataclass(frozen=True)
class ReferenceEngine:
    """The twins as an engine."""

    def begin(
        self, problem: TrainingProblem, batch: ModelBatch, solver: Solver, moments: Sequence[Moments] | None = None
    ) -> TrainingState:
        if isinstance(solver, AdamSolver):
            return _ReferenceAdam(solver, problem, batch, moments)
        assert isinstance(solver, CpmSolver)
        return _ReferenceCpm(solver, problem, batch)

    def values(self, rows: Rows, separators: Separators) -> Floats:
        """||A_k x - b_k||^2, row by row of the formula."""
        x = rows.scaled(slice(None)).astype(np.float64)
        if separators.columns is not None:
            x = x[:, separators.columns]
        A, b = separators.coefficients[:, :, :-1].astype(np.float64), separators.coefficients[:, :, -1]
        residual = np.einsum("kqp,np->nkq", A, x) - b
        noise = 0 if separators.noise is None else separators.noise
        return np.asarray((residual**2).sum(axis=2) + noise, dtype=np.float32)

    def release(self) -> None:
        """Nothing is kept."""


class _ReferenceMember:
    """What both twins know of one member."""

    def __init__(self, problem: TrainingProblem, batch: ModelBatch, member: int) -> None:
        self.n_classes, self.alpha = problem.n_classes, float(batch.alpha)
        self.coefficients = batch.initial_coefficients(problem, member)
        self.noise = float(np.float32(batch.noise[member])) ** 2
        self.random = SplitMix(int(batch.seed[member]))
        columns = batch.member_columns(member)
        rows = problem.rows.scaled(slice(None)).astype(np.float64)
        self.rows = rows if columns is None else rows[:, columns]
        self.target = problem.target
        weight = batch.member_weight(member)
        self.weight = batch.class_weight[member][problem.target].astype(np.float64)
        if weight is not None:
            self.weight = self.weight * weight
        self.eligible = np.flatnonzero(self.weight > 0)
        self.active = np.ones(len(self.target), dtype=bool)
        self.losses: list[float] = []
        self.passes = 0

    def values(self, samples: Indices) -> tuple[Doubles, Doubles]:
        """Residuals (n, m, q) and f with the noise energy sigma^2 ||A_k||^2 (n, m)."""
        A, b = self.coefficients[:, :, :-1].astype(np.float64), self.coefficients[:, :, -1].astype(np.float64)
        residual = np.einsum("kqp,np->nkq", A, self.rows[samples]) - b
        return residual, np.maximum((residual**2).sum(axis=2) + self.noise * (A**2).sum(axis=(1, 2)), 1e-30)

    def order(self, revisit: float, shuffle: bool) -> Indices:
        chosen = [int(i) for i in self.eligible if self.active[i] or revisit >= 1 or self.random.uniform() < revisit]
        if shuffle:
            self.random.shuffle(chosen)
        return np.array(chosen, dtype=np.intp)


class _ReferenceState:
    """What both twins' states share."""

    def __init__(self, problem: TrainingProblem, batch: ModelBatch) -> None:
        self._members = [_ReferenceMember(problem, batch, member) for member in range(len(batch))]
        self.coefficients: list[Floats] = [member.coefficients for member in self._members]

    @property
    def passes(self) -> int:
        return min(member.passes for member in self._members)

    @property
    def losses(self) -> list[list[float]]:
        return [list(member.losses) for member in self._members]

    def advance(self, until: int, seconds: float) -> None:
        for index, member in enumerate(self._members):
            while member.passes < until:
                self._one_pass(index, member)
                member.passes += 1

    def _one_pass(self, index: int, member: _ReferenceMember) -> None:
        raise AssertionError("a subclass makes the passes")

    def release(self) -> None:
        """Nothing is held of a device."""


class _ReferenceAdam(_ReferenceState):
    """Twin of the compiled Adam."""

    def __init__(
        self,
        solver: AdamSolver,
        problem: TrainingProblem,
        batch: ModelBatch,
        moments: Sequence[Moments] | None = None,
    ) -> None:
        super().__init__(problem, batch)
        self._solver, self._visits = solver, 0
        self._moments = [(np.zeros(m.coefficients.shape), np.zeros(m.coefficients.shape)) for m in self._members]
        self._steps = [0] * len(batch)
        if moments is not None:
            self._moments = [(first.astype(np.float64), second.astype(np.float64)) for first, second, _ in moments]
            self._steps = [steps for _, _, steps in moments]

    @property
    def moments(self) -> list[Moments]:
        return [
            (first.astype(np.float32), second.astype(np.float32), steps)
            for (first, second), steps in zip(self._moments, self._steps, strict=True)
        ]

    @property
    def counts(self) -> dict[str, int]:
        return {"visits": self._visits}

    def _one_pass(self, index: int, member: _ReferenceMember) -> None:
        solver = self._solver
        order = [int(i) for i in member.eligible if member.active[i] or member.random.uniform() < solver.revisit]
        member.random.shuffle(order)
        n_batches = -(-len(order) // solver.batch_size)
        loss = total = 0.0
        for batch in range(n_batches):
            samples = np.array(order[batch * len(order) // n_batches : (batch + 1) * len(order) // n_batches])
            loss += self._step(index, member, samples, (member.passes + batch / n_batches) / solver.n_passes)
            total += float(member.weight[samples].sum())
        member.losses.append(loss / total if total > 0 else 0.0)
        self._visits += len(order)

    def _step(self, index: int, member: _ReferenceMember, samples: Indices, progress: float) -> float:
        solver = self._solver
        residual, f = member.values(samples)
        loss, slope = ratio_loss(f, member.target[samples], member.weight[samples], member.alpha)
        member.active[samples] = (slope != 0).any(axis=1)
        slope /= len(samples)
        # d f_k / d A_k = 2 R_k x^T + 2 sigma^2 A_k,  d f_k / d b_k = -2 R_k
        inner = 2 * np.einsum("nk,nkq,np->kqp", slope, residual, member.rows[samples])
        inner += 2 * member.noise * slope.sum(axis=0)[:, None, None] * member.coefficients[:, :, :-1]
        offset = -2 * np.einsum("nk,nkq->kq", slope, residual)
        gradient = np.concatenate([inner, offset[:, :, None]], axis=2)
        first, second = self._moments[index]
        self._steps[index] += 1
        t = self._steps[index]
        fade = solver.final_rate + (1 - solver.final_rate) * 0.5 * (1 + np.cos(np.pi * min(1.0, progress)))
        correction = np.sqrt(1 - solver.beta2**t) / (1 - solver.beta1**t)
        first += (1 - solver.beta1) * (gradient - first)
        second += (1 - solver.beta2) * (gradient**2 - second)
        rate = solver.rate(gradient.shape[2] - 1) * fade * correction
        member.coefficients -= (rate * first / (np.sqrt(second) + solver.epsilon)).astype(np.float32)
        return loss


class _ReferenceCpm(_ReferenceState):
    """The coordinate perturbation method, stated literally; with the departures that the settings name.

    For each coordinate, at most two points are tried, one each way; the change of the loss is summed over samples from
    the coordinate's own effect on f_k, and the loss in full is never evaluated.
    """

    moments = None

    def __init__(self, solver: CpmSolver, problem: TrainingProblem, batch: ModelBatch) -> None:
        super().__init__(problem, batch)
        self._solver = solver
        self._steps = [solver.initial_steps(member.coefficients) for member in self._members]
        self.counts = {"tried": 0, "accepted": 0, "looked": 0}

    def _begin(self, member: _ReferenceMember) -> tuple[Indices, Doubles]:
        """The samples of this sweep and their f, infinite where a pair sits it out."""
        solver, m = self._solver, member.n_classes
        order = member.order(solver.revisit, shuffle=solver.max_entries > 0)
        _, f = member.values(order)
        kept, kept_f = [], []
        entries, loss, weight = 0, 0.0, 0.0
        most = solver.max_entries * m * min(member.passes + 1, solver.ramp) // solver.ramp
        for i, values in zip(order, f, strict=True):
            if solver.max_entries > 0 and entries >= most:
                break
            y = member.target[i]
            ratio = values[y] / values
            rivals = np.arange(m) != y
            loss += member.weight[i] * float(np.maximum(member.alpha, ratio[rivals]).sum())
            weight += float(member.weight[i])
            pairs = rivals & ((ratio > solver.slack * member.alpha) | (solver.slack <= 0))
            member.active[i] = pairs.any()
            if not pairs.any():
                continue
            kept.append(i)
            kept_f.append(np.where(pairs | ~rivals, values, np.inf))
            entries += int(pairs.sum()) + 1
        member.losses.append(loss / weight if weight > 0 else 0.0)
        return np.array(kept, dtype=np.intp), np.array(kept_f).reshape(len(kept), m)

    def _one_pass(self, index: int, member: _ReferenceMember) -> None:
        samples, f = self._begin(member)
        m, q = member.n_classes, member.coefficients.shape[1]
        if self._solver.synchronous:
            for r in range(q):
                f = np.stack([self._move_row(index, member, samples, f, k, r) for k in range(m)], axis=1)
        else:
            for k in range(m):
                for r in range(q):
                    f[:, k] = self._move_row(index, member, samples, f, k, r)

    def _move_row(self, index: int, member: _ReferenceMember, samples: Indices, f: Doubles, k: int, r: int) -> Doubles:
        """Every coordinate of A_k[r, :] and b_k[r] in turn; returns the new f_k."""
        solver, alpha = self._solver, member.alpha
        coefficients, steps = member.coefficients[k, r], self._steps[index][k, r]
        x = np.hstack([member.rows[samples], -np.ones((len(samples), 1))])
        y, w = member.target[samples], member.weight[samples]
        present = np.isfinite(f[:, k])
        own, other = y == k, (y != k) & present
        if not (own | other).any():  # nobody to judge a move
            return f[:, k]
        inverse = np.where(np.arange(f.shape[1]) == k, 0, 1 / f)  # 0 where a pair sits out
        inverse_own, f_y = inverse[own], f[np.arange(len(y)), y]
        residual = x @ coefficients.astype(np.float64)
        value = f[:, k].copy()
        # d loss / d f_k, for what is frozen
        own_slope = w[own] * np.where(value[own, None] * inverse_own > alpha, inverse_own, 0).sum(axis=1)
        active_other = f_y[other] > alpha * value[other]
        noise_slope = own_slope.sum() - (w[other] * f_y[other] / value[other] ** 2)[active_other].sum()
        limits = solver.limits(len(coefficients) - 1)
        energy_before = float((coefficients[:-1].astype(np.float64) ** 2).sum())

        def loss_change(new: Doubles) -> float:
            old = value
            change = w[other] * (
                np.maximum(alpha, f_y[other] / new[other]) - np.maximum(alpha, f_y[other] / old[other])
            )
            if solver.frozen_own:
                mine = own_slope * (new[own] - old[own])
            else:
                terms = np.maximum(alpha, new[own, None] * inverse_own) - np.maximum(
                    alpha, old[own, None] * inverse_own
                )
                mine = w[own] * np.where(inverse_own > 0, terms, 0).sum(axis=1)
            return float(change.sum() + mine.sum())

        for c in range(len(coefficients)):
            step = float(steps[c])
            for d in (step, -step):
                # f_k after the move: 2 d x R + d^2 x^2 more, and the noise energy
                energy = 0.0 if c == len(coefficients) - 1 else member.noise * (2 * d * float(coefficients[c]) + d * d)
                new = value + 2 * d * x[:, c] * residual + d * d * x[:, c] ** 2
                new = np.where(present, np.maximum(new + (0.0 if solver.frozen_own else energy), 1e-30), value)
                change = loss_change(new) + (noise_slope * energy if solver.frozen_own else 0.0)
                self.counts["tried"] += 1
                self.counts["looked"] += int(np.count_nonzero(present))
                if change < 0:
                    self.counts["accepted"] += 1
                    value, residual = new, residual + d * x[:, c]
                    coefficients[c] += np.float32(d)
                    limit = limits["largest_offset" if c == len(coefficients) - 1 else "largest"]
                    steps[c] = np.copysign(min(abs(d) * solver.grow, limit), d)
                    break
            else:
                steps[c] = np.copysign(max(abs(step) * solver.shrink, limits["smallest"]), step)
        if solver.frozen_own:
            energy_after = float((coefficients[:-1].astype(np.float64) ** 2).sum())
            value = value + member.noise * (energy_after - energy_before)
        return np.where(present, np.maximum(value, 1e-30), np.inf)
