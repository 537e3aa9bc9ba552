"""Eight threads that fit at the same time, under ThreadSanitizer: a test build of the core, and no report."""

import os
import subprocess
import sys
import threading
import time

import numpy as np


def check(package, seconds=60):
    """Fit on the package of this folder, whose core has the sanitizer in it."""
    runtime = subprocess.run(
        [os.environ.get("CXX", "c++"), "-print-file-name=libtsan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    environment = os.environ | {
        "LD_PRELOAD": runtime,
        "PYTHONPATH": os.pathsep.join([str(package), os.getcwd()]),
        "TSAN_OPTIONS": "exitcode=66",
        "OPENBLAS_NUM_THREADS": "1",
    }
    # Without random addresses, which the sanitizer of older compilers does not cope with.
    words = ["setarch", os.uname().machine, "-R", sys.executable, "-m", __name__, str(seconds)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    reports = done.stderr.count("WARNING: ThreadSanitizer")
    counts = {"threads": 8, "seconds": seconds, "fits": 0, "reports": reports}
    if done.returncode != 0 or reports:
        return counts, [f"exit code {done.returncode}, {done.stdout[-300:]} {done.stderr[:3000]}"]
    counts["fits"] = int(done.stdout.split()[-1])
    return counts, []


def main(seconds):
    from multiform import LoyaltyClassifier, QMSClassifier, _core

    random = np.random.default_rng(0)
    X, y = random.normal(size=(400, 12)).astype(np.float32), random.integers(0, 4, 400)
    how = {"max_iter": 2, "n_jobs": 3, "random_state": 0}
    estimators = [
        QMSClassifier(40, noise=0.3, **how),
        QMSClassifier(3, noise="auto", **how),
        QMSClassifier(3, noise=0.3, solver="cpm", **how),
        QMSClassifier(3, noise=0.0, solver="cpm-literal", **how),
        LoyaltyClassifier(QMSClassifier(3, noise=0.3, solver="cpm", **how), random_state=0),
    ]
    end, fits, wrong = time.monotonic() + float(seconds), [], []
    wanted = [one.fit(X, y).predict_proba(X) for one in estimators]

    def work(number):
        from sklearn.base import clone

        while time.monotonic() < end:
            which = (number + len(fits)) % len(estimators)
            got = clone(estimators[which]).fit(X, y).predict_proba(X)
            if not np.array_equal(got, wanted[which]):
                wrong.append(which)
            fits.append(which)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, f"{len(wrong)} other models"
    assert "build" in _core.__file__, "the core is not the test build"
    print(len(fits))


if __name__ == "__main__":
    main(*sys.argv[1:])
