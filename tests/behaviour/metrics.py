"""The metrics on fixed answers."""

import numpy as np
from sklearn.naive_bayes import GaussianNB

from multiform.metrics import (
    accuracy_at_coverage,
    augrc,
    aurc,
    confusion_tensor,
    coverage_at_accuracy,
    layer_scores,
    loyalty_report,
    loyalty_table,
    neg_augrc_scorer,
    neg_aurc_scorer,
    risk_coverage_curve,
    trust_score,
)
from tests.behaviour.registry import case
from tests.behaviour.samples import clouds, weights


def answered(n=90):
    random = np.random.default_rng(14)
    true = np.arange(n) % 3
    said = np.where(random.random(n) < 0.7, true, random.integers(0, 3, n))
    trust = np.round(random.random(n) + 0.5 * (said == true), 2)  # with ties
    loyalty = np.array(["weak", "normal", "strong"])[np.digitize(trust, [0.5, 1.0])]
    return true, said, trust, loyalty


@case
def of_loyalty():
    true, said, _, loyalty = answered()
    tensor = confusion_tensor(true, said, loyalty)
    table = loyalty_table(true, said, loyalty, sample_weight=weights(90))
    report = loyalty_report(true, said, loyalty, output_dict=True)
    return {
        "tensor": tensor,
        "share": table.share,
        "accuracy": table.accuracy,
        "report": sorted(report),
        **{f"layers {name}": value for name, value in layer_scores(tensor)._asdict().items()},
    }


@case
def of_trust():
    true, said, trust, _ = answered()
    X, y, _ = clouds()
    model = GaussianNB().fit(X, y)
    curve = risk_coverage_curve(true, said, trust, sample_weight=weights(90))
    return {
        **{f"curve {place}": part for place, part in enumerate(curve)},
        "aurc": [aurc(true, said, trust), aurc(true, said, trust, sample_weight=weights(90))],
        "augrc": [augrc(true, said, trust), augrc(true, said, trust, sample_weight=weights(90))],
        "accuracy_at_coverage": accuracy_at_coverage(true, said, trust, coverage=0.4),
        "coverage_at_accuracy": coverage_at_accuracy(true, said, trust, accuracy=0.85),
        "trust_score": trust_score(model, X[:20]),
        "scorers": [neg_aurc_scorer(model, X, y), neg_augrc_scorer(model, X, y)],
    }
