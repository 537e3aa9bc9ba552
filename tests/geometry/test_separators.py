"""Separators: one value for everything that has member functions."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from multiform.geometry import MemberFunction, Separators

A, B = np.arange(12.0).reshape(2, 3, 2), np.arange(6.0).reshape(2, 3)


def test_values_decisions_and_members_agree_with_the_definition():
    separators = Separators(A, B, ["u", "v"])
    X = np.random.default_rng(0).normal(size=(20, 2))
    expected = np.array([[np.linalg.norm(A[k] @ x - B[k]) ** 2 for k in range(2)] for x in X])
    np.testing.assert_allclose(separators.member_values(X), expected)
    assert separators.predict(X).tolist() == [["u", "v"][k] for k in expected.argmin(axis=1)]
    np.testing.assert_allclose(separators["v"](X), expected[:, 1])
    assert [member.n_components for member in separators] == [3, 3]
    assert len(separators) == 2


def test_of_takes_whatever_has_separators():
    separators = Separators(A, B, ["u", "v"], ["a", "b"])
    fitted = SimpleNamespace(components_=A, offsets_=B, classes_=np.array(["u", "v"]), feature_names_in_=["a", "b"])
    assert Separators.of(separators) is separators
    for other in (Separators.of(fitted), Separators.of(dict(zip("uv", separators, strict=True)))):
        np.testing.assert_array_equal(other.components, A)
        np.testing.assert_array_equal(other.offsets, B)
        assert other.classes.tolist() == ["u", "v"]
    assert Separators.of(fitted).feature_names == ("a", "b")
    assert Separators.of(list(separators)).classes.tolist() == [0, 1]


def test_members_of_different_size_are_padded():
    members = [MemberFunction([[1.0, 2.0]], [3.0]), MemberFunction(np.eye(2), [0.0, 1.0])]
    separators = Separators.from_members(members)
    X = np.random.default_rng(0).normal(size=(10, 2))
    np.testing.assert_allclose(separators.member_values(X), np.column_stack([f(X) for f in members]))


def test_labels_keep_their_types():
    assert Separators(A, B, [1, "one"]).classes.tolist() == [1, "one"]
    assert Separators(A, B, [True, False]).classes.dtype == bool


def test_nothing_can_be_changed():
    separators = Separators(A, B)
    with pytest.raises(ValueError, match="read-only"):
        separators.components[0, 0, 0] = 7.0
    with pytest.raises(AttributeError, match="cannot assign"):
        separators.offsets = B
    assert repr(separators) == "Separators(classes=[0, 1], n_components=3, n_features=2)"


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Separators(A[:1], B[:1]), ValueError, "with m >= 2 classes"),
        (lambda: Separators(A, B[:, :2]), ValueError, "Separators needs components of shape"),
        (lambda: Separators(A, B, ["u", "u"]), ValueError, "must be 2 different labels"),
        (lambda: Separators(A, B, None, ["a"]), ValueError, "feature_names of Separators must be 2 names"),
        (lambda: Separators(A, B)["w"], KeyError, "is not a class of these separators"),
        (lambda: Separators.of(object()), TypeError, "separators can be taken from a fitted QMSClassifier"),
        (lambda: Separators.from_members([MemberFunction([[1.0]], [0.0])]), ValueError, "at least two"),
        (lambda: Separators(A, B).columns([], "me"), ValueError, "must hold at least one feature"),
        (lambda: Separators(A, B).columns([2], "me"), ValueError, "whole numbers below 2; got 2"),
        (lambda: Separators(A, B).columns([0.5], "me"), ValueError, "whole numbers below 2"),
        (lambda: Separators(A, B).columns(["a"], "me"), ValueError, "the model has no feature names"),
        (lambda: Separators(A, B).columns([True], "me"), ValueError, "needs 2 entries"),
        (lambda: Separators(A, B, None, "ab").columns(["c"], "me"), ValueError, "the names are"),
    ],
)
def test_errors_say_what_is_wrong(make, error, message):
    with pytest.raises(error, match=message):
        make()
