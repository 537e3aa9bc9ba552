"""Devices: emulated ones everywhere there is a compiler; real ones where there is a GPU (`make test-gpu`)."""

import pytest

from tests.gpu.emulated import COMPILER, EmulatedDevice


@pytest.fixture
def emulated():
    if COMPILER is None:
        pytest.skip("the emulator needs a C++ compiler")
    return EmulatedDevice()


@pytest.fixture
def in_many_blocks(monkeypatch):
    """Sets of a few hundred samples spread over several blocks."""
    monkeypatch.setattr("multiform.engines.cuda.cpm.SHAPES", [(4, 64)])
