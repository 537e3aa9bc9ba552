"""Ctrl-C at a random moment: of a fit, which leaves the estimator as it was; of a command, which changes no file."""

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from threadpoolctl import threadpool_info

from tests.faults.subjects import ESTIMATORS, commands, make_folder


def in_time():
    """Seconds from a signal to the end: one, on a machine that has nothing else to do."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def check_fits(times=25, names=tuple(ESTIMATORS)):
    """Interrupt each estimator's fit so often, in a child of its own."""
    counts = {"signals": 0, "too early or too late": 0, "KeyboardInterrupt": 0, "estimators changed": 0}
    slowest, wrong = {}, []
    for name in names:
        words = [sys.executable, "-m", __name__, name, str(times)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            wrong.append(f"{name}: exit code {done.returncode}, {done.stderr[-1500:]}")
            continue
        *said, last = done.stdout.splitlines()
        wrong += [f"{name}: {line}" for line in said]
        told = json.loads(last)
        slowest[name] = told.pop("slowest")
        for what, number in told.items():
            counts[what] += number
    counts["slowest, seconds"] = round(max(slowest.values(), default=0.0), 2)
    counts["processes a core"] = round(os.getloadavg()[0] / (os.cpu_count() or 1), 1)
    return counts, wrong


def main(name, times):
    """In the child: a timer's signal is handled as Ctrl-C is."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    rng = random.Random(name)
    estimator, given = ESTIMATORS[name](2)
    begin = time.perf_counter()
    estimator.fit(*given)
    duration = time.perf_counter() - begin
    threads = [library["num_threads"] for library in threadpool_info()]
    counts = {"signals": 0, "too early or too late": 0, "KeyboardInterrupt": 0, "estimators changed": 0}
    took = [0.0]
    for _ in range(int(times)):
        before, delay = dict(vars(estimator)), rng.uniform(0.001, duration)
        counts["signals"] += 1
        begin = time.perf_counter()
        try:
            signal.setitimer(signal.ITIMER_REAL, delay)
            estimator.fit(*given)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            took.append(time.perf_counter() - begin - delay)
            counts["KeyboardInterrupt"] += 1
            after = vars(estimator)
            changed = [key for key in before | after if before.get(key, before) is not after.get(key, after)]
            counts["estimators changed"] += bool(changed)
            if changed:
                print(f"a signal after {delay:.3f} s changed {changed}")
            if took[-1] > in_time():
                print(f"a signal after {delay:.3f} s took {took[-1]:.2f} s")
        else:
            if time.perf_counter() - begin > delay + 0.05:
                print(f"a signal after {delay:.3f} s was not heard")
            counts["too early or too late"] += 1
        now = [library["num_threads"] for library in threadpool_info()]
        if now != threads:
            print(f"a signal after {delay:.3f} s left BLAS with {now} threads instead of {threads}")
            threads = now
    print(json.dumps(counts | {"slowest": max(took)}))


def check_commands(times=8, names=None, sent=signal.SIGINT):
    """Interrupt every command so often, as a person does: exit code 130, or 0 where it was done already."""
    counts = {"signals": 0, "exit code 130": 0, "ended by the signal itself": 0, "done before": 0}
    slowest, wrong, rng = [0.0], [], random.Random(0)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make_folder(folder)
        outputs = folder / "outputs"
        outputs.mkdir()
        for name, (words, writes) in commands(folder).items():
            if names is not None and name not in names:
                continue
            begin = time.perf_counter()
            _started(words).communicate()
            duration = time.perf_counter() - begin
            for _ in range(times):
                for entry in outputs.iterdir():
                    entry.unlink()
                process, delay = _started(words), rng.uniform(0, duration)
                time.sleep(delay)
                process.send_signal(sent)
                begin = time.perf_counter()
                try:
                    error = process.communicate(timeout=60)[1].decode()
                finally:
                    process.kill()
                slowest.append(time.perf_counter() - begin)
                counts["signals"] += 1
                kind = {130: "exit code 130", -sent: "ended by the signal itself", 0: "done before"}
                if process.returncode in kind:
                    counts[kind[process.returncode]] += 1
                left = [entry.name for entry in outputs.iterdir()]
                # Before our first line and after our last one it is Python that hears it; a shell says 130, too.
                whole = left == [] or (left == [writes] and process.returncode != 130)
                said = process.returncode == -sent or "Traceback" not in error
                if process.returncode not in kind or not whole or not said or slowest[-1] > in_time():
                    about = f"{slowest[-1]:.2f} s, {left}, {error[-300:]!r}"
                    wrong.append(f"{name}, a signal after {delay:.2f} s: exit code {process.returncode}, {about}")
    counts["median, seconds"] = round(statistics.median(slowest), 2)
    counts["slowest, seconds"] = round(max(slowest), 2)
    counts["processes a core"] = round(os.getloadavg()[0] / (os.cpu_count() or 1), 1)
    return counts, wrong


def _started(words):
    return subprocess.Popen(
        [sys.executable, "-m", "multiform", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
