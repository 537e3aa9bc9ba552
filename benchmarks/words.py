"""Texts for `shapes`: words drawn by Zipf's law, and the fortunes of a folder, as sparse TF-IDF."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

Words = tuple[Any, NDArray[np.intp]]
LEAST_TEXTS = 40  # of a file, to be a class
SUBJECT = 0.15  # share of a text's words that are drawn from the subject of its class


def zipf_words(n: int, p: int, m: int, random: np.random.Generator, subject: float = SUBJECT) -> Words:
    """Texts of about 60 words: of the language (rank r with chance in proportion to 1 / r), and of m subjects.

    A subject has the same law in an order of its own. TF-IDF in float32, rows of norm 1.
    """
    from sklearn.feature_extraction.text import TfidfTransformer

    y = random.permutation(np.arange(n) % m)
    language = np.cumsum(1 / np.arange(1, p + 1))
    orders = np.stack([random.permutation(p) for _ in range(m)])
    lengths = 1 + random.poisson(60, n)
    of_text = np.repeat(np.arange(n), lengths)
    words = np.searchsorted(language, random.uniform(0, language[-1], len(of_text)))
    by_subject = random.uniform(size=len(words)) < subject
    words[by_subject] = orders[y[of_text[by_subject]], words[by_subject]]
    counts = scipy.sparse.coo_array((np.ones(len(words), np.float32), (of_text, words)), shape=(n, p)).tocsr()
    return TfidfTransformer().fit_transform(counts).astype(np.float32), y


def uniform_entries(n: int, p: int, m: int, random: np.random.Generator) -> Words:
    """Entries at .11 % of the places, uniform in place and value; y = argmax_k (x W)_k: mostly noise, as 1 / p is."""
    X = scipy.sparse.random(n, p, density=0.0011, format="csr", dtype=np.float32, random_state=random)
    return X, (X @ random.standard_normal((p, m), dtype=np.float32)).argmax(axis=1)


def fortunes(folder: str) -> tuple[list[str], NDArray[Any]]:
    """The texts of every file of a folder (Debian's packages `fortunes`, `fortunes-*` put them into
    /usr/share/games/fortunes), separated by lines of %, and the names of their files."""
    texts: list[str] = []
    names: list[str] = []
    for file in sorted(Path(folder).iterdir()):
        if file.is_symlink() or not file.is_file() or file.suffix:
            continue  # the same text again, an index
        parts = [part.strip() for part in file.read_text("utf-8", errors="replace").split("\n%\n") if part.strip()]
        if len(parts) >= LEAST_TEXTS:
            texts += parts
            names += [file.name] * len(parts)
    return texts, np.array(names)
