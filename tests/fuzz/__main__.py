"""``python -m tests.fuzz --cases 200000 --seed 0 --jobs 16``: see the package's docstring."""

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # cases run side by side; a file may ask for more threads
os.environ.setdefault("POLARS_MAX_THREADS", "1")

from tests.fuzz import Case, runner
from tests.fuzz.subjects import SUBJECTS, opened, subject_of

FINDS = Path(__file__).parent / "finds"
BATCH = 50
MOST_KEPT = 1 << 20  # bytes of a find that is kept as a test


def main(argv=None):
    parser = argparse.ArgumentParser(prog="make fuzz", description="Hostile input by the hundred thousand.")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", choices=[subject.name for subject in SUBJECTS], help="one subject alone")
    parser.add_argument("--keep", action="store_true", help="keep a case of each find under tests/fuzz/finds")
    parser.add_argument("--replay", metavar="FOLDER", help="judge the cases that `--keep` wrote there; JSON")
    chosen = parser.parse_args(argv)
    if chosen.replay:
        return replay(Path(chosen.replay))
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-seeds-") as folder:
        opened(folder)
        print(f"prepared in {time.monotonic() - start:.0f} s", flush=True)
        total, finds = Counter(), defaultdict(list)
        batches = [
            range(first, min(first + BATCH, chosen.first + chosen.cases))
            for first in range(chosen.first, chosen.first + chosen.cases, BATCH)
        ]
        start = time.monotonic()
        with ProcessPoolExecutor(chosen.jobs, mp_context=get_context("fork")) as pool:
            for done, outcomes in enumerate(pool.map(partial(batch, chosen.seed, chosen.only), batches), 1):
                for number, name, outcome in outcomes:
                    total[name, outcome.what] += 1
                    if outcome.what in runner.BAD:
                        found = finds[name, outcome.what, outcome.place]
                        if not found:
                            print(
                                f"case {number}, {name}: {outcome.what}, {outcome.place}\n{outcome.story}", flush=True
                            )
                        found.append(number)
                if done % 100 == 0:
                    print(f"{done * BATCH} cases, {time.monotonic() - start:.0f} s", flush=True)
        seconds = time.monotonic() - start
        for (name, what, place), numbers in sorted(finds.items(), key=lambda find: -len(find[1])):
            print(f"{len(numbers):6} x {name}: {what}, {place}; first case {numbers[0]}")
            if chosen.keep:
                keep(name, chosen.seed, numbers[0], chosen.only)
    for subject in SUBJECTS:
        counts = ", ".join(f"{what} {total[subject.name, what]}" for what in runner.OUTCOMES)
        print(f"{subject.name}: {sum(total[subject.name, what] for what in runner.OUTCOMES)} cases; {counts}")
    summed = {what: sum(count for (_, found), count in total.items() if found == what) for what in runner.OUTCOMES}
    figures = ", ".join(f"{what} {count}" for what, count in summed.items())
    print(
        f"fuzz: seed {chosen.seed}, {sum(summed.values())} cases in {seconds:.0f} s "
        f"({sum(summed.values()) / max(seconds, 1e-9):.0f} a second, {chosen.jobs} jobs): {figures}"
    )
    return int(any(summed[what] for what in runner.BAD))


def batch(seed, only, numbers):
    """The outcomes of some cases, by their numbers."""
    subjects = [subject_of(number, only) for number in numbers]
    cases = [(one, partial(runner.case_of, one, seed, n)) for one, n in zip(subjects, numbers, strict=True)]
    outcomes = runner.run(cases)
    return [(n, one.name, outcome) for n, one, outcome in zip(numbers, subjects, outcomes, strict=True)]


def replay(folder):
    """Outcomes of the files of a folder; a name says whose case it is: SUBJECT_ANYTHING or SUBJECT_ANYTHING_HOW."""
    with tempfile.TemporaryDirectory(prefix="fuzz-seeds-") as seeds:
        by_name = {subject.name: subject for subject in opened(seeds)}
        paths = sorted(folder.iterdir())
        parts = [(*path.name.split("_", 2), "")[:3] for path in paths]
        cases = [
            (by_name[name], lambda path=path, how=how: Case(path.read_bytes(), how))
            for path, (name, _, how) in zip(paths, parts, strict=True)
        ]
        outcomes = runner.run(cases)
    print(json.dumps({path.name: asdict(outcome) for path, outcome in zip(paths, outcomes, strict=True)}))
    return int(any(outcome.what in runner.BAD for outcome in outcomes))


def keep(name, seed, number, only):
    """Write a case to the folder of finds."""
    case = runner.case_of(subject_of(number, only), seed, number)
    if len(case.content) <= MOST_KEPT:
        FINDS.mkdir(exist_ok=True)
        digest = hashlib.sha256(case.content).hexdigest()[:12]
        (FINDS / "_".join(filter(None, [name, digest, case.how]))).write_bytes(case.content)


if __name__ == "__main__":
    sys.exit(main())
