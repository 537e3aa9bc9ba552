"""The members of a batch on the device, side by side as the kernels read them, and what all states there share.

That is: weights read back once per pass, losses, passes against a clock, memory let go.
"""

from __future__ import annotations

import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from multiform._typing import Floats, Ints
from multiform.engines.cuda.device import Staging
from multiform.engines.cuda.storage import DeviceRows
from multiform.runtime import effective_threads
from multiform.solvers import ModelBatch, TrainingProblem

MOST_SEPARATORS = 65_535  # a launch has no more blocks along its second and third side


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


class DeviceMembers:
    """What is constant of the members, on the device.

    Weights are stacked as (B, m, q, width): a member's columns, zeros up to the widest member's, then the offset in
    column `n_features`, then zeros up to whole tiles.
    """

    def __init__(self, problem: TrainingProblem, batch: ModelBatch, rows: DeviceRows) -> None:
        device, p, weight = rows.device, problem.n_features, batch.sample_weight
        self.n_members, self.n_classes, self.n_components = len(batch), problem.n_classes, batch.n_components
        self.n_samples = len(problem.target)
        self.features = [p] * len(batch) if batch.columns is None else [len(selected) for selected in batch.columns]
        self.n_features = max(self.features)
        self.width = -(-(self.n_features + 1) // 32) * 32
        columns = None if batch.columns is None else stacked_columns(batch.columns, self.n_features, self.width, p)
        # What every solver's structure holds.
        self.fields: dict[str, Any] = rows.fields() | {
            "columns": None if columns is None else device.upload(columns),
            "n_classes": self.n_classes,
            "n_components": self.n_components,
            "n_features": self.n_features,
            "width": self.width,
            "n_samples": self.n_samples,
            "selected": device.upload(np.array(self.features, dtype=np.int32)),
            "target": device.upload(problem.target),
            "sample_weight": None if weight is None else device.upload(np.ascontiguousarray(weight, dtype=np.float32)),
            "weight_stride": 0 if weight is None or weight.ndim == 1 else self.n_samples,
            "class_weight": device.upload(np.ascontiguousarray(batch.class_weight, dtype=np.float32)),
            "noise": device.upload(batch.noise.astype(np.float32) ** 2),
            "seed": device.upload(batch.seed.astype(np.uint64)),
        }

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of the stacked weights."""
        return self.n_members, self.n_classes, self.n_components, self.width

    def stacked(self, parts: list[Floats]) -> Floats:
        """Arrays of shape (m, q, p_b + 1) in the layout of the device."""
        return stacked_weights(parts, self.n_features, self.width)

    def start(self, problem: TrainingProblem, batch: ModelBatch) -> Floats:
        """`ModelBatch.starts`, stacked."""
        distinct, which = batch.distinct_starts(problem, effective_threads(None))
        stacked = self.stacked(distinct)
        return stacked if len(distinct) == len(which) else stacked[which]

    def unstacked(self, whole: Floats) -> list[Floats]:
        """The inverse of `stacked`."""
        if min(self.features) == self.n_features:
            return list(np.ascontiguousarray(whole[..., : self.n_features + 1]))
        return [
            np.concatenate([part[:, :, :width], part[:, :, self.n_features, None]], axis=2)
            for part, width in zip(whole, self.features, strict=True)
        ]


def stacked_weights(parts: list[Floats], n_features: int, width: int) -> Floats:
    """Weights of shape (m, q, p_b + 1) as (B, m, q, width), the offset in column `n_features`."""
    whole = np.zeros((len(parts), *parts[0].shape[:2], width), dtype=np.float32)
    for member, part in enumerate(parts):
        whole[member, :, :, : part.shape[2] - 1] = part[:, :, :-1]
        whole[member, :, :, n_features] = part[:, :, -1]
    return whole


def stacked_columns(parts: Sequence[Ints], n_features: int, width: int, p: int) -> Ints:
    """The columns of X that stacked weights read, (B, width): behind its p features stand one of -1 and one of 0."""
    whole = np.full((len(parts), width), p + 1, dtype=np.int32)
    for member, part in enumerate(parts):
        whole[member, : len(part)] = part
    whole[:, n_features] = p
    return whole


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
        self._fields: dict[str, Any] = self._members.fields | {"alpha": batch.alpha}
        self._losses: list[list[float]] = [[] for _ in range(len(batch))]
        self._read: tuple[int, list[Floats]] | None = None
        self._stagings: dict[int, Staging] = {}
        self.passes = 0

    def _require_room(self, needed: int, remedy: str) -> None:
        """Before the large arrays are allocated."""
        members, free = self._members, self._device.free_bytes()
        if self.side_by_side and members.n_members * members.n_classes > MOST_SEPARATORS:
            raise ValueError(
                f"device='cuda' trains at most {MOST_SEPARATORS} separators at a time; got {members.n_members} members "
                f"of {members.n_classes} classes: train them in several batches."
            )
        if needed > free:
            raise MemoryError(
                f"{members.n_members} models of {members.n_classes} x {members.n_components} x {members.width} "
                f"coefficients over {members.n_samples} samples need about {needed / 1e9:.1f} GB on the GPU, which has "
                f"{free / 1e9:.1f} GB for them: train fewer members at a time, {remedy}, or use device='cpu'."
            )

    @property
    def coefficients(self) -> list[Floats]:
        if self._read is None or self._read[0] != self.passes:
            self._read = self.passes, self._members.unstacked(self._device.download(self._fields["weights"]))
        return self._read[1]

    @property
    def losses(self) -> list[list[float]]:
        return [list(member) for member in self._losses]

    def _note_losses(self, sums: Any) -> None:
        """Of one pass: sums of shape (B, 2), loss and weight of the samples that were looked at."""
        for member, (loss, weight) in zip(self._losses, sums, strict=True):
            member.append(float(loss / weight) if weight > 0 else 0.0)

    def advance(self, until: int, seconds: float) -> None:
        # Whole passes: the clock is looked at between them.
        deadline = time.monotonic() + seconds
        with freeing(self._forget):
            while self.passes < until:
                self._make_passes(until)
                if time.monotonic() > deadline:
                    return

    def _gathered(self, order: Ints, begin: Any, end: Any, n: int) -> Any:
        """Rows of a streamed X, those from begin to end of each member's order: an array of shape (B, n, pitch)."""
        rows, begin, end = self._rows, np.broadcast_to(begin, len(order)), np.broadcast_to(end, len(order))
        if n not in self._stagings:
            self._stagings[n] = self._device.staging((len(order), n, rows.pitch), rows.host.dtype)

        def fill(host: Any) -> None:
            for member, samples in enumerate(order):
                rows.gather(samples[begin[member] : end[member]], host[member])

        return self._stagings[n].put(fill)

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
