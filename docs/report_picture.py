"""Draws docs/images/report.webp, the top of a report: ``PYTHONPATH=. python docs/report_picture.py``.

It needs Chromium. The table is the Cleveland heart data of `multiform.datasets`, as people would write it.
"""

import base64
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from multiform.cli import main
from multiform.datasets import load_heart_disease
from tests.reporting.browser import chromium

IMAGE = Path(__file__).parent / "images" / "report.webp"
PAIN = np.array(["typical", "atypical", "other", "none"])


def table() -> pl.DataFrame:
    """303 patients."""
    heart = load_heart_disease()
    X = heart.data
    return pl.DataFrame(
        {
            "age": X[:, 0].astype(int),
            "sex": np.where(X[:, 1] == 1, "m", "f"),
            "pain": PAIN[X[:, 2].astype(int) - 1],
            "pressure": X[:, 3].astype(int),
            "cholesterol": X[:, 4].astype(int),
            "heart rate": X[:, 7].astype(int),
            "ST depression": X[:, 9],
            "ill": np.where(heart.target == 1, "yes", "no"),
        }
    )


with tempfile.TemporaryDirectory() as folder:
    patients, page_path = Path(folder) / "patients.csv", Path(folder) / "report.html"
    table().write_csv(patients)
    print(table().head(4).write_csv())
    assert main(["report", str(patients), "--target", "ill", "-o", str(page_path), "-q"]) == 0
    with chromium() as page:
        page.open(page_path, 900)
        # The header, and below it who is found: what lies between is left out.
        page.evaluate("for (const id of ['data', 'familiar', 'results']) document.getElementById(id)?.remove()")
        bottom = page.evaluate("document.querySelector('#found ul').getBoundingClientRect().bottom")
        clip = {"x": 0, "y": 0, "width": 900, "height": bottom + 16, "scale": 1}
        found = page.send("Page.captureScreenshot", format="webp", quality=80, clip=clip, captureBeyondViewport=True)
        IMAGE.write_bytes(base64.b64decode(found["data"]))
