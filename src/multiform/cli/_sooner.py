"""scikit-learn in half the time: without what it loads on the way and ``multiform serve`` does not use.

`import sklearn` is most of what stands between ``multiform serve`` and the first question, and more than half of that
are libraries that it or SciPy imports at the top: pandas, and rich for a progress bar, which need not be there; SciPy's
statistics, and NumPy's testing and Fortran compiler, which these two load by themselves when somebody asks for them. So
the first are not there for a moment, and the others stand-ins that nobody keeps.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from types import ModuleType
from typing import Any

OPTIONAL = ("pandas", "rich")
OF_SCIPY = ("scipy.stats",)
OF_NUMPY = ("testing", "f2py")


def load_scikit_learn() -> None:
    """Import scikit-learn's base, unless it is there; a version that wants more of these is loaded as ever, later."""
    if "sklearn" in sys.modules:
        return
    import numpy

    modules: dict[str, Any] = dict.fromkeys(OPTIONAL)  # None is what Python takes for a module that cannot be found
    modules |= {name: ModuleType(name) for name in OF_SCIPY}
    parts: dict[str, Any] = {name: ModuleType(name) for name in OF_NUMPY}
    instead = [(sys.modules, modules), (vars(numpy), parts)]
    instead = [(known, {name: one[name] for name in one if name not in known}) for known, one in instead]
    for known, stand_ins in instead:
        known |= stand_ins
    try:
        with suppress(ImportError, AttributeError):
            import sklearn.base
            import sklearn.callback  # noqa: F401
    finally:
        for known, stand_ins in instead:
            for name, stand_in in stand_ins.items():
                if known.get(name) is stand_in:  # nobody has loaded the real one
                    del known[name]
