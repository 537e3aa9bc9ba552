"""Small data for the cases: made from fixed seeds, the last rows to be asked about."""

import numpy as np
import scipy.sparse

ASKED = 16  # rows that a case asks about

Data = tuple[np.ndarray, np.ndarray, np.ndarray]  # X, y, and the rows to ask about


def clouds(n: int = 120, n_features: int = 4, n_classes: int = 3, spread: float = 1.0, seed: int = 0) -> Data:
    """Overlapping classes of different shapes, so that quadratics have something to find."""
    random = np.random.default_rng(seed)
    centres = random.normal(0, 1.2, (n_classes, n_features))
    widths = random.uniform(0.5, 1.5, (n_classes, n_features)) * spread
    y = np.arange(n + ASKED) % n_classes
    X = centres[y] + widths[y] * random.normal(size=(n + ASKED, n_features))
    return X[:n], y[:n], X[n:]


def pixels(n: int = 120) -> Data:
    """uint8 columns of one range, as of an image with 16 pixels."""
    X, y, asked = clouds(n, 16, 3, seed=1)

    def as_bytes(values: np.ndarray) -> np.ndarray:
        return np.clip(128 + 40 * values, 0, 255).astype(np.uint8)

    return as_bytes(X), y, as_bytes(asked)


def counts(n: int = 150) -> tuple[scipy.sparse.csr_matrix, np.ndarray, scipy.sparse.csr_matrix]:
    """Sparse counts, three quarters of them 0; each class has its own frequent columns."""
    random = np.random.default_rng(2)
    y = np.arange(n + ASKED) % 3
    rate = random.uniform(0.05, 0.6, (3, 14))
    X = scipy.sparse.csr_matrix(random.poisson(rate[y]).astype(np.float32))
    return X[:n], y[:n], X[n:]


def weights(n: int) -> np.ndarray:
    """Sample weights that count nothing (no whole multiples of the least), a few of them 0."""
    return np.random.default_rng(3).choice([0.0, 0.5, 1.1, 2.9], n, p=[0.1, 0.3, 0.4, 0.2])


def words(y: np.ndarray) -> np.ndarray:
    """The classes by name, not in the order of their numbers."""
    return np.array(["mild", "none", "bad", "odd"])[y]


def repeated(n: int = 140) -> Data:
    """Four columns of 0 and 1, so that most rows come again and again; the third class is rare."""
    random = np.random.default_rng(16)
    y = np.where(np.arange(n + ASKED) % 14 == 0, 2, np.arange(n + ASKED) % 2)
    chance = np.array([[0.2, 0.7, 0.4, 0.5], [0.7, 0.3, 0.5, 0.8], [0.9, 0.9, 0.1, 0.1]])
    X = (random.random((n + ASKED, 4)) < chance[y]).astype(np.float64)
    return X[:n], y[:n], X[n:]


def steps(n: int = 120) -> Data:
    """Columns of few values, of two values and of many: what encodings look for."""
    X, y, asked = clouds(n, 4, 3, seed=4)

    def coarse(values: np.ndarray) -> np.ndarray:
        values = values.copy()
        values[:, 1] = np.clip(np.round(values[:, 1]), -2, 2)
        values[:, 2] = values[:, 2] > 0
        return values

    return coarse(X), y, coarse(asked)
