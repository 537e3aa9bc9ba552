"""The confusion tensor against the paper's printed layers, and its tables and reports by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, confusion_matrix, precision_score, recall_score

from multiform.metrics import (
    LOYALTY_LEVELS,
    confusion_tensor,
    layer_scores,
    loyalty_report,
    loyalty_table,
)

# Section 4.4: the confusion tensor of the test set, printed layer by layer.
PAPER_LAYERS = {
    "strong": """
        530   0   2   4   0   0   9   0   2   0
          0 943   2  11   1   0   0   0   0   0
          1   0 456   5   5   0   1   0   0   0
          3   1   2 691   2   0   3   0   2   0
          0   1   8   3 406   0   8   0   0   0
          0   0   0   0   0 882   0   7   0  14
         21   0  12   5  10   0 256   0   5   0
          0   0   0   0   0   2   0 824   0   8
          0   0   2   2   2   1   2   0 925   0
          0   0   0   0   0   2   1   6   0 876""",
    "normal": """
        286   0   5  12   1   0  61   0   3   0
          4  14   3   6   2   0   2   0   0   0
          5   0 297   1  58   0  30   0   0   0
          9   2   3 154  19   0   9   0   3   0
          1   0  47  18 329   0  25   0   0   0
          0   0   0   1   0  64   0  11   2  14
         93   0  39   8  29   0 319   0   2   0
          0   0   0   0   0  16   0 129   0  18
          1   0   3   2   0   2   3   3  21   0
          0   0   0   0   0   3   0  21   0  86""",
    "weak": """
         42   0   7  10   3   1  21   0   1   0
          0   6   0   2   4   0   0   0   0   0
         15   1  61   4  25   0  32   0   3   0
         13   1   7  52  10   0  13   0   1   0
          0   0  24   6  95   0  29   0   0   0
          0   0   0   0   0   3   0   1   0   1
         27   1  32  14  27   0  99   0   1   0
          0   0   0   0   0   0   0   1   0   2
          2   0   3   2   4   0   6   0  14   0
          0   0   0   0   0   0   0   3   0   2""",
}
# Section 4.3: the confusion matrix of the test set.
PAPER_MATRIX = """
        858   0  14  26   4   1  91   0   6   0
          4 963   5  19   7   0   2   0   0   0
         21   1 814  10  88   0  63   0   3   0
         25   4  12 897  31   0  25   0   6   0
          1   1  79  27 830   0  62   0   0   0
          0   0   0   1   0 949   0  19   2  29
        141   1  83  27  66   0 674   0   8   0
          0   0   0   0   0  18   0 954   0  28
          3   0   8   6   6   3  11   3 960   0
          0   0   0   0   0   5   1  30   0 964"""


def parse(text):
    return np.array(text.split(), dtype=int).reshape(10, 10)


@pytest.fixture(scope="module")
def paper_samples():
    """The paper's 10000 test samples, rebuilt from the printed counts and shuffled."""
    true, pred, loyalty = [], [], []
    for level, text in PAPER_LAYERS.items():
        for (i, j), count in np.ndenumerate(parse(text)):
            true += [i] * count
            pred += [j] * count
            loyalty += [level] * count
    order = np.random.default_rng(0).permutation(len(true))
    return np.array(true)[order], np.array(pred)[order], np.array(loyalty)[order]


def test_paper_layers_sum_to_the_paper_matrix(paper_samples):
    tensor = confusion_tensor(*paper_samples)
    assert tensor.shape == (3, 10, 10)
    assert tensor.dtype.kind == "i"
    for layer, text in zip(tensor, PAPER_LAYERS.values(), strict=True):
        np.testing.assert_array_equal(layer, parse(text))
    np.testing.assert_array_equal(tensor.sum(axis=0), parse(PAPER_MATRIX))


def test_paper_figures(paper_samples):
    """Table 'LEM result (test set)': n_1, n_1/n, n_2, LPA, to every printed digit."""
    table = loyalty_table(*paper_samples)
    assert table.levels == ("strong", "normal", "weak")
    np.testing.assert_array_equal(table.count, [6967, 2299, 734])
    np.testing.assert_array_equal(table.correct, [6789, 1699, 375])
    np.testing.assert_array_equal((100 * table.share).round(2), [69.67, 22.99, 7.34])
    np.testing.assert_array_equal((100 * table.accuracy).round(2), [97.45, 73.90, 51.09])
    assert round(100 * table.overall_accuracy, 2) == 88.63
    assert table.share @ table.accuracy == pytest.approx(table.overall_accuracy)
    assert "97.45%" in str(table)
    assert "6967" in str(table)


def test_layer_scores_agree_with_scikit_learn(paper_samples):
    true, pred, loyalty = paper_samples
    scores = layer_scores(confusion_tensor(true, pred, loyalty))
    for k, level in enumerate(LOYALTY_LEVELS):
        mask = loyalty == level
        options = {"labels": np.arange(10), "average": None, "zero_division": np.nan}
        assert scores.accuracy[k] == pytest.approx(accuracy_score(true[mask], pred[mask]))
        np.testing.assert_allclose(scores.precision[k], precision_score(true[mask], pred[mask], **options))
        np.testing.assert_allclose(scores.recall[k], recall_score(true[mask], pred[mask], **options))


@st.composite
def labelled_samples(draw):
    n = draw(st.integers(1, 60))
    labels = draw(st.sampled_from([[0, 1], [3, 1, 2], ["b", "a", "c", "dd"]]))
    levels = draw(st.sampled_from([("strong", "normal", "weak"), ("sure", "fair", "poor", "none")]))

    def column(values):
        return np.array(draw(st.lists(st.sampled_from(values), min_size=n, max_size=n)))

    return column(labels), column(labels), column(list(levels)), np.array(labels), levels


@given(labelled_samples())
def test_every_layer_is_its_own_confusion_matrix(samples):
    true, pred, loyalty, labels, levels = samples
    tensor = confusion_tensor(true, pred, loyalty, labels=labels, levels=levels)
    for layer, level in zip(tensor, levels, strict=True):
        by_hand = np.zeros((len(labels), len(labels)))
        for t, p, kind in zip(true, pred, loyalty, strict=True):
            if kind == level:
                by_hand[list(labels).index(t), list(labels).index(p)] += 1
        np.testing.assert_array_equal(layer, by_hand)
    np.testing.assert_array_equal(tensor.sum(axis=0), confusion_matrix(true, pred, labels=labels))


def test_weights_count_as_repetition():
    true, pred = [0, 0, 1, 1], [0, 1, 1, 0]
    loyalty, weight = ["strong", "weak", "strong", "weak"], [3, 0, 2, 1]
    weighted = confusion_tensor(true, pred, loyalty, sample_weight=weight)
    repeated = confusion_tensor(*(np.repeat(v, weight) for v in (true, pred, loyalty)))
    assert weighted.dtype.kind == "f"
    np.testing.assert_array_equal(weighted, repeated)


def test_labels_choose_and_order_the_classes():
    tensor = confusion_tensor(["a", "b", "c"], ["a", "b", "b"], ["strong"] * 3, labels=["b", "a"])
    np.testing.assert_array_equal(tensor[0], [[1, 0], [0, 1]])  # the sample of class c is left out


def test_a_type_without_samples_is_a_layer_of_zeros():
    tensor = confusion_tensor([0, 1], [0, 1], ["strong", "strong"])
    assert tensor.shape == (3, 2, 2)
    assert tensor[1:].sum() == 0
    table = loyalty_table([0, 1], [0, 1], ["strong", "strong"])
    assert table.accuracy[0] == 1
    assert np.isnan(table.accuracy[1:]).all()


def test_report_dictionary_holds_the_paper_figures(paper_samples):
    report = loyalty_report(*paper_samples, output_dict=True)
    assert list(report) == ["strong", "normal", "weak", "overall"]
    assert report["strong"]["count"] == 6967
    assert report["strong"]["accuracy"] == pytest.approx(6789 / 6967)
    assert report["overall"]["accuracy"] == pytest.approx(0.8863)
    assert report["overall"]["share"] == 1
    assert report["strong"]["classes"]["0"]["precision"] == pytest.approx(530 / 555)
    assert report["strong"]["classes"]["0"]["recall"] == pytest.approx(530 / 547)
    assert report["weak"]["classes"]["7"]["support"] == 3
    mean_recall = np.mean([c["recall"] for c in report["normal"]["classes"].values()])
    assert report["normal"]["recall"] == pytest.approx(mean_recall)


def test_report_text_names_types_and_classes(paper_samples):
    names = ["T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"]
    text = loyalty_report(*paper_samples, target_names=names)
    strong = next(line for line in text.splitlines() if line.split()[:1] == ["strong"])
    assert strong.split()[:5] == ["strong", "6967", "0.6967", "6789", "0.9745"]
    for name in names:
        assert any(line.split()[:1] == [name] for line in text.splitlines())


def test_report_text_with_weights_and_gaps():
    text = loyalty_report([0, 1], [0, 1], ["strong", "weak"], sample_weight=[0.5, 2], digits=1)
    normal = next(line for line in text.splitlines() if line.split()[:1] == ["normal"])
    assert normal.split() == ["normal", "0.0", "0.0", "0.0", "-", "-", "-"]


def test_unknown_type_is_refused():
    with pytest.raises(ValueError, match=r"'loyalty' must hold only the types .*'strong'.*got \['sure'\]"):
        confusion_tensor([0, 1], [0, 1], ["strong", "sure"])


def test_repeated_levels_are_refused():
    with pytest.raises(ValueError, match="'levels' must name each loyalty type once"):
        confusion_tensor([0], [0], ["a"], levels=["a", "a"])


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        confusion_tensor([0, 1], [0, 1], ["strong"])


def test_number_of_names_must_agree():
    with pytest.raises(ValueError, match="must name the 2 classes, one each; got 1 names"):
        loyalty_report([0, 1], [0, 1], ["strong", "weak"], target_names=["only"])


def test_tensor_shape_is_checked():
    with pytest.raises(ValueError, match=r"must have the shape \(n_levels, n_classes, n_classes\)"):
        layer_scores([[1, 2], [3, 4]])
