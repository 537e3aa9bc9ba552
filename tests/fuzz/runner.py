"""Runs cases in children: forked from a process that has imported everything, a batch at a time, with limits.

A child may take `MEMORY` bytes beyond its start and `SECONDS` of processor time a case (and `WALL_SECONDS` in all,
which only one that sleeps can reach); it reaches no network, starts no program and unpickles nothing. A child that dies
takes nobody with it: the case that it was at is run again alone, and the rest of the batch goes on.
"""

import faulthandler
import gc
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.fuzz import Case

MEMORY = 1 << 30
SECONDS, WALL_SECONDS = 5.0, 120.0
TIMES = {signal.SIGPROF, signal.SIGALRM, signal.SIGXCPU}
FORBIDDEN = ("socket.connect", "socket.getaddrinfo", "socket.bind", "socket.sendto", "subprocess.Popen", "os.system",
             "os.exec", "os.posix_spawn", "pickle.find_class")  # fmt: skip
FINE = ("refused", "answered")
BAD = ("crash", "over limit", "wrong")
OUTCOMES = (*FINE, *BAD)


class Forbidden(BaseException):
    """What a file may never make us do."""


@dataclass(frozen=True)
class Outcome:
    """What came of a case: one of `OUTCOMES`; and of a bad one where it went wrong, and the whole story."""

    what: str
    place: str = ""
    story: str = ""


def in_child(work, folder):
    """Run work(say) in a forked child with the limits; what it said, and the signal that it died of (0: none)."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            os.close(reading)
            os.setsid()
            log = os.open(Path(folder) / ".stderr", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            faulthandler.enable(log)
            _limit()
            work(lambda word: os.write(writing, word.encode() + b"\0"))
            code = 0
        except BaseException:  # of the frame itself: whoever waits sees the code
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writing)
    said = b""
    while piece := os.read(reading, 1 << 16):
        said += piece
    os.close(reading)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise RuntimeError(f"a child failed: {(Path(folder) / '.stderr').read_text(errors='replace')}")
    return said.decode().split("\0")[:-1], os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def _limit():
    sizes = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    now = int(sizes["VmData"].split()[0]) << 10
    resource.setrlimit(resource.RLIMIT_DATA, (now + MEMORY, now + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))

    def hook(event, arguments):
        if event in FORBIDDEN:
            raise Forbidden(f"{event} {str(arguments)[:200]}")

    sys.addaudithook(hook)
    sys.modules["cupy"] = None  # CUDA does not outlive a fork, and importing it starts a process: a machine without it
    for number in (signal.SIGPROF, signal.SIGALRM, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def _judged(subject, case):
    """The outcome of one case, in this process."""
    folder = tempfile.mkdtemp(prefix="fuzz-")
    try:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.setitimer(signal.ITIMER_REAL, WALL_SECONDS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            what = subject.judge(case, Path(folder))
        assert what in FINE, what
        return Outcome(what)
    except BaseException as error:
        kinds = {AssertionError: "wrong", MemoryError: "over limit"}
        what = next((word for kind, word in kinds.items() if isinstance(error, kind)), "crash")
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if "multiform" in Path(frame.filename).parts] or frames
        place = f"{type(error).__name__} at {Path(ours[-1].filename).name}:{ours[-1].lineno}"
        return Outcome(what, place, "".join(traceback.format_exception(error, limit=-12))[-6000:])
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        shutil.rmtree(folder, ignore_errors=True)


def run(cases):
    """The outcomes of many (subject, make), where make() gives the `Case`; in as few children as they let us."""
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        while len(outcomes) < len(cases):
            rest = cases[len(outcomes) :]
            outcomes += _batch(rest, folder) or [_alone(*rest[0])]
    return outcomes


def _batch(cases, folder):
    """Outcomes up to the first case that was not fine: that one is to be run alone."""

    def work(say):
        gc.disable()
        for subject, make in cases:
            outcome = _judged(subject, make())
            if outcome.what not in FINE:
                break
            say(outcome.what)

    said, _ = in_child(work, folder)
    return [Outcome(word) for word in said]


def _alone(subject, make):
    def work(say):
        outcome = _judged(subject, make())
        for word in (outcome.what, outcome.place, outcome.story.replace("\0", "\\0")):
            say(word)

    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        said, died = in_child(work, folder)
        if not died:
            return Outcome(*said)
        story = (Path(folder) / ".stderr").read_text(errors="replace")
        ours = [line.strip() for line in story.splitlines() if "/multiform/" in line]
        where = f" at {ours[0].rsplit('/', 1)[-1]}" if ours else ""
        name = signal.Signals(died).name
        return Outcome("over limit" if died in TIMES else "crash", name + where, story[-6000:])


def case_of(subject, seed, number):
    """Case `number` of a seed: the same in every run."""
    return subject.case(np.random.default_rng([seed, number]))


def one(subject, content, how=""):
    """The outcome of one case that is there already."""
    return run([(subject, lambda: Case(content, how))])[0]
