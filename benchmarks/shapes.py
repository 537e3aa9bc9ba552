"""Data of every shape: few samples or many, narrow or wide, dense or sparse, linear or quadratic, many classes.

All are drawn anew from the seed, standard normal unless said otherwise, with fresh samples to judge by. A linear target
is the largest of m random linear functions of all columns, without noise, so that only the number of samples limits
what can be learnt; a quadratic one is the nearest of m centres by as many random metrics, in ten of the columns at
most. What matters is the distance to the best linear peer where the target is linear, and to the best of all elsewhere.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import get_tags

from benchmarks import peers, settings
from benchmarks.measure import threads, timed
from benchmarks.options import benchmark_parser, models_named, names
from benchmarks.peers import Model
from benchmarks.tables import Table, publish, run_description
from benchmarks.uci import judged_chances
from benchmarks.words import fortunes, uniform_entries, zipf_words

N_FRESH = 2_000
Split = tuple[Any, NDArray[np.intp], Any, NDArray[np.intp]]  # X, y to train, X, y to judge


@dataclass(frozen=True)
class Shape:
    """A problem to draw: `draw(random)` gives what is trained on and what is judged by."""

    name: str
    kind: str  # "linear", "quadratic", ...: what --kinds asks for
    n: int
    p: int
    draw: Callable[[np.random.Generator], Split]
    entries: int = 0  # of a sparse matrix, about

    @property
    def cells(self) -> int:
        return self.entries or self.n * self.p


def linear(n: int, p: int, m: int, random: np.random.Generator) -> Split:
    """y = argmax_k (x W)_k."""
    X = random.standard_normal((n + N_FRESH, p), dtype=np.float32)
    y = (X @ random.standard_normal((p, m), dtype=np.float32)).argmax(axis=1)
    return X[:n], y[:n], X[n:], y[n:]


def quadratic(n: int, p: int, m: int, random: np.random.Generator) -> Split:
    """y = argmin_k ||B_k x - c_k||^2 / |B_k|^(2/r), in the first r <= 10 columns."""
    r = min(p, 10)
    X = random.standard_normal((n + N_FRESH, p), dtype=np.float32)
    metrics = random.standard_normal((m, r, r)) / np.sqrt(r) + np.eye(r)
    metrics /= np.abs(np.linalg.det(metrics))[:, None, None] ** (1 / r)
    residuals = np.einsum("kij,nj->nki", metrics, X[:, :r]) - 0.5 * random.standard_normal((m, r))
    y = (residuals**2).sum(axis=2).argmin(axis=1)
    return X[:n], y[:n], X[n:], y[n:]


def many_classes(n_each: int, p: int, m: int, random: np.random.Generator) -> Split:
    """m normal clouds of deviation .9 around centres that are standard normal, `n_each` samples of each."""
    centres = random.standard_normal((m, p))
    y = np.concatenate([np.repeat(np.arange(m), n_each), random.integers(0, m, N_FRESH)])
    X = (centres[y] + 0.9 * random.standard_normal((len(y), p))).astype(np.float32)
    n = n_each * m
    return X[:n], y[:n], X[n:], y[n:]


def fresh_words(draw: Callable[..., Any], n: int, p: int, m: int, random: np.random.Generator) -> Split:
    """Sparse rows: `n` of those drawn, and as many fresh ones as of all shapes."""
    X, y = draw(n + N_FRESH, p, m, random)
    return X[:n], y[:n], X[n:], y[n:]


def fortune_texts(folder: str, random: np.random.Generator) -> Split:
    """TF-IDF of the words that two texts have or more; the file is the class, and a quarter of each is held out."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.model_selection import train_test_split

    texts, files = fortunes(folder)
    y = np.unique(files, return_inverse=True)[1]
    known, fresh = train_test_split(np.arange(len(y)), stratify=y, random_state=int(random.integers(2**31)))
    words = TfidfVectorizer(sublinear_tf=True, min_df=2, dtype=np.float32)
    X = words.fit_transform([texts[i] for i in known])
    return X, y[known], words.transform([texts[i] for i in fresh]), y[fresh]


def sparse(draw: Callable[..., Any], name: str, n: int, p: int, m: int) -> Shape:
    return Shape(f"{name}, {n:,} x {p:,}, {m} classes", "sparse", n, p, partial(fresh_words, draw, n, p, m), 60 * n)


def dense(target: Callable[..., Split], n: int, p: int, m: int = 3) -> Shape:
    return Shape(f"{target.__name__}, {n:,} x {p:,}", target.__name__, n, p, partial(target, n, p, m))


SHAPES: tuple[Shape, ...] = (
    *(dense(linear, n, p) for n, p in ((200, 5), (200, 50), (200, 2_000), (1_000, 500), (1_000, 2_000))),
    *(dense(linear, n, p) for n, p in ((10_000, 100), (100_000, 20), (1_000, 50_000))),
    *(dense(quadratic, n, p) for n, p in ((200, 5), (1_000, 20), (2_000, 200), (10_000, 100), (100_000, 20))),
    Shape("300 classes of 5, 20 columns", "classes", 1_500, 20, partial(many_classes, 5, 20, 300)),
    sparse(zipf_words, "words", 1_000, 5_000, 5),
    sparse(zipf_words, "words", 4_800, 5_000, 20),
    sparse(zipf_words, "words", 16_000, 50_000, 20),
    sparse(uniform_entries, "entries at .11 %", 16_000, 50_000, 20),
)


def figures(model: Model, split: Split, n_jobs: int, seed: int) -> dict[str, float]:
    """Accuracy in per cent, log loss (NaN without chances) and seconds of a fit."""
    X, y, X_fresh, y_fresh = split
    classifier = model.build(n_jobs, seed)
    with threads(n_jobs):
        _, seconds = timed(partial(classifier.fit, X, y))
    answers = classifier.predict(X_fresh)
    log_loss = float("nan")
    if hasattr(classifier, "predict_proba"):
        chances = np.zeros((len(y_fresh), int(max(y.max(), y_fresh.max())) + 1))
        chances[:, classifier.classes_] = classifier.predict_proba(X_fresh)
        log_loss = judged_chances(chances, y_fresh)[0]
    return {"accuracy %": 100 * float(np.mean(answers == y_fresh)), "log loss": log_loss, "fit s": seconds}


def takes(model: Model, shape: Shape, X: Any) -> bool:
    """Whether a model can be given these data at all, in bearable time."""
    if not isinstance(X, np.ndarray) and not get_tags(model.build(1, 0)).input_tags.sparse:
        return False
    if model.name == "multinomial NB":
        return bool(X.min() >= 0)
    if model.name == "LDA, shrinkage":
        return shape.p <= 5_000
    if model.name == "random forest" and not isinstance(X, np.ndarray):
        return shape.cells <= 100_000
    return True


def main(argv: list[str]) -> int:
    """Fit every model to every shape, print and write the tables."""
    parser = benchmark_parser("shapes", __doc__)
    parser.add_argument("--kinds", type=names, help='only these kinds of data, comma-separated: "linear,quadratic"')
    parser.add_argument("--cells", type=float, default=5e6, help="skip larger n x p (default: 5e6)")
    parser.add_argument("--only", type=names, help='only these models, comma-separated; "ours", "peers"')
    parser.add_argument("--repeats", type=int, default=1, help="draws of each shape (seed, seed + 1, ...)")
    parser.add_argument("--fortunes", help="a folder of Debian's fortunes, /usr/share/games/fortunes: texts as well")
    options = parser.parse_args(argv)

    models = models_named((*settings.UCI, *peers.SHAPES), options.only)
    known = SHAPES
    if options.fortunes:
        texts, files = fortunes(options.fortunes)
        name = f"fortunes, {len(texts):,} texts in {len(set(files))} files"
        draw = partial(fortune_texts, options.fortunes)
        known = (*SHAPES, Shape(name, "texts", len(texts), 0, draw, 20 * len(texts)))
    shapes = [s for s in known if s.cells <= options.cells and (not options.kinds or s.kind in options.kinds)]
    if not shapes:
        parser.error(f"--kinds {options.kinds}, --cells {options.cells:g}: no shape is left.")
    tables = []
    for shape in shapes:
        tables.append(shape_table(shape, models, range(options.seed, options.seed + options.repeats), options.n_jobs))
        print(tables[-1].as_text(), flush=True)
    publish(tables, "shapes", options.output, run_description("shapes", argv, options.seed))
    return 0


def shape_table(shape: Shape, models: Sequence[Model], seeds: Sequence[int], n_jobs: int) -> Table:
    """Means over the draws of a shape, a row a model."""
    columns = {"accuracy %": ".1f", "log loss": ".3f", "fit s": ".2f"}
    table = Table(shape.name, ["model", *columns], columns)
    drawn = {seed: shape.draw(np.random.default_rng(seed)) for seed in seeds}
    for model in models:
        if takes(model, shape, next(iter(drawn.values()))[0]):
            results = [figures(model, split, n_jobs, seed) for seed, split in drawn.items()]
            table.append({"model": model.name, **{name: np.mean([one[name] for one in results]) for name in columns}})
    return table
