"""The pages for people."""

from __future__ import annotations

from html import escape
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from multiform.web._model import PlanModel, TableModel
from multiform.web._problems import Problem
from multiform.web._sessions import Sessions


def page_routes(model: PlanModel | TableModel, sessions: Sessions | None, words: dict[str, Any]) -> list[Route]:
    """The addresses of the pages; `sessions` are the cases of a plan."""

    async def home(request: Request) -> Response:
        return HTMLResponse(f"<!doctype html><title>{escape(model.name)}</title><h1>{escape(model.name)}</h1>")

    return [Route("/", home)]


def refusal_page(words: dict[str, Any], request: Request, problem: Problem) -> Response:
    """A page that says what went wrong."""
    told = problem.as_dict()
    page = f"<!doctype html><title>{escape(told['title'])}</title><p>{escape(told['detail'])}</p>"
    return HTMLResponse(page, problem.status)
