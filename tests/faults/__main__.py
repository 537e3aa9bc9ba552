"""``make faults``: try every fault, print what was counted; exit code 1 if anything went wrong."""

import argparse
import sys
import tempfile
import time

from tests.faults import disk, forks, memory, races, signals, starve, threads

PARTS = ("memory", "threads", "disk", "signals", "commands", "forks", "races")


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all if none is named")
    parser.add_argument("--sanitized", metavar="FOLDER", help="a package whose core was built with ThreadSanitizer")
    parser.add_argument("--every", type=int, default=1, help="let every so-manieth allocation fail")
    parser.add_argument("--signals", type=int, default=25, help="signals for each estimator, a third for each command")
    parser.add_argument("--seconds", type=int, default=60, help="of fits at the same time")
    chosen = parser.parse_args()
    if unknown := set(chosen.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        library = starve.built(folder)
        checks = {
            "memory": lambda: memory.check(library, chosen.every),
            "threads": lambda: threads.check(library),
            "disk": lambda: disk.check(library),
            "signals": lambda: signals.check_fits(chosen.signals),
            "commands": lambda: signals.check_commands(max(1, chosen.signals // 3)),
            "forks": forks.check,
            "races": lambda: races.check(chosen.sanitized, chosen.seconds),
        }
        for name in chosen.parts or PARTS:
            if name == "races" and chosen.sanitized is None:
                print("races: left out, as no package with ThreadSanitizer was given (--sanitized)", flush=True)
                continue
            begin = time.monotonic()
            counts, wrong = checks[name]()
            failed |= bool(wrong)
            told = ", ".join(f"{what} {number}" for what, number in counts.items())
            print(f"{name}: {told}; wrong {len(wrong)} ({time.monotonic() - begin:.0f} s)", flush=True)
            for line in wrong:
                print(f"    {line}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
