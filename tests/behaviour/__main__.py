"""``python -m tests.behaviour``: compare all cases with the stored arrays, or write these anew."""

import argparse
import fnmatch
import sys
import time
import warnings

from tests.behaviour.cases import CASES
from tests.behaviour.comparison import compare, stored, stored_cases, write


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.behaviour", description=__doc__)
    parser.add_argument("patterns", nargs="*", help="cases such as 'qms.*'; all if none is given")
    parser.add_argument("--exact", action="store_true", help="end with 1 unless every bit is the same")
    parser.add_argument("--write", action="store_true", help="write the stored arrays anew")
    parser.add_argument("--times", action="store_true", help="show the seconds of each case")
    asked = parser.parse_args()
    chosen = [name for name in CASES if not asked.patterns or any(fnmatch.fnmatch(name, p) for p in asked.patterns)]
    if not chosen:
        parser.error("no case has such a name")
    warnings.simplefilter("error")  # as in the tests

    found, equal, close, wrong = {}, [], [], []
    for name in chosen:
        begin = time.perf_counter()
        try:
            found[name] = CASES[name]()
        except Exception as error:  # the other cases still have something to say
            wrong.append(f"{name}: {type(error).__name__}: {error}")
            continue
        if asked.times:
            print(f"{time.perf_counter() - begin:6.2f} s  {name}")
        verdict = compare(found[name], stored(name))
        if verdict.wrong:
            wrong.append(f"{name}: {'; '.join(verdict.wrong)}")
        elif not verdict.same_bits:
            close.append((verdict.greatest, name))
        else:
            equal.append(name)
    if asked.write:
        write(found)
        print(f"{len(found)} of {len(chosen)} cases written, {len(equal)} of them the same bits as before; before:")
    for name in equal if asked.exact else ():
        print(f"same bits  {name}")
    for greatest, name in sorted(close, reverse=True):
        print(f"{greatest:8.1e}   {name}")
    for text in wrong:
        print(f"DIFFERS    {text}")
    for name in sorted(stored_cases() - CASES.keys()):
        print(f"note: {name} is stored, and there is no such case")
    print(f"{len(equal)} cases the same to the bit, {len(close)} close, {len(wrong)} different")
    if asked.write:
        return int(len(found) < len(chosen))
    return int(bool(wrong or (asked.exact and close)))


if __name__ == "__main__":
    sys.exit(main())
