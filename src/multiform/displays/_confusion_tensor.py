"""The confusion tensor (section 3.2 of the paper), one heat map a loyalty type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import unique_labels

from multiform.displays.style import pyplot
from multiform.metrics import LOYALTY_LEVELS, confusion_tensor, layer_scores


class ConfusionTensorDisplay:
    """Layers of a confusion tensor side by side, the surest type first.

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
        One a layer.
    ax_ : matplotlib Axes
        The first of them.
    figure_ : matplotlib Figure
        The figure.
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
        self,
        tensor: NDArray[Any],
        *,
        display_labels: ArrayLike | None = None,
        levels: Sequence[str] = LOYALTY_LEVELS,
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
        """Draw the tensor of given predictions.

        Parameters
        ----------
        y_true, y_pred, loyalty : array-like of shape (n_samples,)
            The true labels, the predicted labels and the loyalty types.
        labels : array-like of shape (n_classes,), default=None
            The classes, in the wanted order.
        display_labels : array-like of shape (n_classes,), default=None
            Names to show for them.
        levels : sequence of str, default=("strong", "normal", "weak")
            The loyalty types, the surest first.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.
        ax : sequence of matplotlib Axes, default=None
            One a layer; a new figure if None.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        display : ConfusionTensorDisplay
            The display, drawn.
        """
        classes = unique_labels(y_true, y_pred) if labels is None else np.asarray(labels)
        tensor = confusion_tensor(y_true, y_pred, loyalty, labels=classes, levels=levels, sample_weight=sample_weight)
        names = classes if display_labels is None else display_labels
        return cls(tensor, display_labels=names, levels=levels).plot(ax=ax, **kwargs)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, ax: Any = None, **kwargs: Any
    ) -> ConfusionTensorDisplay:
        """Draw the tensor of a fitted classifier that knows loyalty types.

        Parameters
        ----------
        estimator : fitted classifier with ``predict_loyalty``
            For instance :class:`multiform.LoyaltyClassifier`.
        X : array-like of shape (n_samples, n_features)
            The samples.
        y : array-like of shape (n_samples,)
            Their labels.
        ax : sequence of matplotlib Axes, default=None
            One a layer; a new figure if None.
        **kwargs : dict
            Passed to :meth:`from_predictions`.

        Returns
        -------
        display : ConfusionTensorDisplay
            The display, drawn.
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
        """Draw the layers.

        Parameters
        ----------
        ax : sequence of matplotlib Axes, default=None
            One a layer; a new figure if None.
        include_values : bool, default=None
            Whether to write the counts into the cells; None does so up to 20 classes.
        cmap : str or matplotlib Colormap, default="Blues"
            The colours; the default is one hue from light to dark, for all kinds of colour vision and for paper.
        values_format : str, default=None
            Format of the counts; ``"d"`` or ``".3g"`` if None.
        colorbar : bool, default=True
            Whether to explain the colours.

        Returns
        -------
        display : ConfusionTensorDisplay
            This display.
        """
        plt = pyplot(self)
        n_levels, n_classes = self.tensor.shape[:2]
        if ax is None:
            side = min(max(2.6, 0.42 * n_classes), 9)
            figure, axes = plt.subplots(
                1, n_levels, figsize=(n_levels * side + 1.2, side + 1.1), sharey=True, layout="constrained"
            )
            axes = np.atleast_1d(axes)
        else:
            axes = np.ravel(ax)
            if len(axes) != n_levels:
                raise ValueError(
                    f"The parameter 'ax' of ConfusionTensorDisplay.plot must hold one Axes a layer, "
                    f"{n_levels}; got {len(axes)}."
                )
            figure = axes[0].figure
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
                size = 9 if n_classes <= 6 else 7
                for i, j in np.argwhere(self.tensor[k]):  # an empty cell stays empty: it reads better
                    colour = _readable_on(image.cmap(image.norm(share[k, i, j])))
                    count = format(self.tensor[k, i, j], kind)
                    texts[k, i, j] = axis.text(j, i, count, ha="center", va="center", color=colour, fontsize=size)
            correct = "" if np.isnan(accuracy[k]) else f", {accuracy[k]:.2%} right"
            axis.set_title(f"{level}: {counts[k]:g} samples{correct}", fontsize=10)
            axis.set_xticks(range(n_classes), names, rotation=90 if max(map(len, map(str, names))) > 2 else 0)
            axis.set_yticks(range(n_classes), names)
            axis.set_xlabel("Predicted label")
        axes[0].set_ylabel("True label")
        if colorbar:
            bar = figure.colorbar(image, ax=list(axes), fraction=0.03, pad=0.01)
            bar.set_label("share of the true class in the layer")
        self.axes_, self.ax_, self.figure_ = axes, axes[0], figure
        self.text_ = texts if include_values else None
        return self


def _readable_on(colour: tuple[float, float, float, float]) -> str:
    """Black or white, whichever contrasts more with the background."""
    red, green, blue = colour[:3]
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"
