"""The pages for people: which there are for a plan and for a classifier.

Forms are sent by POST, which changes something and leads on to a page that shows it (GET): the back button, a second
tab and loading again are sound, and nothing of a patient stands in an address. JavaScript only adds to that.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from multiform.web._bedside import bedside_routes
from multiform.web._model import PlanModel, TableModel
from multiform.web._problems import Problem
from multiform.web._questions import question_routes
from multiform.web._render import Renderer
from multiform.web._sessions import Sessions, unknown_case
from multiform.web._tables import table_routes
from multiform.web._words import Words, as_sentence, languages

TITLES = {401: 401, 403: 401, 404: 404, 409: 409, 413: 413, 421: 401}  # statuses, and whose title they share


def page_routes(model: PlanModel | TableModel, sessions: Sessions | None, words: Mapping[str, Words]) -> list[Route]:
    """The addresses of the pages; `sessions` are the cases of a plan."""
    made_by = model.planner if isinstance(model, PlanModel) else model.estimator
    render = Renderer(words, model=model, estimator_name=type(made_by).__name__)
    routes = [Route("/language", render.speak, methods=["POST"]), Route("/here", partial(_here, sessions))]
    if isinstance(model, PlanModel):
        assert sessions is not None
        return [*routes, *bedside_routes(model, sessions, render)]
    return [*routes, *question_routes(model, render), *table_routes(model, render)]


async def _here(sessions: Sessions | None, request: Request) -> Response:
    """What a page asks before it sends a form: whether its browser, and its case, are known."""
    id = request.query_params.get("case", "")
    if id and (sessions is None or id not in sessions):
        raise unknown_case()
    return Response(status_code=204)


@cache
def _renderer(language: str) -> Renderer:
    """For pages of refusals, of which there may be many."""
    return Renderer(languages(language), model=None)


def refusal_page(words: Mapping[str, Words], request: Request, problem: Problem) -> Response:
    """A page that says what went wrong. Whoever has not shown a token learns nothing of the model from it."""
    render = _renderer(next(iter(words)))
    speak = render.words(request)
    title = speak(f"error_{TITLES.get(problem.status, 400)}")
    reason = speak("error_404_case") if problem.name == "no-such-case" else speak.said(problem.detail)
    reason = as_sentence(reason)
    if problem.name == "session-refused":
        reason = Markup("{} {}").format(speak("session_refused"), reason)
    return render(
        request, "refusal.html", problem.status, headers=problem.headers, title=title, reason=reason, path="/"
    )
