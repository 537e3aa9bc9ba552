"""`multiform serve`: the time to the first question, to an answer after a result, of one row, and of blocks of rows.

Servers run in processes of their own, and are asked over one connection that stays open. The peer of one row is a
Starlette application that returns a constant, run by the same uvicorn; of a block, the bare `predict` in a process of
its own with as many threads, asked in turns. Two do nothing but take the block: the same Starlette, and a bare socket,
which is the floor.
"""

import http.client
import io
import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from benchmarks.measure import interleaved, seconds, timed
from benchmarks.options import benchmark_parser
from benchmarks.tables import Table, publish, run_description
from multiform import DiagnosisPlanner, LoyaltyClassifier, QMSClassifier, save
from multiform.datasets import load_heart_disease
from multiform.tables import TableClassifier

N_BLOCK, N_PIXELS, N_CLASSES = 10_000, 784, 10
ARROW = "application/vnd.apache.arrow.stream"
CONSTANT = """
import json, sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from multiform.web._app import listening_at
async def constant(request):
    await request.body()
    return JSONResponse({"label": "0"})
listening = listening_at("127.0.0.1", 0)
print(json.dumps({"address": f"http://127.0.0.1:{listening.getsockname()[1]}/", "token": ""}), flush=True)
app = Starlette(routes=[Route("/", constant, methods=["POST"])])
uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False)).run(sockets=[listening])
"""

SOCKET = """
import socket, numpy as np
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
connection, _ = listening.accept()
while size := connection.recv(8, socket.MSG_WAITALL):
    body = memoryview(np.empty(int.from_bytes(size, "big"), np.uint8))
    while body:
        body = body[connection.recv_into(body) :]
    connection.sendall(b".")
"""


class Server:
    """A server in a process of its own, and one connection to it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        self.link, self.headers = told["address"], {"authorization": f"Bearer {told['token']}"}
        self.connection = http.client.HTTPConnection(str(urlsplit(self.link).netloc), timeout=60)

    def ask(self, path: str, body: bytes | dict[str, Any] | None = None, media: str = "application/json") -> bytes:
        """The body of an answer."""
        content = json.dumps(body).encode() if isinstance(body, dict) else body
        headers = self.headers | {"content-type": media}
        self.connection.request("GET" if body is None else "POST", path, content, headers)
        response = self.connection.getresponse()
        found = response.read()
        if response.status >= 300:
            raise RuntimeError(f"{path}: {response.status} {found[:300]!r}")
        return found


@contextmanager
def running(*words: str) -> Iterator[Server]:
    """A server until the block ends."""
    command = [sys.executable, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            server = Server(process)
            with closing(server.connection):
                yield server
        finally:
            process.terminate()


@contextmanager
def received() -> Iterator[Callable[[bytes], bytes]]:
    """A function that sends bytes to another process, and returns when that has them in memory."""
    command = [sys.executable, "-c", SOCKET]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        with socket.create_connection(("127.0.0.1", int(process.stdout.readline()))) as connection:

            def send(body: bytes) -> bytes:
                connection.sendall(len(body).to_bytes(8, "big"))
                connection.sendall(body)
                return connection.recv(1)

            yield send


def serving(path: Path) -> Any:
    """`multiform serve` of a file."""
    return running("-m", "multiform", "serve", str(path), "--json")


def opened(path: Path, first: str) -> float:
    """Seconds to start a server, and to open its page as a browser does, until the first question is there."""
    began = perf_counter()
    with serving(path) as server:
        asked, cookie = urlsplit(server.link), ""
        address = f"{asked.path}?{asked.query}"
        for _ in range(4):
            server.connection.request("GET", address, headers={"accept": "text/html", "cookie": cookie})
            response = server.connection.getresponse()
            page = response.read().decode()
            cookie = response.getheader("set-cookie", cookie).partition(";")[0]
            if response.status == 200:
                assert first in page
                return perf_counter() - began
            address = response.getheader("location", "/")
    raise RuntimeError("there is no page")


def start_table(folder: Path, plan: DiagnosisPlanner, repeats: int) -> Table:
    """From the command to the first question."""
    first = plan.start().next_evidence
    assert first is not None
    floor = partial(subprocess.run, [sys.executable, "-c", "import sklearn"], check=True)
    rounds = [(opened(folder / "plan.mfm", first.name), seconds(floor)) for _ in range(repeats + 1)][1:]
    table = Table("To the first question", ["what", "s"], {"s": ".2f"})
    for place, name in enumerate(("multiform serve plan.mfm, and its page", "import sklearn")):
        table.append({"what": name, "s": median(one[place] for one in rounds)})
    return table


def case_table(folder: Path, plan: DiagnosisPlanner, patients: Any) -> Table:
    """Time from a result to the next question, over whole cases."""
    taken: list[float] = []
    with serving(folder / "plan.mfm") as server:
        for row in patients:
            values = dict(zip(plan.encoding_.names, row.tolist(), strict=True))
            told = json.loads(server.ask("/v1/sessions", {}))
            while not told["finished"]:
                asked = told["next"]
                result = {name: None if values[name] != values[name] else values[name] for name in asked["results"]}
                body = {"test": asked["test"], "values": result, "insist": True}
                answer, duration = timed(partial(server.ask, f"/v1/sessions/{told['id']}/observe", body))
                told = json.loads(answer)
                taken.append(duration)
    title = f"An answer after a result: {len(patients)} cases of heart disease, {len(taken)} results"
    table = Table(title, ["of all", "ms"], {"ms": ".1f"})
    for name, value in {"median": median(taken), "9 of 10": np.quantile(taken, 0.9), "slowest": max(taken)}.items():
        table.append({"of all": name, "ms": 1e3 * float(value)})
    return table


def row_table(folder: Path, rows: dict[str, dict[str, Any]], n: int) -> Table:
    """One row: medians over the constant's."""
    table = Table("/v1/predict, one row", ["model", "p50, ms", "over a constant"], {"p50, ms": ".2f"})
    table.formats = {"p50, ms": ".2f", "over a constant": ".2f"}
    for name, body in rows.items():
        with serving(folder / f"{name}.mfm") as server, running("-c", CONSTANT) as constant:
            calls: dict[str, Callable[[], Any]] = {
                "constant": partial(constant.ask, "/", body),
                name: partial(server.ask, "/v1/predict", body),
            }
            medians = interleaved(calls, n, warmup=20)
        ratio = medians[name] / medians["constant"]
        table.append({"model": name, "p50, ms": 1e3 * medians[name], "over a constant": ratio})
    table.append({"model": "Starlette, a constant", "p50, ms": 1e3 * medians["constant"], "over a constant": 1.0})
    return table


PREDICT = """
import sys, time, numpy as np, multiform
model, X = multiform.load(sys.argv[1]), np.load(sys.argv[2])
model.predict(X)
for _ in sys.stdin:
    start = time.perf_counter()
    model.predict(X)
    print(time.perf_counter() - start, flush=True)
"""


def block_table(folder: Path, repeats: int, seed: int) -> Table:
    """10,000 rows of 784 numbers: how much of the time is `predict` itself."""
    import pyarrow as pa

    random = np.random.default_rng(seed)
    X = random.integers(0, 256, (N_BLOCK, N_PIXELS)).astype(np.float32)
    y = random.integers(0, N_CLASSES, N_BLOCK)
    X[np.arange(N_BLOCK), y] += 300
    save(QMSClassifier(18, noise=0.35, max_iter=1, random_state=seed).fit(X, y), folder / "block.mfm")
    np.save(folder / "block.npy", X)
    arrays = pa.table({f"x{k}": X[:, k] for k in range(N_PIXELS)})
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, arrays.schema) as writer:
        writer.write_table(arrays)
    bodies = {"Arrow IPC": (stream.getvalue(), ARROW), "JSON": (json.dumps({"rows": X.tolist()}).encode(), "")}
    columns = ["body", "MB", "s", "predict itself, s", "share", "Starlette, s", "bare socket, s"]
    table = Table(f"/v1/predict, {N_BLOCK:,} x {N_PIXELS} float32", columns)
    table.formats = {"MB": ".1f", "share": ".0%"} | {name: ".3f" for name in columns if name.endswith("s")}
    command = [sys.executable, "-c", PREDICT, str(folder / "block.mfm"), str(folder / "block.npy")]
    with (
        serving(folder / "block.mfm") as server,
        running("-c", CONSTANT) as constant,
        received() as bare,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as alone,
    ):
        assert alone.stdin is not None
        assert alone.stdout is not None
        for name, (body, media) in bodies.items():
            ask = partial(server.ask, "/v1/predict", body, media or "application/json")
            rounds = []
            for _ in range(repeats + 1):
                alone.stdin.write("\n")
                itself = float(alone.stdout.readline())
                floors = (partial(constant.ask, "/", body), partial(bare, body))
                rounds.append((itself, seconds(ask), *map(seconds, floors)))
            itself, taken, *floors_s = (median(one) for one in zip(*rounds[1:], strict=True))
            row = {
                "body": name,
                "MB": len(body) / 1e6,
                "s": taken,
                "predict itself, s": itself,
                "share": itself / taken,
            }
            table.append(row | dict(zip(columns[-2:], floors_s, strict=True)))
        alone.stdin.close()
    return table


def main(argv: list[str]) -> int:
    """Measure, print and write the tables."""
    parser = benchmark_parser("serve", __doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--requests", type=int, default=300)
    options = parser.parse_args(argv)
    heart = load_heart_disease()
    names = [*heart.feature_names]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fitted = heart.data[::2], heart.target[::2]
        plan = DiagnosisPlanner(heart.costs, discounts=heart.discounts, random_state=options.seed).fit(*fitted)
        save(plan, folder / "plan.mfm")
        X = np.nan_to_num(np.asarray(heart.data, dtype=np.float64))
        save(QMSClassifier(random_state=options.seed).fit(X, heart.target), folder / "plain.mfm")
        save(LoyaltyClassifier(random_state=options.seed).fit(X, heart.target), folder / "loyalty.mfm")
        frame = {column: X[:, place] for place, column in enumerate(names)}
        save(
            TableClassifier(LoyaltyClassifier(random_state=options.seed)).fit(frame, heart.target), folder / "table.mfm"
        )
        row = X[0].tolist()
        rows: dict[str, dict[str, Any]] = {
            "plain": {"rows": [row]},
            "loyalty": {"rows": [row]},
            "table": {"rows": [dict(zip(names, row, strict=True))]},
        }
        tables = [
            start_table(folder, plan, options.repeats),
            case_table(folder, plan, np.asarray(heart.data)[1 : 2 * options.cases : 2]),
            row_table(folder, rows, options.requests),
            block_table(folder, options.repeats, options.seed),
        ]
    publish(tables, "serve", options.output, run_description("serve", argv, options.seed))
    return 0
