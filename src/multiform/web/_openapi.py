"""The description of the interface (OpenAPI 3.1), for this model: its classes, its columns or its tests."""

from __future__ import annotations

from typing import Any

from multiform._version import __version__
from multiform.web._model import Field, PlanModel, TableModel

JSON, LINES, PROBLEM = "application/json", "application/x-ndjson", "application/problem+json"
CSV, TSV = "text/csv", "text/tab-separated-values"
ARROW = "application/vnd.apache.arrow.stream"
TEXT, NUMBER, TRUTH, WHOLE = {"type": "string"}, {"type": "number"}, {"type": "boolean"}, {"type": "integer"}
CHANCE = {"type": "number", "minimum": 0, "maximum": 1}
SHARE = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
ANY = {"type": "object"}
WORDS = {"type": ["string", "null"]}
CELL = {"type": ["number", "string", "boolean", "null"]}
CHANCES = {"type": "object", "additionalProperties": CHANCE, "description": "The chance of every class."}
NOTES = {"type": "array", "items": TEXT, "description": "What is worth knowing, in sentences."}
TYPE = {"type": "string", "description": "The loyalty type: strong, normal or weak."}
Schema = dict[str, Any]


def description(model: PlanModel | TableModel) -> dict[str, Any]:
    """What can be asked of this model."""
    paths = _plan_paths() if isinstance(model, PlanModel) else _table_paths(model)
    whole = {"openapi": TEXT, "security": _list(ANY)} | dict.fromkeys(("info", "paths", "components"), ANY)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"multiform: {model.name}",
            "version": __version__,
            "description": "Programs send the token that the server has printed. Errors are problem details, RFC 9457.",
        },
        "security": [{"token": []}],
        "paths": {
            "/healthz": {"get": _operation("Whether the server is there.", {"status": TEXT}) | {"security": []}},
            "/openapi.json": {"get": _operation("This description.", whole)},
            "/v1/model": {"get": _operation("What the model is, and what it reads.", _ref("Model"))},
            **paths,
        },
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Problem": _object(
                    {"type": TEXT, "title": TEXT, "status": WHOLE, "detail": TEXT | {"description": "One sentence."}}
                ),
                "Field": _object(
                    {
                        "name": TEXT,
                        "kind": {"enum": ["number", "code", "category", "date", "text"]},
                        "choices": _list(TEXT) | {"description": "Values that training had, of codes and categories."},
                        "low": WORDS | {"description": "The least value that training had, of numbers and dates."},
                        "high": WORDS,
                        "may_be_missing": TRUTH,
                        "seen": TEXT | {"description": "All that in words; empty where it is not known."},
                    }
                ),
                **(_plan_schemas(model) if isinstance(model, PlanModel) else _table_schemas(model)),
            },
        },
    }


# ---------------------------------------------------------------------------------------------------------- classifiers


def _table_paths(model: TableModel) -> Schema:
    rows = {
        "rows": {
            "type": "array",
            "items": {"anyOf": [_ref("Case"), _list(CELL)]},
            "description": "Objects by column, or lists in the order of columns.",
        },
        "columns": _list(TEXT) | {"description": "Names of the columns, for rows that are lists."},
    }
    arrow = {ARROW: {"schema": {"type": "string", "format": "binary"}}}
    table = {CSV: {"schema": TEXT}, TSV: {"schema": TEXT}, **arrow}
    answers = {
        JSON: {"schema": _ref("Answers")},
        LINES: {"schema": TEXT | {"description": "A line a row, and the rest of Answers in the last."}},
        CSV: {"schema": TEXT},
        **arrow,
    }
    predict = _operation(
        "Label and chance of every row, in their order. Answers come in the form of the rows, or as Accept says.",
        answers,
        _object(rows | {"chances": TRUTH}, ["rows"]),
        table,
    )
    predict["parameters"] = [
        _query("chances", TRUTH, "The chance of every class, too (tables)."),
        _query("keep", _list(TEXT), "Columns of a CSV or TSV table to copy to its answers."),
    ]
    evaluate = _operation(
        "A labelled table, as `multiform evaluate`.",
        _ref("Figures"),
        _object(rows | {"target": TEXT}, ["rows"]),
        table,
    )
    evaluate["parameters"] = [_query("target", TEXT, "The column with the truth, if not called as in training.")]
    case = {"case": _ref("Case")}
    return {
        "/v1/predict": {"post": predict},
        "/v1/assess": {
            "post": _operation("All that can be said of one case.", _ref("Assessment"), _object(case, ["case"]))
        },
        "/v1/change": {
            "post": _operation(
                "The least change that would alter the label.",
                {"change": _or_null(_ref("Change"))},
                _object(case | {"locked": _list(TEXT)}, ["case"]),
            )
        },
        "/v1/evaluate": {"post": evaluate},
    }


def _table_schemas(model: TableModel) -> Schema:
    columns = {field.name: _field(field) for field in model.fields.values()}
    told = {
        "label": CELL,
        "chance": CHANCE,
        "loyalty": TYPE,
        "accepted": TRUTH,
        "unfamiliar": {"type": ["string", "null"]},
    }
    change = _object({"column": TEXT, "from": CELL, "to": CELL}, ["column", "from", "to"])
    more = CELL | {"description": "`chance of CLASS` of every class, and the columns to keep."}
    strange = _object({"column": TEXT, "cells": WHOLE, "example": WORDS, "seen": TEXT})
    shift = {"column": TEXT, "what": {"enum": ["gaps", "values"]}, "before": CHANCE, "after": CHANCE}
    shifted = _object(shift | {"p_value": CHANCE, "sentence": TEXT})
    cell = _object({"column": TEXT, "value": WORDS, "seen": TEXT})
    return {
        "Model": _object(
            {
                "kind": {"const": "classifier"},
                "name": TEXT,
                "estimator": TEXT,
                "classes": _list(TEXT),
                "target": WORDS,
                "promise": _or_null(_object({"accuracy": CHANCE, "confidence": CHANCE})),
                "columns": _list(_ref("Field")),
            }
        ),
        "Case": {"type": "object", "properties": columns, "additionalProperties": CELL},
        "Unfamiliar": _object({"rows": WHOLE, "columns": _list(strange), "shifted": _list(shifted)})
        | {"description": "What is unlike the training table."},
        "Answers": _object(
            {
                "answers": _list(_object(told, ["label", "chance"]) | {"additionalProperties": more}),
                "rows": WHOLE,
                "labels": {"type": "object", "additionalProperties": WHOLE, "description": "Rows of each label."},
                "unfamiliar": _ref("Unfamiliar"),
                "notes": NOTES,
            }
        ),
        **_figures(),
        "Assessment": _object(
            told
            | {
                "unfamiliar_cells": _list(cell),
                "trust": NUMBER | {"description": "Of a promise: how sure the answer is."},
                "trust_needed": {
                    "type": ["number", "null"],
                    "description": "And must be, to be given; null: it never is.",
                },
                "chances": CHANCES,
                "deciding": _list(_object({"column": TEXT, "change": NUMBER}, ["column", "change"]))
                | {"description": "How the chance of the label falls if the cell were not known."},
                "notes": NOTES,
            },
            ["label", "chance", "unfamiliar_cells", "chances", "deciding", "notes"],
        ),
        "Change": _object({"label": CELL, "chance": CHANCE, "changes": _list(change)}),
    }


def _figures() -> Schema:
    """How answers do beside the truth, as `multiform evaluate --json` tells."""
    interval, counts = _ref("Interval"), {"type": "object", "additionalProperties": WHOLE}
    found = dict.fromkeys(("sensitivity", "specificity", "ppv", "npv"), _or_null(interval))
    one = {"rows": WHOLE, "recall": CHANCE, "precision": SHARE} | found
    one |= dict.fromkeys(("roc_auc", "pr_auc"), _or_null(interval))
    typed = {"count": WHOLE, "share": CHANCE, "correct": WHOLE, "accuracy": SHARE}
    typed |= {"expected_accuracy": SHARE, "expected_share": CHANCE}
    positive = {"class": TEXT, "why": TEXT, "threshold": SHARE, "cost_of_miss": {"type": ["number", "null"]}}
    given = {"rows": WHOLE, "share": CHANCE, "accuracy": SHARE, "promised": CHANCE, "kept": TRUTH}
    overlap = {"compared": WHOLE, "found": WHOLE, "by_chance": CHANCE, "share": CHANCE, "evident": TRUTH}
    told = {
        "rows": WHOLE,
        "accuracy": CHANCE,
        "accuracy_interval": interval,
        "commonest_class": TEXT,
        "commonest_class_accuracy": CHANCE,
        "mean_chance": CHANCE,
        "classes": _by_name(_object(one, ["rows"])),
        "unknown_classes": _list(TEXT) | {"description": "Of these rows, which the model does not know."},
        "confusion": _or_null(_by_name(counts)) | {"description": "Rows by true class and answer."},
        "unfamiliar": _ref("Unfamiliar"),
        "training_rows": _or_null(_object(overlap)) | {"description": "How many are rows of the training table."},
        "notes": NOTES,
    }
    group = {"chance": CHANCE, "share": interval, "rows": WHOLE}
    threshold = {"threshold": CHANCE, "called": WHOLE} | found
    where_known = {
        "loyalty": _by_name(_object(typed)),
        "accepted": _object(given),
        "rows_for_areas": WHOLE | {"description": "Rows by which areas, calibration and thresholds were counted."},
        "positive": _object(positive | {"target": TEXT, "changed": WHOLE}),
        "calibration": _object({"of": TEXT, "groups": _list(_object(group))}),
        "thresholds": _list(_object(threshold)),
    }
    return {
        "Interval": _object(dict.fromkeys(("value", "low", "high"), NUMBER)) | {"description": "95 %."},
        "Figures": _object(told | where_known, list(told)),
    }


# ---------------------------------------------------------------------------------------------------------------- plans


def _plan_paths() -> Schema:
    where, id = _ref("Session"), {"name": "id", "in": "path", "required": True, "schema": TEXT}
    version = {"version": WHOLE | {"description": "Of the case as you know it; another is refused (409)."}}
    insist = {"insist": TRUTH | {"description": "Record a result unlike training, which is then not used."}}
    result = {"test": TEXT, "values": {"description": "A result, or an object of results by name; null: none."}}
    result |= insist | version
    begin = {"evidence": {"type": "object", "description": "Results that are known, by test."}, "session": _ref("File")}
    begun = _operation("A new case, or one that was kept.", where, _object(begin | insist, []), status="201")
    changes = {
        "observe": ("A test was done.", result, ["test", "values"]),
        "correct": ("Another result of a test that was done.", result, ["test", "values"]),
        "order": (
            "Tests were ordered, and are paid for; their results are not yet there.",
            {"tests": _list(TEXT) | {"description": "Without it, those of `round` that were not ordered."}} | version,
            [],
        ),
        "not_available": ("A test cannot be done.", {"test": TEXT} | version, ["test"]),
        "undo": ("Take the last event back.", version, []),
    }
    return {
        "/v1/sessions": {"post": begun},
        "/v1/sessions/{id}": {
            "parameters": [id],
            "get": _operation("Where a case stands.", where),
            "delete": _operation("Forget a case.", None, status="204"),
        },
        "/v1/sessions/{id}/file": {"parameters": [id], "get": _operation("The case, to be kept.", _ref("File"))},
        **{
            f"/v1/sessions/{{id}}/{name}": {"parameters": [id], "post": _operation(told, where, _object(given, needed))}
            for name, (told, given, needed) in changes.items()
        },
    }


def _plan_schemas(model: PlanModel) -> Schema:
    event = {"observe": TEXT, "values": _or_null(_by_name(CELL)), "order": TEXT, "not_available": TEXT}
    following = _object(
        {"test": TEXT, "cost": NUMBER, "results": _list(TEXT), "why": TEXT, "hours": NUMBER, "ordered": TRUTH}
    )
    test = {"test": TEXT, "cost": NUMBER, "results": _list(_ref("Field"))}
    return {
        "Model": _object(
            {
                "kind": {"const": "plan"},
                "name": TEXT,
                "estimator": TEXT,
                "classes": _list(TEXT),
                "panel_cost": NUMBER | {"description": "Of all tests."},
                "tests": _list(_object(test)),
            }
        ),
        "Session": _object(
            {
                "id": TEXT,
                "version": WHOLE,
                "finished": TRUTH,
                "diagnosis": {"enum": model.classes},
                "chance": CHANCE,
                "chances": CHANCES,
                "loyalty": TYPE,
                "spent": NUMBER,
                "panel_cost": NUMBER,
                "bill": _list(_object({"test": TEXT, "price": NUMBER})),
                "not_available": _list(TEXT),
                "hours": NUMBER | {"description": "Waited for results so far."},
                "pending": _list(TEXT) | {"description": "Ordered, and not yet there."},
                "round": _list(TEXT) | {"description": "The tests to order now, all at the same time."},
                "next": _or_null(following),
                "notes": NOTES,
                "observed": {
                    "type": "object",
                    "properties": {field.name: _field(field) for field in model.fields.values()},
                },
            }
        ),
        "File": _object(
            {"format": WHOLE, "tests": _list(TEXT), "events": _list(_object(event, [])), "notes": NOTES},
            ["format", "tests", "events"],
        ),
    }


# ---------------------------------------------------------------------------------------------------------------- parts


def _field(field: Field) -> Schema:
    """A cell of a column. No value is forbidden: what is unlike training is taken as unknown."""
    told = {"description": f"In training: {field.seen}." if field.seen else field.kind}
    if field.choices:
        return CELL | told | {"examples": list(field.choices[:12])}
    return CELL | told


def _object(properties: Schema, required: list[str] | None = None) -> Schema:
    needed = list(properties) if required is None else required
    return {"type": "object", "properties": properties, "required": needed}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _by_name(items: Schema) -> Schema:
    return {"type": "object", "additionalProperties": items}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _query(name: str, schema: Schema, told: str) -> Schema:
    return {"name": name, "in": "query", "schema": schema, "description": told}


def _operation(
    summary: str, answers: Schema | None, body: Schema | None = None, other: Schema | None = None, status: str = "200"
) -> Schema:
    """A question: what it answers (a schema, properties, or contents by form), and what it is asked with."""
    content = answers
    if answers is not None and not any("/" in form for form in answers):
        schema = answers if "$ref" in answers else _object(answers)
        content = {JSON: {"schema": schema}}
    told = {"description": summary} | ({"content": content} if content else {})
    problem = {"description": "What went wrong.", "content": {PROBLEM: {"schema": _ref("Problem")}}}
    found: Schema = {"summary": summary, "responses": {status: told, "default": problem}}
    if body is not None:
        found["requestBody"] = {"content": {JSON: {"schema": body}} | (other or {})}
    return found
