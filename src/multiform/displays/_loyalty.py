"""Loyalty types as pictures: the confusion tensor (section 3.2 of the paper), and shares and accuracies as bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import unique_labels

from multiform._typing import Array
from multiform.displays.style import BLUE, ORANGE, axes_for
from multiform.metrics import LOYALTY_LEVELS, LoyaltyTable, confusion_tensor, layer_scores, loyalty_table, type_words


class ConfusionTensorDisplay:
    """Layers of a confusion tensor side by side, the surest type first: one heat map per loyalty type.

    The colour of a cell is its share of the samples of its true class *within the layer*, so that the pattern
    of a small layer shows as well as that of a large one; the numbers are counts.

    Parameters
    ----------
    tensor : ndarray of shape (n_levels, n_classes, n_classes)
        What :func:`multiform.metrics.confusion_tensor` returns.
    display_labels : array-like of shape (n_classes,), default=None
        Names of the classes; their numbers if None.
    levels : sequence of str, default=("strong", "normal", "weak")
        Names of the layers.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes, shape (n_levels,)
        One per layer.
    ax_ : matplotlib Axes
        The first of them.
    figure_ : matplotlib Figure
    text_ : ndarray of matplotlib Text or None, shape (n_levels, n_classes, n_classes)
        The numbers, if they are drawn; None where a cell is 0.

    Examples
    --------
    >>> from multiform.displays import ConfusionTensorDisplay
    >>> display = ConfusionTensorDisplay.from_predictions(
    ...     ["cat", "cat", "dog"], ["cat", "dog", "dog"], ["strong", "weak", "strong"]
    ... )
    >>> display.tensor.shape
    (3, 2, 2)
    """

    def __init__(
        self, tensor: Array, *, display_labels: ArrayLike | None = None, levels: Sequence[str] = LOYALTY_LEVELS
    ) -> None:
        self.tensor = tensor
        self.display_labels = display_labels
        self.levels = levels

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        loyalty: ArrayLike,
        *,
        labels: ArrayLike | None = None,
        display_labels: ArrayLike | None = None,
        levels: Sequence[str] = LOYALTY_LEVELS,
        sample_weight: ArrayLike | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> ConfusionTensorDisplay:
        """Draw the tensor of given predictions, and return the display.

        Parameters
        ----------
        y_true, y_pred, loyalty, labels, levels, sample_weight
            As in :func:`multiform.metrics.confusion_tensor`.
        display_labels : array-like of shape (n_classes,), default=None
            Names to show for the classes.
        ax, **kwargs
            Passed to :meth:`plot`.
        """
        classes = unique_labels(y_true, y_pred) if labels is None else np.asarray(labels)
        tensor = confusion_tensor(y_true, y_pred, loyalty, labels=classes, levels=levels, sample_weight=sample_weight)
        names = classes if display_labels is None else display_labels
        return cls(tensor, display_labels=names, levels=levels).plot(ax=ax, **kwargs)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, ax: Any = None, **kwargs: Any
    ) -> ConfusionTensorDisplay:
        """Draw the tensor of a fitted classifier that knows loyalty types, and return the display.

        Parameters
        ----------
        estimator : fitted classifier with ``predict_loyalty``
            For instance :class:`multiform.LoyaltyClassifier`.
        X, y : array-like of shape (n_samples, n_features) and (n_samples,)
            The samples and their labels.
        ax, **kwargs
            Passed to :meth:`from_predictions`.
        """
        return cls.from_predictions(y, estimator.predict(X), estimator.predict_loyalty(X), ax=ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        include_values: bool | None = None,
        cmap: Any = "Blues",
        values_format: str | None = None,
        colorbar: bool = True,
    ) -> ConfusionTensorDisplay:
        """Draw the layers, and return this display.

        Parameters
        ----------
        ax : sequence of matplotlib Axes, default=None
            One per layer; a new figure if None.
        include_values : bool, default=None
            Whether to write the counts into the cells; None does so up to 20 classes.
        cmap : str or matplotlib Colormap, default="Blues"
            The colours; the default is one hue from light to dark, for all kinds of colour vision and for paper.
        values_format : str, default=None
            Format of the counts; ``"d"`` or ``".3g"`` if None.
        colorbar : bool, default=True
            Whether to explain the colours.
        """
        n_levels, n_classes = self.tensor.shape[:2]
        side = min(max(2.6, 0.42 * n_classes), 9)
        size = (n_levels * side + 1.2, side + 1.1)
        axes = axes_for(self, ax, n_levels, f"one Axes per layer, {n_levels}", figsize=size, sharey=True)
        if include_values is None:
            include_values = n_classes <= 20
        kind = values_format or ("d" if self.tensor.dtype.kind in "iu" else ".3g")
        names = np.arange(n_classes) if self.display_labels is None else np.asarray(self.display_labels)

        counts = self.tensor.sum(axis=(1, 2))
        accuracy = layer_scores(self.tensor).accuracy
        rows = self.tensor.sum(axis=2, keepdims=True)
        share = np.divide(self.tensor, rows, out=np.zeros(self.tensor.shape), where=rows > 0)
        texts = np.full(self.tensor.shape, None)
        for k, (axis, level) in enumerate(zip(axes, self.levels, strict=True)):
            image = axis.imshow(share[k], cmap=cmap, vmin=0, vmax=1)
            if include_values:
                fontsize = 9 if n_classes <= 6 else 7
                for i, j in np.argwhere(self.tensor[k]):  # an empty cell stays empty: it reads better
                    # Black or white, whichever contrasts more with the background.
                    red, green, blue, _ = image.cmap(image.norm(share[k, i, j]))
                    colour = "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"
                    count = format(self.tensor[k, i, j], kind)
                    texts[k, i, j] = axis.text(j, i, count, ha="center", va="center", color=colour, fontsize=fontsize)
            correct = "" if np.isnan(accuracy[k]) else f", {accuracy[k]:.1%} right"
            # On two lines, so that none is wider than its matrix.
            axis.set_title(f"{type_words(level)}\n{counts[k]:g} rows{correct}", fontsize=10)
            axis.set_xticks(range(n_classes), names, rotation=90 if max(map(len, map(str, names))) > 2 else 0)
            axis.set_yticks(range(n_classes), names)
            axis.set_xlabel("Predicted label")
        axes[0].set_ylabel("True label")
        self.axes_, self.ax_, self.figure_ = axes, axes[0], axes[0].figure
        if colorbar:
            bar = self.figure_.colorbar(image, ax=list(axes), fraction=0.03, pad=0.01)
            bar.set_label("share of the true class in the layer")
        self.text_ = texts if include_values else None
        return self


class LoyaltyDisplay:
    """Share and accuracy by loyalty type, as bars; estimated beside actual if both are known.

    Parameters
    ----------
    actual : LoyaltyTable
        What :func:`multiform.metrics.loyalty_table` counts on labelled samples.
    estimated : LoyaltyTable, default=None
        What was expected of them, for instance ``LoyaltyClassifier.loyalty_table_``.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes, shape (2,)
        Shares and accuracies.
    ax_ : matplotlib Axes
        The first of them.
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from multiform.displays import LoyaltyDisplay
    >>> display = LoyaltyDisplay.from_predictions([0, 0, 1], [0, 1, 1], ["strong", "weak", "strong"])
    >>> display.actual.count
    array([2, 0, 1])
    """

    def __init__(self, actual: LoyaltyTable, *, estimated: LoyaltyTable | None = None) -> None:
        self.actual = actual
        self.estimated = estimated

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        loyalty: ArrayLike,
        *,
        estimated: LoyaltyTable | None = None,
        levels: Any = None,
        sample_weight: ArrayLike | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> LoyaltyDisplay:
        """Draw the bars of given predictions, and return the display.

        Parameters
        ----------
        y_true, y_pred, loyalty, sample_weight
            As in :func:`multiform.metrics.loyalty_table`.
        estimated : LoyaltyTable, default=None
            What was expected, to stand beside it.
        levels : sequence of str, default=None
            The loyalty types, the surest first; by default those of ``estimated``, or the paper's three.
        ax, **kwargs
            Passed to :meth:`plot`.
        """
        if levels is None:
            levels = LOYALTY_LEVELS if estimated is None else estimated.levels
        actual = loyalty_table(y_true, y_pred, loyalty, levels=levels, sample_weight=sample_weight)
        return cls(actual, estimated=estimated).plot(ax=ax, **kwargs)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike, *, ax: Any = None, **kwargs: Any) -> LoyaltyDisplay:
        """Draw what a fitted loyalty classifier estimated (``loyalty_table_``) beside what it does on these samples.

        Parameters
        ----------
        estimator, X, y, ax, **kwargs
            As in :meth:`ConfusionTensorDisplay.from_estimator`.
        """
        kwargs.setdefault("estimated", getattr(estimator, "loyalty_table_", None))
        return cls.from_predictions(y, estimator.predict(X), estimator.predict_loyalty(X), ax=ax, **kwargs)

    def plot(self, ax: Any = None) -> LoyaltyDisplay:
        """Draw the bars on two `ax`, of the shares and of the accuracies, or on a new figure; return this display."""
        if self.estimated is not None and self.estimated.levels != self.actual.levels:
            raise ValueError(
                "LoyaltyDisplay compares tables of the same loyalty types; the estimated one has "
                f"{list(self.estimated.levels)}, the actual one {list(self.actual.levels)}."
            )
        axes = axes_for(self, ax, 2, "two Axes, for the shares and the accuracies", figsize=(9, 3.8))
        # Hatching tells the two apart in print and without colours, too.
        series = [("actual", self.actual, BLUE, "")]
        if self.estimated is not None:
            series.insert(0, ("estimated", self.estimated, ORANGE, "//"))
        width = 0.8 / len(series)
        columns = {"share": "Share of the rows", "accuracy": "Accuracy within the type"}
        for axis, (column, title) in zip(axes, columns.items(), strict=True):
            for k, (label, table, colour, hatch) in enumerate(series):
                values = getattr(table, column)
                place = np.arange(len(table.levels)) + (k - (len(series) - 1) / 2) * width
                style = {"label": label, "color": colour, "hatch": hatch, "edgecolor": "white"}
                bars = axis.bar(place, np.nan_to_num(values), width, **style)
                texts = ["none" if np.isnan(value) else f"{value:.1%}" for value in values]
                axis.bar_label(bars, texts, fontsize=9, padding=2)
            axis.set_xticks(range(len(self.actual.levels)), [type_words(level) for level in self.actual.levels])
            axis.set(ylim=(0, 1.12), title=title, xlabel="Loyalty type")
            axis.set_yticks(np.linspace(0, 1, 6), [f"{tick:.0%}" for tick in np.linspace(0, 1, 6)])
            axis.spines[["top", "right"]].set_visible(False)
        if len(series) > 1:
            # Above the bars, which may be high anywhere.
            axes[0].legend(loc="lower left", bbox_to_anchor=(0, 1.08), ncols=2, frameon=False, borderaxespad=0)
        self.axes_, self.ax_, self.figure_ = axes, axes[0], axes[0].figure
        return self
