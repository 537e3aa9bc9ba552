"""Temperatures and offsets of the core are where the log loss says, for every instruction set to the bit."""

import numpy as np
import pytest

from multiform import _core
from multiform.testing import available_kernels

SIZES = [(5, 2), (126, 3), (600, 4), (259, 33)]  # less than a vector, more than a block, more classes than it has lanes


def unseen(n, m):
    rng = np.random.default_rng(n)
    scores, target = rng.normal(size=(2, n, m)), rng.integers(0, m, n).astype(np.int32)
    scores[:, np.arange(n), target] += 1
    return scores * [[[1.0]], [[40.0]]], target, rng.uniform(0, 3, n)


def log_chances(scores):
    below = scores - scores.max(axis=-1, keepdims=True)
    return below - np.log(np.exp(below).sum(axis=-1, keepdims=True))


def answers(n, m, kernel):
    scores, target, weight = unseen(n, m)
    found, losses, offsets = np.empty(2), np.empty(2), np.empty(m)
    _core.log_sharpness(scores, target, weight, found, losses, kernel)
    _core.class_offsets(scores[0], target, weight, 0.5, offsets, kernel)
    return found, losses, offsets, [_core.log_sharpness_in_the_mean(one, target, weight, kernel) for one in scores]


@pytest.mark.parametrize("size", SIZES)
def test_every_kernel_gives_the_same_bits(size):
    for kernel in available_kernels():
        for one, other in zip(answers(*size, kernel), answers(*size, "portable"), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("size", SIZES)
def test_losses_are_least(size):
    scores, target, weight = unseen(*size)
    found, losses, offsets, in_the_mean = answers(*size, "auto")
    samples, (n, m) = np.arange(len(target)), size
    softened = 1 / (weight.sum() + 2)
    labels = np.full((n, m), softened / m)
    labels[samples, target] += 1 - softened

    def loss_of(model, sharpness, soft=labels):
        return -weight @ (soft * log_chances(np.exp(sharpness) * scores[model])).sum(axis=1)

    def loss_with(b):
        return b @ b / (2 * 0.5**2) - weight @ log_chances(scores[0] + b)[samples, target]

    for model in (0, 1):
        assert losses[model] == pytest.approx(loss_of(model, found[model], np.eye(m)[target]), rel=1e-12)
        assert all(loss_of(model, found[model]) <= loss_of(model, found[model] + step) for step in (-1e-4, 1e-4))
        right = scores[model].argmax(axis=1) == target
        share = sum(w * (w + 1 if of else 1) / (w + 2) for of in (0, 1) if (w := weight[right == of].sum()))
        mean = weight @ np.exp(log_chances(np.exp(in_the_mean[model]) * scores[model])).max(axis=1)
        assert mean == pytest.approx(share) or abs(in_the_mean[model] - found[model]) == pytest.approx(np.log(2))
    assert all(loss_with(offsets) <= loss_with(offsets + sign * one) for one in 1e-4 * np.eye(m) for sign in (-1, 1))


def test_numbers_beyond_the_range_of_exponentials():
    scores = np.array([[[0.0, -1e6], [-1e6, 0.0]]])
    found, losses = np.empty(1), np.empty(1)
    _core.log_sharpness(scores, np.array([0, 1], np.int32), np.ones(2), found, losses)
    assert -5 <= found[0] <= 5
    assert losses[0] == 0


def test_what_does_not_fit_is_refused():
    scores, target, weight = unseen(5, 2)
    with pytest.raises(ValueError, match="one target and one weight per sample"):
        _core.log_sharpness_in_the_mean(scores[0], target[1:], weight)
    with pytest.raises(ValueError, match="out of range"):
        _core.class_offsets(scores[0], target + 1, weight, 0.5, np.empty(2))
    with pytest.raises(ValueError, match="one number per class"):
        _core.class_offsets(scores[0], target, weight, 0.5, np.empty(3))
    with pytest.raises(ValueError, match="one number per model"):
        _core.log_sharpness(scores, target, weight, np.empty(1), np.empty(1))
