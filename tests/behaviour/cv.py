"""QMSClassifierCV: encodings, weights, folds."""

from functools import partial

import numpy as np
from sklearn.model_selection import KFold
from sklearn.preprocessing import PolynomialFeatures

from multiform import QMSClassifierCV
from tests.behaviour.registry import add
from tests.behaviour.samples import clouds, counts, repeated, steps, weights, words


def told(model, asked):
    results = {f"cv_results_ {name}": values for name, values in model.cv_results_.items()}
    return results | {
        "predict": model.predict(asked),
        "predict_proba": model.predict_proba(asked),
        "decision_function": model.decision_function(asked),
        "classes_": model.classes_,
        "oof_accuracy_": model.oof_accuracy_,
        "temperature_": model.temperature_,
        "best_noise_": model.best_noise_,
        "best_encoding_": model.best_encoding_,
        "n_iter_": model.n_iter_,
    }


def fitted(settings, data, weighted=False):
    X, y, asked = data()
    common = {"noise": (0.3, 1.0), "n_components": 3, "max_iter": 4, "cv": 3, "ensemble_size": 4, "random_state": 0}
    model = QMSClassifierCV(partners=None, **(common | settings))
    return told(model.fit(X, y, sample_weight=weights(X.shape[0]) if weighted else None), asked)


def named():
    X, y, asked = clouds(100, 3, 2, seed=5)
    return X, words(y), asked


PLAIN = {"encodings": "plain"}
add("cv.auto", partial(fitted, {}, steps))
add("cv.plain", partial(fitted, PLAIN, clouds))
add("cv.plain_two_threads", partial(fitted, PLAIN | {"n_jobs": 2}, clouds))
add("cv.enriched", partial(fitted, {"encodings": "enriched"}, steps))
add("cv.transformer", partial(fitted, {"encodings": ["plain", PolynomialFeatures(2, include_bias=False)]}, steps))
add("cv.weighted", partial(fitted, {"class_weight": "balanced"}, steps, weighted=True))
add("cv.folds_given", partial(fitted, PLAIN | {"cv": KFold(4)}, clouds))
add("cv.two_classes", partial(fitted, {"noise": (0.1, 0.3, 2.0)}, named))
add("cv.repeated", partial(fitted, {}, repeated))
add("cv.defaults", partial(fitted, {"noise": (0.1, 0.3, 1.0, 2.0), "n_components": "auto", "max_iter": "auto"}, steps))
add("cv.sparse", partial(fitted, {}, counts, weighted=True))
add("cv.all_settings", partial(fitted, {"alpha": 0.2, "batch_size": 32, "learning_rate": 0.05, "n_components": "auto"},
                               lambda: tuple(np.asarray(part, np.float32) for part in clouds())))  # fmt: skip
