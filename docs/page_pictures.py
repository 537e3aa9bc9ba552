"""Draws docs/images/page-*.webp, every view at both widths: ``PYTHONPATH=src:. python docs/page_pictures.py``.

It needs Chromium. The plan and the model are of heart disease, as `multiform.datasets` has it.
"""

import base64
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from multiform import DiagnosisPlanner, LoyaltyClassifier, TriageClassifier, save
from multiform.datasets import load_heart_disease
from multiform.tables import TableClassifier
from tests.reporting.browser import chromium
from tests.web.conftest import served
from tests.web.driver import Person

IMAGES = Path(__file__).parent / "images"
LARGE, SMALL = 1440, 360
PAIN = np.array(["typical angina", "atypical angina", "no angina", "no symptoms"])


def models(folder: Path) -> Path:
    """A plan, a model with a promise, and a labelled table."""
    heart = load_heart_disease()
    X, y = heart.data, np.where(heart.target == 1, "disease", "healthy")
    frame = pd.DataFrame(X, columns=heart.feature_names)
    settings: dict[str, Any] = {"known": ["age", "sex"], "search": "beam", "beam_width": 6, "random_state": 0}
    save(DiagnosisPlanner(heart.costs, discounts=heart.discounts, **settings).fit(frame, y), folder / "heart-plan.mfm")
    table = pl.DataFrame(
        {
            "age (years)": X[:, 0],
            "sex": np.where(X[:, 1] == 1, "male", "female"),
            "chest pain": PAIN[X[:, 2].astype(int) - 1],
            "blood pressure (mmHg)": X[:, 3],
            "cholesterol (mg/dl)": X[:, 4],
            "heart rate (1/min)": X[:, 7],
            "ST depression (mm)": X[:, 9],
            "vessels": pl.Series(X[:, 11]).fill_nan(None),
            "diagnosis": y,
        }
    )
    new = np.arange(len(table)) % 3 == 0  # a third is not shown to the model
    table.filter(pl.Series(new)).write_csv(folder / "heart.csv")
    pl.concat([table.drop("diagnosis")] * 1_000).write_csv(folder / "large.csv")  # so that one sees how far it is
    triage = TriageClassifier(
        LoyaltyClassifier(random_state=0), target_accuracy=0.8, calibration_fraction=0.5, random_state=0
    )
    save(TableClassifier(triage).fit(table.filter(pl.Series(~new)), "diagnosis"), folder / "heart.mfm")
    return folder


@contextmanager
def opened(path: Path) -> Iterator[Person]:
    """Somebody who has opened the page of a file."""
    with served(path) as server, chromium() as page:
        someone = Person(page, server.address)
        someone.go(server.link())
        yield someone


def picture(someone: Person, name: str, dark: bool = False, most: int = 2600) -> None:
    """One view at both widths, the large one at six tenths of its size; `most` pixels, and twice as many."""
    for width, scale in ((LARGE, 0.6), (SMALL, 0.8)):
        someone.look(width, dark=dark)
        someone.page.evaluate("document.activeElement.blur(), scrollTo(0, 0)")
        height = someone.page.evaluate("document.querySelector('footer').getBoundingClientRect().bottom")
        someone.look(width, int(height) + 2, dark)  # a window of that height: what lies beyond one is not always drawn
        someone.page.evaluate("new Promise(done => setTimeout(done, 300))")
        area = {"x": 0, "y": 0, "width": width, "height": min(height, most if width == LARGE else 2 * most)}
        shot = {"format": "webp", "quality": 50, "clip": area | {"scale": scale}}
        content = someone.page.send("Page.captureScreenshot", **shot)["data"]
        (IMAGES / f"page-{name}-{width}.webp").write_bytes(base64.b64decode(content))
    someone.look(LARGE)


def step(someone: Person, key: str, text: str) -> None:
    """Record a result."""
    someone.fill(key, text)
    someone.leaving(lambda: someone.click("button[value=observe]"))


def asked(someone: Person) -> str:
    """The entry of the next test, "" where there is none."""
    return str(someone.page.evaluate("document.querySelector('.next [id^=f]')?.id ?? ''"))


def main() -> None:
    """All pictures."""
    with tempfile.TemporaryDirectory() as name:
        folder = models(Path(name))
        with opened(folder / "heart-plan.mfm") as someone:
            for key, text in (("f0", "54"), ("f1", "1"), ("f2", "3")):
                step(someone, key, text)
            picture(someone, "plan")
            someone.leaving(lambda: someone.click("a[href$='?correct=0']"))
            someone.page.evaluate("document.querySelectorAll('details:has(form)').forEach(one => one.open = true)")
            picture(someone, "known")
            someone.leaving(lambda: someone.click("a[href^='/cases/']:not([href*=correct])"))
            results = {"f8": "0", "f9": "0.2", "f10": "1", "f11": "0", "f12": "3"}
            while (key := asked(someone)) != "f9":  # the first that is not chosen from a list
                step(someone, key, results[key])
            step(someone, key, "62")
            someone.until("document.querySelector('input[name^=insist]')")
            picture(someone, "unfamiliar", dark=True)
            while key in results:
                step(someone, key, results.pop(key))
                key = asked(someone)
            someone.leaving(lambda: someone.click("a[href$=summary]"))
            picture(someone, "summary")
            someone.go("/")
            picture(someone, "start")
            someone.go("/cases/none")
            picture(someone, "refusal")
        with opened(folder / "heart.mfm") as someone:
            case = {"f0": "54", "f1": "male", "f2": "no symptoms", "f3": "130", "f4": "240", "f5": "150", "f6": "1.2"}
            for key, text in (case | {"f7": "1"}).items():
                someone.fill(key, text)
            someone.leaving(lambda: someone.click("form[action='/cases'] button.main"))
            picture(someone, "classifier")
            someone.leaving(lambda: someone.click("a[href$=compare]"))
            picture(someone, "beside", dark=True)
            someone.fill("f0", "41")
            someone.fill("f2", "atypical angina")
            someone.leaving(lambda: someone.click("form[action$=compare] button.main"))
            picture(someone, "compare", dark=True)
            someone.go("/table")
            picture(someone, "drop")
            someone.choose_file("#table", folder / "large.csv")
            someone.leaving(lambda: someone.click("form[data-table] button"))
            someone.until("document.querySelector('progress').value > 0.1")
            picture(someone, "running")
            someone.until("document.getElementById('done-title') && document.readyState === 'complete'")
            someone.go("/table")
            someone.choose_file("#table", folder / "heart.csv")
            someone.leaving(lambda: someone.click("form[data-table] button"))
            someone.until("document.querySelector('iframe.report') && document.readyState === 'complete'")
            someone.page.evaluate("document.querySelector('iframe.report').scrollIntoView()")
            someone.page.evaluate("new Promise(done => setTimeout(done, 1000))")  # the frame has no event that we hear
            picture(someone, "table")


if __name__ == "__main__":
    main()
