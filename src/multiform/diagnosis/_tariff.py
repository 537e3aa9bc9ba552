"""What evidence costs: prices, discounts that tests share, panels, waiting; what is known, what must come first.

A *test* is what is bought; it yields one or more features. A set of tests is a bit mask: test t is in S when
``S >> t & 1``. The price of the next test depends on the set alone,

    price(t | S) = discounted price of t,  if S already holds a bought test of the same discount,
                   full price of t,        otherwise,

and a bill is the sum of the prices along the order in which the tests were bought.

Results take their time. Tests that are ordered together are a *round*: one waits for the slowest of them and pays

    sum of their prices  +  hour price x the longest of their durations,

so that the bill of a patient has a line for waiting. Tests of a *panel* always come together; a panel is one test that
yields what they yield, for what they cost when they are bought at once.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

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
    durations : tuple of float
        The hours until the result of each test is there; empty where all are immediate.
    hour_price : float
        What an hour of waiting costs.

    Examples
    --------
    >>> from multiform.diagnosis import Tariff
    >>> tariff = Tariff.of({"age": 1, "chol": 7.27, "fbs": 5.2}, discounts={"blood": {"chol": 5.17, "fbs": 3.1}})
    >>> tariff.bill(["age", "chol", "fbs"])
    [1.0, 7.27, 3.1]
    >>> round(tariff.panel_cost, 2)
    11.37

    Of tests that are ordered together, one waits for the slowest:

    >>> tariff = Tariff.of({"age": 1, "chol": 7, "culture": 20}, durations={"chol": 4, "culture": 48}, hour_price=0.5)
    >>> tariff.hours(["chol", "culture"]), tariff.panel_cost
    (48.0, 52.0)
    """

    tests: tuple[str, ...]
    prices: tuple[float, ...]
    discounted: tuple[float, ...]
    discounts: tuple[str | None, ...]
    required: tuple[int, ...]
    known: int
    durations: tuple[float, ...] = ()
    hour_price: float = 0.0

    @classmethod
    def of(
        cls,
        costs: Mapping[str, float],
        discounts: Mapping[str, Mapping[str, float]] | None = None,
        known: Iterable[str] = (),
        requires: Mapping[str, Any] | None = None,
        durations: Mapping[str, float] | None = None,
        hour_price: float = 0.0,
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
        hours = [0.0] * len(tests)
        for test, value in (durations or {}).items():
            hours[_position(tests, test, "durations")] = _price(f"durations[{test!r}]", value, "a number of hours")
        waits = tuple(hours) if any(hours) else ()
        about = tests, prices, tuple(discounted), tuple(own), tuple(required), known_tests, waits
        return cls(*about, _price("hour_price", hour_price)).checked()

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

    def duration(self, test: int) -> float:
        """The hours until the result of a test is there; what is known is there."""
        return 0.0 if not self.durations or self.known >> test & 1 else self.durations[test]

    def hours(self, tests: Iterable[str | int]) -> float:
        """How long one waits for tests that are ordered together: as long as the slowest of them takes."""
        places = (test if isinstance(test, int) else self.position(test) for test in tests)
        return max((self.duration(t) for t in places), default=0.0)

    @property
    def waits(self) -> bool:
        """Whether it matters which tests are ordered together."""
        return self.hour_price > 0 and any(self.durations)

    @cached_property
    def panel_hours(self) -> float:
        """How long all evidence takes, each test being ordered as soon as it may be."""
        there: dict[int, float] = {}
        for t in self.panel_order:
            begun = max((there.get(u, 0.0) for u in range(len(self)) if self.required[t] >> u & 1), default=0.0)
            there[t] = begun + self.duration(t)
        return max(there.values(), default=0.0)

    def without_waiting(self, one_by_one: bool) -> Tariff:
        """The same for a search that knows no rounds: waiting is free; or in each price, as if one came by one."""
        extra = [self.hour_price * self.duration(t) * one_by_one for t in range(len(self))]
        full, less = (
            tuple(price + more for price, more in zip(prices, extra, strict=True))
            for prices in (self.prices, self.discounted)
        )
        return replace(self, prices=full, discounted=less, durations=(), hour_price=0.0)

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
        require(len(self.durations) in (0, len(self)), "the tariff has a duration for some tests only")
        require_numbers((*self.durations, self.hour_price), "the durations of the tariff")
        require(min((*self.durations, self.hour_price)) >= 0, "a duration or the price of an hour is below 0")
        _ = self.panel_order
        return self

    @cached_property
    def panel_cost(self) -> float:
        """What all evidence costs, with the discounts and the price of waiting for it."""
        return float(sum(self.bill(self.panel_order))) + self.hour_price * self.panel_hours

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


class PriceList(NamedTuple):
    """What a table of costs says, as the parameters of `DiagnosisPlanner` of the same names have it."""

    costs: dict[str, Any]
    discounts: Mapping[str, Mapping[str, float]] | None
    durations: Mapping[str, float] | None
    panels: Mapping[str, Any] | None


def read_costs(costs: Any, discounts: Any) -> tuple[dict[str, Any], Mapping[str, Mapping[str, float]] | None]:
    """Prices and discounts from a dict, a data frame or a CSV file; see `read_price_list`."""
    return read_price_list(costs, discounts)[:2]


def read_price_list(costs: Any, discounts: Any = None, durations: Any = None, panels: Any = None) -> PriceList:
    """Prices, discounts, durations and panels from a dict, a data frame or a CSV file.

    A table has the columns ``test`` and ``cost``, and may have ``discount`` and ``discounted_cost``: the price once
    another test of the discount has been bought; ``duration``: hours until the result is there; and ``panel``: tests of
    the same panel come together, and one without a cost comes for nothing. (The second and the third may be called
    ``group`` and ``cost_in_group``, too.) What is given beside the table replaces its own.
    """
    if isinstance(costs, Mapping):
        return PriceList({str(test): value for test, value in costs.items()}, discounts, durations, panels)
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
            f"'discounted_cost', 'duration' and 'panel'; it has {', '.join(map(repr, columns))}."
        )
    discount, discounted = DISCOUNT_COLUMNS if "discount" in columns else OLDER_DISCOUNT_COLUMNS
    prices: dict[str, float] = {}
    shared: dict[str, dict[str, float]] = {}
    hours: dict[str, float] = {}
    together: dict[str, list[str]] = {}
    for row in rows:
        test = str(row["test"]).strip()
        if test in prices:
            raise ValueError(f"costs of DiagnosisPlanner names the test {test!r} twice; each test needs one price.")
        if panel := _written(row.get("panel")):
            together.setdefault(panel, []).append(test)
        comes_along = panel and not _written(row["cost"])
        prices[test] = 0.0 if comes_along else _price(f"cost of the test {test!r} in costs", row["cost"])
        if name := _written(row.get(discount)):
            members = shared.setdefault(name, {})
            members[test] = _price(f"{discounted} of the test {test!r} in costs", row.get(discounted))
        if _written(row.get("duration")):
            hours[test] = _price(f"duration of the test {test!r} in costs", row["duration"], "a number of hours")
    return PriceList(
        prices,
        shared if discounts is None else discounts,
        (hours or None) if durations is None else durations,
        (together or None) if panels is None else panels,
    )


def _written(cell: Any) -> str:
    """What is written in a cell; nothing for None and NaN, which is not equal to itself."""
    return "" if cell is None or cell != cell else str(cell).strip()


def tariff_and_features(
    costs: Any,
    discounts: Any,
    known: Any,
    requires: Any,
    features: Any,
    durations: Any = None,
    hour_price: float = 0.0,
    panels: Any = None,
) -> tuple[Tariff, list[list[str]]]:
    """The tariff, and the features that each of its tests yields."""
    prices, discounts, durations, panels = read_price_list(costs, discounts, durations, panels)
    tariff = Tariff.of(prices, discounts, known, requires, durations, hour_price) if not panels else None
    tests = tuple(prices)
    given = features or {}
    for test in given:
        _position(tests, test, "features")
    yields = [[str(name) for name in _names(given.get(test, test), f"features[{test!r}]")] for test in tests]
    for test, own in zip(tests, yields, strict=True):
        if not own:
            raise ValueError(f"features[{test!r}] of DiagnosisPlanner is empty; name the columns of the test.")
    named = [name for own in yields for name in own]
    twice = sorted({name for name in named if named.count(name) > 1})
    if twice:
        raise ValueError(f"features of DiagnosisPlanner: {twice} belong to two tests; each to one only.")
    if tariff is not None:
        return tariff, yields
    return _in_panels(tests, prices, discounts, known, requires, yields, durations, hour_price, panels)


def _in_panels(
    tests: tuple[str, ...],
    prices: Mapping[str, Any],
    discounts: Any,
    known: Any,
    requires: Any,
    yields: list[list[str]],
    durations: Any,
    hour_price: float,
    panels: Mapping[str, Any],
) -> tuple[Tariff, list[list[str]]]:
    """The same with every panel as one test, in the place of the first of its tests."""
    panel_of: dict[str, str] = {}
    for panel, own in panels.items():
        for test in (of_it := _names(own, f"panels[{panel!r}]")):
            _position(tests, test, f"panels[{panel!r}]")
            if test in panel_of:
                raise ValueError(
                    f"Test {test!r} is in two panels of DiagnosisPlanner, {panel_of[test]!r} and {panel!r}; a test can "
                    "be in one only."
                )
            panel_of[test] = str(panel)
        if not of_it or (panel in tests and panel not in of_it):
            raise ValueError(
                f"panels[{panel!r}] of DiagnosisPlanner must name one test or several, and no other test may have its "
                f"name; got {own!r}."
            )

    def of(test: Any) -> Any:
        return panel_of.get(test, test)

    def renamed(names: Any, where: str) -> list[str]:
        return list(dict.fromkeys(of(name) for name in _names(names, where)))

    # Checked as it was written: the bill of a panel is that of its tests, bought at once.
    alone = Tariff.of(prices, discounts, (), None, {k: v for k, v in (durations or {}).items() if k in tests})
    members = {of(test): [t for t, name in enumerate(tests) if of(name) == of(test)] for test in tests}
    whole, shared = {}, {}  # type: dict[str, float], dict[str, dict[str, float]]
    for test, own in members.items():
        named = {alone.discounts[t] for t in own} - {None}
        if len(named) > 1:
            raise ValueError(
                f"panels[{test!r}] of DiagnosisPlanner has tests of several discounts, {sorted(map(str, named))}; the "
                "tests of a panel can be of one only."
            )
        less = sum(alone.discounted[t] for t in own)
        begun = [alone.prices[t] - alone.discounted[t] for t in own if alone.discounts[t] is not None]
        whole[test] = less + min(begun, default=0.0)
        for name in named:
            shared.setdefault(str(name), {})[test] = less
    hours = {test: max(alone.duration(t) for t in own) for test, own in members.items()}
    hours |= {test: value for test, value in (durations or {}).items() if test not in tests}
    given = {*_names(known, "known")}
    for test, own in members.items():
        if test not in given and 0 < len(given & {tests[t] for t in own}) < len(own):
            raise ValueError(
                f"known of DiagnosisPlanner names a part of the panel {test!r}, whose tests come together; name all "
                f"of them: {[tests[t] for t in own]}."
            )
    first: dict[str, list[str]] = {}
    for test, before in (requires or {}).items():
        asked = [name for name in renamed(before, f"requires[{test!r}]") if name != of(test) or test not in panel_of]
        first[of(test)] = list(dict.fromkeys([*first.get(of(test), []), *asked]))
    tariff = Tariff.of(whole, shared, renamed(known, "known"), first, hours, hour_price)
    return tariff, [[name for t in own for name in yields[t]] for own in members.values()]


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


def _price(whose: str, value: Any, what: str = "a price") -> float:
    try:
        price = float(value)
    except (TypeError, ValueError):
        price = np.nan
    if isinstance(value, bool) or not 0 <= price < np.inf:
        raise ValueError(f"{whose} of DiagnosisPlanner must be {what}, finite and not negative; got {value!r}.")
    return price


def _position(tests: Sequence[str], test: Any, where: str) -> int:
    if test not in tests:
        raise ValueError(
            f"{where} of DiagnosisPlanner: no test is named {test!r}; the tests are {', '.join(map(repr, tests))}."
        )
    return tests.index(test)


def _mask(tests: Sequence[str], names: Any, where: str) -> int:
    """The set of one test or several."""
    return sum({1 << _position(tests, name, where) for name in _names(names, where)})
