"""One place assembles batches; what comes out is what the engine was told to do."""

import re
from pathlib import Path

import numpy as np
import pytest

import multiform
from multiform.solvers import AdamSolver, CpmSolver
from multiform.training import Member, Trainer

SOURCES = Path(multiform.__file__).parent


@pytest.mark.parametrize("name", ["ModelBatch", "TrainingProblem"])
def test_nobody_else_assembles(name):
    """Besides the checks of engines, which make small ones of their own."""
    places = [path for path in SOURCES.rglob("*.py") if re.search(rf"(?<!class )\b{name}\(\n? *\S", _code(path))]
    assert {path.name for path in places} == {"training.py", "testing.py"}


def _code(path):
    """Without docstrings, whose examples may show how."""
    return re.sub(r'""".*?"""', "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.fixture
def trainer(blobs):
    X, y = blobs
    return Trainer(X, y.astype(np.int32), 3, scaling="standard", alpha=0.5, n_jobs=1)


def members(n, **changes):
    return [Member(seed, 0.3, np.ones(3), **changes) for seed in range(n)]


@pytest.mark.parametrize("solver", [AdamSolver(3, 32), CpmSolver(2).literal()], ids=["adam", "cpm"])
def test_values_of_the_training_rows_are_those_of_the_users_rows(trainer, blobs, solver):
    separators = trainer.train(members(1), solver, 2).separators()
    inside, outside = (separators.values(rows, trainer.engine) for rows in (trainer.rows, blobs[0]))
    np.testing.assert_allclose(inside, outside, rtol=1e-3)
    np.testing.assert_array_equal(separators.values(trainer.rows.part([3, 5]), trainer.engine), inside[[3, 5]])


def test_a_merged_model_is_the_mean_of_its_members_at_their_levels(trainer):
    """f = mean of f_member / level, times the levels' mean; the level is the geometric mean of the member's values."""
    trained = trainer.train(members(3), AdamSolver(3, 32), 2)
    values = [trained.separators(member).values(trainer.rows, trainer.engine) for member in range(3)]
    parts = [f.astype(np.float64) for f in values]
    levels = [np.exp(np.log(f).mean()) for f in parts]
    mean = np.mean([f / level for f, level in zip(parts, levels, strict=True)], axis=0) * np.exp(np.log(levels).mean())
    np.testing.assert_allclose(trained.merged(range(3)).values(trainer.rows, trainer.engine), mean, rtol=1e-3)
    assert trained.merged([1]).coefficients is trained.coefficients[1]


def test_weights_that_all_members_share_are_stored_once(trainer, blobs, monkeypatch):
    """A batch of hundreds of members over many samples must not hold a copy per member."""
    seen = []
    solve = multiform.training.solve
    monkeypatch.setattr(
        multiform.training,
        "solve",
        lambda problem, batch, *rest, **named: (
            seen.append(batch.sample_weight) or solve(problem, batch, *rest, **named)
        ),
    )
    weight = np.linspace(0.5, 1.5, len(blobs[1]))
    for changes in ({}, {"sample_weight": weight}):
        trainer.train(members(2, **changes), AdamSolver(1, 32), 2)
    own = [Member(0, 0.3, np.ones(3), weight), Member(0, 0.3, np.ones(3))]
    trainer.train(own, AdamSolver(1, 32), 2)
    assert seen[0] is None
    assert seen[1].shape == weight.shape
    np.testing.assert_array_equal(seen[2], np.stack([weight, np.ones_like(weight)]).astype(np.float32))


def test_the_first_look_after_a_pass_is_what_comes_out_of_one(trainer):
    looks = []
    trainer.train(members(2), AdamSolver(5, 32), 2, after_pass=lambda trained: looks.append(trained) or len(looks) == 2)
    assert [look.passes for look in looks] == [1, 2]
    assert [len(look.losses[0]) for look in looks] == [1, 2]
