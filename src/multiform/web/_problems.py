"""What goes wrong, as problem details (RFC 9457): one sentence, and a name where a program should know which."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

PROBLEM = "application/problem+json"
TITLES = {  # of problems with a name; of all others it is what HTTP calls the status
    "unfamiliar-value": "A result unlike training",
    "changed": "The case has changed",
    "no-such-case": "No such case",
    "no-file": "No file",
    "session-refused": "No case of this plan",
}


class Problem(Exception):
    """A request that is refused.

    Parameters
    ----------
    status : int
    detail : str
        One sentence: what was wrong, what is allowed, what to do. It may hold values of the request, so it is never
        logged.
    name : str, default=""
        What programs know it by, as ``unfamiliar-value``.
    headers : mapping, default=None
        Further headers of its answer.
    **more
        Further members.
    """

    def __init__(
        self, status: int, detail: str, name: str = "", headers: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        detail = detail if detail.endswith((".", "!", "?")) else f"{detail}."
        super().__init__(detail)
        self.status, self.detail, self.name, self.more = status, detail, name, more
        self.headers = dict(headers or {})
        if status in (408, 413):  # the rest of the body is not wanted
            self.headers["connection"] = "close"
        if status == 503:
            self.headers["retry-after"] = "1"
        if status == 401:
            self.headers["www-authenticate"] = "Bearer"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        kind = f"urn:multiform:problem:{self.name}" if self.name else "about:blank"
        title = TITLES[self.name] if self.name else HTTPStatus(self.status).phrase
        return {"type": kind, "title": title, "status": self.status, "detail": self.detail, **self.more}

    def response(self) -> Response:
        """The answer."""
        return Response(json.dumps(self.as_dict()), self.status, self.headers, PROBLEM)
