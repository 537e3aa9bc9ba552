"""Labels as positions: by Python's own equality, whatever the arrays are."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from multiform.metrics import confusion_tensor, loyalty_table
from multiform.metrics.labels import distinct, positions

some_labels = st.lists(
    st.one_of(st.integers(-3, 3), st.sampled_from(["", "0", "1", "a", "a\0", "\0", "00"])), min_size=1
)


def objects(labels):
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


@example(values=["a", "a\0"], more=["\0", ""])
@example(values=[1, "1"], more=[1])
@given(values=some_labels, more=some_labels)
def test_a_position_is_that_of_an_equal_label(values, more):
    classes = distinct(objects(values), objects(more))
    assert sorted(map(repr, classes)) == sorted(map(repr, set(values) | set(more)))
    assert [classes[place] for place in positions(objects(values), classes)] == values
    found = positions(objects(values), objects(more))
    assert [place >= 0 for place in found] == [label in more for label in values]
    assert all(more[place] == label for place, label in zip(found, values, strict=True) if place >= 0)


@given(st.lists(st.integers(-5, 5), min_size=1), st.lists(st.floats(-5, 5).map(round), min_size=1))
def test_numbers_of_any_type_are_numbers(whole, real):
    classes = distinct(np.array(whole), np.array(real, dtype=float))
    assert classes.tolist() == sorted(set(whole) | set(real))
    assert positions(np.array(whole), classes).tolist() == positions(np.array(whole, dtype=float), classes).tolist()


def test_numbers_come_before_texts():
    assert distinct(np.array(["b", "a"]), np.array([2, 10])).tolist() == [2, 10, "a", "b"]
    assert distinct(objects(["b", 2, "a", 10.5])).tolist() == [2, 10.5, "a", "b"]


def test_the_tensor_tells_such_labels_apart():
    true, said = objects(["a", "a\0", "a\0"]), objects(["a", "a", "a\0"])
    tensor = confusion_tensor(true, said, ["strong"] * 3)
    np.testing.assert_array_equal(tensor[0], [[1, 0], [1, 1]])
    assert loyalty_table(true, said, ["strong"] * 3).correct[0] == 2
    # Classes of another type than the labels: none of the samples is of them.
    assert confusion_tensor([0, 1], [0, 1], ["strong"] * 2, labels=["0", "1"]).sum() == 0
    with pytest.raises(ValueError, match="must hold only the types"):
        confusion_tensor([0], [0], objects(["strong\0"]))
