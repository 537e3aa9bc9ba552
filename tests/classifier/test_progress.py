"""Callbacks, the line that `verbose` shows, and Ctrl-C."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

from multiform import QMSClassifier
from tests.classifier.test_errors import assert_same_state, fitted_state

SOLVERS = ["adam", "cpm", "cpm-literal"]


def with_callbacks(model, *callbacks):
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")
    return model.set_callbacks(*callbacks)


class Watch:
    """Counts the passes, looks at the model after each, and stops the fit after `most` of them."""

    def __init__(self, X, most=None):
        self.X, self.most, self.begun, self.ended, self.predictions = X, most, 0, 0, []

    def setup(self, estimator, context):
        self.passes_planned = context.max_subtasks

    def on_fit_task_begin(self, estimator, context):
        self.begun += 1

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.ended += 1
        if fitted_estimator is not None:
            self.predictions.append(fitted_estimator.predict(self.X))
        return self.most is not None and len(self.predictions) >= self.most

    def teardown(self, estimator, context):
        self.closed = True


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_callback_sees_every_pass(blobs, solver):
    X, y = blobs
    watch = Watch(X)
    model = with_callbacks(QMSClassifier(solver=solver, max_iter=3, random_state=0), watch).fit(X, y)
    assert watch.begun == watch.ended == 3 + 1  # the passes, and the fit itself
    assert watch.closed
    np.testing.assert_array_equal(watch.predictions[-1], model.predict(X))
    plain = QMSClassifier(solver=solver, max_iter=3, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.components_, plain.components_)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_callback_stops_the_fit(blobs, solver):
    X, y = blobs
    watch = Watch(X, most=2)
    model = with_callbacks(QMSClassifier(solver=solver, max_iter=50, random_state=0), watch).fit(X, y)
    assert model.n_iter_ == 2
    assert model.score(X, y) > 0.5


def test_progress_bar(blobs, capsys):
    pytest.importorskip("rich")
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")
    from sklearn.callback import ProgressBar

    X, y = blobs
    with_callbacks(QMSClassifier(max_iter=4, random_state=0), ProgressBar()).fit(X, y)
    assert "QMSClassifier" in capsys.readouterr().out


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("early_stopping", [False, True])
@pytest.mark.parametrize("terminal", [False, True])
def test_verbose_is_one_line_of_a_terminal_and_whole_lines_elsewhere(
    blobs, capfd, solver, early_stopping, terminal, monkeypatch
):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    X, y = blobs
    model = QMSClassifier(solver=solver, max_iter=3, early_stopping=early_stopping, verbose=1, random_state=0)
    model.fit(X, y)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == (1 if terminal else 3)
    assert err.endswith("\n")
    updates = err.strip().split("\r" if terminal else "\n")
    assert len(updates) == 3
    assert updates[-1].startswith("QMSClassifier: pass 3/3, loss ")
    assert ("validation accuracy" in err) == early_stopping


def test_silence(blobs, capfd):
    X, y = blobs
    QMSClassifier(random_state=0).fit(X, y).predict(X)
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
@pytest.mark.parametrize("solver", SOLVERS)
def test_ctrl_c_ends_a_long_fit(solver):
    """A fit that would take hours ends by KeyboardInterrupt, and the estimator is as it was before."""
    program = f"""
    import sys, numpy as np
    from multiform import QMSClassifier
    random = np.random.default_rng(0)
    X, y = random.normal(size=(4000, 50)).astype("float32"), random.integers(0, 5, size=4000)
    model = QMSClassifier(solver={solver!r}, max_iter=1, n_jobs=2, random_state=0).fit(X, y)
    before = {{name: repr(value) for name, value in vars(model).items() if name.endswith("_")}}
    model.set_params(max_iter=10_000_000, tol=0.0)
    try:
        print("fitting", flush=True)
        model.fit(X, random.integers(0, 7, size=4000))
    except KeyboardInterrupt:
        after = {{name: repr(value) for name, value in vars(model).items() if name.endswith("_")}}
        print("interrupted", before == after, model.predict(X[:1]).shape, flush=True)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    try:
        assert process.stdout.readline() == "fitting\n"
        time.sleep(0.5)  # into the fit
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=300)
    finally:
        process.kill()
    assert out == "interrupted True (1,)\n"
    assert process.returncode == 0


def test_an_interruption_changes_nothing(blobs, monkeypatch):
    X, y = blobs
    model = QMSClassifier(max_iter=3, random_state=0).fit(X, y)
    before = fitted_state(model)

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("multiform.training.solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :2], y == 1)
    assert_same_state(before, fitted_state(model))


class Broken(Watch):
    """Raises when the whole fit is over, after everything was found."""

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        super().on_fit_task_end(estimator, context, fitted_estimator=fitted_estimator)
        if self.ended == self.begun:
            raise RuntimeError("the disk of the log is full")


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_callback_that_raises_while_a_fit_closes_changes_nothing(blobs, solver):
    """Not one attribute, private ones included."""
    X, y = blobs
    model = QMSClassifier(solver=solver, n_components=3, max_iter=3, random_state=0).fit(X, y)
    with_callbacks(model, Broken(X[:, :2]))
    before = dict(vars(model))
    with pytest.raises(RuntimeError, match="the disk of the log is full"):
        model.fit(X[:, :2] * 7, y == 1)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is before[name] for name in before)
