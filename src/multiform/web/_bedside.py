"""The pages of a plan: one patient, one test after the other, by the session that ``multiform diagnose`` uses, too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from multiform.diagnosis import DiagnosisSession
from multiform.web._forms import Entry, Form, filled, shown, typed
from multiform.web._guard import form_of
from multiform.web._model import PlanModel
from multiform.web._picture import colours, path_picture
from multiform.web._problems import Problem
from multiform.web._render import Renderer, attachment, form_with_file, to_the_start, whole
from multiform.web._sessions import Case, Sessions
from multiform.web._words import Words, as_sentence

Entries = dict[str, Entry]
MOST_CASES = 50  # open ones that are listed


def bedside_routes(model: PlanModel, sessions: Sessions, render: Renderer) -> list[Route]:
    """The addresses of a plan's pages."""
    bedside = _Bedside(model, sessions, render)
    return [
        Route("/", bedside.begin),
        Route("/cases", to_the_start, methods=["GET"]),
        Route("/cases", bedside.first, methods=["POST"]),
        Route("/cases/file", bedside.open, methods=["POST"]),
        Route("/cases/{id}", bedside.look, methods=["GET"]),
        Route("/cases/{id}", bedside.change, methods=["POST"]),
        Route("/cases/{id}/summary", bedside.summary),
        Route("/cases/{id}/session.json", bedside.download),
    ]


class _Bedside:
    def __init__(self, model: PlanModel, sessions: Sessions, render: Renderer) -> None:
        self.model, self.sessions, self.render = model, sessions, render
        self.form = Form(model.fields, model.planner.seen_, optional=True)
        self.tests: list[str] = list(model.tests)

    # ------------------------------------------------------------------------------------------------------- asked

    async def begin(self, request: Request) -> Response:
        """A new patient. The case exists as soon as something is known of it."""
        words = self.render.words(request)

        def told() -> dict[str, Any]:
            with self.sessions.blank() as case:
                return self.told(case, words) | {"open_cases": self.open_cases(words)}

        return self.render(request, "case.html", **await request.app.state.work(told))

    async def first(self, request: Request) -> Response:
        """The first entry of a new patient."""
        return await self._changed(request, None)

    async def change(self, request: Request) -> Response:
        """An entry, a correction, one step back, or the end of a case."""
        return await self._changed(request, request.path_params["id"])

    async def _changed(self, request: Request, id: str | None) -> Response:
        form, words = await form_of(request), self.render.words(request)

        def changed() -> str | dict[str, Any]:
            known = self.sessions.new().id if id is None else id
            with self.sessions.at(known) as case:
                if id is not None and whole(form, "version") != case.version:
                    return f"/cases/{known}?changed"
                if id is not None and form.get("action") == "delete":
                    self.sessions.drop(id)
                    return "/"
                try:
                    mend = self.act(case, form, words)
                except ValueError as error:  # what a session refuses: the page says so, and shows where the case stands
                    told = self.told(case, words) | {"status": 422, "notice": as_sentence(words.said(str(error)))}
                else:
                    if not mend:
                        case.version += 1
                        return f"/cases/{known}"
                    place = form["action"], self.test(form) if form["action"] == "correct" else None
                    told = self.told(case, words, mend, place)
            if id is None:  # nothing came of it: there is no case yet
                self.sessions.drop(known)
                told |= {"case_id": "", "open_cases": []}
            return told

        found = await request.app.state.work(changed)
        if isinstance(found, str):
            return RedirectResponse(found, 303)
        return self.render(request, "case.html", **found)

    async def look(self, request: Request) -> Response:
        """Where a case stands; ``?correct=3`` opens the correction of test 3, ``?changed`` says a form was late."""
        words, id, asked = (
            self.render.words(request),
            request.path_params["id"],
            request.query_params.get("correct", ""),
        )

        def told() -> dict[str, Any]:
            with self.sessions.at(id) as case:
                test = self.tests[int(asked)] if asked.isdecimal() and int(asked) < len(self.tests) else None
                known = test in case.session.bill and test not in case.session.pending
                notice = words("changed_meanwhile") if "changed" in request.query_params else ""
                return self.told(case, words, place=("correct", test) if known else None) | {"notice": notice}

        return self.render(request, "case.html", **await request.app.state.work(told))

    async def summary(self, request: Request) -> Response:
        """The record of a case, to print."""
        words, id = self.render.words(request), request.path_params["id"]

        def told() -> dict[str, Any]:
            with self.sessions.at(id) as case:
                return self.told(case, words)

        now = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M")
        return self.render(request, "summary.html", time=now, **await request.app.state.work(told))

    async def download(self, request: Request) -> Response:
        """The session, to go on with tomorrow."""
        id = request.path_params["id"]

        def written() -> str:
            with self.sessions.at(id) as case:
                return case.session.to_json()

        return Response(await request.app.state.work(written), 200, attachment("case.json"), "application/json")

    async def open(self, request: Request) -> Response:
        """Go on with a session that was downloaded."""
        _, _, content = await form_with_file(request, "session")
        try:
            case = await request.app.state.work(self.sessions.new, content.decode("utf-8", "replace") or "{}")
        except ValueError as error:
            raise Problem(422, str(error), "session-refused") from error
        return RedirectResponse(f"/cases/{case.id}", 303)

    # -------------------------------------------------------------------------------------------------------- done

    def act(self, case: Case, form: Mapping[str, str], words: Words) -> Entries:
        """Do what a form asks for; what must be mended first is returned, and then nothing was done."""
        session, action = case.session, form.get("action", "")
        if action == "undo":
            session.undo()
        elif action == "remove":
            events = json.loads(session.to_json())
            if not whole(form, "event") < len(events["events"]):
                raise Problem(400, "the form cannot be read.")
            del events["events"][whole(form, "event")]
            case.session = DiagnosisSession.from_json(self.model.planner, json.dumps(events))
        elif action == "order":
            session.order()
        elif action == "ordered":
            session.order(self.test(form))
        elif action in ("skip", "unavailable"):
            test = self.test(form)
            session.observe(test, None) if action == "skip" else session.not_available(test)
        elif action in ("observe", "correct"):
            test = self.test(form)
            values, mend = self.read([test], form, words, required=True)
            if mend:
                return mend
            happened = session.observe if action == "observe" else session.correct
            happened(test, values[test], insist=True)
        elif action == "known":
            values, mend = self.read(self.waiting(session), form, words, required=False)
            if mend:
                return mend
            for test, found in values.items():
                session.observe(test, found, insist=True)
        else:
            raise Problem(400, "the form cannot be read.")
        return {}

    def test(self, form: Mapping[str, str]) -> str:
        """The test that a form is about."""
        if form.get("test") == "":
            raise ValueError("choose the test first.")
        number = whole(form, "test")
        if number >= len(self.tests):
            raise Problem(400, "the form cannot be read.")
        return self.tests[number]

    def read(
        self, tests: list[str], form: Mapping[str, str], words: Words, required: bool
    ) -> tuple[dict[str, dict[str, Any]], Entries]:
        """The results of tests, by test and feature, and all entries if one of them must be mended.

        A test of which nothing was typed has none; where results are `required`, that must be mended, too.
        """
        session, found, entries = self.model.planner.start(), {}, {}
        for test in tests:
            values: dict[str, Any] = {}
            for name in self.model.tests[test]:
                entries[name], values[name] = typed(self.form.entry(name, words), form, words)
            for one in session.unfamiliar(values):
                entry = entries[one.feature]
                if not entry.insisted:
                    told = self.form.unlike("unlike", one.feature, one.value, words)
                    entries[one.feature] = replace(entry, mend=told, strange=True)
            if any(value is not None for value in values.values()):
                found[test] = values
            elif required:
                for name in values:
                    entries[name] = replace(entries[name], mend=entries[name].mend or words("needs_result"))
        return found, entries if any(entry.mend for entry in entries.values()) else {}

    # -------------------------------------------------------------------------------------------------------- told

    def waiting(self, session: DiagnosisSession) -> list[str]:
        """Tests that were neither done nor said to be impossible; the next one is asked for by itself."""
        passed = {*session.bill} - {*session.pending} | {*session.unavailable_tests}
        return [test for test in self.tests if test not in passed]

    def told(
        self, case: Case, words: Words, mend: Entries | None = None, place: tuple[str, str | None] | None = None
    ) -> dict[str, Any]:
        """All that a page shows of a case.

        `mend` are entries that came back and must be mended, and `place` the form that they are in: the action, and
        the test of a correction.
        """
        session, mend = case.session, mend or {}
        chances = {str(label): chance for label, chance in session.chances.items()}
        events = json.loads(session.to_json())["events"]
        following = session.next_evidence
        correcting = place[1] if place is not None and place[0] == "correct" else None

        def entries(test: str) -> list[Entry]:
            found = []
            for name in self.model.tests[test]:
                entry = self.form.entry(name, words)
                found.append(mend.get(name) or filled(entry, session.observed.get(name), words))
            return found

        results = []
        for number, event in enumerate(events):
            test = event.get("observe") or event.get("order") or event["not_available"]
            values = event.get("values")
            if "order" in event and test not in session.pending:  # it has a line of its own by now
                continue
            results.append(
                {
                    "event": number,
                    "test": test,
                    "number": self.tests.index(test),
                    "done": values is not None,
                    "ordered": "order" in event,
                    "shown": None if values is None else self.shown(values, words),
                    "price": session.bill.get(test),
                    "entries": entries(test) if test == correcting else None,
                }
            )
        open_tests = self.waiting(session)
        waiting = [test for test in open_tests if following is None or test != following.name]
        others = [(test, self.tests.index(test), entries(test)) for test in waiting]
        asked = [entry for line in results for entry in line["entries"] or []]
        asked = asked or ([] if following is None else entries(following.name))
        if place is not None and place[0] == "known":
            asked = [entry for _, _, found in others for entry in found]
        ranked = sorted(chances.items(), key=lambda one: -one[1])
        numbered, ahead = dict(colours(self.model.classes)), session.ahead
        strange = session.unfamiliar(session.observed) if session.notes else []
        return {
            "case_id": case.id,
            "version_of_case": case.version,
            "notice": "",
            "mending": bool(mend),
            "focus": next((entry.key for entry in asked if entry.mend), asked[0].key if asked else ""),
            "open_cases": [],
            "finished": session.finished,
            "suffices": session.suffices,
            "diagnosis": str(session.diagnosis),
            "chance": session.chance,
            "chances": [(label, chance, numbered[label]) for label, chance in ranked],
            "loyalty": session.loyalty,
            "spent": session.spent,
            "panel": float(self.model.planner.panel_cost_),
            "remaining": session.expected_remaining_cost,
            "next": following,
            "hours": session.hours,
            "pending": session.pending,
            "to_order": [one.name for one in session.next_round if not one.ordered],
            "next_number": None if following is None else self.tests.index(following.name),
            "next_entries": [] if following is None else entries(following.name),
            "results": results,
            "others": others,
            "others_open": place is not None and place[0] == "known",
            "open_tests": [(self.tests.index(test), test) for test in open_tests],
            "notes": [
                *(self.form.unlike("recorded_not_used", one.feature, one.value, words) for one in strange),
                *self.form.outside(session.observed, words, [one.feature for one in strange]),
            ],
            "picture": path_picture(ahead, self.model.classes, words, session.pending),
            "key": colours(self.model.classes),
            "session_json": session.to_json(),
            "n_tests": len(self.tests),
        }

    def shown(self, values: Mapping[str, Any], words: Words) -> str:
        """The results of a test as one reads them."""
        if all(value is None for value in values.values()):
            return words("done_no_result")
        told = []
        for name, value in values.items():
            entry = self.form.entry(name, words)
            text = shown(entry, value, words, "missing")
            told.append(f"{entry.label} {text}" if len(values) > 1 else text)
        return ", ".join(told)

    def open_cases(self, words: Words) -> list[dict[str, Any]]:
        """Cases that somebody may want to go on with."""
        found = []
        for case in self.sessions.open()[:MOST_CASES]:
            n = len(case.session.observed)
            values = {"time": case.begun.strftime("%H:%M"), "diagnosis": str(case.session.diagnosis)}
            text = words("case_of_one", **values) if n == 1 else words("case_of", n=n, **values)
            found.append({"id": case.id, "text": text})
        return found
