"""What evidence costs: prices, discounts that tests share, what is known, what must come first.

A *test* is what is bought; it yields one or more features. A set of tests is a bit mask: test t is in S when
``S >> t & 1``. The price of the next test depends on the set alone,

    price(t | S) = discounted price of t,  if S already holds a bought test of the same discount,
                   full price of t,        otherwise,

and a bill is the sum of the prices along the order in which the tests were bought.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from multiform._typing import Array, Bools, Doubles
from multiform.state import require, require_numbers

MOST_TESTS = 500
IN_A_WORD = 62  # tests whose sets are signed 64-bit numbers in arrays; of more, they are whole numbers of Python's
DISCOUNT_COLUMNS = "discount", "discounted_cost"  # of a table of costs
OLDER_DISCOUNT_COLUMNS = "group", "cost_in_group"


@dataclass(frozen=True)
class Tariff:
    """Prices of tests and the rules of buying them.

    Attributes
    ----------
    tests : tuple of str
    prices : tuple of float
        Of each test alone.
    discounted : tuple of float
        Of each test once another of its discount has been bought.
    discounts : tuple of str or None
        The discount that each test is of.
    required : tuple of int
        The set of tests that must come before each test.
    known : int
        The set of tests whose results are there at the start, for nothing.

    Examples
    --------
    >>> from multiform.diagnosis import Tariff
    >>> tariff = Tariff.of({"age": 1, "chol": 7.27, "fbs": 5.2}, discounts={"blood": {"chol": 5.17, "fbs": 3.1}})
    >>> tariff.bill(["age", "chol", "fbs"])
    [1.0, 7.27, 3.1]
    >>> round(tariff.panel_cost, 2)
    11.37
    """

    tests: tuple[str, ...]
    prices: tuple[float, ...]
    discounted: tuple[float, ...]
    discounts: tuple[str | None, ...]
    required: tuple[int, ...]
    known: int

    @classmethod
    def of(
        cls,
        costs: Mapping[str, float],
        discounts: Mapping[str, Mapping[str, float]] | None = None,
        known: Iterable[str] = (),
        requires: Mapping[str, Any] | None = None,
    ) -> Tariff:
        """A tariff from what a user writes down; see `DiagnosisPlanner` for the parameters."""
        tests = tuple(str(test) for test in costs)
        if not 1 <= len(tests) <= MOST_TESTS:
            raise ValueError(
                f"costs of DiagnosisPlanner must name 1 to {MOST_TESTS} tests; got {len(tests)}. "
                "Several features that come from one test are one entry, named in `features`."
            )
        if len(set(tests)) < len(tests):
            raise ValueError("costs of DiagnosisPlanner names a test twice; each test needs one price.")
        prices = tuple(_price(f"costs[{test!r}]", value) for test, value in zip(tests, costs.values(), strict=True))
        discounted, own = list(prices), [None] * len(tests)  # type: list[float], list[str | None]
        for name, members in (discounts or {}).items():
            if not isinstance(members, Mapping) or not members:
                raise ValueError(
                    f"discounts[{name!r}] of DiagnosisPlanner must map tests to their price once another of them has "
                    f"been bought, as {{'chol': 5.17, 'fbs': 3.1}}; got {members!r}."
                )
            for test, value in members.items():
                t = _position(tests, test, f"discounts[{name!r}]")
                if own[t] is not None:
                    raise ValueError(
                        f"Test {test!r} is in two discounts of DiagnosisPlanner, {own[t]!r} and {name!r}; "
                        "a test can be in one only."
                    )
                own[t], discounted[t] = str(name), _price(f"discounts[{name!r}][{test!r}]", value)
                if discounted[t] > prices[t]:
                    raise ValueError(
                        f"discounts[{name!r}][{test!r}] of DiagnosisPlanner is a discounted price and must not exceed "
                        f"the full one, {prices[t]:g}; got {discounted[t]:g}."
                    )
        required = [0] * len(tests)
        for test, before in (requires or {}).items():
            t, where = _position(tests, test, "requires"), f"requires[{test!r}]"
            required[t] = _mask(tests, before, where)
            if required[t] >> t & 1:
                raise ValueError(f"{where} of DiagnosisPlanner names the test itself; it cannot precede itself.")
        known_tests = _mask(tests, known, "known")
        return cls(tests, prices, tuple(discounted), tuple(own), tuple(required), known_tests).checked()

    def __len__(self) -> int:
        return len(self.tests)

    @property
    def everything(self) -> int:
        """The set of all tests."""
        return (1 << len(self)) - 1

    @cached_property
    def discount_masks(self) -> tuple[int, ...]:
        """For each test, the tests whose purchase lowers its price; what was known has been bought by nobody."""
        masks = {
            name: sum(1 << t for t, own in enumerate(self.discounts) if own == name) & ~self.known
            for name in self.discounts
        }
        return tuple(0 if own is None else masks[own] & ~(1 << t) for t, own in enumerate(self.discounts))

    def price(self, test: int, held: int) -> float:
        """Of the next test, when the set `held` has been bought."""
        return self.discounted[test] if self.discount_masks[test] & held else self.prices[test]

    def next_tests(self, held: int) -> list[int]:
        """The tests that may be bought next."""
        return [t for t in range(len(self)) if not held >> t & 1 and not self.required[t] & ~held]

    def barred(self, unavailable: int, held: int = 0) -> int:
        """The tests that cannot be done: what needs one of those cannot be done either, unless that is held."""
        while True:
            needing = sum(1 << t for t, first in enumerate(self.required) if first & unavailable & ~held)
            if needing | unavailable == unavailable:
                return unavailable
            unavailable |= needing

    def bill(self, order: Sequence[str | int]) -> list[float]:
        """The price of each test when they are bought in this order."""
        held, paid = self.known, []
        for test in order:
            t = test if isinstance(test, int) else self.position(test)
            if held >> t & 1:
                raise ValueError(f"Test {self.tests[t]!r} is known or has been bought already.")
            if self.required[t] & ~held:
                missing = self.names(self.required[t] & ~held)
                raise ValueError(f"Test {self.tests[t]!r} must come after {missing}.")
            paid.append(self.price(t, held))
            held |= 1 << t
        return paid

    @cached_property
    def panel_order(self) -> tuple[int, ...]:
        """All tests, each as soon as it is allowed, in the order of the costs: the full panel as it is billed."""
        return self.remaining_order(self.known, lambda tests, _: tests[0])

    def remaining_order(self, held: int, choose: Callable[[list[int], int], int]) -> tuple[int, ...]:
        """All tests outside a set, each time the one that is chosen of those that may be bought next."""
        order: list[int] = []
        while held != self.everything:
            following = self.next_tests(held)
            if not following:
                raise ValueError(
                    f"requires of DiagnosisPlanner cannot be followed: {self.names(self.everything & ~held)} wait for "
                    "each other; leave out one of the rules that close the circle."
                )
            order.append(choose(following, held))
            held |= 1 << order[-1]
        return tuple(order)

    def checked(self) -> Tariff:
        """Refuse parts of several lengths, and precedence that nobody can follow from what is known."""
        lengths = {len(part) for part in (self.prices, self.discounted, self.discounts, self.required)}
        require(lengths == {len(self)} and 0 < len(self) <= MOST_TESTS, "the tariff is wrong")
        named = all(isinstance(test, str) for test in self.tests) and len(set(self.tests)) == len(self)
        require(named and all(one is None or isinstance(one, str) for one in self.discounts), "a test has no name")
        require_numbers((*self.prices, *self.discounted), "the tariff")
        cheaper = all(0 <= less <= full for less, full in zip(self.discounted, self.prices, strict=True))
        require(cheaper and sum(self.prices) < np.inf, "a price is out of range")
        sets = (self.known, *self.required)
        whole = all(type(one) is int and 0 <= one <= self.everything for one in sets)
        require(whole, "the tariff knows a test that there is not")
        _ = self.panel_order
        return self

    @cached_property
    def panel_cost(self) -> float:
        """What all evidence costs, with the discounts."""
        return float(sum(self.bill(self.panel_order)))

    def position(self, test: str) -> int:
        """The index of a test."""
        return _position(self.tests, test, "the name")

    def names(self, tests: int) -> list[str]:
        """The names of a set."""
        return [name for t, name in enumerate(self.tests) if tests >> t & 1]

    def price_table(self, sets: Array) -> Doubles:
        """price(t | S) for many sets at once, infinite for what may not be bought: shape (len(sets), n_tests)."""
        table = np.empty((len(sets), len(self)))
        for t in range(len(self)):
            table[:, t] = np.where((sets & self.discount_masks[t]) != 0, self.discounted[t], self.prices[t])
            barred = ((sets >> t & 1) != 0) | ((~sets & self.required[t]) != 0)
            table[barred, t] = np.inf
        return table


def as_sets(sets: Iterable[int], n_tests: int) -> Array:
    """An array of sets."""
    found = [int(one) for one in sets]
    return np.array(found, dtype=np.int64 if n_tests <= IN_A_WORD else object)


def members(sets: Iterable[int], n_tests: int) -> Bools:
    """The tests of each set: shape (n_sets, n_tests)."""
    width = -(-n_tests // 8)
    packed = b"".join(int(one).to_bytes(width, "little") for one in sets)
    bits = np.unpackbits(np.frombuffer(packed, dtype=np.uint8).reshape(-1, width), axis=1, bitorder="little")
    return np.asarray(bits[:, :n_tests].astype(bool))


def plain_set(tests: int) -> int | str:
    """A set for a model file, whose whole numbers have 64 bits at most: a larger one is hexadecimal text."""
    return tests if tests < 1 << IN_A_WORD else hex(tests)


def set_of(plain: Any) -> Any:
    """The inverse of `plain_set`; what is none stays as it is, to be refused."""
    if not isinstance(plain, str) or len(plain) > 2 + MOST_TESTS or not plain.startswith("0x"):
        return plain
    try:
        return int(plain, 16)
    except ValueError:
        return plain


def read_costs(costs: Any, discounts: Any) -> tuple[dict[str, float], Mapping[str, Mapping[str, float]] | None]:
    """Prices and discounts from a dict, a data frame or a CSV file.

    A table has the columns ``test`` and ``cost``, and may have ``discount`` and ``discounted_cost``: the price once
    another test of the discount has been bought. (They may be called ``group`` and ``cost_in_group``, too.) Discounts
    that are given beside the table replace its own.
    """
    if isinstance(costs, Mapping):
        return {str(test): value for test, value in costs.items()}, discounts
    if isinstance(costs, str | Path):
        columns, rows = _read_table(costs)
    elif hasattr(costs, "columns"):
        columns = [str(name) for name in costs.columns]
        cells = [np.asarray(costs[name], dtype=object) for name in costs.columns]
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*cells, strict=True)]
    else:
        raise ValueError(
            "costs of DiagnosisPlanner must be a dict of prices, a data frame or the path of a CSV file; "
            f"got {type(costs).__name__}."
        )
    if "test" not in columns or "cost" not in columns:
        raise ValueError(
            "costs of DiagnosisPlanner, as a table, needs the columns 'test' and 'cost', and may have 'discount' and "
            f"'discounted_cost'; got {columns}."
        )
    discount, discounted = DISCOUNT_COLUMNS if "discount" in columns else OLDER_DISCOUNT_COLUMNS
    prices: dict[str, float] = {}
    shared: dict[str, dict[str, float]] = {}
    for row in rows:
        test = str(row["test"]).strip()
        if test in prices:
            raise ValueError(f"costs of DiagnosisPlanner names the test {test!r} twice; each test needs one price.")
        prices[test] = _price(f"costs, row {test!r},", row["cost"])
        name = row.get(discount)
        if name is not None and name == name and str(name).strip():  # NaN is not equal to itself
            members = shared.setdefault(str(name).strip(), {})
            members[test] = _price(f"{discounted} of costs, row {test!r},", row.get(discounted))
    return prices, shared if discounts is None else discounts


def tariff_and_features(
    costs: Any, discounts: Any, known: Any, requires: Any, features: Any
) -> tuple[Tariff, list[list[str]]]:
    """The tariff, and the features that each of its tests yields."""
    prices, discounts = read_costs(costs, discounts)
    tariff = Tariff.of(prices, discounts, known, requires)
    given = features or {}
    for test in given:
        _position(tariff.tests, test, "features")
    yields = [[str(name) for name in _names(given.get(test, test), f"features[{test!r}]")] for test in tariff.tests]
    for test, own in zip(tariff.tests, yields, strict=True):
        if not own:
            raise ValueError(f"features[{test!r}] of DiagnosisPlanner is empty; name the columns of the test.")
    named = [name for own in yields for name in own]
    twice = sorted({name for name in named if named.count(name) > 1})
    if twice:
        raise ValueError(f"features of DiagnosisPlanner: {twice} belong to two tests; each to one only.")
    return tariff, yields


def _read_table(path: str | Path) -> tuple[list[str], list[dict[str, Any]]]:
    """Columns and rows of a CSV file, as a spreadsheet writes it; lines that begin with # are comments."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as stream:
            lines = [line for line in stream if line.strip() and not line.startswith("#")]
    except FileNotFoundError:
        raise ValueError(
            f"costs of DiagnosisPlanner: there is no file {str(path)!r}; give the path of a CSV."
        ) from None
    except UnicodeDecodeError as error:
        raise ValueError(f"costs of DiagnosisPlanner: {str(path)!r} is not UTF-8 text; save it as UTF-8.") from error
    reader = csv.DictReader(lines, skipinitialspace=True)
    columns = [name.strip() for name in reader.fieldnames or []]
    reader.fieldnames = columns
    return columns, list(reader)


def _names(names: Any, where: str) -> list[str]:
    """One name or several."""
    if isinstance(names, str):
        return [names]
    if not isinstance(names, Iterable):
        raise ValueError(f"{where} of DiagnosisPlanner must be a name or a sequence of names; got {names!r}.")
    return list(names)


def _price(whose: str, value: Any) -> float:
    try:
        price = float(value)
    except (TypeError, ValueError):
        price = np.nan
    if isinstance(value, bool) or not 0 <= price < np.inf:
        raise ValueError(f"{whose} of DiagnosisPlanner must be a price, finite and not negative; got {value!r}.")
    return price


def _position(tests: Sequence[str], test: Any, where: str) -> int:
    if test not in tests:
        raise ValueError(f"{where} of DiagnosisPlanner: no test is named {test!r}; the tests are {list(tests)}.")
    return tests.index(test)


def _mask(tests: Sequence[str], names: Any, where: str) -> int:
    """The set of one test or several."""
    return sum({1 << _position(tests, name, where) for name in _names(names, where)})
