"""Files of released versions, with the answers that they must give for ever.

``python -m tests.files.golden`` writes those of the version at hand that are not there yet, before it is released.
After that they are never written again: a later version reads them, or breaks its promise.
"""

from pathlib import Path

import numpy as np
import polars as pl

import multiform
from tests.files import models

FOLDER = Path(__file__).parent / "golden"
KEPT = (
    "qms",
    "qms, partial_fit",
    "cv",
    "loyalty",
    "loyalty, logistic regression",
    "triage",
    "plan",
    "table",
    "patches",
)
ROWS = slice(0, 150, 10)


def file_name(name):
    return name.replace(", ", "-").replace(" ", "-")


def asked(name, folder):
    """The rows that the model is asked about, as the folder keeps them."""
    path = folder / f"{file_name(name)}-rows"
    if name == "table":
        return pl.read_csv(path.with_suffix(".csv"), infer_schema_length=0)
    return np.load(path.with_suffix(".npy"))


def write(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        if (folder / f"{file_name(name)}.mfm").exists():
            continue
        model, rows = models.model(name), models.samples(name)[ROWS]
        multiform.save(model, folder / f"{file_name(name)}.mfm")
        if name == "table":
            rows.write_csv(folder / "table-rows.csv")
        else:
            np.save(folder / f"{file_name(name)}-rows.npy", rows)
        answers = models.answers(model, asked(name, folder))
        np.savez_compressed(folder / f"{file_name(name)}-answers.npz", **answers)


if __name__ == "__main__":
    write(FOLDER / multiform.__version__)
