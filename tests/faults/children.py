"""Programs that run in a process of their own, as they may not survive."""

import os
import subprocess
import sys
import textwrap

import pytest

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")


def child(*parts, timeout=300, check=True, **environment):
    """Run a program in a child; one that must end well is checked to do so."""
    program = "\n".join(textwrap.dedent(part) for part in parts)
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=os.environ | environment,
        check=False,
    )
    assert not check or done.returncode == 0, (done.returncode, done.stdout, done.stderr[-2000:])
    return done
