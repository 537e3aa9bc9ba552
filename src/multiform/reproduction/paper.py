"""The paper's own figures (section 4): Fashion-MNIST, q = 18, alpha = 0.5, and for loyalty beta = 0.05, gamma = 20."""

from importlib.resources import files

import numpy as np

COMPUTER = {  # Table "Computer specifications"
    "model": "ThinkPad T14 Gen 1",
    "memory": "46.7 GiB",
    "processor": "Intel Core i7 10510U @1.80GHz x4, one thread used",
    "system": "Fedora 32, 64-bit",
}

TRAIN_ACCURACY = 0.9269  # Table "QMS result"
TEST_ACCURACY = 0.8863
FIT_SECONDS = 58.0  # ThinkPad T14, Intel i7-10510U, one thread, C

STRONG_COVERAGE = 0.6967  # Table "LEM result (test set)": the share of samples of strong loyalty type
STRONG_ACCURACY = 0.9745  # and the accuracy on those

# Row: true class; column: predicted class. The tensor is of the test set, a layer per loyalty type.
_ROWS = (files("multiform.reproduction") / "confusion.txt").read_text(encoding="utf-8").splitlines()
_MATRICES = np.loadtxt(_ROWS, dtype=int).reshape(5, 10, 10)
TRAIN_CONFUSION, TEST_CONFUSION, TEST_TENSOR = _MATRICES[0], _MATRICES[1], _MATRICES[2:]

LEVELS = ("strong", "normal", "weak")

# Table "LEM result": samples of each type (n_1), and the right ones among them (n_2).
TRAIN_COUNT, TRAIN_CORRECT = np.array([43_249, 13_118, 3_633]), np.array([43_173, 10_473, 1_970])
TEST_COUNT, TEST_CORRECT = np.array([6_967, 2_299, 734]), np.array([6_789, 1_699, 375])
