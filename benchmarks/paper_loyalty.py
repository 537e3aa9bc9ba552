"""The paper's loyalty figures (section 4.4), which the package has, as `multiform reproduce` shows them."""

from multiform.reproduction.paper import LEVELS, TEST_CORRECT, TEST_COUNT, TEST_TENSOR, TRAIN_CORRECT, TRAIN_COUNT

__all__ = ["LEVELS", "TEST_CORRECT", "TEST_COUNT", "TEST_TENSOR", "TRAIN_CORRECT", "TRAIN_COUNT"]
