"""The pages of a table: it is sent, answered a piece at a time in the background, shown, and downloaded.

A table is in memory alone, under a random name, with its answers; few are kept, and the oldest make room.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from multiform.columns import polars
from multiform.tables import Source, TableError, without_formulas
from multiform.web._answering import MOST_NOTES, Answering, Piece, beside
from multiform.web._dropped import SUFFIXES, rows_of, source_of
from multiform.web._forms import Form
from multiform.web._guard import LOG, form_of, place_of
from multiform.web._kept import Kept
from multiform.web._model import TableModel
from multiform.web._problems import Problem
from multiform.web._render import FRAMING, Renderer, attachment, form_with_file
from multiform.web._report import in_words
from multiform.web._words import Words, short

MOST_TABLES = 4  # that are kept
PIECE = 5_000  # rows that are answered at a time
MOST_SHOWN = 20  # rows, and labels
TITLES = {"label": "label", "chance": "chance", "loyalty": "type", "accepted": "accepted", "unfamiliar": "unfamiliar"}


@dataclass
class Answered:
    """A table and its answers, as far as they are there."""

    name: str
    target: str | None
    told: Answering
    share: float | None = 0.0
    done: bool = False
    failed: str = ""
    pieces: list[bytes] = field(default_factory=list)  # of the file to download
    first: Any = None  # rows that are shown, and what in them is unlike training
    strange: Any = None
    notes: tuple[str, ...] = ()  # of how it was read
    frames: list[Any] = field(default_factory=list)  # what the report needs
    figures: dict[str, Any] | None = None  # how the answers do beside the truth
    report: str = ""
    report_notes: list[str] = field(default_factory=list)
    no_report: str = ""
    task: asyncio.Task[None] | None = None

    @property
    def rows(self) -> int:
        return self.told.rows

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
        self.form = Form(model.fields, model.seen)
        self._kept: Kept[Answered] = Kept(MOST_TABLES, _forgotten)

    # ------------------------------------------------------------------------------------------------------- asked

    async def begin(self, request: Request) -> Response:
        """Where a table is dropped."""
        told = {"table": None, "size": request.app.state.limits.body_bytes, "view": "table"}
        return self.render(request, "table.html", suffixes=",".join([*SUFFIXES, ".gz"]), **told)

    async def send(self, request: Request) -> Response:
        """A table: it is answered while its page already shows how far it is."""
        form, name, content = await form_with_file(request, "table")
        source = source_of(name, content)
        table = Answered(short(name), form.get("target", "").strip() or None, Answering(self.model))
        id = self._kept.add(table)
        table.task = asyncio.create_task(self._answered(request.app.state.work, table, source))
        return RedirectResponse(f"/tables/{id}", 303)

    async def look(self, request: Request) -> Response:
        """How far a table is, or its answers."""
        id, words = request.path_params["id"], self.render.words(request)
        table = self._kept[id]
        told = {"table": table, "id": id, "view": "table", "running": not table.done or table.waits_for_report}
        headers = FRAMING if table.report else {}
        return self.render(request, "answered.html", headers=headers, **told, **self._shown(table, words))

    async def progress(self, request: Request) -> Response:
        """How far a table is, for the script of its page."""
        table, words = self._kept[request.path_params["id"]], self.render.words(request)
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
        table = self._kept[request.path_params["id"]]
        if not table.done or table.failed:
            raise Problem(409, "the table is not answered yet.")
        return Response(b"".join(table.pieces), 200, attachment("answers.csv"), "text/csv; charset=utf-8")

    async def report(self, request: Request) -> Response:
        """The report, whose one style sheet is allowed by its hash; to save, or in a frame of the table's page."""
        table = self._kept[request.path_params["id"]]
        if not table.report:
            raise Problem(404, "there is no report of this table.")
        document = in_words(table.report, self.render.words(request))
        style = document.partition("<style>")[2].partition("</style>")[0]
        hashed = b64encode(sha256(style.encode()).digest()).decode()
        policy = (
            f"default-src 'none'; style-src 'sha256-{hashed}'; img-src data:; base-uri 'none'; frame-ancestors 'self'"
        )
        headers = {"content-security-policy": policy, "x-frame-options": "SAMEORIGIN"}
        saved = attachment("report.html") if request.scope["path"].endswith(".html") else {}
        return HTMLResponse(document, headers=headers | saved)

    async def drop(self, request: Request) -> Response:
        """Forget a table."""
        await form_of(request)
        self._kept.drop(request.path_params["id"])
        return RedirectResponse("/table", 303)

    # -------------------------------------------------------------------------------------------------------- done

    async def _answered(self, work: Any, table: Answered, source: Source) -> None:
        """Answer the rows, a piece at a time, so that others are heard in between."""
        pieces = table.told.pieces(rows_of(source), PIECE, target=table.target)
        try:
            while (piece := await work(next, pieces, None)) is not None:
                await work(self._take, table, piece)
            table.done = True
            if table.is_labelled:
                await self._reported(work, table)
        except (ValueError, ImportError, MemoryError) as error:
            table.failed = str(error) or "There is not enough memory for it."
        except Exception as error:  # nobody waits for it
            LOG.error("%s in %s", type(error).__name__, place_of(error))
            table.failed = "this should not happen; the server's log says where, please report it."
        finally:
            table.done = True
            table.frames.clear()

    def _take(self, table: Answered, piece: Piece) -> None:
        """Keep what the page shows of a piece, and the lines of the file to download."""
        pl, frame = polars(), piece.frame
        if table.first is None:
            table.notes = piece.notes
            table.first = piece.answers.head(MOST_SHOWN)
            table.strange = piece.found.cells.filter(pl.col("row") < MOST_SHOWN).to_dicts()
            if table.target is None and self.model.target in frame.columns:
                table.target = self.model.target
            if table.target is not None and table.target not in frame.columns:
                raise TableError(f"The table has no column {table.target!r} with the truth.")
        told = without_formulas(beside(frame, piece.answers, frame.columns))
        text = told.write_csv(include_header=not table.pieces, quote_style="non_numeric")
        table.pieces.append(text.encode("utf-8"))
        if table.is_labelled:
            table.frames.append(frame)
        table.share = piece.share

    async def _reported(self, work: Any, table: Answered) -> None:
        frame = polars().concat(table.frames, how="vertical_relaxed")
        try:
            table.figures = await work(self.model.evaluate, frame, table.target)
            table.report, table.report_notes = await work(self.model.report, frame, table.target)
        except (ValueError, ImportError, MemoryError) as error:
            table.no_report = str(error)

    def _shown(self, table: Answered, words: Words) -> dict[str, Any]:
        """What the page shows of the answers."""
        if not table.done or table.failed:
            return {"labels": [], "rows": [], "columns": [], "notes": [], "reading_notes": [], "report_notes": []}
        rows = table.first.to_dicts()
        for row in rows if "unfamiliar" in table.first.columns else ():
            row["unfamiliar"] = None
        for cell in table.strange:
            told = self.form.unlike("unlike_cell", cell["column"], cell["value"], words)
            row = rows[cell["row"]]
            row["unfamiliar"] = told if row.get("unfamiliar") is None else f"{row['unfamiliar']}; {told}"
        columns = [name for name in table.first.columns if any(row[name] is not None for row in rows)]
        return {
            "labels": [(label, n, n / table.rows) for label, n in table.told.labels.most_common(MOST_SHOWN)],
            "columns": [words(TITLES[name]) if name in TITLES else name for name in columns],
            "rows": [[_cell(name, row[name], words) for name in columns] for row in rows],
            "notes": self._notes(table, words)[:MOST_NOTES],
            "reading_notes": [words.said(note) for note in table.notes],
            "report_notes": [words.said(note) for note in table.report_notes],
        }

    def _notes(self, table: Answered, words: Words) -> list[str]:
        """What `Familiarity.sentences` says, in the words of the page."""
        known, shifted = table.told.known, dict[str, list[str]]()
        for one in known.shifts:
            p = words("p_value", p=float(f"{one.p_value:.1g}")) if one.p_value else words("p_tiny")
            told = words.translated(one.sentence, seen=self.form.had(one.column, words)) or one.sentence
            shifted.setdefault(one.column, []).append(f"{told} ({p})")
        return [
            *(f"{words('shifted', name=name)} {'; '.join(told)}." for name, told in shifted.items()),
            *(
                words("cells_unlike", n=tally.n_unfamiliar)
                + " "
                + self.form.unlike("unlike", name, tally.example, words)
                for name, tally in known.tallies.items()
                if tally.n_unfamiliar and name not in shifted
            ),
        ]


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


def _forgotten(table: Answered) -> None:
    if table.task is not None:
        table.task.cancel()
