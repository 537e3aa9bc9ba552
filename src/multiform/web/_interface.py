"""The interface for programs, under ``/v1``: JSON in and out, tables as Arrow IPC or CSV, too.

Names are those of the command line's ``--json``; what goes wrong is a problem (RFC 9457).
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from multiform.columns import polars
from multiform.files import plain
from multiform.tables import MatrixModel, Source, batches
from multiform.web._answering import Answering, beside
from multiform.web._arrow import ARROW, arrow_frame, arrow_table, matrix_of_arrow, matrix_of_json
from multiform.web._model import PlanModel, TableModel
from multiform.web._openapi import description
from multiform.web._problems import Problem
from multiform.web._work import Work

JSON, LINES, CSV, TSV = "application/json", "application/x-ndjson", "text/csv", "text/tab-separated-values"
TEXTS = {CSV: "csv", TSV: "tsv"}
PIECE = 2_000  # rows that are answered at a time where answers come as they are made
SMALL, LARGE = 10_000, 1_000_000  # bytes


def interface_routes(model: PlanModel | TableModel) -> list[Route]:
    """The addresses of a model or of a plan."""
    routes = [Route("/openapi.json", _described), Route("/v1/model", _model)]
    if isinstance(model, TableModel):
        return [
            *routes,
            Route("/v1/predict", _predict, methods=["POST"]),
            Route("/v1/assess", _assess, methods=["POST"]),
            Route("/v1/change", _change, methods=["POST"]),
            Route("/v1/evaluate", _evaluate, methods=["POST"]),
        ]
    return [
        *routes,
        Route("/v1/sessions", _begin, methods=["POST"]),
        Route("/v1/sessions/{id}", _where, methods=["GET"]),
        Route("/v1/sessions/{id}", _end, methods=["DELETE"]),
        Route("/v1/sessions/{id}/file", _file, methods=["GET"]),
        *(Route(f"/v1/sessions/{{id}}/{name}", _happened(name), methods=["POST"]) for name in HAPPENINGS),
    ]


def answer(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """JSON, in which a number that is none is null."""
    text = json.dumps(plain(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text.encode("utf-8", "replace"), status, dict(headers or {}), JSON)


async def _described(request: Request) -> Response:
    return answer(description(request.app.state.model))


async def _model(request: Request) -> Response:
    return answer(request.app.state.model.as_dict())


# --------------------------------------------------------------------------------------------------------------- bodies


def _media(request: Request) -> str:
    return request.headers.get("content-type", JSON).partition(";")[0].strip().lower()


def parsed(body: bytes, most: int) -> Any:
    """The value of a JSON text that means one thing: no NaN, no name twice, not deep, no more values than `most`."""
    if body.count(b",") + body.count(b"[") + body.count(b"{") > most:
        raise Problem(413, f"a body may hold {most:,} values; send fewer rows at a time.")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
            raise Problem(400, f"the name {twice[:80]!r} comes twice in an object.")
        return found

    def no_number(word: str) -> Any:
        raise Problem(400, f"{word} is no number of JSON; send null for a value that is not known.")

    try:
        return json.loads(body.decode("utf-8"), object_pairs_hook=once, parse_constant=no_number)
    except RecursionError:
        raise Problem(400, "the JSON has lists in lists in lists; rows are a list of objects or of lists.") from None
    except ValueError as error:
        raise Problem(400, f"the body is no JSON: {error}.") from None


async def _object(request: Request, allowed: dict[str, Any], needed: tuple[str, ...] = ()) -> dict[str, Any]:
    """A JSON object with members of these types and no others."""
    if _media(request) != JSON:
        raise Problem(415, f"this address takes {JSON}; got another content-type.")
    body = await request.body()
    state = request.app.state
    if len(body) > state.limits.json_bytes:
        raise Problem(
            413, f"JSON may have {state.limits.json_bytes:,} bytes; send a table as CSV or as an Arrow stream."
        )
    large = len(body) > 100_000
    value = await state.work(parsed, body, state.limits.cells) if large else parsed(body or b"{}", state.limits.cells)
    if not isinstance(value, dict):
        raise Problem(400, f"the body must be an object with {_listed(allowed)}.")
    return checked(value, allowed, needed)


def checked(value: dict[str, Any], allowed: dict[str, Any], needed: tuple[str, ...]) -> dict[str, Any]:
    """An object whose members are allowed, of the right types, and all that are needed."""
    for name, found in value.items():
        if name not in allowed:
            raise Problem(400, f"there is no member {name[:80]!r} here; allowed are {_listed(allowed)}.")
        if not isinstance(found, allowed[name]) or (isinstance(found, bool) and allowed[name] is int):
            raise Problem(400, f"{name} has the wrong type: {_TYPES[type(found)]}.")
    if lacking := [name for name in needed if name not in value]:
        raise Problem(400, f"the member {lacking[0]!r} is needed; allowed are {_listed(allowed)}.")
    return value


_TYPES = {
    dict: "an object",
    list: "a list",
    str: "text",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(names) or "nothing"


def _rows(model: TableModel, value: dict[str, Any], as_matrix: bool = True) -> Any:
    """The rows of a JSON body: objects by column; or lists, with the columns' names or in the model's order.

    With `as_matrix`, lists of numbers for a model of numbers are a matrix, and no frame.
    """
    rows, columns = value["rows"], value.get("columns")
    if not rows:
        raise Problem(422, "there are no rows.")
    if all(type(row) is dict for row in rows):
        if columns is not None:
            raise Problem(400, "columns are for rows that are lists; these are objects, which name their columns.")
        return model.frame(rows)
    if not all(type(row) is list for row in rows):
        raise Problem(400, "rows is a list of objects, or a list of lists.")
    names = list(model.fields) if columns is None else columns
    if not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise Problem(400, "columns is a list of names, each of them once.")
    widths = {len(row) for row in rows}
    if widths != {len(names)}:
        wrong = next(number for number, row in enumerate(rows) if len(row) != len(names))
        raise Problem(422, f"row {wrong + 1} has {len(rows[wrong])} cells, and there are {len(names)} columns.")
    if as_matrix and _reads_numbers(model) and columns is None:
        try:
            matrix = np.array(rows)
            if matrix.dtype.kind in "iuf":
                return matrix
        except (ValueError, OverflowError):
            pass  # a list in a cell, a number without end: what follows says where
    return model.frame([dict(zip(names, row, strict=True)) for row in rows])


def _reads_numbers(model: TableModel) -> bool:
    """Whether it takes a matrix as it is."""
    return isinstance(model.model, MatrixModel) and not model.model.reads_words


def _of_arrow(model: TableModel, body: Any, most: int) -> Any:
    """Rows of an Arrow stream: a matrix where the model reads one, and all columns are of one type, else a frame."""
    if not _reads_numbers(model):
        return arrow_frame(body, most)
    table, wanted = arrow_table(body, most), list(model.fields)
    given = table.schema.names  # the table itself takes longer to say them
    if given != wanted and (hasattr(model.estimator, "feature_names_in_") or set(given) == set(wanted)):
        table = table.select(wanted) if set(wanted) <= set(given) else None
    if table is not None and table.num_columns == len(wanted):
        matrix = matrix_of_arrow(table)
        if matrix is not None:
            return matrix
    return arrow_frame(body, most)


# -------------------------------------------------------------------------------------------------------------- answers


async def _predict(request: Request) -> Response:
    """Label, chance and so on of every row."""
    state, media = request.app.state, _media(request)
    work: Work = state.work
    model, told = state.model, Answering(state.model)
    wanted = _wanted(request, media)
    if media == JSON:
        body = await request.body()
        if _reads_numbers(model) and len(body) > LARGE and body.count(b",") < state.limits.cells:
            found = await work(matrix_of_json, body, len(model.fields))
            if found is not None:
                return await work(_answered_rows, told, *found, wanted)
        value = await _object(request, {"rows": list, "columns": list, "chances": bool}, ("rows",))
        return await (work.small if len(body) < SMALL else work)(_answered, model, told, value, wanted)
    chances = _flag(request, "chances")
    if media == ARROW:
        body = await _whole(request)
        return await work(_answered_arrow, model, told, body, state.limits.cells, chances, wanted)
    body = await request.body()
    if media in TEXTS:
        keep = request.query_params.getlist("keep")
        parts = _answered_parts(told, body, TEXTS[media], chances, keep)
        return await _streamed(work, parts, told, wanted)
    raise Problem(415, f"rows come as {JSON}, {ARROW}, {CSV} or {TSV}; got another content-type.")


async def _whole(request: Request) -> Any:
    """A body, each piece put to its place as it comes: to join those of a large one takes half as long again."""
    stated = request.headers.get("content-length", "")
    if not stated.isdecimal():
        return await request.body()
    body, end = np.empty(int(stated), np.uint8), 0  # no more than a body may have: the guard has looked
    async for piece in request.stream():
        body[end : end + len(piece)] = np.frombuffer(piece, np.uint8)
        end += len(piece)
    return body[:end]


def _wanted(request: Request, media: str) -> str:
    """In which form answers are wanted: as they were asked, if nothing else is said."""
    accepted = request.headers.get("accept", "*/*").lower()
    for form in (JSON, ARROW, CSV, LINES):
        if form in accepted:
            return form
    if "*/*" in accepted or "application/*" in accepted:
        return {ARROW: ARROW, CSV: CSV, TSV: CSV}.get(media, JSON)
    raise Problem(406, f"answers are {JSON}, {ARROW}, {CSV} or {LINES}; none of these is accepted.")


def _flag(request: Request, name: str) -> bool:
    given = request.query_params.get(name, "false")
    if given not in ("true", "false"):
        raise Problem(400, f"{name} is true or false.")
    return given == "true"


def _answered(model: TableModel, told: Answering, value: dict[str, Any], wanted: str) -> Response:
    return _answered_rows(told, _rows(model, value), value.get("chances", False), wanted)


def _answered_arrow(model: TableModel, told: Answering, body: Any, most: int, chances: bool, wanted: str) -> Response:
    return _answered_rows(told, _of_arrow(model, body, most), chances, wanted)


def _answered_rows(told: Answering, rows: Any, chances: bool, wanted: str) -> Response:
    return _written(told, told.answers(rows, chances)[0], wanted)


def _written(told: Answering, answers: Any, wanted: str) -> Response:
    if wanted == ARROW:
        stream = io.BytesIO()
        answers.write_ipc_stream(stream, compression="uncompressed")
        return Response(stream.getvalue(), media_type=ARROW)
    if wanted == CSV:
        return Response(answers.write_csv(), media_type=CSV)
    if wanted == LINES:
        return Response(answers.write_ndjson() + json.dumps(plain(told.as_dict())) + "\n", media_type=LINES)
    more = json.dumps(plain(told.as_dict()), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(f'{{"answers":{answers.write_json()},{more[1:]}', media_type=JSON)


def _answered_parts(told: Answering, body: bytes, format: str, chances: bool, keep: list[str]) -> Iterator[Any]:
    """The answers to a text table, some rows at a time."""
    if body[:2] == b"\x1f\x8b":
        raise Problem(415, "a table must not be compressed; send it as it is.")
    for piece in told.pieces(batches([Source("the table", format, body)]), PIECE, chances):
        if lacking := [name for name in keep if name not in piece.frame.columns]:
            raise Problem(422, f"the table has no column {lacking[0][:80]!r} to keep.")
        yield beside(piece.frame, piece.answers, keep)


async def _streamed(work: Work, parts: Iterator[Any], told: Answering, wanted: str) -> Response:
    """Answers while they are made; the first are waited for, so that what is wrong at once is a problem."""
    if wanted in (JSON, ARROW):
        frame = await work(lambda: polars().concat(list(parts), how="vertical_relaxed"))
        return await work(_written, told, frame, wanted)
    first = await work(next, parts, None)
    if first is None:
        raise Problem(422, "there are no rows.")

    async def pieces() -> AsyncIterator[bytes]:
        part, is_first = first, True
        while part is not None:
            text = part.write_csv(include_header=is_first) if wanted == CSV else part.write_ndjson()
            yield text.encode()
            part, is_first = await work(next, parts, None), False
        if wanted == LINES:
            yield (json.dumps(plain(told.as_dict())) + "\n").encode()

    async def told_at_the_end() -> AsyncIterator[bytes]:
        try:
            async for piece in pieces():
                yield piece
        except (Problem, ValueError) as error:
            if wanted == CSV:
                raise  # half a table must not look like a whole one: the connection breaks
            problem = error if isinstance(error, Problem) else Problem(422, str(error))
            yield (json.dumps(problem.as_dict()) + "\n").encode()

    return StreamingResponse(told_at_the_end(), media_type=wanted)


async def _assess(request: Request) -> Response:
    """All that can be said of one case."""
    value = await _object(request, {"case": dict}, ("case",))
    state = request.app.state
    return answer(await state.work(state.model.assess, value["case"]))


async def _change(request: Request) -> Response:
    """The least change that would alter the label."""
    value = await _object(request, {"case": dict, "locked": list}, ("case",))
    locked = value.get("locked", [])
    if not all(isinstance(name, str) for name in locked):
        raise Problem(400, "locked is a list of names of columns.")
    state = request.app.state
    return answer({"change": await state.work(state.model.least_change, value["case"], locked)})


async def _evaluate(request: Request) -> Response:
    """A labelled table, as `multiform evaluate --json`."""
    state, media = request.app.state, _media(request)
    target = request.query_params.get("target")
    if media == JSON:
        value = await _object(request, {"rows": list, "columns": list, "target": str}, ("rows",))
        target = value.get("target", target)
        frame = await state.work(_rows, state.model, value, False)
    elif media in (CSV, TSV, ARROW):
        frame = await state.work(table_of, await request.body(), media, state.limits.cells)
    else:
        raise Problem(415, f"rows come as {JSON}, {ARROW}, {CSV} or {TSV}; got another content-type.")
    return answer(await state.work(state.model.evaluate, frame, target))


def table_of(body: bytes, media: str, most: int) -> Any:
    """A whole table that was sent, as a frame."""
    if media == ARROW:
        return arrow_frame(body, most)
    if body[:2] == b"\x1f\x8b":
        raise Problem(415, "a table must not be compressed; send it as it is.")
    return polars().concat([batch.frame for batch in batches([Source("the table", TEXTS[media], body)])])


# ---------------------------------------------------------------------------------------------------------------- cases


async def _begin(request: Request) -> Response:
    """A new case, with results that are known already, or one that was kept."""
    value = await _object(request, {"session": dict, "evidence": dict, "insist": bool})
    state = request.app.state

    def begun() -> dict[str, Any]:
        case = state.sessions.new(json.dumps(value["session"]) if "session" in value else None)
        try:
            with state.sessions.at(case.id):
                for test, result in value.get("evidence", {}).items():
                    case.session.observe(test, result, insist=value.get("insist", False))
                return dict(case.as_dict())
        except ValueError:
            state.sessions.drop(case.id)
            raise

    told = await state.work(begun)
    return answer(told, 201, {"location": f"/v1/sessions/{told['id']}"})


async def _where(request: Request) -> Response:
    def where() -> dict[str, Any]:
        with request.app.state.sessions.at(request.path_params["id"]) as case:
            return dict(case.as_dict())

    return answer(await request.app.state.work(where))


async def _file(request: Request) -> Response:
    """The case as `multiform diagnose --session` keeps it."""

    def written() -> str:
        with request.app.state.sessions.at(request.path_params["id"]) as case:
            return str(case.session.to_json())

    named = {"content-disposition": 'attachment; filename="case.json"'}
    return Response(await request.app.state.work(written), headers=named, media_type=JSON)


async def _end(request: Request) -> Response:
    request.app.state.sessions.drop(request.path_params["id"])
    return Response(status_code=204)


HAPPENINGS: dict[str, tuple[dict[str, Any], tuple[str, ...], Callable[[Any, dict[str, Any]], Any]]] = {
    "observe": (
        {"test": str, "values": object, "insist": bool},
        ("test", "values"),
        lambda session, given: session.observe(given["test"], given["values"], given.get("insist", False)),
    ),
    "correct": (
        {"test": str, "values": object, "insist": bool},
        ("test", "values"),
        lambda session, given: session.correct(given["test"], given["values"], given.get("insist", False)),
    ),
    "order": ({"tests": list}, (), lambda session, given: session.order(*map(str, given.get("tests", ())))),
    "not_available": ({"test": str}, ("test",), lambda session, given: session.not_available(given["test"])),
    "undo": ({}, (), lambda session, given: session.undo()),
}


def _happened(name: str) -> Callable[[Request], Awaitable[Response]]:
    allowed, needed, happens = HAPPENINGS[name]

    async def endpoint(request: Request) -> Response:
        given = await _object(request, {**allowed, "version": int}, needed)

        def changed() -> dict[str, Any]:
            with request.app.state.sessions.at(request.path_params["id"], given.get("version")) as case:
                happens(case.session, given)
                case.version += 1
                return dict(case.as_dict())

        return answer(await request.app.state.work(changed))

    endpoint.__name__ = name
    return endpoint
