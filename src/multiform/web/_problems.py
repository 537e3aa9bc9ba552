"""What goes wrong, as problem details (RFC 9457): one sentence, and a name where a program should know which."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

PROBLEM = "application/problem+json"
TITLES = {
    400: "not understood",
    401: "no token",
    403: "not from here",
    404: "not found",
    405: "not this method",
    406: "not in this form",
    408: "too slow",
    409: "not as things stand",
    413: "too large",
    415: "unknown form",
    421: "another host",
    422: "not usable",
    500: "an error of ours",
    503: "too much at once",
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
    **more
        Further members.
    """

    def __init__(self, status: int, detail: str, name: str = "", **more: Any) -> None:
        detail = detail if detail.endswith((".", "!", "?")) else f"{detail}."
        super().__init__(detail)
        self.status, self.detail, self.name, self.more = status, detail, name, more

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        kind = f"urn:multiform:problem:{self.name}" if self.name else "about:blank"
        title = TITLES.get(self.status, "refused")
        return {"type": kind, "title": title, "status": self.status, "detail": self.detail, **self.more}

    def response(self) -> Response:
        """The answer; the connection ends where the rest of a body is not wanted."""
        headers = {"connection": "close"} if self.status in (408, 413) else {}
        if self.status == 503:
            headers["retry-after"] = "1"
        if self.status == 401:
            headers["www-authenticate"] = "Bearer"
        return Response(json.dumps(self.as_dict()), self.status, headers, PROBLEM)
