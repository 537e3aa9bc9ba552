"""One cluster of two processes for all fast tests."""

import os
from contextlib import contextmanager

import dask
import pytest
from distributed import Client, LocalCluster


@contextmanager
def environment_kept():
    """Before it starts a worker Dask sets OMP_NUM_THREADS and its like here, too, which other tests must not see."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(autouse=True)
def environment_of_others():
    with environment_kept():
        yield


@pytest.fixture(scope="session")
def client():
    # Warnings are errors: what Dask says of a busy machine is no finding about ours.
    quiet = {
        "distributed.admin.log-format": "%(message)s",
        "distributed.worker.memory.terminate": False,
        "distributed.comm.timeouts.connect": "60s",
    }
    with dask.config.set(quiet):
        with environment_kept():
            cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50)
        with cluster, Client(cluster) as client:
            yield client
