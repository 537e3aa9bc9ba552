"""A disk that is full from the n-th write on: a sentence, the old file whole, and nothing left lying about."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from multiform import load, save
from multiform.cli import main as multiform
from tests.faults.starve import counted, run, starved
from tests.faults.subjects import commands, make_folder

OLD = b"the old one"
COUNTED = ("writes failed", "saves and commands", "old files lost", "files left", "without a sentence")


def check(library, names=None):
    """Every command that writes, and `save`, with every write failing; then standard output that is full."""
    counts, wrong = dict.fromkeys(COUNTED, 0), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_folder(folder)
        done = run(library, __name__, folder, *(names or ()))
        if done.returncode != 0:
            return counts, [f"exit code {done.returncode}, {done.stdout[-500:]} {done.stderr[-1500:]}"]
        *said, last = done.stdout.splitlines()
        counts |= json.loads(last)
        wrong += said
        for words in ([["--help"], ["fit", "--help"]] if names is None else []) + [
            words for name, (words, _) in commands(folder).items() if names is None or name in names
        ]:
            with open("/dev/full", "wb") as full:
                done = subprocess.run(
                    [sys.executable, "-m", "multiform", *words], stdout=full, stderr=subprocess.PIPE, check=False
                )
            counts["saves and commands"] += 1
            if done.returncode != 1 or b"No space left" not in done.stderr or b"Traceback" in done.stderr:
                wrong.append(f"multiform {words[0]} > /dev/full: exit code {done.returncode}, {done.stderr[-500:]!r}")
                counts["without a sentence"] += 1
    return counts, wrong


def main(folder, *names):
    folder, outputs = Path(folder), Path(folder) / "outputs"
    outputs.mkdir()
    counts = dict.fromkeys(COUNTED, 0)
    model = load(folder / "model.mfm")

    def saved():
        try:
            save(model, outputs / "new.mfm")
        except OSError as error:
            return 1, str(error)
        return 0, ""

    def called(words):
        told = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(told):
            code = multiform(words)
        return code, told.getvalue()

    tasks = {"save": (saved, "new.mfm")}
    for name, (words, writes) in commands(folder).items():
        if writes is not None:
            tasks[name] = (lambda words=words: called(words), writes)
    for name, (task, writes) in tasks.items():
        if names and name not in names:
            continue
        old = OLD
        if name == "diagnose":  # which goes on with the case that it finds
            words = commands(folder)[name][0]
            called([*words[:2], *words[6:]])
            old = (outputs / writes).read_bytes()
        counts["saves and commands"] += 1
        with counted("disk") as calls:
            code, said = task()
            n_calls = calls()
        if code != 0:
            print(f"{name}: does not work at all, {said!r}")
        for call in range(1, n_calls + 1):
            for entry in outputs.iterdir():
                entry.unlink()
            (outputs / writes).write_bytes(old)
            with starved("disk", call):
                code, said = task()
            kept, left = (outputs / writes).read_bytes(), sorted(os.listdir(outputs))
            counts["writes failed"] += 1
            # The last write of all, that the folder itself is on the disk, may fail without a word.
            done = code == 0 and kept != old
            lost, clutter = not done and kept != old, left != [writes]
            silent = not done and (code != 1 or "o space left" not in said or "should not happen" in said)
            if lost or clutter or silent:
                print(f"{name}, write {call} of {n_calls}: exit code {code}, {left}, {len(kept)} bytes, {said!r}")
            counts["old files lost"] += lost
            counts["files left"] += clutter
            counts["without a sentence"] += silent
        for entry in outputs.iterdir():
            entry.unlink()
    print(json.dumps(counts))


if __name__ == "__main__":
    main(*sys.argv[1:])
