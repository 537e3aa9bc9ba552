"""What a command may load before it is needed."""

import importlib
import subprocess
import sys

import pytest

import multiform
from multiform import tables
from multiform.cli import _shared
from multiform.cli._app import COMMANDS

HEAVY = (
    "scipy",
    "sklearn",
    "joblib",
    "polars",
    "pandas",
    "pyarrow",
    "narwhals",
    "rich",
    "matplotlib",
    "multiform._core",
)
LOADED = f"""
import sys
from multiform.cli import main
code = main(sys.argv[1:])
print("loaded:", *(name for name in {(*HEAVY, "numpy")} if name in sys.modules))
sys.exit(code)
"""


def loaded(*words, code=0):
    """What is loaded once a command has run, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", LOADED, *words], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout.splitlines()[-1].split()[1:]


@pytest.mark.parametrize("words", [["--help"], ["--version"], []])
def test_help_loads_nothing(words):
    assert loaded(*words) == []


def test_a_command_that_there_is_not_loads_nothing():
    assert loaded("foretell", code=2) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_loads_no_library_of_its_work(command):
    assert set(loaded(command, "--help")) <= {"numpy"}


def test_importing_the_package_loads_nothing():
    code = f"import sys, multiform; print([name for name in {HEAVY} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_formats_are_those_of_tables():
    assert _shared.FORMATS == tables.FORMATS


def test_names_are_there_though_they_come_late():
    code = "import multiform; print(multiform.metrics.aurc.__name__, multiform.QMSClassifier.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "aurc QMSClassifier\n"
    assert set(multiform.__all__) | {"metrics", "tables", "geometry"} <= set(dir(multiform))
    assert not [name for name in dir(multiform) if not hasattr(multiform, name)]
    for name in multiform.__all__:
        assert getattr(multiform, name) is not None
    with pytest.raises(AttributeError, match="module 'multiform' has no attribute 'nonsense'"):
        multiform.nonsense  # noqa: B018


def test_a_library_that_is_lacking_is_named(monkeypatch, capsys):
    monkeypatch.setattr("multiform.cli.find_spec", lambda name: None if name == "polars" else object())
    from multiform.cli import main

    assert main(["--help"]) == 1
    assert 'the command line needs polars; install it with pip install "multiform[cli]"' in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_no_two_options_of_a_command_are_one(name):
    module = importlib.import_module(f"multiform.cli.{COMMANDS[name][0]}")
    given = [parameter.name for parameter in getattr(module, name).params]
    assert len(set(given)) == len(given)
