"""``multiform serve`` as a process: where it listens, who may ask, and how it stops."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress

import httpx
import pytest

import multiform
from multiform import web
from multiform.cli import main
from multiform.cli._serve import LANGUAGES


@pytest.fixture(scope="module")
def folder(tmp_path_factory, plan, matrix_model):
    """plan.mfm and model.mfm."""
    path = tmp_path_factory.mktemp("served")
    multiform.save(plan, path / "plan.mfm")
    multiform.save(matrix_model, path / "model.mfm")
    return path


@contextmanager
def process(*words, cwd):
    """The command, and what it has said first."""
    command = [sys.executable, "-m", "multiform", "serve", *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd, env=os.environ
    ) as running:
        try:
            yield running, running.stdout.readline()
        finally:
            running.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_stopped_and_then_ends_well(folder, number):
    before = sorted(folder.iterdir())
    with process("plan.mfm", "--json", cwd=folder) as (running, line):
        told = json.loads(line)
        assert told["address"].startswith("http://127.0.0.1:")
        page = httpx.get(told["address"], follow_redirects=True, headers={"accept": "text/html"})
        assert page.status_code == 200
        address = told["address"].partition("/?")[0]
        headers = {"authorization": f"Bearer {told['token']}"}
        assert httpx.get(address + "/v1/model", headers=headers).json()["kind"] == "plan"
        running.send_signal(number)
        rest, log = running.communicate(timeout=60)
    assert running.returncode == 0
    assert rest == ""
    assert [line.split()[2:5] for line in log.splitlines()[:3]] == [
        ["GET", "-", "303"],
        ["GET", "/", "200"],
        ["GET", "/v1/model", "200"],
    ]
    assert told["token"] not in log
    assert sorted(folder.iterdir()) == before  # nothing was written


def test_what_is_being_answered_is_finished_first(folder):
    rows = b"x0,x1,x2\n" + b"1,2,3\n" * 150_000
    with process("model.mfm", "--json", cwd=folder) as (running, line):
        told = json.loads(line)
        address = told["address"].partition("/?")[0]
        headers = {"authorization": f"Bearer {told['token']}", "content-type": "text/csv"}
        with httpx.stream("POST", address + "/v1/predict", content=rows, headers=headers, timeout=60) as response:
            pieces = response.iter_bytes()
            found = next(pieces)
            running.send_signal(signal.SIGTERM)
            for piece in pieces:
                found += piece
        running.communicate(timeout=60)
    assert running.returncode == 0
    assert found.count(b"\n") == 150_001


STUCK = """
import sys, time
import multiform.cli._serve as command
from multiform import web
from multiform.cli import main
command.GRACE = float(sys.argv[2])
web.TableModel.assess = lambda self, case: time.sleep(600)
sys.exit(main(["serve", sys.argv[1], "--json"]))
"""
LOADING = """
import sys, time
from multiform import web
from multiform.cli import main
def slow(*args, **options):
    print("loading", flush=True)
    while True:
        try:
            time.sleep(600)
        except BaseException:
            pass
web.serve = slow
sys.exit(main(["serve", sys.argv[1], "--json"]))
"""


@contextmanager
def script(text, *words):
    with subprocess.Popen(
        [sys.executable, "-c", text, *map(str, words)], stdout=subprocess.PIPE, text=True, env=os.environ
    ) as running:
        try:
            yield running, running.stdout.readline()
        finally:
            running.kill()


@pytest.mark.parametrize(("grace", "signals"), [(0.5, 1), (600, 2)])
def test_what_never_ends_does_not_keep_it(folder, grace, signals):
    """A time limit after the first signal; none after the second."""
    with script(STUCK, folder / "model.mfm", grace) as (running, line):
        told = json.loads(line)
        headers = {"authorization": f"Bearer {told['token']}"}
        with pytest.raises(httpx.TimeoutException):
            httpx.post(
                told["address"].partition("/?")[0] + "/v1/assess", json={"case": {}}, headers=headers, timeout=0.5
            )
        for _ in range(signals):
            running.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                running.wait(1)
        assert running.wait(60) == 128 + signal.SIGTERM


def test_while_it_loads_a_signal_cannot_be_lost(folder):
    with script(LOADING, folder / "model.mfm") as (running, line):
        assert line == "loading\n"
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == -signal.SIGTERM


def test_scikit_learn_is_loaded_without_what_the_page_does_not_need():
    code = (
        "import sys; from multiform.cli._sooner import load_scikit_learn; load_scikit_learn(); import multiform.web; "
        "unused = {'pandas', 'polars', 'rich', 'scipy.stats', 'scipy.optimize', 'numpy.testing', 'numpy.f2py', "
        "'sklearn.metrics'}; assert not unused & set(sys.modules); import numpy, scipy, pandas, rich.console; "
        "assert scipy.stats.binom and pandas.DataFrame and numpy.testing.assert_equal and numpy.f2py.get_include; "
        "print(sys.modules['sklearn.base'])"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ)


def test_for_people_it_says_the_address_and_another_for_another_browser(folder):
    with process("plan.mfm", "--no-browser", cwd=folder) as (running, line):
        link = line.split()[-1]
        assert line.startswith("plan.mfm is at http://127.0.0.1:")
        assert running.stdout.readline().startswith("for programs: Authorization: Bearer ")
        assert httpx.get(link).status_code == 303
        address = link.partition("/?")[0]
        refused = httpx.get(address, headers={"accept": "text/html"})
        assert refused.status_code == 401
        assert "text/html" in refused.headers["content-type"]
        running.send_signal(signal.SIGINT)
        _, log = running.communicate(timeout=60)
    [fresh] = [line.split()[-1] for line in log.splitlines() if line.startswith("for another browser: ")]
    assert fresh.startswith(f"{address}/?token=")
    assert fresh != link
    assert log.endswith("stopped.\n")


def call(capsys, *words):
    """What a command that fails says."""
    assert main(["serve", *words]) == 1
    return capsys.readouterr().err


def test_another_address_wants_leave(folder, capsys):
    for host in ("0.0.0.0", "::", "192.0.2.1", "ward7.example"):
        assert "add --allow-remote if that is meant" in call(capsys, str(folder / "plan.mfm"), "--host", host)


def test_a_port_that_is_taken_is_a_sentence(folder, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = call(capsys, str(folder / "plan.mfm"), "--port", port)
    assert f"port {port} of 127.0.0.1 cannot be used: " in said
    assert "choose another with --port" in said


def test_files_that_are_none_are_a_sentence(folder, capsys, tmp_path):
    assert "no model file" in call(capsys, str(tmp_path / "no.mfm"))
    (tmp_path / "bad.mfm").write_bytes(b"nonsense" * 100)
    assert "bad.mfm" in call(capsys, str(tmp_path / "bad.mfm"))
    multiform.save(multiform.QMSClassifier(), tmp_path / "raw.mfm")
    assert "not fitted" in call(capsys, str(tmp_path / "raw.mfm"))


def test_without_the_extra_it_says_what_to_install(folder, capsys, monkeypatch):
    import multiform.cli._serve as command

    monkeypatch.setattr(command, "find_spec", lambda name: None if name == "uvicorn" else object())
    assert 'The page needs uvicorn; install it with pip install "multiform[web]"' in call(capsys, "plan.mfm")


def test_languages_are_those_of_the_pages():
    from multiform.web._words import languages

    assert set(languages("en")) == set(LANGUAGES)


def test_where_others_may_ask_it_says_what_that_means(folder, capsys, monkeypatch):
    asked = {}
    monkeypatch.setattr(web, "serve", lambda path, **options: asked.update(options))
    words = ["serve", str(folder / "plan.mfm"), "--host", "0.0.0.0", "--allow-remote", "--name", "ward7.example"]
    assert main(words) == 0
    assert asked["names"] == ("ward7.example",)
    said = capsys.readouterr().err
    assert "not encrypted" in said
    assert "TLS" in said


def test_threads_end_with_the_server(plan):
    """Nothing of ours goes on after a server."""
    from tests.web.conftest import served

    before = threading.active_count()
    with served(plan) as server, server.client() as client:
        client.post("/v1/sessions", json={})
    assert threading.active_count() <= before
