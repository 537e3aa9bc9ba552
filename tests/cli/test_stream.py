"""A file larger than memory: predicted a piece at a time, with memory that does not grow."""

import os
import sys

import numpy as np
import polars as pl
import pytest

from multiform.cli import main

pytestmark = pytest.mark.slow

GIGABYTE = 10**9
COLUMNS = 60


def write_table(path, n_bytes, seed=0):
    """Rows of numbers, with a label in the training table's manner, until the file is so large."""
    random = np.random.default_rng(seed)
    names = [f"x{column}" for column in range(COLUMNS)]
    X = random.normal(size=(20_000, COLUMNS))
    frame = pl.DataFrame(X, schema=names).with_columns(label=pl.Series(np.where(X[:, 0] + X[:, 1] > 0, "up", "down")))
    block = frame.write_csv(include_header=False).encode()
    with open(path, "wb") as stream:
        stream.write((",".join([*names, "label"]) + "\n").encode())
        while stream.tell() < n_bytes:
            stream.write(block)
    return names, len(frame)


def peak_bytes(words):
    """Run a command, which must succeed, and return the most memory that it held."""
    child = os.posix_spawn(sys.executable, [sys.executable, "-m", "multiform", *map(str, words)], os.environ)
    _, status, usage = os.wait4(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@pytest.mark.skipif(not hasattr(os, "wait4"), reason="the peak memory of a child is not told here")
def test_two_gigabytes_within_one(tmp_path):
    write_table(tmp_path / "train.csv", 1_000_000)
    fit = ["fit", tmp_path / "train.csv", "-t", "label", "-o", tmp_path / "m.mfm", "--noise", "0.3", "-q"]
    assert main([str(word) for word in fit]) == 0
    write_table(tmp_path / "big.csv", 2 * GIGABYTE)
    n_rows = sum(block.count(b"\n") for block in iter_blocks(tmp_path / "big.csv")) - 1
    peak = peak_bytes(["predict", tmp_path / "m.mfm", tmp_path / "big.csv", "-o", tmp_path / "out.csv", "--quiet"])
    os.unlink(tmp_path / "big.csv")
    assert sum(block.count(b"\n") for block in iter_blocks(tmp_path / "out.csv")) - 1 == n_rows
    assert peak < GIGABYTE


def iter_blocks(path):
    with open(path, "rb") as stream:
        while block := stream.read(1 << 24):
            yield block
