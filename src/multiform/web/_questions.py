"""The pages of a classifier: one case, what holds its answer, what would alter it, and two cases side by side.

A case that was asked about is kept as it is, under a random name; another question about it is another case. So going
back shows what was there, and two cases can be compared by their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from multiform.web._forms import Entry, Form, filled, shown, typed
from multiform.web._guard import form_of
from multiform.web._kept import Kept
from multiform.web._model import TableModel
from multiform.web._picture import colours
from multiform.web._render import Renderer, to_the_start
from multiform.web._words import Words

MOST_KEPT = 1_000  # questions; the oldest make room
MOST_FIELDS = 200  # columns in a form
MOST_DECIDING, LEAST_SIZE = 12, 0.0005  # columns that are shown to hold a decision, and what they must at least do


@dataclass(frozen=True)
class Question:
    """A case that was asked about: its cells by column, and the columns that cannot change."""

    values: dict[str, Any]
    locked: tuple[str, ...] = ()


def question_routes(model: TableModel, render: Renderer) -> list[Route]:
    """The addresses of a classifier's pages."""
    pages = _Questions(model, render)
    return [
        Route("/", pages.begin),
        Route("/cases", to_the_start, methods=["GET"]),
        Route("/cases", pages.ask, methods=["POST"]),
        Route("/cases/{id}", pages.answer),
        Route("/cases/{id}/locks", pages.lock, methods=["POST"]),
        Route("/cases/{id}/compare", pages.beside, methods=["GET"]),
        Route("/cases/{id}/compare", pages.ask, methods=["POST"]),
        Route("/compare/{id}/{other}", pages.compare),
    ]


class _Questions:
    def __init__(self, model: TableModel, render: Renderer) -> None:
        self.model, self.render = model, render
        self.form = Form(model.fields, model.seen)
        self.kept: Kept[Question] = Kept(MOST_KEPT)

    # ------------------------------------------------------------------------------------------------------- asked

    async def begin(self, request: Request) -> Response:
        """An empty form."""
        words = self.render.words(request)
        return self.render(request, "question.html", **self.told(self.entries(words)))

    async def ask(self, request: Request) -> Response:
        """A case that was filled in; beside another where it is to be compared."""
        form, words, other = await form_of(request), self.render.words(request), request.path_params.get("id")
        first = None if other is None else self.kept[other]
        found = [typed(entry, form, words) for entry in self.entries(words)]
        entries = [entry for entry, _ in found]
        values, reason = {entry.name: value for entry, value in found}, ""
        if not any(entry.mend for entry in entries):
            try:
                await request.app.state.work(self.model.assess, values)
            except ValueError as error:  # a number, say, that no model can read
                reason = str(error)
        if reason or any(entry.mend for entry in entries):
            told = self.told(entries) | {"reason": reason}
            if other is not None and first is not None:
                told = await self._beside(request, other, first, entries) | {"reason": reason}
            return self.render(request, "question.html" if first is None else "beside.html", **told)
        id = self.kept.add(Question(values, () if first is None else first.locked))
        return RedirectResponse(f"/cases/{id}#answer" if other is None else f"/compare/{other}/{id}", 303)

    async def answer(self, request: Request) -> Response:
        """The answer to a case, and what there is to say about it."""
        words, id = self.render.words(request), request.path_params["id"]
        question = self.kept[id]
        answer = await request.app.state.work(self.assessed, question, words)
        change = await request.app.state.work(self.changed, question, words)
        entries = [filled(entry, question.values.get(entry.name), words) for entry in self.entries(words)]
        told = self.told(entries) | {"case_id": id, "answer": answer, "change": change, "locked": question.locked}
        return self.render(request, "question.html", **told)

    async def lock(self, request: Request) -> Response:
        """The same case, with other columns locked."""
        form, question = await form_of(request), self.kept[request.path_params["id"]]
        locked = tuple(name for number, name in enumerate(self.model.fields) if form.get(f"lock-f{number}") == "yes")
        return RedirectResponse(f"/cases/{self.kept.add(replace(question, locked=locked))}#change", 303)

    async def beside(self, request: Request) -> Response:
        """A second case, filled in as the first."""
        id = request.path_params["id"]
        return self.render(request, "beside.html", **await self._beside(request, id, self.kept[id], None))

    async def _beside(self, request: Request, id: str, first: Question, entries: list[Entry] | None) -> dict[str, Any]:
        words = self.render.words(request)
        if entries is None:
            entries = [filled(entry, first.values.get(entry.name), words) for entry in self.entries(words)]
        answer = await request.app.state.work(self.assessed, first, words)
        cells = [(entry.label, shown(entry, first.values.get(entry.name), words)) for entry in entries]
        return self.told(entries) | {"case_id": id, "answer": answer, "cells": cells}

    async def compare(self, request: Request) -> Response:
        """Two cases side by side."""
        words = self.render.words(request)
        ids = [request.path_params["id"], request.path_params["other"]]
        questions = [self.kept[id] for id in ids]
        answers = [await request.app.state.work(self.assessed, question, words) for question in questions]
        rows = []
        for entry in self.entries(words):
            cells = [shown(entry, question.values.get(entry.name), words) for question in questions]
            rows.append({"label": entry.label, "cells": cells, "differs": cells[0] != cells[1]})
        return self.render(request, "compare.html", ids=ids, answers=answers, rows=rows, view="case")

    # -------------------------------------------------------------------------------------------------------- told

    def entries(self, words: Words) -> list[Entry]:
        """The form."""
        return self.form.entries(words) if len(self.model.fields) <= MOST_FIELDS else []

    def told(self, entries: Sequence[Entry]) -> dict[str, Any]:
        """What the page of a form shows before there is an answer."""
        wrong = [entry.key for entry in entries if entry.mend]
        told = {"case_id": "", "answer": None, "change": None, "locked": (), "view": "case", "reason": ""}
        return told | {
            "entries": entries,
            "mend": bool(wrong),
            "focus": next(iter(wrong), ""),
            "n_columns": len(self.model.fields),
        }

    def assessed(self, question: Question, words: Words) -> dict[str, Any]:
        """The answer, as a page shows it."""
        told = self.model.assess(question.values)
        numbered = dict(colours(self.model.classes))
        chances = sorted(told["chances"].items(), key=lambda one: -one[1])
        sizes = {one["column"]: one["change"] for one in told["deciding"]}
        deciding = [one for one in sizes.items() if abs(one[1]) >= LEAST_SIZE][:MOST_DECIDING]
        largest = max([abs(size) for _, size in deciding], default=1.0)
        chance = told["chances"].get(str(told["label"]), told["chance"])
        known = {entry.name: entry for entry in self.entries(words)}
        return {
            "label": str(told["label"]),
            "chance": told["chance"],
            "chances": [(label, chance, numbered[label]) for label, chance in chances],
            "loyalty": told.get("loyalty"),
            "accepted": told.get("accepted"),
            "unfamiliar": told.get("unfamiliar"),
            "trust": told.get("trust"),
            "trust_needed": told.get("trust_needed"),
            "notes": [
                *(
                    self.form.unlike("taken_as_unknown", cell["column"], cell["value"], words)
                    for cell in told["unfamiliar_cells"]
                ),
                *self.form.outside(question.values, words, [cell["column"] for cell in told["unfamiliar_cells"]]),
            ],
            "knows_deciding": bool(self.model.model.looks),
            "deciding": [
                {
                    "label": known[name].label,
                    "value": shown(known[name], question.values.get(name), words),
                    "speaks_for": size > 0,
                    "size": 50 * abs(size) / largest,
                    "told": words.percent(min(1.0, max(0.0, chance - size))),
                }
                for name, size in deciding
            ],
        }

    def changed(self, question: Question, words: Words) -> dict[str, Any] | None:
        """The least change that would alter the answer."""
        found = self.model.least_change(question.values, question.locked)
        if found is None:
            return None
        known = {entry.name: entry for entry in self.entries(words)}
        rows = [
            {
                "label": known[one["column"]].label,
                "from": shown(known[one["column"]], one["from"], words),
                "to": shown(known[one["column"]], one["to"], words),
            }
            for one in found["changes"]
        ]
        return {"label": str(found["label"]), "chance": found.get("chance"), "rows": rows}
