"""QMSClassifier: solvers, threads, storages, weights, and every way to fit.

Few passes over few samples: rounding, which differs between machines, has no time to grow.
"""

from copy import deepcopy
from functools import partial

import numpy as np

from multiform import QMSClassifier
from tests.behaviour.registry import add, case
from tests.behaviour.samples import clouds, counts, pixels, repeated, weights, words


def answers(model, asked):
    """What separators say of samples."""
    return {
        "predict": model.predict(asked),
        "predict_proba": model.predict_proba(asked),
        "decision_function": model.decision_function(asked),
        "member_values": model.member_values(asked),
    }


def told(model, asked):
    """All that a fitted model shows."""
    return answers(model, asked) | {
        "classes_": model.classes_,
        "components_": model.components_,
        "offsets_": model.offsets_,
        "temperature_": model.temperature_,
        "loss_curve_": model.loss_curve_,
        "n_iter_, n_components_, n_features_in_": [model.n_iter_, model.n_components_, model.n_features_in_],
    }


def new(**settings):
    return QMSClassifier(**({"n_components": 3, "max_iter": 6, "random_state": 0} | settings))


DEFAULTS = {"n_components": "auto", "max_iter": "auto"}
SETTINGS = {
    "adam_defaults": DEFAULTS,
    "cpm_defaults": DEFAULTS | {"solver": "cpm"},
    "adam": {},
    "adam_two_threads": {"n_jobs": 2},
    "adam_three_models": {"n_models": 3},
    "adam_noise_none": {"noise": 0.0},
    "adam_noise_much": {"noise": 1.5},
    "adam_alpha": {"alpha": 0.0, "learning_rate": 0.03},
    "adam_small_batches": {"batch_size": 16, "max_iter": 3},
    "adam_components_auto": {"n_components": "auto"},
    "adam_uncalibrated": {"calibrate": False},
    "adam_scaling_standard": {"scaling": "standard"},
    "adam_scaling_common": {"scaling": "common"},
    "adam_scaling_none": {"scaling": "none"},
    "adam_balanced": {"class_weight": "balanced"},
    "adam_class_weight": {"class_weight": {0: 1.0, 1: 3.0, 2: 0.5}},
    "adam_early_stopping": {"early_stopping": True, "validation_fraction": 0.3, "n_iter_no_change": 2, "max_iter": 9},
    "adam_random_state": {"random_state": np.random.RandomState(7)},
    "cpm": {"solver": "cpm", "max_iter": 3},
    "cpm_two_threads": {"solver": "cpm", "max_iter": 3, "n_jobs": 2},
    "cpm_literal": {"solver": "cpm-literal", "max_iter": 3},
    "cpm_two_models": {"solver": "cpm", "max_iter": 2, "n_models": 2},
    "cpm_early_stopping": {"solver": "cpm", "max_iter": 6, "early_stopping": True, "n_iter_no_change": 2},
    "cpm_balanced": {"solver": "cpm", "max_iter": 2, "class_weight": "balanced", "noise": 1.0},
}
DATA = {
    "float32": lambda: tuple(np.asarray(part, np.float32 if part.dtype.kind == "f" else None) for part in clouds()),
    "fortran": lambda: tuple(map(np.asfortranarray, clouds())),
    "uint8": pixels,
    "csr": counts,
    "two_classes": lambda: clouds(100, 3, 2, seed=5),
    "string_labels": lambda: (lambda X, y, asked: (X, words(y), asked))(*clouds(110, 3, 4, seed=6)),
    "repeated": repeated,
    "wide": lambda: clouds(30, 40, 3, seed=7),
}


def fitted(settings, data=clouds, **fit):
    X, y, asked = data()
    model = new(**deepcopy(settings)).fit(X, y, **fit)  # a random state moves on when it is used
    shown = told(model, asked)
    if model.early_stopping:
        shown |= {"validation_scores_": model.validation_scores_, "best": model.best_validation_score_}
    return shown


for name, settings in SETTINGS.items():
    add(f"qms.{name}", partial(fitted, settings))
for kind, data in DATA.items():
    for solver, passes in (("adam", 6), ("cpm", 2)):
        add(f"qms.{solver}_{kind}", partial(fitted, {"solver": solver, "max_iter": passes}, data))
        if kind in ("float32", "uint8", "csr", "string_labels"):
            weighted = {"solver": solver, "max_iter": min(passes, 4), "n_jobs": 2, "class_weight": "balanced"}
            share = weights(data()[0].shape[0])
            add(f"qms.{solver}_{kind}_weighted", partial(fitted, weighted, data, sample_weight=share))


@case
def validation_given():
    X, y, asked = clouds()
    model = new(early_stopping=True, max_iter=8, n_iter_no_change=3).fit(X[:90], y[:90], X_val=X[90:], y_val=y[90:])
    return told(model, asked) | {"validation_scores_": model.validation_scores_}


@case
def warm_start():
    X, y, asked = clouds()
    model = new(warm_start=True, max_iter=3).fit(X[:70], y[:70])
    return told(model.set_params(max_iter=2).fit(X, y), asked)


@case
def warm_start_cpm_two_models():
    X, y, asked = clouds()
    model = new(warm_start=True, solver="cpm", n_models=2, max_iter=2).fit(X[:70], y[:70])
    return told(model.set_params(max_iter=1).fit(X, y), asked)


@case
def partial_fit():
    X, y, asked = clouds()
    model = new(n_jobs=2)
    for part in np.split(np.arange(120), 3):
        model.partial_fit(X[part], y[part], classes=[0, 1, 2], sample_weight=weights(120)[part])
    return told(model, asked)


@case
def partial_fit_sparse():
    X, y, asked = counts()
    return told(new().partial_fit(X[:90], y[:90], classes=[0, 1, 2]).partial_fit(X[90:], y[90:]), asked)


@case
def from_separators():
    X, y, asked = clouds()
    model = new().fit(X, y)
    made = QMSClassifier.from_separators(model.components_, model.offsets_, model.classes_, temperature=0.7)
    return answers(made, asked)


@case
def other_storage_asked():
    """The same model asked with other kinds of numbers than it was fitted on."""
    X, y, asked = pixels()
    model = new().fit(X, y)
    return answers(model, asked.astype(np.float64)) | {"float32": model.member_values(asked.astype(np.float32))}


# From 4,097 samples on CPM is row-synchronous, with 8 components or more for all classes at once; from 20,000 on the
# temperature comes from samples that are held out.
LARGE = {
    "cpm_synchronous": (4200, {"solver": "cpm", "n_components": 8, "max_iter": 2}),
    "cpm_synchronous_two_threads": (4200, {"solver": "cpm", "n_components": 8, "max_iter": 2, "n_jobs": 2}),
    "cpm_row_synchronous": (4200, {"solver": "cpm", "n_components": 3, "max_iter": 2, "n_jobs": 2}),
    "cpm_literal_large": (4200, {"solver": "cpm-literal", "n_components": 3, "max_iter": 1, "n_jobs": 2}),
    "adam_large": (5000, {"max_iter": 1, "n_jobs": 2}),
    "adam_held_out": (20_100, {"max_iter": 1, "n_jobs": 2}),
}
for name, (n, settings) in LARGE.items():
    add(f"qms.{name}", partial(fitted, settings, partial(clouds, n, 3, 3, seed=8)))
