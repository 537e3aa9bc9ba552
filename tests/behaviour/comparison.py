"""The stored arrays, and how found ones differ from them.

A file of `stored/` is NumPy's archive, compressed as a whole: its many small arrays have more header than content.
"""

import io
import lzma
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

CLOSE = 1e-5
STORED = Path(__file__).parent / "stored"
SUFFIX = ".npz.xz"

Arrays = dict[str, np.ndarray]


class Verdict(NamedTuple):
    """What became of one case: the same bits, the greatest difference of its numbers, and what is wrong."""

    same_bits: bool
    greatest: float
    wrong: list[str]


@cache
def _file(name: str) -> Arrays:
    path = STORED / f"{name}{SUFFIX}"
    if not path.exists():
        return {}
    with np.load(io.BytesIO(lzma.decompress(path.read_bytes()))) as stored:
        return {key: stored[key] for key in stored.files}


def stored(case: str) -> Arrays:
    """The arrays of a case named FILE.CASE; none if it was never written."""
    file, _, name = case.partition(".")
    return {key.partition("/")[2]: array for key, array in _file(file).items() if key.partition("/")[0] == name}


def stored_cases() -> set[str]:
    """The names of all cases that were written."""
    files = [path.name.removesuffix(SUFFIX) for path in STORED.glob(f"*{SUFFIX}")]
    return {f"{file}.{key.partition('/')[0]}" for file in files for key in _file(file)}


def write(found: dict[str, Arrays]) -> None:
    """Store these cases; others in the same file stay, unless nobody knows them any more."""
    from tests.behaviour.cases import CASES

    for file in sorted({case.partition(".")[0] for case in found}):
        kept = {case: stored(case) for case in stored_cases() if case.partition(".")[0] == file and case in CASES}
        cases = sorted((kept | {case: arrays for case, arrays in found.items() if case.startswith(f"{file}.")}).items())
        flat = {f"{case.partition('.')[2]}/{name}": array for case, arrays in cases for name, array in arrays.items()}
        archive = io.BytesIO()
        np.savez(archive, **flat)
        STORED.mkdir(exist_ok=True)
        (STORED / f"{file}{SUFFIX}").write_bytes(lzma.compress(archive.getvalue()))
    _file.cache_clear()


def compare(found: Arrays, expected: Arrays) -> Verdict:
    """Numbers must be equal up to CLOSE, relative and absolute; words, counts and decisions exactly."""
    same_bits, greatest, wrong = True, 0.0, []
    for name in sorted(found.keys() | expected.keys()):
        if name not in found or name not in expected:
            wrong.append(f"{name} is {'new' if name in found else 'missing'}")
            same_bits = False
            continue
        ours, theirs = found[name], expected[name]
        if ours.shape != theirs.shape or not _alike(ours, theirs):
            wrong.append(f"{name} is {ours.dtype} {ours.shape}, and was {theirs.dtype} {theirs.shape}")
            same_bits = False
            continue
        same_bits &= _same_bits(ours, theirs)
        if ours.dtype.kind == "f":
            excess = _excess(ours, theirs)
            greatest = max(greatest, excess)
            if excess > CLOSE:
                wrong.append(f"{name} differs by {excess:.2g}")
        elif not np.array_equal(ours, theirs):
            wrong.append(f"{name} differs in {int((ours != theirs).sum())} of {ours.size}")
    return Verdict(same_bits, greatest, wrong)


def _alike(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """The same kind of entries, numbers of the same precision; whole numbers have another width on some systems."""
    if ours.dtype.kind in "iu" and theirs.dtype.kind in "iu":
        return True
    return ours.dtype == theirs.dtype or ours.dtype.kind == theirs.dtype.kind == "U"


def _same_bits(ours: np.ndarray, theirs: np.ndarray) -> bool:
    if ours.dtype != theirs.dtype:
        return bool(np.array_equal(ours, theirs))  # words and whole numbers of another width
    return ours.tobytes() == theirs.tobytes()


def _excess(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The greatest |a - b| / (1 + |b|); infinite where only one of the two is finite."""
    finite = np.isfinite(theirs)
    if not np.array_equal(ours[~finite], theirs[~finite], equal_nan=True) or not np.isfinite(ours[finite]).all():
        return float("inf")
    a, b = ours[finite].astype(np.float64), theirs[finite].astype(np.float64)
    return float((np.abs(a - b) / (1 + np.abs(b))).max(initial=0.0))
