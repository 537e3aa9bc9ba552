"""Shares and accuracies of the loyalty types: what was estimated, and what came true."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from multiform.displays.style import BLUE, ORANGE, pyplot
from multiform.metrics import LoyaltyTable, loyalty_table


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
        The figure.

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
        """Draw the bars of given predictions.

        Parameters
        ----------
        y_true, y_pred, loyalty : array-like of shape (n_samples,)
            The true labels, the predicted labels and the loyalty types.
        estimated : LoyaltyTable, default=None
            What was expected, to stand beside it.
        levels : sequence of str, default=None
            The loyalty types, the surest first; by default those of ``estimated``, or the paper's three.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.
        ax : sequence of two matplotlib Axes, default=None
            Where to draw; a new figure if None.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        display : LoyaltyDisplay
            The display, drawn.
        """
        if levels is None and estimated is not None:
            levels = estimated.levels
        options = {} if levels is None else {"levels": levels}
        actual = loyalty_table(y_true, y_pred, loyalty, sample_weight=sample_weight, **options)
        return cls(actual, estimated=estimated).plot(ax=ax, **kwargs)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike, *, ax: Any = None, **kwargs: Any) -> LoyaltyDisplay:
        """Draw what a fitted loyalty classifier estimated beside what it does on labelled samples.

        Parameters
        ----------
        estimator : fitted classifier with ``predict_loyalty`` and ``loyalty_table_``
            For instance :class:`multiform.LoyaltyClassifier`.
        X : array-like of shape (n_samples, n_features)
            The samples.
        y : array-like of shape (n_samples,)
            Their labels.
        ax : sequence of two matplotlib Axes, default=None
            Where to draw; a new figure if None.
        **kwargs : dict
            Passed to :meth:`from_predictions`.

        Returns
        -------
        display : LoyaltyDisplay
            The display, drawn.
        """
        kwargs.setdefault("estimated", getattr(estimator, "loyalty_table_", None))
        return cls.from_predictions(y, estimator.predict(X), estimator.predict_loyalty(X), ax=ax, **kwargs)

    def plot(self, ax: Any = None) -> LoyaltyDisplay:
        """Draw the bars.

        Parameters
        ----------
        ax : sequence of two matplotlib Axes, default=None
            For the shares and for the accuracies; a new figure if None.

        Returns
        -------
        display : LoyaltyDisplay
            This display.
        """
        if self.estimated is not None and self.estimated.levels != self.actual.levels:
            raise ValueError(
                "LoyaltyDisplay compares tables of the same loyalty types; the estimated one has "
                f"{list(self.estimated.levels)}, the actual one {list(self.actual.levels)}."
            )
        plt = pyplot(self)
        if ax is None:
            figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
        else:
            axes = np.ravel(ax)
            if len(axes) != 2:
                raise ValueError(
                    "The parameter 'ax' of LoyaltyDisplay.plot must hold two Axes, for the shares and the "
                    f"accuracies; got {len(axes)}."
                )
            figure = axes[0].figure
        # Hatching tells the two apart in print and without colours, too.
        series = [("actual", self.actual, BLUE, "")]
        if self.estimated is not None:
            series.insert(0, ("estimated", self.estimated, ORANGE, "//"))
        width = 0.8 / len(series)
        for axis, column, title in zip(
            axes, ("share", "accuracy"), ("Share of the samples", "Accuracy within the type"), strict=True
        ):
            for k, (label, table, colour, hatch) in enumerate(series):
                values = getattr(table, column)
                place = np.arange(len(table.levels)) + (k - (len(series) - 1) / 2) * width
                bars = axis.bar(
                    place,
                    np.nan_to_num(values),
                    width,
                    label=label,
                    color=colour,
                    hatch=hatch,
                    edgecolor="white",
                )
                texts = ["none" if np.isnan(value) else f"{value:.1%}" for value in values]
                axis.bar_label(bars, texts, fontsize=9, padding=2)
            axis.set_xticks(range(len(self.actual.levels)), self.actual.levels)
            axis.set(ylim=(0, 1.12), title=title, xlabel="Loyalty type")
            axis.set_yticks(np.linspace(0, 1, 6), [f"{tick:.0%}" for tick in np.linspace(0, 1, 6)])
            axis.spines[["top", "right"]].set_visible(False)
        if len(series) > 1:
            axes[0].legend(loc="upper right", frameon=False)
        self.axes_, self.ax_, self.figure_ = axes, axes[0], figure
        return self
