"""scikit-learn in half the time: without pandas and SciPy's statistics, which it loads and seldom uses.

`import sklearn` is most of what stands between ``multiform serve`` and the first question, and more than half of that
are two libraries that one of its modules (`sklearn.utils.fixes`) imports at the top: pandas, which need not be there,
and `scipy.stats`, which SciPy loads by itself when somebody asks for it. So the one is not there for a moment, and the
other a stand-in that nobody keeps.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from types import ModuleType
from typing import Any


def load_scikit_learn() -> None:
    """Import scikit-learn's base, unless it is there; a version that wants more of the two is loaded as ever, later."""
    if "sklearn" in sys.modules:
        return
    known: dict[str, Any] = sys.modules  # None is what Python takes for a module that cannot be found
    instead = {"scipy.stats": ModuleType("scipy.stats"), "pandas": None}
    instead = {name: stand_in for name, stand_in in instead.items() if name not in known}
    known |= instead
    try:
        with suppress(ImportError, AttributeError):
            import sklearn.base  # noqa: F401
    finally:
        for name in instead:
            del known[name]
