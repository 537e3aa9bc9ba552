"""Every estimator takes back what it gives, and nothing else."""

import pytest
from sklearn.base import clone

from tests.files import models

OPTIONAL = {
    "feature_names_in_",
    "n_features_in_",
    "loss_curve_",
    "validation_scores_",
    "best_validation_score_",
    "noise_",
    "oof_accuracy_",
    "oof_samples_",
    "seen_",
    "training_rows",
    "plan_accuracy_",
    "expected_hours_",
    "promise_",
    "softening_",
    "missing_",
    "unpriced_columns_",
    "parts_",
    "set_threshold_",
    "gaps",
    "frame_columns_",
    "categories_",
    "partners_",
    "partner_factors_",
}


def fresh(name):
    """The same model without what it has learnt."""
    return clone(models.model(name), safe=False)


@pytest.mark.parametrize("name", models.NAMES)
def test_a_state_is_all_that_a_model_has_learnt(name):
    fitted, again = models.model(name), fresh(name)
    assert again._get_state() == {}
    again._set_state(fitted._get_state())
    assert vars(again).keys() == vars(fitted).keys()
    X = models.samples(name)
    assert models.same(models.answers(again, X), models.answers(fitted, X))


@pytest.mark.parametrize("name", models.NAMES)
def test_what_is_missing_or_unknown_is_refused(name):
    state = models.model(name)._get_state()
    with pytest.raises(ValueError, match="has no attribute 'surprise'"):
        fresh(name)._set_state({**state, "surprise": 1})
    for lacking in state.keys() - OPTIONAL - {"moments"}:
        with pytest.raises(ValueError, match=f"lacks '{lacking}'"):
            fresh(name)._set_state({key: value for key, value in state.items() if key != lacking})


@pytest.mark.parametrize("name", models.NAMES)
def test_what_is_of_another_kind_is_refused_and_changes_nothing(name):
    state, model = models.model(name)._get_state(), fresh(name)
    before = vars(model).keys()
    for part in state:
        with pytest.raises((AttributeError, TypeError, ValueError), match=r"\w+"):  # files make one sentence of it
            model._set_state({**state, part: object()})
        assert vars(model).keys() == before
