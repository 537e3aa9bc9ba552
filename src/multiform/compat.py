"""The one module that knows about scikit-learn versions: callbacks exist from 1.9 on."""

from __future__ import annotations

from typing import Any

__all__ = ["CallbackSupportMixin", "PassCallbacks"]

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:  # scikit-learn < 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Without callbacks in scikit-learn there is nothing to support."""


class PassCallbacks:
    """scikit-learn's callbacks around the passes of a fit; does nothing where scikit-learn has none."""

    def __init__(self, estimator: Any, n_passes: int) -> None:
        self._estimator = estimator
        self._root: Any = None
        if getattr(estimator, "_skl_callbacks", None) or hasattr(estimator, "_parent_callback_ctx"):
            self._root = estimator._init_callback_context(max_subtasks=n_passes)
            self._root.call_on_fit_task_begin(estimator=estimator)

    def __bool__(self) -> bool:
        return self._root is not None

    def pass_over(self, fitted_attributes: Any) -> bool:
        """Report one more pass; True when a callback asks to stop."""
        task = self._root.subcontext(task_name="pass")
        task.call_on_fit_task_begin(estimator=self._estimator)
        return bool(task.call_on_fit_task_end(estimator=self._estimator, reconstruction_attributes=fitted_attributes))

    def close(self, fitted_attributes: Any) -> None:
        if self._root is not None:
            self._root.call_on_fit_task_end(estimator=self._estimator, reconstruction_attributes=fitted_attributes)
