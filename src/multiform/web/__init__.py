"""A model or a plan in the browser, and for other programs: ``multiform serve``.

It comes with ``pip install "multiform[web]"``. `application` is a Starlette application, which any ASGI server runs;
`serve` runs it here. What is safe, and why, is in ``docs/serve.md``.
"""

from multiform.web._app import application, serve
from multiform.web._guard import Access, Limits
from multiform.web._model import Field, PlanModel, TableModel
from multiform.web._problems import Problem
from multiform.web._sessions import Case, Sessions

__all__ = [
    "Access",
    "Case",
    "Field",
    "Limits",
    "PlanModel",
    "Problem",
    "Sessions",
    "TableModel",
    "application",
    "serve",
]
