"""What all states on the device share: weights read back once a pass, losses, passes against a clock, memory let go."""

from __future__ import annotations

import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from multiform._typing import Floats
from multiform.engines.cuda.members import DeviceMembers
from multiform.engines.cuda.storage import DeviceRows
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
