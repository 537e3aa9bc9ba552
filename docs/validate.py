"""Validation accuracy of a setting on Fashion-MNIST: each figure of docs/defaults.md is one call of this.

    python docs/validate.py --data DIR n_components=36 max_iter=10
    python docs/validate.py --data DIR solver=cpm max_iter=8 slack=0.8 ramp=1
    python docs/validate.py --data DIR --patches stride=2 --pixels no noise=1.0 scaling=standard

NAME=VALUE is a parameter of QMSClassifier, or else a setting of the solver that it uses (AdamSolver or CpmSolver of
multiform.solvers); in capitals, as RANDOM_NORM=0.5, it is a constant of multiform.starts. Of the 60,000 *training*
images, 50,000 drawn at random train and the other 10,000 validate; the test images are not looked at.
"""

from __future__ import annotations

import argparse
import ast
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from multiform import QMSClassifier, starts
from multiform.datasets import load_fashion_mnist
from multiform.images import ImagePatches
from multiform.solvers import Solver

N_TRAIN = 50_000


class Tunable(QMSClassifier):
    """QMSClassifier with settings of its solver replaced."""

    solver_settings: dict[str, Any]

    def _solver(self, n: int, n_components: int, sparse: bool = False) -> Solver:
        chosen: Any = super()._solver(n, n_components, sparse)
        changed: Solver = replace(chosen, **self.solver_settings)
        return changed


def setting(text: str) -> tuple[str, Any]:
    """``"noise=0.5"`` as a name and a value; what is not a Python literal is a string."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, as in n_components=36.")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value


def build(settings: dict[str, Any], seed: int) -> QMSClassifier:
    """The model; without calibration, which would set samples aside.

    >>> model = build({"n_components": 36, "slack": 0.8}, seed=0)
    >>> model.n_components, model.calibrate, model.solver_settings
    (36, False, {'slack': 0.8})
    """
    for name in [name for name in settings if name.isupper()]:
        setattr(starts, name, settings[name])
    known = QMSClassifier().get_params()
    own = {name: value for name, value in settings.items() if name in known}
    rest = settings.keys() - known.keys()
    model = Tunable(**({"calibrate": False, "random_state": seed} | own))
    model.solver_settings = {name: settings[name] for name in rest if not name.isupper()}
    return model


def lifted(X: Any, X_val: Any, kernel: str, n_features: int, gamma: float, seed: int) -> tuple[Any, Any]:
    """Pixels from 0 to 1 beside random features of an RBF kernel, by scikit-learn's transformers."""
    from sklearn import kernel_approximation

    X, X_val = X / np.float32(255), X_val / np.float32(255)
    transformer = getattr(kernel_approximation, kernel)(n_components=n_features, gamma=gamma, random_state=seed).fit(X)
    X, X_val = (np.hstack([part, transformer.transform(part)], dtype=np.float32) for part in (X, X_val))
    return X, X_val


def patched(X: Any, X_val: Any, parameters: dict[str, Any], pixels: bool, seed: int) -> tuple[Any, Any]:
    """What patches of the images look like, beside the pixels from 0 to 1 or without them."""
    transformer = ImagePatches(**({"random_state": seed} | parameters)).fit(X)
    beside = (lambda part: [part / np.float32(255)]) if pixels else (lambda part: [])
    X, X_val = (np.hstack([*beside(part), transformer.transform(part)], dtype=np.float32) for part in (X, X_val))
    return X, X_val


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python docs/validate.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("settings", nargs="*", type=setting, metavar="NAME=VALUE")
    parser.add_argument("--data", help="folder of the four IDX files; see multiform.datasets.load_fashion_mnist")
    parser.add_argument("--seeds", type=int, default=3, help="0, 1, ... (default: 3 of them)")
    parser.add_argument("--dtype", default="uint8", help="of X; CPM centres float64, and keeps the zeros of uint8")
    parser.add_argument("--lift", choices=["Nystroem", "RBFSampler"], help="put random features beside the pixels")
    parser.add_argument("--features", type=int, default=1000, help="how many of them")
    parser.add_argument("--gamma", type=float, default=0.02, help="of their kernel, for pixels from 0 to 1")
    parser.add_argument(
        "--patches", action="append", type=setting, metavar="NAME=VALUE", help="a parameter of ImagePatches"
    )
    parser.add_argument("--pixels", choices=["yes", "no"], default="yes", help="beside the patches, too")
    options = parser.parse_intermixed_args(argv)  # settings may stand on both sides of an option

    X, y, _, _ = load_fashion_mnist(options.data)
    order = np.random.default_rng(0).permutation(len(X))
    train, val = order[:N_TRAIN], order[N_TRAIN:]
    scores = []
    for seed in range(options.seeds):
        X_train, X_val = X[train].astype(options.dtype), X[val].astype(options.dtype)
        if options.lift:
            X_train, X_val = lifted(X_train, X_val, options.lift, options.features, options.gamma, seed)
        if options.patches:
            X_train, X_val = patched(X_train, X_val, dict(options.patches), options.pixels == "yes", seed)
        begin = time.perf_counter()
        model = build(dict(options.settings), seed).fit(X_train, y[train])
        seconds = time.perf_counter() - begin
        scores.append(100 * model.score(X_val, y[val]))
        print(f"seed {seed}: validation accuracy {scores[-1]:.2f} %, fit {seconds:.2f} s", flush=True)
    print(f"mean over {options.seeds} seeds: {np.mean(scores):.2f} %")


if __name__ == "__main__":
    main()
