"""Programs that run in a process of their own, as they may not survive."""

import json
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


def add_counts(done, name, counts, wrong):
    """What a child has counted, its last line, is added; of one that did not end well it is said what went wrong."""
    if done.returncode != 0:
        wrong.append(f"{name}: exit code {done.returncode}, {done.stdout[-200:]}, {done.stderr[-1500:]}")
        return
    for what, number in json.loads(done.stdout.splitlines()[-1]).items():
        counts[what] += number
