"""What drawing the starts on the host costs of a fit on the GPU: ``python -m benchmarks.gpu_starts``.

"fit" is the wall time from a problem whose X is on the GPU already to the models' coefficients on the host, which is
the strictest measure: a user's fit also checks and uploads X.
"""

import argparse
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engine import loyalty_weights
from benchmarks.measure import seconds

NOISE, COMPONENTS = 0.35, 18


def fashion(data: Path | None) -> tuple[Any, Any]:
    """Fashion-MNIST where it is there, else as many samples, columns and classes, as hard to tell apart."""
    from multiform.datasets import load_fashion_mnist

    try:
        X, y, _, _ = load_fashion_mnist(data)
        print("Fashion-MNIST")
        return X, y.astype(np.int32)
    except OSError:
        print("no Fashion-MNIST here: drawn data of its size")
        rng = np.random.default_rng(0)
        y = rng.integers(0, 10, 60_000).astype(np.int32)
        means, mixing = rng.normal(size=(10, 20)), rng.normal(size=(20, 784)).astype(np.float32)
        hidden = (means[y] + 1.3 * rng.normal(size=(60_000, 20))).astype(np.float32)
        return np.clip(128 + 12 * (hidden @ mixing), 0, 255).astype(np.uint8), y


def cases(data: Path | None) -> Any:
    """Name, problem, batch and solver of each."""
    from multiform.datasets import load_heart_disease
    from multiform.separators import Rows, Scaling
    from multiform.solvers import AdamSolver, CpmSolver, ModelBatch, TrainingProblem

    X, y = fashion(data)
    scaling = Scaling(X.mean(axis=0), np.full(784, X.std()))
    problem = TrainingProblem(Rows(X, scaling), y, 10)

    def batch_of(class_weight: Any, seeds: Any) -> Any:
        noise = np.full(len(seeds), NOISE, np.float32)
        return ModelBatch(COMPONENTS, 0.5, class_weight, noise, np.asarray(seeds, np.uint64))

    loyal = loyalty_weights(10)
    batches = {
        "1 model": batch_of(np.ones((1, 10), np.float32), [0]),
        "21 models, one seed": batch_of(loyal, np.zeros(len(loyal))),
        "21 models, a seed each": batch_of(loyal, np.arange(len(loyal))),
        "100 models, a seed each": batch_of(np.ones((100, 10), np.float32), np.arange(100)),
    }
    for name, batch in batches.items():
        yield f"Adam, {name}", problem, batch, AdamSolver(5)
    yield "CPM, 1 model", problem, batches["1 model"], CpmSolver(10)

    heart = load_heart_disease()
    X = np.nan_to_num(heart.data).astype(np.float32)
    small = TrainingProblem(Rows(X, Scaling(X.mean(axis=0), X.std(axis=0))), heart.target.astype(np.int32), 2)
    tests = np.arange(1, 2**13)
    columns = [np.flatnonzero(one >> np.arange(13) & 1).astype(np.int32) for one in tests]
    weights = np.array([[1, 1], [0.05, 1], [1, 0.05]], dtype=np.float32)
    subsets = ModelBatch(
        14,
        0.5,
        np.tile(weights, (len(tests), 1)),
        np.full(3 * len(tests), 0.5, np.float32),
        np.repeat(tests.astype(np.uint64), 3),
        columns=[one for one in columns for _ in range(3)],
    )
    yield "Adam, 8,191 subsets, 3 models each", small, subsets, AdamSolver(70, 64)


def median(work: Callable[[], Any], repeats: int) -> float:
    work()
    return statistics.median(seconds(work) for _ in range(repeats))


def main() -> None:
    """Print a line per case."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_starts", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of Fashion-MNIST's IDX files")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    from multiform import QMSClassifier
    from multiform.engines.cuda import CudaEngine
    from multiform.engines.cuda.states import DeviceMembers

    engine = CudaEngine("cuda")
    print(f"{'case':36} {'fit s':>8} {'starts s':>9} {'share':>7}")
    for name, problem, batch, solver in cases(options.data):

        def fit(problem: Any = problem, batch: Any = batch, solver: Any = solver) -> Any:
            state = engine.begin(problem, batch, solver)
            state.advance(solver.n_passes, 1e9)
            return state.coefficients

        whole = median(fit, options.repeats)
        members = DeviceMembers(problem, batch, engine._place(problem.rows))
        start = median(partial(members.start, problem, batch), options.repeats)
        print(f"{name:36} {whole:8.4f} {start:9.4f} {start / whole:7.1%}", flush=True)
        engine.release()
    X, y = fashion(options.data)
    model = QMSClassifier(device="cuda", random_state=0)
    print(f"QMSClassifier().fit, as seen: {median(lambda: model.fit(X, y), options.repeats):.4f} s")


if __name__ == "__main__":
    main()
