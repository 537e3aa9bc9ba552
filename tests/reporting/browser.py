"""A headless Chromium, driven through its own debugging pipe: no driver, no port, no further package."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BINARY = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)


class Browser:
    """The pipe to Chromium, and the tabs that speak through it."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from, self._received, self._n_sent = to_browser, from_browser, b"", 0
        self.tabs: dict[str, Page] = {}

    def tab(self) -> Page:
        """A new tab; cookies are those of the others."""
        target = self.send(None, "Target.createTarget", url="about:blank")["targetId"]
        session = self.send(None, "Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.tabs[session] = page = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            page.send(f"{domain}.enable")
        return page

    def send(self, session: str | None, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and wait for its answer."""
        self._n_sent += 1
        message = {"id": self._n_sent, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._n_sent:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._received:
            some = os.read(self._from, 1 << 20)
            if not some:
                raise RuntimeError("Chromium has closed its debugging pipe.")
            self._received += some
        message, _, self._received = self._received.partition(b"\0")
        event: dict[str, Any] = json.loads(message)
        if "method" in event and event.get("sessionId") in self.tabs:
            self.tabs[event["sessionId"]].happened(event["method"], event.get("params", {}))
        return event


class Page:
    """One tab, and what it complained about.

    Attributes
    ----------
    complaints : list of str
        What stood in the console: exceptions, errors, warnings.
    requests : list of str
        The addresses that it asked for.
    n_bytes : int
        What came back, headers and all.
    """

    def __init__(self, browser: Browser, session: str) -> None:
        self.browser, self._session = browser, session
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.n_bytes = 0

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and wait for its answer."""
        return self.browser.send(self._session, method, **parameters)

    def happened(self, method: str, parameters: dict[str, Any]) -> None:
        """Note an event."""
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(parameters["exceptionDetails"].get("text")))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            # not "info": one is that the cursor was somewhere already, of whoever clicks before the page has placed it
            self.complaints.append(parameters["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(parameters["args"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"][:200])
        elif method == "Network.loadingFinished":
            self.n_bytes += int(parameters["encodedDataLength"])

    def open(self, path: Path, width: int, height: int = 900, scale: float = 1.0) -> None:
        """Load a file into a window of this size, and wait until all of it is there."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )
        self.send("Page.navigate", url=path.resolve().as_uri())
        self.evaluate(
            "new Promise(done => { const wait = () => document.readyState === 'complete'"
            " && location.protocol === 'file:' ? done(true) : setTimeout(wait, 20); wait(); })"
        )
        self.evaluate("Promise.all([...document.images].map(image => image.decode().catch(() => 0))).then(() => true)")

    def evaluate(self, script: str) -> Any:
        """The value of an expression, awaited where it is a promise."""
        for attempt in range(3):
            try:
                found = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
                break
            except RuntimeError as error:  # the page was just being replaced
                if not ("context" in str(error) or "navigated" in str(error)) or attempt == 2:
                    raise
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"]["exception"].get("description"))
        return found["result"].get("value")

    def screenshot(self, path: Path) -> None:
        """The whole page as a PNG file."""
        content = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(content))

    def printed(self) -> bytes:
        """The page as a PDF file."""
        return base64.b64decode(self.send("Page.printToPDF", preferCSSPageSize=True)["data"])


@contextmanager
def chromium() -> Iterator[Page]:
    """A browser with one empty page, for the length of a block."""
    assert BINARY is not None
    child_reads, to_browser = os.pipe()
    from_browser, child_writes = os.pipe()

    def connect() -> None:  # Chromium reads commands from descriptor 3 and answers on 4
        reads, writes = os.dup(child_reads), os.dup(child_writes)
        os.dup2(reads, 3)
        os.dup2(writes, 4)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [BINARY, *OPTIONS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=connect,
        )
        os.close(child_reads)
        os.close(child_writes)
        try:
            yield Browser(to_browser, from_browser).tab()
        finally:
            os.close(to_browser)
            os.close(from_browser)
            process.terminate()
            process.wait(timeout=20)
