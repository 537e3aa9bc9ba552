"""Other classifiers beside our own settings in `QMSClassifierCV`: fitted on the same folds, and forests as arrays."""

from multiform.partners._cross_fitted import DOUBT, Partner, cross_fitted, partners_named, read_rows, require_dense
from multiform.partners._forest import Forest

__all__ = ["DOUBT", "Forest", "Partner", "cross_fitted", "partners_named", "read_rows", "require_dense"]
