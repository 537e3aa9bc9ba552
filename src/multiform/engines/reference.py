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

    reads_sparse = True

    def begin(
        self, problem: TrainingProblem, batch: ModelBatch, solver: Solver, moments: Sequence[Moments] | None = None
    ) -> TrainingState:
        members: list[_AdamMember] | list[_CpmMember]
        if isinstance(solver, AdamSolver):
            given: Sequence[Moments | None] = moments or [None] * len(batch)
            members = [_AdamMember(problem, batch, number, solver, given[number]) for number in range(len(batch))]
        else:
            members = [_CpmMember(problem, batch, number, solver) for number in range(len(batch))]
        return _ReferenceState(members)

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


class _ReferenceState:
    """Members that advance one after the other."""

    def __init__(self, members: list[_AdamMember] | list[_CpmMember]) -> None:
        self._members = members
        self.coefficients: list[Floats] = [member.coefficients for member in members]

    @property
    def passes(self) -> int:
        return min(len(member.losses) for member in self._members)

    @property
    def losses(self) -> list[list[float]]:
        return [list(member.losses) for member in self._members]

    @property
    def counts(self) -> dict[str, int]:
        return {name: sum(member.counts[name] for member in self._members) for name in self._members[0].counts}

    @property
    def moments(self) -> list[Moments] | None:
        found = [member.moments() for member in self._members if isinstance(member, _AdamMember)]
        return found or None

    def advance(self, until: int, seconds: float) -> None:
        for member in self._members:
            while len(member.losses) < until:
                member.make_pass()

    def release(self) -> None:
        """Nothing is held of a device."""


class _Member:
    """What both twins know of one member."""

    def __init__(self, problem: TrainingProblem, batch: ModelBatch, number: int) -> None:
        self.n_classes, self.alpha = problem.n_classes, float(batch.alpha)
        self.coefficients = batch.initial_coefficients(problem, number)
        self.noise = float(np.float32(batch.noise[number])) ** 2
        self.random = SplitMix(int(batch.seed[number]))
        columns = batch.member_columns(number)
        rows = problem.rows.scaled(slice(None)).astype(np.float64)
        self.rows = rows if columns is None else rows[:, columns]
        self.target = problem.target
        weight = batch.member_weight(number)
        self.weight = batch.class_weight[number][problem.target].astype(np.float64)
        if weight is not None:
            self.weight = self.weight * weight
        self.eligible = np.flatnonzero(self.weight > 0)
        self.active = np.ones(len(self.target), dtype=bool)
        self.losses: list[float] = []  # of each pass

    def values(self, samples: Indices) -> tuple[Doubles, Doubles]:
        """Residuals (n, m, q) and f with the noise energy sigma^2 ||A_k||^2 (n, m)."""
        A, b = self.coefficients[:, :, :-1].astype(np.float64), self.coefficients[:, :, -1].astype(np.float64)
        residual = np.einsum("kqp,np->nkq", A, self.rows[samples]) - b
        return residual, np.maximum((residual**2).sum(axis=2) + self.noise * (A**2).sum(axis=(1, 2)), 1e-30)


class _AdamMember(_Member):
    """Twin of the compiled Adam."""

    def __init__(
        self, problem: TrainingProblem, batch: ModelBatch, number: int, solver: AdamSolver, moments: Moments | None
    ) -> None:
        super().__init__(problem, batch, number)
        first, second, self._steps = moments or (*solver.no_moments(self.coefficients), 0)
        self._solver, self._first, self._second = solver, first.astype(np.float64), second.astype(np.float64)
        self.counts = {"visits": 0}

    def moments(self) -> Moments:
        return self._first.astype(np.float32), self._second.astype(np.float32), self._steps

    def make_pass(self) -> None:
        solver = self._solver
        order = [int(i) for i in self.eligible if self.active[i] or self.random.uniform() < solver.revisit]
        self.random.shuffle(order)
        n_batches = -(-len(order) // solver.batch_size)
        loss = total = 0.0
        for batch in range(n_batches):
            samples = np.array(order[batch * len(order) // n_batches : (batch + 1) * len(order) // n_batches])
            loss += self._step(samples, (len(self.losses) + batch / n_batches) / solver.n_passes)
            total += float(self.weight[samples].sum())
        self.losses.append(loss / total if total > 0 else 0.0)
        self.counts["visits"] += len(order)

    def _step(self, samples: Indices, progress: float) -> float:
        solver = self._solver
        residual, f = self.values(samples)
        loss, slope = ratio_loss(f, self.target[samples], self.weight[samples], self.alpha)
        self.active[samples] = (slope != 0).any(axis=1)
        slope /= len(samples)
        # d f_k / d A_k = 2 R_k x^T + 2 sigma^2 A_k,  d f_k / d b_k = -2 R_k
        inner = 2 * np.einsum("nk,nkq,np->kqp", slope, residual, self.rows[samples])
        decay = 2 * self.noise * slope.sum(axis=0)[:, None, None]
        offset = -2 * np.einsum("nk,nkq->kq", slope, residual)
        gradient = np.concatenate([inner + decay * self.coefficients[:, :, :-1], offset[:, :, None]], axis=2)
        self._steps += 1
        fade = solver.final_rate + (1 - solver.final_rate) * 0.5 * (1 + np.cos(np.pi * min(1.0, progress)))
        n_features = gradient.shape[2] - 1
        rate = solver.rate(n_features) * fade * np.sqrt(1 - solver.beta2**self._steps)
        if solver.by_row:
            self._second += (1 - solver.beta2) * ((gradient**2).sum(axis=2) / n_features - self._second)
            step = (rate / (np.sqrt(self._second) + solver.epsilon))[:, :, None]
            kept = np.maximum(1 - step * decay, 0.5)  # the noise takes no more than half of a row at once
            self.coefficients[:, :, :-1] = kept * self.coefficients[:, :, :-1] - step * inner
            self.coefficients[:, :, -1:] -= (step * offset[:, :, None]).astype(np.float32)
            return loss
        self._first += (1 - solver.beta1) * (gradient - self._first)
        self._second += (1 - solver.beta2) * (gradient**2 - self._second)
        rate /= 1 - solver.beta1**self._steps
        self.coefficients -= (rate * self._first / (np.sqrt(self._second) + solver.epsilon)).astype(np.float32)
        return loss


class _CpmMember(_Member):
    """The coordinate perturbation method, stated literally; with the departures that the settings name.

    For each coordinate, at most two points are tried, one each way; the change of the loss is summed over samples from
    the coordinate's own effect on f_k, and the loss in full is never evaluated.
    """

    def __init__(self, problem: TrainingProblem, batch: ModelBatch, number: int, solver: CpmSolver) -> None:
        super().__init__(problem, batch, number)
        self._solver, self._steps = solver, solver.initial_steps(self.coefficients)
        self.counts = {"tried": 0, "accepted": 0, "looked": 0}

    def _order(self) -> Indices:
        revisit = self._solver.revisit
        chosen = [int(i) for i in self.eligible if self.active[i] or revisit >= 1 or self.random.uniform() < revisit]
        if self._solver.max_entries > 0:
            self.random.shuffle(chosen)
        return np.array(chosen, dtype=np.intp)

    def _begin(self) -> tuple[Indices, Doubles]:
        """The samples of this sweep and their f, infinite where a pair sits it out."""
        solver, m = self._solver, self.n_classes
        order = self._order()
        _, f = self.values(order)
        kept, kept_f = [], []
        entries, loss, weight = 0, 0.0, 0.0
        most = solver.max_entries * m * min(len(self.losses) + 1, solver.ramp) // solver.ramp
        for i, values in zip(order, f, strict=True):
            if solver.max_entries > 0 and entries >= most:
                break
            y = self.target[i]
            ratio = values[y] / values
            rivals = np.arange(m) != y
            loss += self.weight[i] * float(np.maximum(self.alpha, ratio[rivals]).sum())
            weight += float(self.weight[i])
            pairs = rivals & ((ratio > solver.slack * self.alpha) | (solver.slack <= 0))
            self.active[i] = pairs.any()
            if not pairs.any():
                continue
            kept.append(i)
            kept_f.append(np.where(pairs | ~rivals, values, np.inf))
            entries += int(pairs.sum()) + 1
        self.losses.append(loss / weight if weight > 0 else 0.0)
        return np.array(kept, dtype=np.intp), np.array(kept_f).reshape(len(kept), m)

    def make_pass(self) -> None:
        samples, f = self._begin()
        m, q = self.n_classes, self.coefficients.shape[1]
        if self._solver.synchronous:
            for r in range(q):
                f = np.stack([self._move_row(samples, f, k, r) for k in range(m)], axis=1)
        else:
            for k in range(m):
                for r in range(q):
                    f[:, k] = self._move_row(samples, f, k, r)

    def _move_row(self, samples: Indices, f: Doubles, k: int, r: int) -> Doubles:
        """Every coordinate of A_k[r, :] and b_k[r] in turn; returns the new f_k."""
        solver, alpha = self._solver, self.alpha
        coefficients, steps = self.coefficients[k, r], self._steps[k, r]
        x = np.hstack([self.rows[samples], -np.ones((len(samples), 1))])
        y, w = self.target[samples], self.weight[samples]
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
                energy = 0.0 if c == len(coefficients) - 1 else self.noise * (2 * d * float(coefficients[c]) + d * d)
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
            value = value + self.noise * (energy_after - energy_before)
        return np.where(present, np.maximum(value, 1e-30), np.inf)
