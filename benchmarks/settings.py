"""Our own settings that the documentation names, in one place: the benchmarks show exactly these.

Chosen on a validation part of the training data; the test set only reports.
"""

from functools import partial
from typing import Any

from benchmarks.peers import Model


def build_qms(parameters: dict[str, Any], n_jobs: int, seed: int) -> Any:
    from multiform import QMSClassifier

    return QMSClassifier(n_jobs=n_jobs, random_state=seed, **parameters)


def build_qms_cv(n_jobs: int, seed: int) -> Any:
    from multiform import QMSClassifierCV

    return QMSClassifierCV(n_jobs=n_jobs, random_state=seed)


def qms(name: str, **parameters: Any) -> Model:
    """``QMSClassifier`` with these parameters, which become the table's note."""
    note = ", ".join(f"{key}={value!r}" for key, value in parameters.items())
    return Model(name, partial(build_qms, parameters), "multiform", note, ours=True)


# The paper's own settings (section 4.3): q = 18, alpha = 0.5, and no input noise, which it does not have.
PAPER: dict[str, Any] = {"n_components": 18, "alpha": 0.5, "noise": 0.0}

FASHION = (
    qms("QMS"),
    qms("QMS, cpm", solver="cpm"),
    qms("QMS, accurate", n_components=36),
)

REPRODUCE = (
    qms("QMS, cpm", solver="cpm", **PAPER),
    qms("QMS, adam", solver="adam", **PAPER),
)

UCI = (
    qms("QMS"),
    Model("QMS CV", build_qms_cv, "multiform", ours=True),
)
