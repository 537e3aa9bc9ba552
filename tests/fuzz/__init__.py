"""Hostile input by the hundred thousand: ``make fuzz CASES=200000 SEED=0 JOBS=16``.

A *subject* is something that reads what a stranger sends. It makes cases from a generator of random numbers and judges
what comes of one; `SUBJECTS` in ``__main__.py`` lists them all. To add one, write a module with a class that has

    name                      a word
    weight                    how many cases of 10 or so are its
    prepare(folder)           once, in a process of its own: writes into the folder what cases are made from
    open(folder)              in every process, before the first case: reads that; starts no thread
    case(random) -> Case      a case, which depends on `random` (a numpy Generator) alone
    judge(case, folder)       in a child: "refused" (with a sentence) or "answered"; AssertionError if an answer is
                              wrong, any other error if it is no sentence; the folder is the child's, and empty

and add it there. `runner.py` runs cases in children with limits; what was found is kept under ``finds/``, as a test.
"""

from typing import NamedTuple


class Case(NamedTuple):
    """What a stranger sends: the bytes, and a word (of letters, digits and - . only) on how they are to be read."""

    content: bytes
    how: str = ""
