"""The members of a batch side by side, as the kernels read them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from multiform.runtime import effective_threads
from multiform.solvers.cuda.storage import DeviceRows
from multiform.solvers.problem import MOST_FOR_MEANS, Floats, ModelBatch, TrainingProblem, class_means

__all__ = ["DeviceMembers", "initial_weights", "stacked_weights"]


class DeviceMembers:
    """What is constant of the members, on the device.

    Weights are stacked as (B, m, q, width): a member's columns, zeros up to the widest member's, then the offset in
    column `n_features`, then zeros up to whole tiles.
    """

    def __init__(self, problem: TrainingProblem, batch: ModelBatch, rows: DeviceRows) -> None:
        device = rows.device
        self.n_members, self.n_classes, self.n_components = len(batch), problem.n_classes, batch.n_components
        self.n_samples = len(problem.target)
        self.features = [
            problem.n_features if batch.columns is None else len(batch.columns[member]) for member in range(len(batch))
        ]
        self.n_features = max(self.features)
        self.width = -(-(self.n_features + 1) // 32) * 32
        self.columns = None
        if batch.columns is not None:
            p = problem.n_features
            columns = np.full((self.n_members, self.width), p + 1, dtype=np.int32)  # the column of zeros
            for member, selected in enumerate(batch.columns):
                columns[member, : len(selected)] = selected
            columns[:, self.n_features] = p
            self.columns = device.upload(columns)
        self.target = device.upload(problem.target)
        weight = batch.sample_weight
        self.sample_weight = None if weight is None else device.upload(np.ascontiguousarray(weight, dtype=np.float32))
        self.weight_stride = 0 if weight is None or weight.ndim == 1 else self.n_samples
        self.class_weight = device.upload(np.ascontiguousarray(batch.class_weight, dtype=np.float32))
        self.noise = device.upload(batch.noise.astype(np.float32) ** 2)
        self.seed = device.upload(batch.seed.astype(np.uint64))

    def fields(self, rows: DeviceRows) -> dict[str, Any]:
        """What every solver's structure holds."""
        return {
            "rows": rows.values,
            "pitch": rows.pitch,
            "center": rows.center,
            "unit": rows.unit,
            "columns": self.columns,
            "n_classes": self.n_classes,
            "n_components": self.n_components,
            "n_features": self.n_features,
            "width": self.width,
            "n_samples": self.n_samples,
            "target": self.target,
            "sample_weight": self.sample_weight,
            "weight_stride": self.weight_stride,
            "class_weight": self.class_weight,
            "seed": self.seed,
            "noise": self.noise,
        }

    def stacked(self, parts: list[Floats]) -> Floats:
        """Arrays of shape (m, q, p_b + 1) in the layout of the device."""
        return stacked_weights(parts, self.n_features, self.width)

    def unstacked(self, whole: Floats) -> list[Floats]:
        """The inverse of `stacked`."""
        if min(self.features) == self.n_features:
            return list(np.ascontiguousarray(whole[..., : self.n_features + 1]))
        return [
            np.concatenate([part[:, :, :width], part[:, :, self.n_features, None]], axis=2)
            for part, width in zip(whole, self.features, strict=True)
        ]


def stacked_weights(parts: list[Floats], n_features: int, width: int) -> Floats:
    whole = np.zeros((len(parts), *parts[0].shape[:2], width), dtype=np.float32)
    for member, part in enumerate(parts):
        whole[member, :, :, : part.shape[2] - 1] = part[:, :, :-1]
        whole[member, :, :, n_features] = part[:, :, -1]
    return whole


def initial_weights(problem: TrainingProblem, batch: ModelBatch) -> list[Floats]:
    """`ModelBatch.initial_weights` of every member, each distinct one once.

    Equal seeds draw equal numbers. Few samples are all used for the class means, which then do not depend on the seed.
    """
    members = range(len(batch))
    if batch.start is not None:
        return [batch.initial_weights(problem, member) for member in members]
    if len(problem.target) > MOST_FOR_MEANS:
        return _each_once(problem, batch)
    means: dict[bytes, Floats] = {}
    normals: dict[tuple[int, int], Floats] = {}
    found = []
    for member in members:
        weight, columns = batch.member_weight(member), batch.member_columns(member)
        n_features, seed = problem.n_features if columns is None else len(columns), int(batch.seed[member])
        seen = b"" if weight is None else weight.tobytes()
        if seen not in means:
            means[seen] = class_means(problem, weight, np.random.default_rng(0))
        if (seed, n_features) not in normals:
            shape = (problem.n_classes, batch.n_components, n_features)
            drawn = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
            normals[seed, n_features] = drawn / np.float32(np.sqrt(n_features))
        normal = normals[seed, n_features]
        mean = means[seen] if columns is None else means[seen][:, columns]
        offset = np.einsum("kqp,kp->kq", normal, mean)
        found.append(np.concatenate([normal, offset[:, :, None]], axis=2))
    return found


def _each_once(problem: TrainingProblem, batch: ModelBatch) -> list[Floats]:
    """Members that share seed, weights and columns share their start; the others are found on all cores."""
    shared = batch.sample_weight is None or batch.sample_weight.ndim == 1
    keys = [
        (int(seed), 0 if shared else member, member if batch.columns is not None else 0)
        for member, seed in enumerate(batch.seed)
    ]
    first = {key: member for member, key in reversed(list(enumerate(keys)))}
    with ThreadPoolExecutor(min(len(first), effective_threads(None))) as threads:
        drawn = dict(
            zip(first, threads.map(lambda member: batch.initial_weights(problem, member), first.values()), strict=True)
        )
    return [drawn[key] for key in keys]
