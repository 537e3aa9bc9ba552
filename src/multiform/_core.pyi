"""
The compiled core: row access, the ratio loss, Adam and the coordinate perturbation method.
"""

import numpy
from numpy.typing import NDArray
from typing_extensions import CapsuleType

def available_kernels() -> list[str]: ...

class Rows:
    def set_scaling(self, center: NDArray[numpy.float32], inverse_scale: NDArray[numpy.float32]) -> None: ...
    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def kernel(self) -> str: ...

def dense_rows(values: object, kernel: str = "auto") -> Rows: ...
def sparse_rows(
    data: NDArray[numpy.float32],
    indptr: NDArray[numpy.int64],
    indices: NDArray[numpy.int32],
    n_columns: int,
    kernel: str = "auto",
) -> Rows: ...

class Problem:
    pass

def problem(rows: object, target: NDArray[numpy.int32], n_classes: int, sgemm: CapsuleType) -> Problem: ...

class AdamMember:
    @property
    def passes(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def visits(self) -> int: ...
    @property
    def losses(self) -> list[float]: ...

def adam_member(
    problem: object,
    weights: NDArray[numpy.float32],
    first: NDArray[numpy.float32],
    second: NDArray[numpy.float32],
    columns: NDArray[numpy.int32] | None,
    sample_weight: NDArray[numpy.float32] | None,
    class_weight: NDArray[numpy.float32],
    *,
    alpha: float,
    noise: float,
    seed: int,
    batch_size: int,
    n_passes: int,
    learning_rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    revisit: float,
    final_rate: float,
    steps: int,
) -> AdamMember: ...
def sparse_adam_member(
    problem: object,
    weights: NDArray[numpy.float32],
    second: NDArray[numpy.float32],
    columns: NDArray[numpy.int32] | None,
    sample_weight: NDArray[numpy.float32] | None,
    class_weight: NDArray[numpy.float32],
    *,
    alpha: float,
    noise: float,
    seed: int,
    batch_size: int,
    n_passes: int,
    learning_rate: float,
    beta2: float,
    epsilon: float,
    revisit: float,
    final_rate: float,
    steps: int,
) -> AdamMember: ...
def train_adam(members: list[AdamMember], n_threads: int, shared: bool, until: int, seconds: float) -> None: ...

class CpmMember:
    @property
    def passes(self) -> int: ...
    @property
    def losses(self) -> list[float]: ...
    @property
    def tried(self) -> int: ...
    @property
    def looked(self) -> int: ...
    @property
    def accepted(self) -> int: ...

def cpm_member(
    problem: object,
    weights: NDArray[numpy.float32],
    steps: NDArray[numpy.float32],
    columns: NDArray[numpy.int32] | None,
    sample_weight: NDArray[numpy.float32] | None,
    class_weight: NDArray[numpy.float32],
    *,
    alpha: float,
    noise: float,
    seed: int,
    synchronous: bool,
    frozen_own: bool,
    slack: float,
    revisit: float,
    max_entries: int,
    ramp: int,
    grow: float,
    shrink: float,
    smallest: float,
    largest: float,
    largest_offset: float,
) -> CpmMember: ...
def sweep_cpm(members: list[CpmMember], n_threads: int, shared: bool, until: int, seconds: float) -> None: ...
def member_values(
    rows: Rows,
    weights: NDArray[numpy.float32],
    columns: NDArray[numpy.int32] | None,
    sgemm: CapsuleType,
    n_threads: int,
    out: NDArray[numpy.float32],
) -> None: ...
def sparse_member_values(
    rows: Rows,
    weights: NDArray[numpy.float32],
    columns: NDArray[numpy.int32] | None,
    n_threads: int,
    out: NDArray[numpy.float32],
) -> None: ...
def column_moments(
    rows: Rows,
    n_threads: int,
    mean: NDArray[numpy.float64],
    variance: NDArray[numpy.float64],
    least: NDArray[numpy.float32],
    most: NDArray[numpy.float32],
) -> None: ...
def log_sharpness(
    scores: NDArray[numpy.float64],
    target: NDArray[numpy.int32],
    weight: NDArray[numpy.float64],
    out: NDArray[numpy.float64],
    losses: NDArray[numpy.float64],
    kernel: str = "auto",
) -> None: ...
def log_sharpness_in_the_mean(
    scores: NDArray[numpy.float64], target: NDArray[numpy.int32], weight: NDArray[numpy.float64], kernel: str = "auto"
) -> float: ...
def class_offsets(
    scores: NDArray[numpy.float64],
    target: NDArray[numpy.int32],
    weight: NDArray[numpy.float64],
    deviation: float,
    out: NDArray[numpy.float64],
    kernel: str = "auto",
) -> None: ...
def class_scatter(
    rows: Rows,
    target: NDArray[numpy.int32],
    samples: NDArray[numpy.int32] | None,
    weight: NDArray[numpy.float32] | None,
    columns: NDArray[numpy.int32] | None,
    means: NDArray[numpy.float64],
    covariance: NDArray[numpy.float64],
) -> None: ...
def whiten(covariance: NDArray[numpy.float64], ridge: float, columns: NDArray[numpy.float64]) -> None: ...
def gather_rows(rows: Rows, samples: NDArray[numpy.int32], out: NDArray[numpy.float32]) -> None: ...
