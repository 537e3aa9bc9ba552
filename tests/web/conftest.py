"""Real servers on free ports, and whoever asks them: a program that has the token, a browser that has the cookie."""

import threading
import time
from contextlib import contextmanager

import httpx
import numpy as np
import polars as pl
import pytest
import uvicorn

import multiform
from multiform.tables import TableClassifier
from multiform.web import Limits, application
from multiform.web._app import config_of, listening_at


class Served:
    """A server in a thread of this process."""

    def __init__(self, app, port):
        self.app, self.port, self.token = app, port, app.state.access.token
        self.address = f"http://127.0.0.1:{port}"

    def link(self):
        """An address for a browser, good once."""
        return f"{self.address}/?token={self.app.state.access.link()}"

    def client(self, **headers):
        """A program that has the token."""
        headers = {"authorization": f"Bearer {self.token}", **headers}
        return httpx.Client(base_url=self.address, headers=headers, timeout=30, trust_env=False)

    @contextmanager
    def browser(self):
        """Whoever has opened the link, with what a browser sends along."""
        headers = {"origin": self.address}
        with httpx.Client(base_url=self.address, timeout=30, trust_env=False, headers=headers) as client:
            assert client.get(self.link()).status_code == 303
            yield client


@contextmanager
def served(model, limits=None, port=0, **options):
    """A server of a model until the block ends; at a free port, if none is named."""
    limits = limits or Limits()
    app = application(model, limits=limits, **options)
    listening = listening_at("127.0.0.1", port)
    server = uvicorn.Server(config_of(app, limits))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield Served(app, listening.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()
        listening.close()


def people(n, seed):
    """A table with a column of every role, and a target that can be learnt."""
    random = np.random.default_rng(seed)
    kind = random.integers(0, 3, n)
    words = np.array(["tired", "well", "cough", "fever", "rest", "better"])
    return pl.DataFrame(
        {
            "age": [
                None if random.random() < 0.1 else round(float(one), 1) for one in random.normal(40 + 12 * kind, 9)
            ],
            "city": np.array(["Rome", "Oslo", "Bern", "Kyiv"])[np.minimum(3, kind + random.integers(0, 2, n))],
            "visit": [f"2024-{1 + row % 12:02d}-{1 + row % 28:02d}" for row in range(n)],
            "note": [" ".join(random.choice(words, 4)) + (" severe" if k == 2 else "") for k in kind],
            "level": np.array(["mild", "none", "severe"])[kind],
        }
    )


@pytest.fixture(scope="session")
def table_model():
    """A table's model, with loyalty types."""
    inner = multiform.LoyaltyClassifier(multiform.QMSClassifier(2, noise=0.3, max_iter=20, random_state=0), cv=3)
    return TableClassifier(inner).fit(people(200, 0), "level")


@pytest.fixture(scope="session")
def matrix_model():
    """A classifier without a table around it."""
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 100)
    return multiform.QMSClassifier(2, noise=0.3, max_iter=20, random_state=0).fit(
        random.normal(y[:, None], 0.5, (100, 3)), y
    )


@pytest.fixture(scope="session")
def plan():
    """A cheap question, a sharp scan, and a colour."""
    random = np.random.default_rng(0)
    ill = random.integers(0, 2, 240)
    columns = {
        "question": ill + random.normal(0, 0.6, 240),
        "scan": ill + random.normal(0, 0.25, 240),
        "colour": np.array(["red", "blue"])[(ill + (random.random(240) < 0.4)) % 2],
    }
    planner = multiform.DiagnosisPlanner({"question": 1, "scan": 20, "colour": 2}, random_state=0)
    return planner.fit(pl.DataFrame(columns).to_pandas(), np.array(["ill", "well"])[1 - ill])


@pytest.fixture(scope="session")
def table_server(table_model):
    """Of the table's model."""
    with served(table_model) as found:
        yield found


@pytest.fixture(scope="session")
def matrix_server(matrix_model):
    """Of the classifier without a table."""
    with served(matrix_model) as found:
        yield found


@pytest.fixture(scope="session")
def plan_server(plan):
    """Of the plan."""
    with served(plan) as found:
        yield found
