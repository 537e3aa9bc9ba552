"""The members of a batch side by side, as the kernels read them."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiform._typing import Floats
from multiform.engines.cuda.storage import DeviceRows
from multiform.runtime import effective_threads
from multiform.solvers import ModelBatch, TrainingProblem


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
        columns = None
        if batch.columns is not None:
            columns = np.full((self.n_members, self.width), p + 1, dtype=np.int32)  # the column of zeros
            for member, selected in enumerate(batch.columns):
                columns[member, : len(selected)] = selected
            columns[:, self.n_features] = p
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
