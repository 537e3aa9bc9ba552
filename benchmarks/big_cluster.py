"""The cluster's part of `benchmarks big`: workers with rows of their own, a killed one, and the Dask faces of peers.

Every measurement has a fresh LocalCluster of processes with one thread each. Workers draw their own rows, which are
there before the clock starts. Peak memory of a worker is its largest resident size during the fit, "above" how much
that is above what it had before.
"""

import os
import signal
import threading

import numpy as np

from benchmarks.measure import resident_megabytes, start_of_a_peak, timed


def on_workers(client, n_workers: int, n_each: int, p: int, seed: int, block: int):  # type: ignore[no-untyped-def]
    """X and y as Dask arrays, drawn by the workers and kept there: `n_each` rows a worker."""
    import dask.array as da
    from dask import delayed
    from distributed import wait

    from benchmarks.big import drawn

    parts = []
    homes = sorted(client.nthreads())
    for number in range(n_workers * n_each // block):
        home = homes[number * block // n_each]
        there = {"workers": [home], "allow_other_workers": True}  # one that dies is replaced by another
        pair = client.persist(delayed(drawn)(block, p, seed, number), **there)
        rows, labels = client.persist([pair[0], pair[1]], **there)
        parts.append((da.from_delayed(rows, (block, p), np.float32), da.from_delayed(labels, (block,), np.int64)))
    X, y = (da.concatenate([part[which] for part in parts]) for which in (0, 1))
    X, y = client.persist([X, y])
    wait([X, y])
    return X, y


def cluster_block(n_each: int) -> int:
    """Rows of a partition."""
    return min(n_each, 100_000)


def model_of(name: str, seed: int):  # type: ignore[no-untyped-def]
    """A classifier that takes Dask arrays, with its defaults."""
    if name == "XGBoost":
        from xgboost.dask import DaskXGBClassifier

        return DaskXGBClassifier(random_state=seed)
    if name == "LightGBM":
        from lightgbm import DaskLGBMClassifier

        return DaskLGBMClassifier(random_state=seed, verbose=-1)
    from multiform import QMSClassifier

    return QMSClassifier(random_state=seed)


def fitted(name: str, n_workers: int, n_each: int, p: int, seed: int, kill: float) -> dict[str, object]:
    """Seconds, accuracy and peak megabytes a worker of a fit (called in a fresh process); maybe one is killed.

    `kill` is after how many seconds; 0 kills nobody.
    """
    from distributed import Client, LocalCluster

    from benchmarks.big import accuracy, drawn

    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        client.run(_warm, name)  # libraries are there
        _warm(name)
        X, y = on_workers(client, n_workers, n_each, p, seed, cluster_block(n_each))
        before = client.run(start_of_a_peak)
        pids = sorted(client.run(os.getpid).values())
        model = model_of(name, seed)
        timer = threading.Timer(kill, os.kill, (pids[-1], signal.SIGKILL))
        if kill:
            timer.start()
        _, seconds = timed(lambda: model.fit(X, y))
        killed = kill > 0 and not timer.is_alive()
        timer.cancel()
        peaks = client.run(resident_megabytes, "VmHWM")
        if name == "QMSClassifier":
            right, made = accuracy(model, p, seed), float(np.abs(model.components_).sum())
        else:
            rows, labels = drawn(50_000, p, seed, 10**6)
            import dask.array as da

            right = float((np.asarray(model.predict(da.from_array(rows, chunks=(25_000, p)))) == labels).mean())
            made = 0.0
        return {
            "s": seconds,
            "accuracy": right,
            "peak MB": max(peaks.values()),
            "above, MB": max(peaks[home] - before[home] for home in peaks if home in before),
            "model": made,
            "killed": killed,
        }


def _warm(name: str) -> None:
    from benchmarks.big import drawn

    if name == "QMSClassifier":
        from multiform import QMSClassifier

        QMSClassifier(n_jobs=1).fit(*drawn(500, 5, 0, 0))
    else:
        model_of(name, 0)
