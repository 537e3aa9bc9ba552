"""Progress that is true: told by the engines after a slice of work, never going back, 1 at the end."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris

from multiform import (
    DiagnosisPlanner,
    LoyaltyClassifier,
    QMSClassifier,
    QMSClassifierCV,
    TriageClassifier,
    progress,
    report,
)
from multiform.cli._shared import _Stage


def told(fit):
    """What a listener hears."""
    found = []
    with progress.heard(lambda share, words: found.append((float(share), words))):
        fit()
    return found


@pytest.mark.parametrize(
    "model",
    [
        QMSClassifier(random_state=0, solver="cpm"),
        LoyaltyClassifier(random_state=0),
        QMSClassifierCV(random_state=0, noise=(0.5,), partners="trees"),
        TriageClassifier(LoyaltyClassifier(random_state=0), target_accuracy=0.9, cv=2, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_fit_tells_how_far_it_is(model):
    found = told(lambda: model.fit(*load_iris(return_X_y=True)))
    shares = [share for share, _ in found]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    assert len({round(share, 3) for share in shares}) >= 3  # and not 0 to the end
    assert any("pass" in words for _, words in found)


def test_a_plan_tells_how_far_it_is():
    X, y = load_iris(return_X_y=True)
    planner = DiagnosisPlanner(dict.fromkeys("abcd", 1.0), random_state=0, search="beam")
    found = [share for share, _ in told(lambda: planner.fit(X, y))]
    assert max(found) == pytest.approx(1.0)
    assert len({round(share, 3) for share in found}) > 4
    so_far = np.maximum.accumulate(found)
    assert np.diff(so_far).max() < 0.3  # it neither jumps ahead nor waits there


def test_a_report_tells_how_far_it_is():
    X, y = load_iris(return_X_y=True)
    model = QMSClassifier(random_state=0).fit(X[::2], y[::2])
    found = told(lambda: report(model, X[1::2], y[1::2]))
    shares = [share for share, _ in found]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    assert sum("which columns matter" in words for _, words in found) == 1 + 5 * 4
    assert any("baselines" in words for _, words in found)


def test_nobody_listens():
    X, y = load_breast_cancer(return_X_y=True)
    alone = QMSClassifier(random_state=0, noise=1.0).fit(X, y)
    heard = QMSClassifier(random_state=0, noise=1.0)
    told(lambda: heard.fit(X, y))
    np.testing.assert_array_equal(alone.components_, heard.components_)
    progress.tell(0.5, "to nobody")
    progress.teller()(0.5, "nor this")
    with progress.part(0, 1):
        pass


def test_parts_of_parts():
    def fit():
        with progress.part(0.5, 1.0), progress.part(0.0, 0.5):
            progress.tell(0.5, "middle")

    assert told(fit) == [(0.625, "middle"), (0.75, ""), (1.0, "")]


def test_what_is_no_terminal_gets_whole_lines(capsys):
    QMSClassifier(random_state=0, noise=1.0, max_iter=3, verbose=1).fit(*load_iris(return_X_y=True))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == [f"QMSClassifier: pass {k}/3" for k in (1, 2, 3)]
    assert all("\r" not in line for line in lines)
    assert lines[0].endswith("s left")


class Bar:
    """What rich's bar is told."""

    def __init__(self):
        self.tasks, self.updates = [], []

    def add_task(self, words, total):
        self.tasks.append(words)
        return len(self.tasks) - 1

    def remove_task(self, task):
        self.removed = task

    def update(self, task, **told):
        self.updates.append((task, told))


def test_the_bar_of_a_stage_never_goes_back():
    bar = Bar()
    stage = _Stage(bar, "reading")
    stage.at(0.5)
    stage.at(None, "training")
    for share in (0.2, 0.1, 0.4):
        stage.heard(share, "pass")
    assert bar.tasks == ["reading", "training"]
    assert [told["completed"] for task, told in bar.updates if task == 1] == [0.0, 0.2, 0.2, 0.4]
    assert bar.updates[-1][1]["description"] == "training: pass"
