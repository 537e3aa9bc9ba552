"""The committed stub says what the compiled core offers; `make stubs` writes it anew."""

import ast
import inspect
import re
from pathlib import Path

import multiform
from multiform import _core

STUB = ast.parse((Path(multiform.__file__).parent / "_core.pyi").read_text())


def arguments_of(node):
    return [argument.arg for argument in [*node.args.args, *node.args.kwonlyargs]]


def test_the_stub_is_that_of_the_core():
    written = {node.name: arguments_of(node) for node in STUB.body if isinstance(node, ast.FunctionDef)}
    offered = {
        name: re.findall(r"(?:\(|, )(\w+): ", value.__doc__.splitlines()[0])
        for name, value in vars(_core).items()
        if not name.startswith("_") and not inspect.isclass(value) and callable(value)
    }
    assert written == offered


def test_the_classes_of_the_stub_are_those_of_the_core():
    for node in STUB.body:
        if isinstance(node, ast.ClassDef):
            members = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
            offered = {name for name in vars(getattr(_core, node.name)) if not name.startswith("_")}
            assert members == offered
