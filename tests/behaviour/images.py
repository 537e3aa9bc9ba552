"""ImagePatches: filters from training images, and what they answer."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline

from multiform import QMSClassifier
from multiform.images import ImagePatches
from tests.behaviour.registry import case


def told(patches, X):
    return {
        "transform": patches.transform(X[-6:]),
        "filters_": patches.filters_,
        "contrast_": patches.contrast_,
        "image_shape_": patches.image_shape_,
    }


@case
def grey():
    X, _ = load_digits(return_X_y=True)
    settings = {"n_filters": 6, "patch_size": 3, "grid": 2, "n_jobs": 2, "random_state": 0}
    return told(ImagePatches(**settings).fit(X[:60]), X[:70])


@case
def coloured_bytes():
    X = (load_digits().data[:70] * 15).astype(np.uint8).reshape(70, 4, 8, 2).reshape(70, -1)
    settings = {"n_filters": 5, "patch_size": 2, "stride": 2, "grid": 2, "threshold": 0.3, "random_state": 1}
    return told(ImagePatches((4, 8, 2), **settings).fit(X[:60]), X)


@case
def before_a_classifier():
    X, y = load_digits(n_class=4, return_X_y=True)
    patches = ImagePatches(n_filters=6, patch_size=3, grid=2, random_state=0)
    # Uncalibrated: the folds of a temperature are decided by the bits of a row, and patches are rounded.
    qms = QMSClassifier(n_components=2, max_iter=3, noise=1.0, calibrate=False, random_state=0)
    model = make_pipeline(patches, qms)
    model.fit(X[:150], y[:150])
    return {"predict": model.predict(X[150:180]), "predict_proba": model.predict_proba(X[150:180])}
