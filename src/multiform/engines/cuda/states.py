"""What all states on the device share: weights read back once a pass, losses, passes against a clock, memory let go."""

from __future__ import annotations

import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np

from multiform._typing import Floats
from multiform.engines.cuda.members import DeviceMembers
from multiform.engines.cuda.storage import DeviceRows
from multiform.solvers import AdamSolver, ModelBatch, Moments, TrainingProblem

__all__ = ["DeviceAdamState", "DeviceState", "freeing"]


@contextmanager
def freeing(release: Callable[[], None]) -> Iterator[None]:
    """An exception leaves nothing on the device: neither X, nor what the frames of its traceback would hold there.

    An interactive session keeps the last traceback.
    """
    try:
        yield
    except BaseException as error:
        traceback.clear_frames(error.__traceback__)
        release()
        raise


class DeviceState(ABC):
    """A batch on its way; see `TrainingState`. Weights stay on the device until asked for.

    `_fields` is what the kernels' structures are filled from; a subclass adds its own, and makes the passes.
    """

    side_by_side = True  # one launch has all members; a grid's second and third side are short

    def __init__(
        self, problem: TrainingProblem, batch: ModelBatch, rows: DeviceRows, forget: Callable[[], None]
    ) -> None:
        self._forget, self._rows, self._device = forget, rows, rows.device  # forget: the engine lets go of X
        self._members = DeviceMembers(problem, batch, rows)
        self._fields: dict[str, Any] = self._members.fields(rows) | {"alpha": batch.alpha}
        self._losses: list[list[float]] = [[] for _ in range(len(batch))]
        self._read: tuple[int, list[Floats]] | None = None
        self.passes = 0

    def _require_room(self, needed: int, remedy: str) -> None:
        """Before the large arrays are allocated."""
        members, free = self._members, self._device.free_bytes()
        if self.side_by_side:
            members.require_few()
        if needed > free:
            raise MemoryError(
                f"{members.n_members} models of {members.n_classes} x {members.n_components} x {members.width} "
                f"coefficients over {members.n_samples} samples need about {needed / 1e9:.1f} GB on the GPU, which has "
                f"{free / 1e9:.1f} GB for them: train fewer members at a time, {remedy}, or use device='cpu'."
            )

    @property
    def coefficients(self) -> list[Floats]:
        """A_k and b_k side by side, for scaled rows, per member, as they are now."""
        if self._read is None or self._read[0] != self.passes:
            self._read = self.passes, self._members.unstacked(self._device.download(self._fields["weights"]))
        return self._read[1]

    @property
    def losses(self) -> list[list[float]]:
        """Mean loss of each pass, per member."""
        return [list(member) for member in self._losses]

    def _note_losses(self, sums: Any) -> None:
        """Of one pass: sums of shape (B, 2), loss and weight of the samples that were looked at."""
        for member, (loss, weight) in zip(self._losses, sums, strict=True):
            member.append(float(loss / weight) if weight > 0 else 0.0)

    def advance(self, until: int, seconds: float) -> None:
        """Go on to the end of pass ``until``; whole passes, so that the clock is looked at between them."""
        deadline = time.monotonic() + seconds
        with freeing(self._forget):
            while self.passes < until:
                self._make_passes(until)
                if time.monotonic() > deadline:
                    return

    @abstractmethod
    def _make_passes(self, until: int) -> None:
        """One pass, or as many as go together, none beyond ``until``."""

    def release(self) -> None:
        """Give the device's memory back, that of X too; the state is of no use afterwards."""
        device, forget = self._device, self._forget
        try:
            device.wait()
        finally:
            forget()
            vars(self).clear()
        device.release()


class DeviceAdamState(DeviceState):
    """What the two ways to make Adam's steps have in common: its moments and settings."""

    def __init__(
        self,
        solver: AdamSolver,
        problem: TrainingProblem,
        batch: ModelBatch,
        rows: DeviceRows,
        forget: Callable[[], None],
        moments: Sequence[Moments] | None,
    ) -> None:
        super().__init__(problem, batch, rows, forget)
        self._solver = solver
        self._capacity = min(solver.batch_size, self._members.n_samples)
        weights_and_moments = 3 * 4 * int(np.prod(self._members.shape))
        self._require_room(weights_and_moments + self._work_bytes(), "lower n_components or batch_size")
        self._start(problem, batch, moments)
        self._prepare()

    @abstractmethod
    def _work_bytes(self) -> int:
        """What `_prepare` allocates, about."""

    @abstractmethod
    def _prepare(self) -> None:
        """The rest of the fields, and the program that is given them."""

    def _start(self, problem: TrainingProblem, batch: ModelBatch, moments: Sequence[Moments] | None) -> None:
        """Weights, moments, which samples have an active pair, and the settings, to the device."""
        device, members = self._device, self._members
        B, n = members.n_members, members.n_samples
        weights = device.upload(members.start(problem, batch))
        if moments is None:
            first, second = (device.zeros(members.shape, np.float32) for _ in range(2))
            steps = np.zeros(B, dtype=np.int64)
        else:
            first = device.upload(members.stacked([part[0] for part in moments]))
            second = device.upload(members.stacked([part[1] for part in moments]))
            steps = np.array([part[2] for part in moments], dtype=np.int64)
        rate = np.array([self._solver.rate(width) for width in members.features], dtype=np.float32)
        self._fields |= asdict(self._solver) | {
            "weights": weights,
            "first": first,
            "second": second,
            "steps": device.upload(steps),
            "drawn": device.zeros((B,), np.uint64),
            "active": device.upload(np.ones((B, n), dtype=np.uint8)),
            "capacity": self._capacity,
            "learning_rate": device.upload(rate),
        }

    @property
    def moments(self) -> list[Moments]:
        """Of every member, to go on from."""
        first, second = (
            self._members.unstacked(self._device.download(self._fields[name])) for name in ("first", "second")
        )
        return [(a, b, int(count)) for a, b, count in zip(first, second, self._steps_made(), strict=True)]

    def _steps_made(self) -> Any:
        return self._device.download(self._fields["steps"])
