"""Our own settings that the documentation names, in one place: the benchmarks show exactly these.

Chosen on a validation part of the training data; the test set only reports.
"""

from functools import partial
from typing import Any

from benchmarks.peers import Model


def build_qms(parameters: dict[str, Any], n_jobs: int, seed: int) -> Any:
    from multiform import QMSClassifier

    return QMSClassifier(n_jobs=n_jobs, random_state=seed, **parameters)


def build_qms_cv(partners: Any, n_jobs: int, seed: int) -> Any:
    from multiform import QMSClassifierCV

    return QMSClassifierCV(n_jobs=n_jobs, random_state=seed, partners=partners)


def qms(name: str, **parameters: Any) -> Model:
    """``QMSClassifier`` with these parameters, which become the table's note."""
    note = ", ".join(f"{key}={value!r}" for key, value in parameters.items())
    return Model(name, partial(build_qms, parameters), "multiform", note, ours=True)


def build_lifted(features: Any, parameters: dict[str, Any], n_jobs: int, seed: int) -> Any:
    """QMS on the pixels beside features of an RBF kernel, by one of scikit-learn's own transformers."""
    from sklearn.pipeline import FeatureUnion, Pipeline
    from sklearn.preprocessing import FunctionTransformer

    return Pipeline(
        [
            ("unit", FunctionTransformer(to_unit)),
            ("lift", FeatureUnion([("pixels", "passthrough"), ("kernel", features)])),
            ("qms", build_qms(parameters, n_jobs, seed)),
        ]
    )


def to_unit(X: Any) -> Any:
    """Pixels from 0..255 to 0..1, in float32."""
    return X.astype("float32") / 255


PLAIN: dict[str, Any] = {"n_components": 19, "n_models": 2, "max_iter": 5}


def build_lifted_and_plain(n_jobs: int, seed: int) -> Any:
    """The mean of two chances: 600 Nystroem features beside the pixels, and the pixels alone.

    It knows nothing of images: shuffled pixels would do as well.
    """
    from sklearn.ensemble import VotingClassifier
    from sklearn.kernel_approximation import Nystroem

    nystroem = Nystroem(gamma=0.02, n_components=600, random_state=seed)
    on_nystroem = {"n_components": 19, "noise": 0.7, "max_iter": 8, "scaling": "standard"}
    return VotingClassifier(
        [
            ("nystroem", build_lifted(nystroem, on_nystroem, n_jobs, seed)),
            ("plain", build_qms(PLAIN, n_jobs, seed)),
        ],
        voting="soft",
    )


def build_patches(n_jobs: int, seed: int) -> Any:
    """QMS on what patches of the image look like."""
    from sklearn.pipeline import Pipeline

    from multiform.images import ImagePatches

    parameters = {"n_components": 18, "noise": 1.0, "max_iter": 6, "scaling": "standard"}
    patches = ImagePatches(stride=2, n_jobs=n_jobs, random_state=seed)
    return Pipeline([("patches", patches), ("qms", build_qms(parameters, n_jobs, seed))])


def build_best(n_jobs: int, seed: int) -> Any:
    """Every patch, on a finer grid, beside the pixels. The slowest and most accurate setting we name."""
    from multiform.images import ImagePatches

    patches = ImagePatches(grid=5, n_jobs=n_jobs, random_state=seed)
    parameters = {"n_components": 24, "n_models": 2, "noise": 1.5, "max_iter": 10, "scaling": "standard"}
    return build_lifted(patches, parameters, n_jobs, seed)


# The paper's own settings (section 4.3): q = 18, alpha = 0.5, and no input noise, which it does not have.
PAPER: dict[str, Any] = {"n_components": 18, "alpha": 0.5, "noise": 0.0}

FASHION = (
    qms("QMS"),
    qms("QMS, cpm", solver="cpm"),
    Model(
        "QMS, accurate",
        build_lifted_and_plain,
        "multiform",
        "a lifted model (600 Nystroem features) and a plain one, averaged",
        ours=True,
    ),
    Model("QMS, patches", build_patches, "multiform", "ImagePatches(stride=2): knows the pixels' places", ours=True),
    Model("QMS, best", build_best, "multiform", "ImagePatches(grid=5) beside the pixels, two models", ours=True),
)

REPRODUCE = (
    qms("QMS, cpm", solver="cpm", **PAPER),
    qms("QMS, adam", solver="adam", **PAPER),
)

UCI = (
    qms("QMS"),
    Model("QMS CV", partial(build_qms_cv, "auto"), "multiform", ours=True),
    Model("QMS CV pure", partial(build_qms_cv, None), "multiform", "partners=None", ours=True),
    Model("QMS CV + trees", partial(build_qms_cv, "trees"), "multiform", 'partners="trees"', ours=True),
)
