"""How good are the answers, and how good is the trust put in them?

Three families. The paper's (section 3.2): a confusion matrix for each loyalty type, stacked into the confusion
tensor, and what follows from it. The selective ones: what happens to the error when only the surest
answers are kept, as a curve, as one number, or at one coverage. And those by which a test is judged: sensitivity and
its like, areas, calibration, thresholds, two models side by side, all with intervals.
"""

from multiform.metrics._comparison import compare_answers
from multiform.metrics._loyalty import (
    LOYALTY_LEVELS,
    LayerScores,
    LoyaltyTable,
    confusion_tensor,
    layer_scores,
    loyalty_report,
    loyalty_table,
    type_words,
)
from multiform.metrics._screening import (
    THRESHOLDS,
    Interval,
    calibration,
    one_against_rest,
    pr_auc,
    proportion,
    roc_auc,
    share_interval,
    threshold_table,
)
from multiform.metrics._selective import (
    ScoreMethod,
    SelectiveScorer,
    accuracy_at_coverage,
    augrc,
    aurc,
    coverage_at_accuracy,
    make_selective_scorer,
    neg_augrc_scorer,
    neg_aurc_scorer,
    risk_coverage_curve,
    trust_score,
)

__all__ = [
    "LOYALTY_LEVELS",
    "THRESHOLDS",
    "Interval",
    "LayerScores",
    "LoyaltyTable",
    "ScoreMethod",
    "SelectiveScorer",
    "accuracy_at_coverage",
    "augrc",
    "aurc",
    "calibration",
    "compare_answers",
    "confusion_tensor",
    "coverage_at_accuracy",
    "layer_scores",
    "loyalty_report",
    "loyalty_table",
    "make_selective_scorer",
    "neg_augrc_scorer",
    "neg_aurc_scorer",
    "one_against_rest",
    "pr_auc",
    "proportion",
    "risk_coverage_curve",
    "roc_auc",
    "share_interval",
    "threshold_table",
    "trust_score",
    "type_words",
]
