"""Pictures of decision regions and separators in two chosen features (needs matplotlib)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from multiform._typing import Array, Doubles

from ._arrays import check_points, finite_array
from .separators import Separators


@dataclass(eq=False, repr=False)
class SeparatorDisplay:
    """Decision regions, boundaries and separators on a plane of two features.

    Make one with `from_model`; `plot` draws it again, on other axes if wanted.

    Parameters
    ----------
    xx0, xx1 : ndarray of shape (g, g)
        The grid: values of the two features.
    values : ndarray of shape (g, g, m)
        `f_k` on the grid.
    classes : ndarray of shape (m,)
        Labels.
    feature_names : tuple of two str
        Names for the axes.
    samples : ndarray of shape (n_samples, 2), default=None
        Samples in the two features.
    labels : ndarray of shape (n_samples,), default=None
        Classes of the samples.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    regions_ : the filled regions
    boundaries_ : list of contours, one per class, where its region ends
    separators_ : list of contours, one per class: where its f has its median over its own region
    samples_ : the scattered samples, or None

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from multiform.geometry import SeparatorDisplay, Separators
    >>> nearest = Separators(np.stack([np.eye(2)] * 2), [[0, 0], [4, 0]], ["left", "right"])
    >>> display = SeparatorDisplay.from_model(nearest, limits=((-2, 6), (-3, 3)))
    >>> display.ax_.get_xlabel()
    'feature 0'
    >>> matplotlib.pyplot.close(display.figure_)
    """

    xx0: Doubles
    xx1: Doubles
    values: Doubles
    classes: Array
    feature_names: tuple[str, str]
    samples: Doubles | None = None
    labels: Array | None = None

    @classmethod
    def from_model(
        cls,
        model: object,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        *,
        features: tuple[int | str, int | str] = (0, 1),
        at: ArrayLike | None = None,
        limits: tuple[tuple[float, float], tuple[float, float]] | None = None,
        grid_resolution: int = 200,
        ax: Any = None,
    ) -> SeparatorDisplay:
        """Evaluate a model on a plane, and draw it.

        Parameters
        ----------
        model : anything that `Separators.of` takes
        X : array-like of shape (n_samples, p), default=None
            Samples to draw, and to take the limits from.
        y : array-like of shape (n_samples,), default=None
            Their classes; None draws them all alike.
        features : tuple of two int or str, default=(0, 1)
            The two features of the plane.
        at : array-like of shape (p,), default=None
            Where the plane lies in the other features; None is the median of X, or zero without X.
        limits : ((low, high), (low, high)), default=None
            Range of the two features; None takes it from X.
        grid_resolution : int, default=200
            Points along each feature.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        """
        owner = "SeparatorDisplay.from_model"
        separators = Separators.of(model)
        p = separators.n_features
        columns = separators.columns(features, owner)
        if len(columns) != 2 or columns[0] == columns[1]:
            raise ValueError(f"features of {owner} must be two different features; got {features!r}.")
        points = None if X is None else check_points(X, p, owner)
        if limits is None:
            if points is None or len(points) == 0:
                raise ValueError(
                    f"{owner} needs samples X or limits to know which part of the plane to draw; got neither."
                )
            chosen = points[:, columns]
            low, high = chosen.min(axis=0), chosen.max(axis=0)
            margin = 0.1 * np.where(high > low, high - low, 1.0)
            ranges = np.column_stack([low - margin, high + margin])
        else:
            ranges = finite_array(limits, "limits", owner, ndim=2)
            if ranges.shape != (2, 2) or not (ranges[:, 0] < ranges[:, 1]).all():
                raise ValueError(
                    f"limits of {owner} must be ((low, high), (low, high)) with low < high; got {limits!r}."
                )
        if at is None:
            origin = np.zeros(p) if points is None else np.median(points, axis=0)
        else:
            origin = finite_array(at, "at", owner, ndim=1)
            if origin.shape != (p,):
                raise ValueError(f"at of {owner} must have {p} values, one per feature; got {len(origin)}.")
        if not grid_resolution >= 2:
            raise ValueError(f"grid_resolution of {owner} must be at least 2; got {grid_resolution!r}.")
        xx0, xx1 = np.meshgrid(*(np.linspace(low, high, grid_resolution) for low, high in ranges))
        plane = np.tile(origin, (xx0.size, 1))
        plane[:, columns[0]], plane[:, columns[1]] = xx0.ravel(), xx1.ravel()
        values = separators.member_values(plane).reshape(*xx0.shape, len(separators))
        names = separators.feature_names or [f"feature {column}" for column in range(p)]
        axis_names = (names[columns[0]], names[columns[1]])
        samples = None if points is None else points[:, columns]
        labels = None if y is None else np.asarray(y)
        return cls(xx0, xx1, values, separators.classes, axis_names, samples, labels).plot(ax=ax)

    def plot(self, ax: Any = None) -> SeparatorDisplay:
        """Draw on `ax`, or on a new figure; returns itself, with what was drawn in the attributes named above."""
        try:
            import matplotlib.pyplot as plt
            from matplotlib.colors import ListedColormap
            from matplotlib.patches import Patch
        except ImportError as error:
            raise ImportError(
                'SeparatorDisplay needs matplotlib, which is not installed: pip install "multiform[plots]"'
            ) from error
        if ax is None:
            _, ax = plt.subplots()
        m = len(self.classes)
        colours = [plt.get_cmap("tab10" if m <= 10 else "tab20")(k % 20) for k in range(m)]
        decision = self.values.argmin(axis=2)
        self.regions_ = ax.pcolormesh(
            self.xx0,
            self.xx1,
            decision,
            cmap=ListedColormap(colours),
            vmin=-0.5,
            vmax=m - 0.5,
            alpha=0.25,
            shading="nearest",
            rasterized=True,
        )
        self.boundaries_, self.separators_ = [], []
        for k in range(m):
            inside = decision == k
            if not inside.any():
                continue
            own = self.values[..., k]
            if not inside.all():
                gap = own - np.delete(self.values, k, axis=2).min(axis=2)
                self.boundaries_.append(
                    ax.contour(self.xx0, self.xx1, gap, levels=[0.0], colors="black", linewidths=1.0)
                )
            level = float(np.median(own[inside]))
            if own.min() < level < own.max():
                self.separators_.append(
                    ax.contour(self.xx0, self.xx1, own, levels=[level], colors=[colours[k]], linestyles="dashed")
                )
        self.samples_ = None
        if self.samples is not None and self.labels is None:
            self.samples_ = ax.scatter(*self.samples.T, s=12, color="black", linewidths=0)
        elif self.samples is not None and self.labels is not None:
            colour_of = dict(zip(self.classes.tolist(), colours, strict=True))
            shown = [colour_of.get(label, "black") for label in self.labels.tolist()]
            self.samples_ = ax.scatter(*self.samples.T, s=16, c=shown, edgecolors="white", linewidths=0.5)
        # A fixed place: matplotlib warns when its search for the best one takes long.
        handles = [Patch(color=c, label=str(k)) for c, k in zip(colours, self.classes, strict=True)]
        ax.legend(handles=handles, loc="upper right")
        ax.set(xlabel=self.feature_names[0], ylabel=self.feature_names[1])
        self.ax_, self.figure_ = ax, ax.figure
        return self
