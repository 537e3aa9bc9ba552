"""The error among the accepted answers against the share that is accepted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from multiform._typing import Doubles
from multiform.displays.style import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION, axes_for
from multiform.metrics import ScoreMethod, aurc, risk_coverage_curve, trust_score

COLOURS = (BLUE, ORANGE, GREEN, PURPLE)  # vermilion is what was chosen
LEAST_COVERAGE = 0.02  # from which on a curve is drawn: one wrong answer among the first few says nothing
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
CURVE = "risk-coverage curve"  # how a curve is known among the lines of its axes


class RiskCoverageDisplay:
    """Risk-coverage curve of a classifier.

    Parameters
    ----------
    coverage, risk : ndarray of shape (n_thresholds,)
        What :func:`multiform.metrics.risk_coverage_curve` returns.
    aurc : float, default=None
        The area under the curve, for the legend.
    name : str, default=None
        The classifier's name, for the legend.

    Attributes
    ----------
    line_ : matplotlib Artist
        The curve.
    ax_ : matplotlib Axes
        Where it is drawn.
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from multiform.displays import RiskCoverageDisplay
    >>> display = RiskCoverageDisplay.from_predictions([0, 1, 1, 0], [0, 1, 0, 0], [0.9, 0.8, 0.7, 0.6])
    >>> display.risk
    array([0.  , 0.  , 0.33333333, 0.25  ])
    """

    def __init__(self, coverage: Doubles, risk: Doubles, *, aurc: float | None = None, name: str | None = None) -> None:
        self.coverage = coverage
        self.risk = risk
        self.aurc = aurc
        self.name = name

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        trust: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> RiskCoverageDisplay:
        """Draw the curve of given predictions, and return the display.

        Parameters
        ----------
        y_true, y_pred, trust, sample_weight
            As in :func:`multiform.metrics.risk_coverage_curve`.
        name
            As in the class.
        ax, **kwargs
            Passed to :meth:`plot`.
        """
        coverage, risk, _ = risk_coverage_curve(y_true, y_pred, trust, sample_weight=sample_weight)
        area = aurc(y_true, y_pred, trust, sample_weight=sample_weight)
        return cls(coverage, risk, aurc=area, name=name).plot(ax=ax, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        score_method: ScoreMethod = "auto",
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> RiskCoverageDisplay:
        """Draw the curve of a fitted classifier, and return the display.

        Parameters
        ----------
        estimator : fitted classifier
            The classifier.
        X, y : array-like of shape (n_samples, n_features) and (n_samples,)
            The samples and their labels.
        score_method : str or callable, default="auto"
            Where the trust comes from; see :func:`multiform.metrics.trust_score`.
        name : str, default=None
            For the legend; the estimator's class if None.
        sample_weight, ax, **kwargs
            As in :meth:`from_predictions`.
        """
        return cls.from_predictions(
            y,
            estimator.predict(X),
            trust_score(estimator, X, score_method),
            sample_weight=sample_weight,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            **kwargs,
        )

    def plot(
        self, ax: Any = None, *, name: str | None = None, target_accuracy: float | None = None, **kwargs: Any
    ) -> RiskCoverageDisplay:
        """Draw the curve, and return this display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None. Several curves may share one.
        name : str, default=None
            For the legend, instead of the display's own.
        target_accuracy : float, default=None
            If given, a horizontal line at the risk that this accuracy allows, and a mark at the largest
            coverage that keeps it.
        **kwargs : dict
            Passed to matplotlib's ``plot``.

        The curve begins at a coverage of 2 %: before, one wrong answer among a few would make it leave the picture.
        """
        ax = axes_for(self, ax)[0]
        name = self.name if name is None else name
        label = " ".join(text for text in (name, None if self.aurc is None else f"(AURC = {self.aurc:.4f})") if text)
        # Every curve of shared axes gets a colour and a dash pattern of its own.
        n_before = sum(line.get_gid() == CURVE for line in ax.lines)
        colour, dashes = COLOURS[n_before % len(COLOURS)], DASHES[n_before % len(DASHES)]
        style = {"color": colour, "linestyle": dashes, "gid": CURVE} | ({"label": label} if label else {})
        told = self.coverage >= min(LEAST_COVERAGE, self.coverage[-1])
        (self.line_,) = ax.plot(self.coverage[told], self.risk[told], **(style | kwargs))
        if target_accuracy is not None:
            self._mark(ax, target_accuracy)
        ax.set(xlabel="Coverage (share of rows answered)", ylabel="Risk (error among the answered)")
        ax.set_xlim(0, 1)
        ax.autoscale(axis="y")
        ax.set_ylim(bottom=0, auto=True)  # "auto": a later curve may need more room
        ax.grid(alpha=0.3)
        if ax.get_legend_handles_labels()[1]:
            ax.legend(loc="upper left")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _mark(self, ax: Any, target_accuracy: float) -> None:
        allowed = 1 - target_accuracy
        ax.axhline(allowed, color=GREY, linestyle="--", linewidth=1)
        reached = np.flatnonzero(self.risk <= allowed + 1e-12)
        text = f"accuracy {target_accuracy:.4g}: not reached"
        if len(reached):
            last = reached[-1]
            ax.plot(self.coverage[last], self.risk[last], "o", color=VERMILION, zorder=3)
            text = f"accuracy {target_accuracy:.4g} up to a coverage of {self.coverage[last]:.3f}"
        ax.annotate(text, (0.01, allowed), xytext=(2, 4), textcoords="offset points", color=GREY, fontsize=9)
