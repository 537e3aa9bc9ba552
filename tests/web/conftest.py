"""Real servers on free ports, and a client that has the token."""

import threading
import time
from contextlib import contextmanager

import httpx
import pytest
import uvicorn

from multiform.web import Limits, application
from multiform.web._app import config_of, listening_at


class Served:
    """A server in a thread of this process."""

    def __init__(self, app, address, port):
        self.app, self.address, self.port, self.token = app, address, port, app.state.access.token

    def link(self):
        """An address for a browser, good once."""
        return f"{self.address}/?token={self.app.state.access.link()}"

    def client(self, **options):
        """A program that has the token."""
        headers = {"authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=self.address, headers=headers, timeout=30, trust_env=False, **options)

    def browser(self):
        """Whoever has opened the link, with what a browser sends along."""
        client = httpx.Client(base_url=self.address, timeout=30, trust_env=False, headers={"origin": self.address})
        assert client.get(self.link()).status_code == 303
        return client


@contextmanager
def served(model, limits=None, **options):
    """A server of a model until the block ends."""
    limits = limits or Limits()
    app = application(model, limits=limits, **options)
    listening = listening_at("127.0.0.1", 0)
    server = uvicorn.Server(config_of(app, limits))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = listening.getsockname()[1]
    try:
        yield Served(app, f"http://127.0.0.1:{port}", port)
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture(scope="session")
def serve():
    """`served`, for tests that want a server of their own."""
    return served
