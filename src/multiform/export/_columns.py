"""A table's columns in a graph: from raw cells, numbers and texts, to the numbers that the classifier reads.

A column that is a number comes as doubles, NaN where it is missing; a date as seconds since 1970; all other columns as
text, empty where they are missing, as the table has it. A cell that is unlike training is read as a missing one, as in
Python, and the output `unfamiliar` says so; Python then averages over what the cell may have been, and no graph does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from multiform._typing import Array
from multiform.columns import NO_KNOWN_WORD, Category, Column, Date, Label, Measure, Number, Seen, Text, spellings
from multiform.export._graph import Graph
from multiform.export._texts import weights
from multiform.tables import TableClassifier

OUTPUTS = ("label", "probabilities", "loyalty", "loyalty_score", "accepted", "trust", "unfamiliar")
DAY = 86_400.0
MISSING_PLACE, OTHER_PLACE = -2, -1  # of a text among the values
ERA = 146_097  # days of four centuries
TO_1970 = 719_468  # days from 1 March of the year 0


def raw_inputs(model: TableClassifier) -> list[tuple[str, Any]]:
    """A name for now, and the type, of each column that the model reads; skl2onnx takes no name as people have them."""
    from skl2onnx.common.data_types import DoubleTensorType, StringTensorType

    def kind(column: Column) -> Any:
        return (DoubleTensorType if isinstance(column, Number | Date) else StringTensorType)([None, 1])

    return [(f"column{place}", kind(column)) for place, column in enumerate(_used(model))]


def name_inputs(converted: Any, model: TableClassifier) -> None:
    """Call the inputs of a graph as the columns are called, and no other value of it so."""
    names = {f"column{place}": input_name(column.name) for place, column in enumerate(_used(model))}
    names |= {name: f"of {name}" for name in set(names.values()) - set(names)}
    for one in converted.graph.input:
        one.name = names[one.name]
    for node in converted.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    for constant in converted.graph.initializer:
        constant.name = names.get(constant.name, constant.name)


def input_name(column: str) -> str:
    """What the input of a column is called: as the column, unless an output is called so."""
    return f"{column} given" if column in OUTPUTS else column


def onnx_inputs(model: Any, table: Any) -> dict[str, Array]:
    """A table as the inputs of the exported model, for onnxruntime.

    Parameters
    ----------
    model : TableClassifier
        Fitted.
    table : polars or pandas frame, or mapping of columns
        With the columns that the model reads, written as those of training.

    Returns
    -------
    inputs : dict
        Of each column that is used, doubles or texts of shape (n, 1).

    Examples
    --------
    >>> import polars as pl
    >>> from multiform import QMSClassifier
    >>> from multiform.export import onnx_inputs
    >>> from multiform.tables import TableClassifier
    >>> table = pl.DataFrame({"height": ["150 cm", "190 cm"] * 20, "kind": ["a", None] * 20})
    >>> model = TableClassifier(QMSClassifier(random_state=0)).fit(table, ["no", "yes"] * 20)
    >>> {name: cells[:2].ravel().tolist() for name, cells in onnx_inputs(model, table).items()}
    {'height': [150.0, 190.0], 'kind': ['a', '']}
    """
    typed, found = model.typed(table), {}
    for column in _used(model):
        series = typed[column.name]
        if isinstance(column, Date):
            cells = series.dt.epoch("ms").cast(float).to_numpy() / 1000
        elif isinstance(column, Number):
            cells = series.to_numpy()
        else:
            cells = np.array(["" if cell is None else cell for cell in series.to_list()], dtype=object)
        found[input_name(column.name)] = np.asarray(cells, dtype=object if cells.dtype == object else np.float64)[
            :, None
        ]
    return found


def _used(model: TableClassifier) -> list[Column]:
    return [column for column in model.columns_ if column.width]


def encoded(graph: Graph, model: TableClassifier, inputs: Any) -> tuple[Any, str]:
    """The matrix that the estimator reads, a variable of doubles; and which rows have a cell unlike training."""
    from skl2onnx.common.data_types import DoubleTensorType

    parts, strange = [], []
    for column, given in zip(_used(model), inputs, strict=True):
        seen = model.seen_.get(column.name)
        read: Any = _of_words if isinstance(column, Text) else _of_text if isinstance(column, Category) else _of_number
        part, odd = read(graph, column, seen, given.full_name)
        parts.append(part)
        strange += odd
    whole = graph.scope.declare_local_variable("encoded", DoubleTensorType([None, None]))
    graph.write(graph.beside(*parts), whole)
    if not strange:  # a model of 0.1, which does not know what training looked like
        first = graph.flat(graph.columns(whole.full_name, np.zeros(1)))
        return whole, graph.node("Less", first, first)
    unlike = graph.cast(graph.beside(*strange), np.float64)
    return whole, graph.node("Greater", graph.total(unlike, axis=1), graph.constant(0.0))


def _of_number(graph: Graph, column: Any, seen: Seen | None, given: str) -> tuple[str, list[str]]:
    """As `Number.columns` and `Date.columns`."""
    # Infinity is no number; its difference with itself is none either.
    x = graph.node("Where", graph.node("IsNaN", graph.node("Sub", given, given)), graph.constant(np.nan), given)
    missing, odd = graph.node("IsNaN", x), []
    if seen is not None:
        low, high = (graph.constant(np.float64(one)) for one in (seen.low, seen.high))
        within = graph.node("And", graph.node("GreaterOrEqual", x, low), graph.node("LessOrEqual", x, high))
        if seen.kind == "code" and 1 not in seen.counts:
            same = graph.node("Equal", x, graph.constant(np.array([seen.values], dtype=np.float64)))
            within = graph.node("Greater", graph.total(graph.cast(same, np.float64), 1, True), graph.constant(0.0))
        strange = graph.node("And", graph.node("Not", within), graph.node("Not", missing))
        odd = [strange if seen.n_missing else graph.node("Or", strange, missing)]
        x = graph.node("Where", strange, graph.constant(np.nan), x)
        missing = graph.node("IsNaN", x)
    if isinstance(column, Measure):
        return x, odd
    filled = graph.node("Where", missing, graph.constant(np.float64(column.median)), x)
    told = [graph.cast(missing, np.float64)] if column.has_missing else []
    if isinstance(column, Date):
        return graph.beside(*_calendar(graph, filled, column.has_time), *told), odd
    read = filled if column.fill_all else x
    asked = [("Greater", step) for step in column.steps] + [("Equal", value) for value in column.values]
    each = [graph.cast(graph.node(how, read, graph.constant(np.float64(one))), np.float64) for how, one in asked]
    parts = [filled, *each, *told] if column.fill_all else [filled, *told, *each]
    return graph.beside(*parts), odd


def _calendar(graph: Graph, moments: str, has_time: bool) -> list[str]:
    """The day, and the month, the weekday and the hour as points on a circle.

    The month counts days from 1 March, so that a leap day is the last of its year (Howard Hinnant's civil calendar).
    """

    def constant(value: float) -> str:
        return graph.constant(np.float64(value))

    def floor_of(value: str, by: float) -> str:
        return graph.node("Floor", graph.node("Div", value, constant(by)))

    def combined(first: str, *others: tuple[str, str]) -> str:
        for operation, other in others:
            first = graph.node(operation, first, other)
        return first

    days = graph.node("Div", moments, constant(DAY))
    day = graph.node("Floor", days)
    since = graph.node("Add", day, constant(TO_1970))
    of_era = combined(since, ("Sub", graph.node("Mul", floor_of(since, ERA), constant(ERA))))
    leap = (("Sub", floor_of(of_era, 1460)), ("Add", floor_of(of_era, 36_524)), ("Sub", floor_of(of_era, 146_096)))
    year = floor_of(combined(of_era, *leap), 365)
    before = combined(graph.node("Mul", year, constant(365)), ("Add", floor_of(year, 4)), ("Sub", floor_of(year, 100)))
    of_year = graph.node("Sub", of_era, before)
    month = floor_of(combined(of_year, ("Mul", constant(5)), ("Add", constant(2))), 153)  # March is 0
    turned = graph.node("Add", month, constant(2))
    later = graph.node("Sub", turned, constant(12))
    month = graph.node("Where", graph.node("Less", turned, constant(12)), turned, later)
    weekday = graph.node("Add", day, constant(3))  # 1 January 1970 was a Thursday
    weekday = graph.node("Sub", weekday, graph.node("Mul", floor_of(weekday, 7), constant(7)))
    # By tables: an ensemble asks whether a number is exactly that of a month, and sines of two libraries may differ.
    circles = []
    for place, size in ((month, 12), (weekday, 7)):
        index = graph.cast(place, np.int64)
        turns = 2 * np.pi * (np.arange(size) / size)
        circles += [graph.node("Gather", graph.constant(table), index) for table in (np.sin(turns), np.cos(turns))]
    if has_time:
        angle = graph.node("Mul", graph.node("Sub", days, day), constant(2 * np.pi))
        circles += [graph.node("Sin", angle), graph.node("Cos", angle)]
    return [days, *circles]


def _of_text(graph: Graph, column: Any, seen: Seen | None, given: str) -> tuple[str, list[str]]:
    """As `Category.columns` and `Label.columns`."""
    place_of = dict.fromkeys(spellings(column, None), MISSING_PLACE)
    for number, value in enumerate(column.values):
        place_of |= dict.fromkeys(spellings(column, value), number)
    pairs: dict[str, Any] = {"keys_strings": list(place_of), "values_int64s": list(place_of.values())}
    place = graph.node("LabelEncoder", graph.flat(given), **pairs, default_int64=OTHER_PLACE)
    odd = []
    missing = graph.node("Equal", place, graph.constant(MISSING_PLACE))
    if seen is not None:
        unknown = graph.node("Equal", place, graph.constant(OTHER_PLACE))
        strange = [unknown] if not seen.n_unnamed else []
        strange += [missing] if not seen.n_missing else []
        odd = [graph.upright(one) for one in strange]
        if not seen.n_unnamed:
            place = graph.node("Where", unknown, graph.constant(MISSING_PLACE), place)
            missing = graph.node("Equal", place, graph.constant(MISSING_PLACE))
    if isinstance(column, Label):
        known = graph.node("GreaterOrEqual", place, graph.constant(0))
        code = graph.cast(place, np.float64)
        return graph.upright(graph.node("Where", known, code, graph.constant(np.nan))), odd
    read = place
    if column.fill is not None:
        read = graph.node("Where", missing, graph.constant(column.values.index(column.fill)), place)
    parts = [graph.cast(graph.one_hot(read, len(column.values)), np.float64)]
    if column.has_other:
        other = graph.node("Equal", place, graph.constant(OTHER_PLACE))
        parts.append(graph.upright(graph.cast(other, np.float64)))
    if column.has_missing:
        parts.append(graph.upright(graph.cast(missing, np.float64)))
    return graph.beside(*parts), odd


def _of_words(graph: Graph, column: Text, seen: Seen | None, given: str) -> tuple[str, list[str]]:
    """As `Text.columns`; of an unlikely text there is no word known, so that it is as good as missing already."""
    told = weights(graph, column, given)
    odd = []
    if seen is not None:
        missing = graph.node("Equal", given, graph.constant(np.array([""])))
        wordless = graph.node("Equal", graph.total(told, axis=1, keepdims=True), graph.constant(0.0))
        strange = graph.node("And", wordless, graph.node("Not", missing))
        odd = [strange] if NO_KNOWN_WORD not in seen.values else []
        odd += [missing] if not seen.n_missing else []
    return told, odd
