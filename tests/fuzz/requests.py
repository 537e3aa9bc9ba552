"""Requests to the page and to the interface for programs, from whoever has the token, or has not.

A case is a line of JSON (whose model, method, address, headers) and the body. Every answer is one that is promised: no
error of ours, one sentence where something is wrong, chances that are chances, and words as words in every page.
"""

import asyncio
import copy
import io
import json
import logging
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa

import multiform
from multiform.web import application
from tests.fuzz import Case
from tests.fuzz.model_files import ESCAPES, NUMBERS, WORDS, places

TOKEN = "token-of-the-fuzzer"
HTML = "<script>alert('x')</script><img src=x onerror=alert(1)>"
VALUES = (None, True, [], {}, [[]], {"a": 1}, "5.1", "nan", "1e400", HTML, ESCAPES, "x" * 5000, [1, 2, 3], "9" * 400)
JSON, ARROW, CSV = "application/json", "application/vnd.apache.arrow.stream", "text/csv"
FORM, FILE = "application/x-www-form-urlencoded", "multipart/form-data; boundary=edge"
PROMISED = {200, 201, 204, 206, 303, 400, 401, 403, 404, 405, 406, 408, 409, 413, 415, 416, 421, 422}
OTHER_HEADERS = (
    ("host", "evil.example"), ("host", ""), ("host", "[::1"), ("host", "127.0.0.1:99999999"), ("origin", "null"),
    ("origin", "http://evil.example"), ("content-type", "text/html"), ("content-type", CSV), ("content-type", ARROW),
    ("content-type", JSON + "; charset=utf-16"), ("content-type", FORM), ("content-type", FILE), ("content-type", ""),
    ("accept", "text/html"), ("accept", "application/x-ndjson"), ("accept", CSV), ("accept", ARROW), ("accept", "a/b"),
    ("cookie", "multiform-=x; a=\"; $x"), ("cookie", "=" * 300), ("authorization", "Bearer x"), ("authorization", ""),
    ("content-length", "-1"), ("content-length", "9" * 30), ("content-encoding", "gzip"), ("accept-language", "de;q=x"),
    ("sec-fetch-site", "cross-site"), ("transfer-encoding", "gzip"), ("expect", "100-continue"), ("range", "bytes=0-"),
)  # fmt: skip
ADDRESSES = ("/", "/v1/model", "/v1/", "/v1/sessions/{id}", "/v1/sessions/{id}/file", "/openapi.json", "/cases/{id}",
             "/table", "/tables/{id}", "/static/page.js", "/static/../_app.py", "/\x00", "//evil.example/", "/healthz",
             "/?token=x", "/cases/{id}?correct=99999999999999999999", "/language", "/v1/predict?chances=maybe&keep=x",
             "/v1/evaluate?target=" + "y" * 300, "/cases/{id}/summary", "/compare/{id}/{id}")  # fmt: skip


class Requests:
    name = "requests"
    weight = 2

    def prepare(self, folder):
        from tests.files import models

        for name in ("plan", "table", "qms"):
            multiform.save(models.model(name), folder / f"{name}.mfm")

    def open(self, folder):
        self.apps = {name: application(folder / f"{name}.mfm", token=TOKEN) for name in ("plan", "table", "qms")}
        fields = self.apps["table"].state.model.fields
        cells = dict.fromkeys(fields, "1")
        n = len(self.apps["qms"].state.model.fields)
        stream, packed, filed = io.BytesIO(), io.BytesIO(), io.BytesIO()
        table = pa.table({f"c{k}": np.linspace(0, 5, 20) for k in range(n)})
        with pa.ipc.new_stream(stream, table.schema) as writer:
            writer.write_table(table)
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_stream(packed, table.schema, options=options) as writer:
            writer.write_table(table)
        words = pa.table({name: pa.array(["1", "2"] * 10).dictionary_encode() for name in fields})
        with pa.ipc.new_file(filed, words.schema, options=options) as writer:
            writer.write_table(words)
        rows = ",".join(fields) + "\n" + "\n".join(",".join(cells.values()) for _ in range(5)) + "\n"
        form = {f"f{number}": "1" for number in range(len(fields))}
        file = (
            '--edge\r\nContent-Disposition: form-data; name="table"; filename="{}.csv"\r\n'
            f"Content-Type: text/csv\r\n\r\n{rows}\r\n--edge--\r\n"
        )
        session = {"format": 1, "tests": ["sepal", "petal", "width"], "events": [{"observe": "sepal", "values": 5.0}]}
        self.templates = [
            ("qms", "POST", "/v1/predict", JSON, {"rows": [[1.0] * n] * 3, "chances": True}),
            ("qms", "POST", "/v1/predict", JSON, {"rows": [{f"x{k}": 1.0 for k in range(n)}]}),
            ("qms", "POST", "/v1/predict", ARROW, stream.getvalue()),
            ("qms", "POST", "/v1/predict", ARROW, packed.getvalue()),
            ("qms", "POST", "/v1/assess", JSON, {"case": {f"x{k}": 1.0 for k in range(n)}}),
            ("qms", "POST", "/v1/change", JSON, {"case": {f"x{k}": 1.0 for k in range(n)}, "locked": ["x0"]}),
            ("table", "POST", "/v1/predict", ARROW, filed.getvalue()),
            ("table", "POST", "/v1/predict", JSON, {"rows": [cells], "chances": False}),
            ("table", "POST", "/v1/predict?keep=site", CSV, rows.encode()),
            ("table", "POST", "/v1/assess", JSON, {"case": cells}),
            ("table", "POST", "/v1/change", JSON, {"case": cells, "locked": ["site"]}),
            ("table", "POST", "/v1/evaluate", JSON, {"rows": [cells | {"kind": "setosa"}], "target": "kind"}),
            ("table", "POST", "/cases", FORM, form),
            ("table", "POST", "/table", FILE, file.format("a").encode()),
            ("plan", "POST", "/v1/sessions", JSON, {"evidence": {"sepal": 5.0}, "insist": True}),
            ("plan", "POST", "/v1/sessions", JSON, {"session": session}),
            ("plan", "POST", "/v1/sessions/{id}/observe", JSON, {"test": "petal", "values": 1.0, "version": 0}),
            ("plan", "POST", "/v1/sessions/{id}/correct", JSON, {"test": "sepal", "values": 1.0, "insist": True}),
            ("plan", "POST", "/v1/sessions/{id}/not_available", JSON, {"test": "petal"}),
            ("plan", "POST", "/v1/sessions/{id}/undo", JSON, {}),
            ("plan", "POST", "/cases", FORM, {"action": "observe", "test": "0", "f0": "5.0"}),
            ("plan", "POST", "/cases/{id}", FORM, {"action": "correct", "test": "0", "f0": "6", "version": "0"}),
            ("plan", "POST", "/cases/{id}", FORM, {"action": "remove", "event": "0", "version": "0"}),
            ("plan", "POST", "/cases/file", FILE, file.format("case").replace('"table"', '"session"').encode()),
            ("plan", "GET", "/cases/{id}?correct=0", "", b""),
            ("plan", "DELETE", "/v1/sessions/{id}", "", b""),
        ]

    def case(self, random):
        def pick(options):
            return options[int(random.integers(len(options)))]

        model, method, address, media, body = copy.deepcopy(pick(self.templates))
        headers = [["host", "127.0.0.1"], ["authorization", f"Bearer {TOKEN}"], ["content-type", media]]
        if isinstance(body, dict):
            for _ in range(int(random.integers(0, 4))):
                self._changed(body, random, pick)
            if media == FORM:
                body = urlencode({str(key): value for key, value in body.items()}, errors="replace").encode()
            else:
                body = json.dumps(body).encode("utf-8", "replace")
        if not random.integers(4):
            body = self._damaged(body, random, pick)
        for _ in range(int(random.integers(0, 3))):
            match int(random.integers(6)):
                case 0 | 1 | 2:
                    headers.append(list(pick(OTHER_HEADERS)))
                case 3:
                    del headers[int(random.integers(len(headers)))]
                    headers = headers or [["host", "localhost"]]
                case 4:
                    address = pick(ADDRESSES)
                case 5:
                    method = pick(("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "X"))
        told = {"model": model, "method": method, "address": address, "headers": headers}
        return Case(json.dumps(told).encode() + b"\n" + body)

    def _changed(self, body, random, pick):
        found = [path for path, _ in places(body)]
        if not found:
            return
        path = pick(found)
        parent = body
        for key in path[:-1]:
            parent = parent[key]
        match int(random.integers(5)):
            case 0 | 1:
                parent[path[-1]] = copy.deepcopy(pick((pick(NUMBERS), pick(WORDS), pick(VALUES))))
            case 2:
                del parent[path[-1]]
            case 3 if isinstance(parent, list):
                parent[:] = parent * pick((2, 500))
            case 3:
                key = pick(("rows", "case", "test", "values", "version", ESCAPES, HTML, ""))
                parent[key] = copy.deepcopy(pick(VALUES))
            case 4:
                body[pick(("action", "rows", "test", "f0", "version", "event"))] = pick((pick(NUMBERS), pick(WORDS)))

    def _damaged(self, body, random, pick):
        match int(random.integers(6)):
            case 0:
                return body[: int(random.integers(len(body) + 1))]
            case 1:
                return pick((b"[" * 100_000, b'{"rows":' * 50_000, b"", b"\x00", b"\xff\xfe", b"9" * 10_000, b"null"))
            case 2:
                return body.replace(b"1", pick((b"NaN", b"1e999", b"-", b'"', b"<b>", b"\xff", b"9" * 300)))
            case 3:
                return body + body
            case _:
                letters = bytearray(body)
                for _ in range(int(random.integers(1, 6)) if letters else 0):
                    letters[int(random.integers(len(letters)))] = int(random.integers(256))
                return bytes(letters)

    def judge(self, case, folder):
        line, _, body = case.content.partition(b"\n")
        told = json.loads(line)
        app = self.apps[told["model"]]
        logged = _Logged()
        logger = logging.getLogger("multiform.web")
        logger.addHandler(logged)
        try:
            answers = asyncio.run(_answers(app, told, body))
        finally:
            logger.removeHandler(logged)
        for status, headers, content in answers:
            assert status in PROMISED, (status, logged.lines, content[:300])
            assert headers["cache-control"] == "no-store"
            _check(status, headers.get("content-type", ""), content)
        return "answered" if answers[0][0] < 400 else "refused"


class _Logged(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


async def _answers(app, told, body):
    """What comes of the request, and of the pages that it leads to; and whether the server is there afterwards."""
    address = told["address"]
    own = [["host", "127.0.0.1"], ["authorization", f"Bearer {TOKEN}"], ["accept", "text/html"]]
    if "{id}" in address and told["model"] == "plan":
        *_, text = await _asked(
            app, "POST", "/v1/sessions", [*own[:2]], b'{"evidence": {"sepal": 5.0}, "insist": true}'
        )
        address = address.replace("{id}", json.loads(text)["id"])
    answers = [await _asked(app, told["method"], address, told["headers"], body)]
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    await asyncio.gather(*others, return_exceptions=True)
    if answers[0][0] == 303:
        answers.append(await _asked(app, "GET", answers[0][1]["location"].partition("#")[0], own, b""))
    answers.append(await _asked(app, "GET", "/", own, b""))
    assert answers[-1][0] == 200
    return answers


async def _asked(app, method, address, headers, body):
    path, _, query = address.partition("?")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": path, "raw_path": path.encode("utf-8", "replace"), "query_string": query.encode("utf-8", "replace"),
        "root_path": "", "headers": [(n.encode("latin-1"), v.encode("latin-1", "replace")) for n, v in headers],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8440), "state": {},
    }  # fmt: skip
    messages, sent = [{"type": "http.request", "body": body, "more_body": False}], []

    async def receive():
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    found = {name.decode(): value.decode("latin-1") for name, value in sent[0]["headers"]}
    return sent[0]["status"], found, b"".join(one.get("body", b"") for one in sent[1:])


def _check(status, media, content):
    if media.startswith("application/problem+json"):
        told = json.loads(content)
        assert told["status"] == status
        assert told["detail"].endswith((".", "!", "?")), told
    elif media.startswith("text/html"):
        text = content.decode()
        assert "<script>alert" not in text
        assert "<img" not in text
    elif media.startswith("application/json") and status < 300 and content:
        told = json.loads(content, parse_constant=lambda word: 1 / 0)
        for one in told.get("answers", [told]):
            assert "chance" not in one or 0 <= one["chance"] <= 1, one
            chances = one.get("chances") or {}
            assert not chances or abs(sum(chances.values()) - 1) < 1e-3
