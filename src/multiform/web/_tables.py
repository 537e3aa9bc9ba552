"""The pages of a table: it is sent, answered a piece at a time in the background, shown, and downloaded.

A table is in memory alone, under a random name, with its answers; few are kept, and the oldest make room.
"""

from __future__ import annotations

import asyncio
import io
import secrets
from base64 import b64encode
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from multiform.columns import polars
from multiform.tables import Familiarity, Source, TableError, batches, without_formulas
from multiform.web._guard import form_of
from multiform.web._model import TableModel
from multiform.web._problems import Problem
from multiform.web._render import FRAMING, Renderer, attachment, form_with_file
from multiform.web._words import Words, short

MOST_TABLES = 4  # that are kept
MOST_ROWS = 1_000_000
MOST_BYTES = 2**28  # of text, unpacked: a small file can hold much
PIECE = 5_000  # rows that are answered at a time
MOST_SHOWN = 20  # rows, and labels
MOST_NOTES = 10
LARGE = f"A table on the page may have {MOST_ROWS:,} rows and {MOST_BYTES >> 20} MB of text, unpacked;"
TITLES = {"label": "label", "chance": "chance", "loyalty": "type", "accepted": "accepted", "unfamiliar": "unfamiliar"}
SUFFIXES = {"csv": "csv", "txt": "csv", "tsv": "tsv", "tab": "tsv", "parquet": "parquet", "pq": "parquet"}


@dataclass
class Answered:
    """A table and its answers, as far as they are there."""

    name: str
    target: str | None
    rows: int = 0
    size: int = 0
    share: float | None = 0.0
    done: bool = False
    failed: str = ""
    labels: Counter[str] = field(default_factory=Counter)
    known: Familiarity = field(default_factory=Familiarity)
    pieces: list[bytes] = field(default_factory=list)  # of the file to download
    first: Any = None  # rows that are shown
    frames: list[Any] = field(default_factory=list)  # what the report needs
    report: str = ""
    report_notes: list[str] = field(default_factory=list)
    no_report: str = ""
    task: asyncio.Task[None] | None = None

    @property
    def is_labelled(self) -> bool:
        return self.target is not None

    @property
    def waits_for_report(self) -> bool:
        return self.done and not self.failed and self.is_labelled and not (self.report or self.no_report)


def table_routes(model: TableModel, render: Renderer) -> list[Route]:
    """The addresses of the pages of tables."""
    pages = _Tables(model, render)
    return [
        Route("/table", pages.begin, methods=["GET"]),
        Route("/table", pages.send, methods=["POST"]),
        Route("/tables/{id}", pages.look, methods=["GET"]),
        Route("/tables/{id}", pages.drop, methods=["POST"]),
        Route("/tables/{id}/progress", pages.progress),
        Route("/tables/{id}/answers.csv", pages.download),
        Route("/tables/{id}/report", pages.report),
        Route("/tables/{id}/report.html", pages.report),
    ]


class _Tables:
    def __init__(self, model: TableModel, render: Renderer) -> None:
        self.model, self.render = model, render
        self._kept: OrderedDict[str, Answered] = OrderedDict()

    # ------------------------------------------------------------------------------------------------------- asked

    async def begin(self, request: Request) -> Response:
        """Where a table is dropped."""
        return self.render(request, "table.html", table=None, size=request.app.state.limits.body_bytes, view="table")

    async def send(self, request: Request) -> Response:
        """A table: it is answered while its page already shows how far it is."""
        form, name, content = await form_with_file(request, "table")
        plain_name = name.lower().removesuffix(".gz")
        format = SUFFIXES.get(plain_name.rpartition(".")[2])
        if format is None:
            raise Problem(415, f"{short(name)}: the name does not say what is in it; name it .csv, .tsv or .parquet.")
        if format == "parquet":
            await request.app.state.work(_check_rows, name, content)
        table = Answered(short(name), form.get("target", "").strip() or None)
        id = secrets.token_urlsafe(18)
        self._kept[id] = table
        while len(self._kept) > MOST_TABLES:
            self._forget(next(iter(self._kept)))
        table.task = asyncio.create_task(self._answered(request.app.state.work, table, Source(name, format, content)))
        return RedirectResponse(f"/tables/{id}", 303)

    async def look(self, request: Request) -> Response:
        """How far a table is, or its answers."""
        id, words = request.path_params["id"], self.render.words(request)
        table = self._of(id)
        told = {"table": table, "id": id, "view": "table", "running": not table.done or table.waits_for_report}
        headers = FRAMING if table.report else {}
        return self.render(request, "answered.html", headers=headers, **told, **self._shown(table, words))

    async def progress(self, request: Request) -> Response:
        """How far a table is, for the script of its page."""
        table, words = self._of(request.path_params["id"]), self.render.words(request)
        told = (
            words("report_making")
            if table.done
            else words("rows_done", n=table.rows)
            if table.rows
            else words("reading")
        )
        done = table.done and not table.waits_for_report
        return JSONResponse({"done": done, "rows": table.rows, "share": table.share, "told": told})

    async def download(self, request: Request) -> Response:
        """The table with the answers beside, as CSV that a spreadsheet program runs nothing of."""
        table = self._of(request.path_params["id"])
        if not table.done or table.failed:
            raise Problem(409, "the table is not answered yet.")
        return Response(b"".join(table.pieces), 200, attachment("answers.csv"), "text/csv; charset=utf-8")

    async def report(self, request: Request) -> Response:
        """The report, whose one style sheet is allowed by its hash; to save, or in a frame of the table's page."""
        table = self._of(request.path_params["id"])
        if not table.report:
            raise Problem(404, "there is no report of this table.")
        style = table.report.partition("<style>")[2].partition("</style>")[0]
        hashed = b64encode(sha256(style.encode()).digest()).decode()
        policy = (
            f"default-src 'none'; style-src 'sha256-{hashed}'; img-src data:; base-uri 'none'; frame-ancestors 'self'"
        )
        headers = {"content-security-policy": policy, "x-frame-options": "SAMEORIGIN"}
        saved = attachment("report.html") if request.scope["path"].endswith(".html") else {}
        return HTMLResponse(table.report, headers=headers | saved)

    async def drop(self, request: Request) -> Response:
        """Forget a table."""
        await form_of(request)
        self._of(request.path_params["id"])
        self._forget(request.path_params["id"])
        return RedirectResponse("/table", 303)

    # -------------------------------------------------------------------------------------------------------- done

    def _of(self, id: str) -> Answered:
        if id not in self._kept:
            raise Problem(
                404, "there is no such table: it was deleted, or the server was started anew.", "no-such-case"
            )
        return self._kept[id]

    def _forget(self, id: str) -> None:
        table = self._kept.pop(id)
        if table.task is not None:
            table.task.cancel()

    async def _answered(self, work: Any, table: Answered, source: Source) -> None:
        """Answer the rows, a piece at a time, so that others are heard in between."""
        try:
            async for frame in _pieces(work, source):
                await work(self._answer, table, frame)
            table.done = True
            if table.is_labelled:
                await self._reported(work, table)
        except (ValueError, MemoryError) as error:
            table.failed, table.done = str(error) or "there is not enough memory for it.", True
        finally:
            table.frames.clear()

    def _answer(self, table: Answered, piece: tuple[Any, float | None]) -> None:
        pl, (frame, share) = polars(), piece
        if not table.rows and table.target is None and self.model.target in frame.columns:
            table.target = self.model.target
        if table.target is not None and table.target not in frame.columns:
            raise TableError(f"The table has no column {table.target!r} with the truth.")
        texts = frame.select(pl.col(pl.String).str.len_bytes().sum())
        table.size += int(sum(size or 0 for size in texts.row(0)) if texts.width else 0)
        if table.rows + len(frame) > MOST_ROWS or table.size > MOST_BYTES:
            raise TableError(f"{LARGE} `multiform predict` takes larger ones.")
        answers, known = self.model.answers(frame)
        taken = {name: f"{name} given" for name in answers.columns if name in frame.columns}
        told = without_formulas(frame.rename(taken).hstack(answers))
        text = told.write_csv(include_header=not table.pieces, quote_style="non_numeric")
        table.pieces.append(text.encode("utf-8"))
        table.labels.update(dict(answers["label"].cast(pl.String).value_counts().rows()))
        table.known += known.counted()
        if table.first is None:
            table.first = answers.head(MOST_SHOWN)
        if table.is_labelled:
            table.frames.append(frame)
        table.rows += len(frame)
        table.share = share

    async def _reported(self, work: Any, table: Answered) -> None:
        frame = polars().concat(table.frames, how="vertical_relaxed")
        try:
            table.report, table.report_notes = await work(self.model.report, frame, table.target)
        except (ValueError, ImportError, MemoryError) as error:
            table.no_report = str(error)

    def _shown(self, table: Answered, words: Words) -> dict[str, Any]:
        """What the page shows of the answers."""
        if not table.done or table.failed:
            return {"labels": [], "rows": [], "columns": [], "notes": []}
        rows = table.first.to_dicts()
        columns = [name for name in table.first.columns if any(row[name] is not None for row in rows)]
        return {
            "labels": [(label, n, n / table.rows) for label, n in table.labels.most_common(MOST_SHOWN)],
            "columns": [words(TITLES[name]) if name in TITLES else name for name in columns],
            "rows": [[_cell(name, row[name], words) for name in columns] for row in rows],
            "notes": table.known.sentences()[:MOST_NOTES],
        }


def _cell(name: str, value: Any, words: Words) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return words("true" if value else "false")
    if name == "chance":
        return words.percent(value)
    if name == "loyalty" and value in ("strong", "normal", "weak"):
        return words(f"loyalty_{value}")
    return short(value, 200)


async def _pieces(work: Any, source: Source) -> AsyncIterator[tuple[Any, float | None]]:
    """The rows of a table, some at a time, and how much of it has been read by then."""
    found = batches([source])
    before = 0.0
    while (batch := await work(_next, found)) is not None:
        n = len(batch.frame)
        for start in range(0, n, PIECE):
            share = None
            if batch.share is not None:
                share = before + (batch.share - before) * min(1.0, (start + PIECE) / n)
            yield batch.frame.slice(start, PIECE), share
        before = batch.share or 0.0


def _check_rows(name: str, content: bytes) -> None:
    """Refuse a Parquet file that says that it has too many rows, before they are made."""
    import pyarrow  # type: ignore[import-untyped]
    import pyarrow.parquet  # type: ignore[import-untyped]

    try:
        rows = pyarrow.parquet.read_metadata(io.BytesIO(content)).num_rows
    except (pyarrow.ArrowException, OSError) as error:
        raise Problem(422, f"{short(name)} cannot be read as parquet.") from error
    if rows > MOST_ROWS:
        raise Problem(413, f"{LARGE} `multiform predict` takes larger ones.")


def _next(found: Iterator[Any]) -> Any:
    return next(found, None)
