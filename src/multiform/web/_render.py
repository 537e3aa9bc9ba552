"""How a page is made: the templates, the words of the reader's language, and what a form has sent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import jinja2
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from multiform._version import __version__
from multiform.web._guard import POLICY, form_of
from multiform.web._problems import Problem
from multiform.web._words import COOKIE, Words, chosen, short

MOST_LETTERS = 2_000  # of any text of a file or a case in a page
A_YEAR = 365 * 86_400
# A page that shows a report in a frame, and the report in it.
FRAMING = {"content-security-policy": f"{POLICY}; frame-src 'self'"}


class Renderer:
    """Makes pages of templates.

    Parameters
    ----------
    languages : dict of Words
        By code; the first is spoken where nothing is asked for.
    **shared
        What every template knows.
    """

    def __init__(self, languages: Mapping[str, Words], **shared: Any) -> None:
        self.languages = dict(languages)
        self._environment = jinja2.Environment(
            loader=jinja2.PackageLoader("multiform.web"),
            autoescape=True,
            finalize=_printable,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=jinja2.StrictUndefined,
        )
        self._environment.filters["short"] = short
        self._shared = {"version": __version__, "languages": self.languages, **shared}

    def words(self, request: Request) -> Words:
        """The language of a reader."""
        return chosen(self.languages, request.cookies.get(COOKIE), request.headers.get("accept-language", ""))

    def __call__(
        self,
        request: Request,
        template: str,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        **values: Any,
    ) -> Response:
        """The page of a template."""
        known = {
            "w": self.words(request),
            "status": status,
            "focus": "",
            "path": request.scope["path"],
            "is_local": request.app.state.access.is_local,
            **self._shared,
            **values,
        }
        text = self._environment.get_template(template).render(known)
        return HTMLResponse(text.encode("utf-8", "replace"), status, dict(headers or {}))

    async def speak(self, request: Request) -> Response:
        """Keep the language that was chosen, and show the same page in it."""
        form = await form_of(request)
        back = form.get("back", "/")
        # No other server's address, and none that only takes forms.
        response = RedirectResponse(back if re.fullmatch(r"(/[A-Za-z0-9_-]+)*/?", back) and back else "/", 303)
        if form.get("language") in self.languages:
            options: dict[str, Any] = {"max_age": A_YEAR, "httponly": True, "samesite": "strict"}
            response.set_cookie(COOKIE, form["language"], **options)
        return response


def _printable(value: Any) -> Any:
    """Text of a file may hold anything; what cannot be printed is not."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return short(value, MOST_LETTERS)
    return value


class _InMemory(MultiPartParser):
    """The parts of a form with a file, none of which is written to disk; the guard has counted them."""

    spool_max_size = 2**40


async def form_with_file(request: Request, name: str) -> tuple[dict[str, str], str, bytes]:
    """The fields of a form, and the name and the bytes of its file."""
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise Problem(415, "the form must come with a file.")
    try:
        form = await _InMemory(request.headers, request.stream(), max_files=1, max_fields=20).parse()
    except (MultiPartException, ValueError) as error:
        raise Problem(400, "the form cannot be read.") from error
    try:
        file = form.get(name)
        if file is None or isinstance(file, str) or not file.filename:
            raise Problem(400, "there is no file in the form; choose one.", "no-file")
        fields = {key: value for key, value in form.multi_items() if isinstance(value, str)}
        return fields, file.filename, await file.read()
    finally:
        await form.close()


async def to_the_start(request: Request) -> Response:
    """Whoever asks for an address that only takes forms, as after choosing a language, begins anew."""
    return RedirectResponse("/", 303)


def whole(form: Mapping[str, str], name: str) -> int:
    """A number that the page itself has put into a form."""
    text = form.get(name, "")
    if not re.fullmatch(r"\d{1,9}", text):
        raise Problem(400, "the form cannot be read.")
    return int(text)


def attachment(name: str) -> dict[str, str]:
    """The header of what is to be saved as a file."""
    return {"content-disposition": f'attachment; filename="{name}"'}
