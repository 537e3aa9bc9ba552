"""The members of a batch side by side, as the kernels read them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from multiform._typing import Floats
from multiform.engines.cuda.device import Program
from multiform.engines.cuda.storage import DeviceRows
from multiform.runtime import effective_threads
from multiform.solvers import MOST_FOR_MEANS, ModelBatch, TrainingProblem, class_means, samples_for_means

__all__ = ["DeviceMembers", "stacked_weights"]


MOST_SEPARATORS = 65_535  # a launch has no more blocks along its second and third side


class DeviceMembers:
    """What is constant of the members, on the device.

    Weights are stacked as (B, m, q, width): a member's columns, zeros up to the widest member's, then the offset in
    column `n_features`, then zeros up to whole tiles.
    """

    def __init__(self, problem: TrainingProblem, batch: ModelBatch, rows: DeviceRows) -> None:
        device, self._rows = rows.device, rows
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
        self.selected = device.upload(np.array(self.features, dtype=np.int32))
        self.target = device.upload(problem.target)
        weight = batch.sample_weight
        self.sample_weight = None if weight is None else device.upload(np.ascontiguousarray(weight, dtype=np.float32))
        self.weight_stride = 0 if weight is None or weight.ndim == 1 else self.n_samples
        self.class_weight = device.upload(np.ascontiguousarray(batch.class_weight, dtype=np.float32))
        self.noise = device.upload(batch.noise.astype(np.float32) ** 2)
        self.seed = device.upload(batch.seed.astype(np.uint64))

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of the stacked weights."""
        return self.n_members, self.n_classes, self.n_components, self.width

    def require_few(self) -> None:
        """Kernels that have all members side by side can launch so many only."""
        if self.n_members * self.n_classes > MOST_SEPARATORS:
            raise ValueError(
                f"device='cuda' trains at most {MOST_SEPARATORS} separators at a time; got {self.n_members} members of "
                f"{self.n_classes} classes: train them in several batches."
            )

    def fields(self, rows: DeviceRows) -> dict[str, Any]:
        """What every solver's structure holds."""
        return rows.fields() | {
            "columns": self.columns,
            "n_classes": self.n_classes,
            "n_components": self.n_components,
            "n_features": self.n_features,
            "width": self.width,
            "n_samples": self.n_samples,
            "selected": self.selected,
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

    def start(self, problem: TrainingProblem, batch: ModelBatch) -> Floats:
        """`ModelBatch.initial_coefficients` of every member, stacked; what members share is computed once.

        Equal seeds draw equal numbers. Few samples are all used for the class means, which then do not depend on the
        seed.
        """
        if batch.start is not None:
            return self.stacked([np.asarray(part, dtype=np.float32) for part in batch.start])
        if len(problem.target) > MOST_FOR_MEANS:
            return self._drawn_start(problem, batch)
        means, seen = _class_means(problem, batch)
        whole = np.zeros((len(batch), self.n_classes, self.n_components, self.width), dtype=np.float32)
        features = np.array(self.features)
        for n_features in np.unique(features):
            members = np.flatnonzero(features == n_features)
            normal = _normals(batch.seed[members], (self.n_classes, self.n_components, int(n_features)))
            mean = means[seen[members]]
            if batch.columns is not None:
                columns = np.stack([batch.columns[member] for member in members.tolist()])
                mean = np.take_along_axis(mean, columns[:, None, :], axis=2)
            whole[members, :, :, :n_features] = normal
            whole[members, :, :, self.n_features] = np.einsum("bkqp,bkp->bkq", normal, mean)
        return whole

    def _drawn_start(self, problem: TrainingProblem, batch: ModelBatch) -> Floats:
        """Members that share seed, weights and columns share their start."""
        shared = batch.sample_weight is None or batch.sample_weight.ndim == 1
        keys = [
            (int(seed), 0 if shared else member, member if batch.columns is not None else 0)
            for member, seed in enumerate(batch.seed)
        ]
        first = {key: member for member, key in reversed(list(enumerate(keys)))}
        means, generators = _means_on_device(problem, batch, list(first.values()), self._rows)
        whole = np.zeros((len(batch), self.n_classes, self.n_components, self.width), dtype=np.float32)

        def fill(number: int, member: int) -> None:
            n_features, columns = self.features[member], batch.member_columns(member)
            mean = means[number] if columns is None else means[number][:, columns]
            shape = (self.n_classes, self.n_components, n_features)
            normal = generators[number].standard_normal(shape, dtype=np.float32)
            normal /= np.float32(np.sqrt(n_features))
            whole[member, :, :, :n_features] = normal
            whole[member, :, :, self.n_features] = np.einsum("kqp,kp->kq", normal, mean)

        with ThreadPoolExecutor(min(len(first), effective_threads(None))) as threads:
            list(threads.map(fill, range(len(first)), first.values()))
        for member, key in enumerate(keys):
            if first[key] != member:
                whole[member] = whole[first[key]]
        return whole

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


def _class_means(problem: TrainingProblem, batch: ModelBatch) -> tuple[Floats, npt.NDArray[np.intp]]:
    """The distinct class means among the members, and which of them each member has."""
    if batch.sample_weight is None or batch.sample_weight.ndim == 1:
        distinct, seen = [batch.sample_weight], np.zeros(len(batch), dtype=np.intp)
    else:
        numbers: dict[bytes, int] = {}
        seen = np.array([numbers.setdefault(weight.tobytes(), len(numbers)) for weight in batch.sample_weight])
        distinct = [batch.sample_weight[np.flatnonzero(seen == number)[0]] for number in range(len(numbers))]
    random = np.random.default_rng(0)  # not used for so few samples
    return np.stack([class_means(problem, weight, random) for weight in distinct]), seen


def _normals(seeds: npt.NDArray[np.uint64], shape: tuple[int, int, int]) -> Floats:
    distinct, which = np.unique(seeds, return_inverse=True)
    drawn = [np.random.default_rng(int(seed)).standard_normal(shape, dtype=np.float32) for seed in distinct]
    return np.asarray(np.stack(drawn)[which] / np.float32(np.sqrt(shape[2])), dtype=np.float32)


def _means_on_device(
    problem: TrainingProblem, batch: ModelBatch, members: list[int], rows: DeviceRows
) -> tuple[Floats, list[np.random.Generator]]:
    """The class means of these members, shape (len(members), m, p), and their generators, ready for the next draw.

    Which samples are looked at is drawn as on the host; their sums are found on the device.
    """
    m, device = problem.n_classes, rows.device

    def chosen(member: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], np.random.Generator]:
        random = np.random.default_rng(int(batch.seed[member]))
        samples = samples_for_means(problem, batch.member_weight(member), random)
        target = problem.target[samples]
        by_class = samples[np.argsort(target, kind="stable")].astype(np.int32)
        return by_class, np.concatenate([[0], np.cumsum(np.bincount(target, minlength=m))]), random

    with ThreadPoolExecutor(min(len(members), effective_threads(None))) as threads:
        parts = list(threads.map(chosen, members))
    begin = np.cumsum([0, *(len(samples) for samples, _, _ in parts[:-1])])
    share = None
    if batch.sample_weight is not None:
        weights = [batch.member_weight(member) for member in members]
        share = [weight[part[0]] for weight, part in zip(weights, parts, strict=True) if weight is not None]
    program = Program(device, "means.cu", "Means", rows.stored_bytes, 1)
    means = device.empty((len(members), m, rows.n_features), np.float32)
    samples, values = np.concatenate([part[0] for part in parts]), rows.values
    if rows.streamed:  # bring just these
        gathered = np.empty((len(samples), rows.pitch), dtype=rows.host.dtype)
        rows.gather(samples, gathered)
        samples, values = np.arange(len(samples), dtype=np.int32), device.upload(gathered)
    fields: dict[str, Any] = rows.fields() | {
        "rows": values,
        "samples": device.upload(samples),
        "share": None if share is None else device.upload(np.concatenate(share).astype(np.float32)),
        "first": device.upload(np.stack([part[1] + start for part, start in zip(parts, begin, strict=True)])),
        "n_classes": m,
        "n_features": rows.n_features,
        "means": means,
    }
    arguments = program.arguments(fields)
    program("class_means", arguments, grid=(-(-rows.n_features // 128), m, len(members)), threads=128)
    return device.download(means), [part[2] for part in parts]
