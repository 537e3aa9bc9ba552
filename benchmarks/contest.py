"""A contest of ways to diagnose: the same folds of patients for all, the same bill, results kept as they come.

A *rival* learns from a `Fold` and gives a curve: for each value of its parameter (how many tests, how deep, at which
price) the tests that each held-out patient gets, in their order, and the answer. The bill is made here, alike for
everybody: a test is paid once, with its discount, and one that has no result was not done and is not billed (that it
has none may be an input of a rival's, for nothing). A free point, the commonest diagnosis without a test, belongs to
every curve.

What a method does in one repeat (five folds, every patient held out once) is a file, so that a run that was stopped
goes on, and rivals are not run again when the planner changes. A file is taken for what it is by its recipe: the
patients, the prices, the seed, and the versions of what the method is made of.
"""

import importlib
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.priced_sets import Problem
from benchmarks.tables import version_of
from benchmarks.trees import questions
from multiform.columns import Encoding, columns_of
from multiform.diagnosis import Tariff
from multiform.folds import drawn_folds, splits_of

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
Doubles = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

N_FOLDS = 5
CHOSEN = "chosen"  # the point that a method chooses itself, on training patients


@dataclass(frozen=True)
class Fold:
    """What a rival learns from, and whom it is asked about.

    Attributes
    ----------
    rows, target : array
        The training patients' results, encoded and standardised (gaps filled in), and their classes from 0 on.
    asked : array
        The same of the held-out patients.
    owner : array of int
        The test that each column belongs to.
    yes, asked_yes, question_owner : array
        Yes-or-no questions for trees, several from each test.
    """

    rows: Array
    target: Array
    asked: Array
    owner: Array
    yes: Bools
    asked_yes: Bools
    question_owner: Array
    tariff: Tariff
    seed: int

    @property
    def n_classes(self) -> int:
        return int(self.target.max()) + 1


Answers = tuple[Array, Array]  # tests of each patient in their order, -1 where there is none; classes
Rival = Callable[[Fold], Iterator[tuple[str, Answers]]]  # by the value of its parameter
Points = dict[str, tuple[Doubles, Bools]]  # bills, and who is answered right, of held-out patients


@dataclass(frozen=True)
class Method:
    """A way to diagnose: what it does with (problem, train, test, seed), what it is made of, whether it is simple."""

    run: Callable[[Problem, Indices, Indices, int], Points]
    made_of: bytes
    simple: bool = False


def made_of(*parts: str) -> bytes:
    """Versions of packages, and sources ("benchmarks/gdfs.py"), as they are now: when a method is imported."""
    told = b""
    for part in parts:
        package, _, sources = part.partition("/")
        if not sources:
            told += version_of(part).encode()
            continue
        (root,) = importlib.import_module(package).__path__
        told += b"".join(source.read_bytes() for source in sorted(Path(root).glob(sources)))
    return told


def rival(curve: Rival, *parts: str, simple: bool = False) -> Method:
    """A method that knows no more than a `Fold`."""

    def run(problem: Problem, train: Indices, test: Indices, seed: int) -> Points:
        fold, classes = fold_of(problem, train, test, seed)
        undone = np.isnan(problem.X[test])
        found = ((name, orders, classes[answer]) for name, (orders, answer) in curve(fold))
        return {name: (bills(problem.tariff, orders, undone), told == problem.y[test]) for name, orders, told in found}

    return Method(run, made_of(*parts), simple)


def fold_of(problem: Problem, train: Indices, test: Indices, seed: int) -> tuple[Fold, Array]:
    """A fold, and its classes."""
    names = list(problem.costs)
    columns, asked = (columns_of(problem.X[rows], names) for rows in (train, test))
    encoding = Encoding.learnt(columns, [[name] for name in names])
    classes, target = np.unique(problem.y[train], return_inverse=True)
    yes, question_owner = questions(encoding, columns, columns)
    asked_yes, _ = questions(encoding, asked, columns)
    encoded = encoding.encode(columns), target, encoding.encode(asked), encoding.column_owner
    return Fold(*encoded, yes, asked_yes, question_owner, problem.tariff, seed), classes


def bills(tariff: Tariff, orders: Array, undone: Bools) -> Doubles:
    """What each patient pays for the tests of an order that were done."""
    if not orders.shape[1]:
        return np.zeros(len(orders))
    gone = np.take_along_axis(undone, np.maximum(orders, 0), axis=1) | (orders < 0)
    ways, which = np.unique(np.where(gone, -1, orders), axis=0, return_inverse=True)
    paid = [sum(tariff.bill([int(t) for t in way if t >= 0])) for way in ways]
    return np.array(paid, dtype=np.float64)[which.ravel()]


def folds_of(problem: Problem, repeat: int, seed: int) -> tuple[int, list[tuple[Indices, Indices]]]:
    """A seed, and who learns and who is held out."""
    own = int(np.random.SeedSequence([seed, repeat]).generate_state(1)[0])
    target = np.unique(problem.y, return_inverse=True)[1]
    return own, list(splits_of(drawn_folds(target, N_FOLDS, np.random.default_rng(own))))


def repeat_of(method: Method, problem: Problem, repeat: int, seed: int) -> Points:
    """Bills as shares of the panel, and right answers, of all patients, each held out once."""
    fold_seed, splits = folds_of(problem, repeat, seed)
    n = len(problem.y)
    points: Points = {}
    for train, test in splits:
        classes, counts = np.unique(problem.y[train], return_counts=True)
        free = np.zeros(len(test)), problem.y[test] == classes[counts.argmax()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of rare classes, and of plans that buy everything
            found = {"free": free, **method.run(problem, train, test, fold_seed)}
        for name, (cost, right) in found.items():
            told = points.setdefault(name, (np.full(n, np.nan), np.zeros(n, dtype=bool)))
            told[0][test], told[1][test] = cost / problem.tariff.panel_cost, right
    # A value of the parameter that some fold does not have (a shallower tree) is no point of the whole.
    return {name: told for name, told in points.items() if not np.isnan(told[0]).any()}


def kept_repeat(
    folder: Path, name: str, method: Method, problem: Problem, repeat: int, seed: int, run: bool
) -> Points | None:
    """The points of a repeat from its file, or computed and written; None where it is not there and not to be run."""
    path = folder / problem.name.replace(" ", "-") / name.replace(" ", "-") / f"{repeat}.npz"
    recipe = _recipe(method, problem, seed)
    if path.exists():
        with np.load(path) as found:
            if int(found["recipe"]) == recipe:
                told = zip(found["names"].tolist(), found["cost"], found["right"], strict=True)
                return {point: (cost, right) for point, cost, right in told}
    if not run:
        return None
    began = time.perf_counter()
    points = repeat_of(method, problem, repeat, seed)
    cost, right = (np.stack(part) for part in zip(*points.values(), strict=True))
    path.parent.mkdir(parents=True, exist_ok=True)
    seconds = time.perf_counter() - began
    unfinished = path.with_suffix(".tmp.npz")
    np.savez_compressed(
        unfinished, names=list(points), cost=cost.astype(np.float32), right=right, recipe=recipe, seconds=seconds
    )
    unfinished.replace(path)
    print(f"{problem.name}, {name}, repeat {repeat}: {seconds:.1f} s", flush=True)
    return points


def _recipe(method: Method, problem: Problem, seed: int) -> int:
    about = problem.X.tobytes() + problem.y.tobytes() + repr((problem.tariff, seed, N_FOLDS)).encode()
    return zlib.crc32(about + method.made_of)
