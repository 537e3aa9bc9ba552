"""The paper's own figures (section 4), which the package has, as `multiform reproduce` shows them."""

from multiform.reproduction.paper import (
    FIT_SECONDS,
    STRONG_ACCURACY,
    STRONG_COVERAGE,
    TEST_ACCURACY,
    TEST_CONFUSION,
    TRAIN_ACCURACY,
    TRAIN_CONFUSION,
)

__all__ = [
    "FIT_SECONDS",
    "STRONG_ACCURACY",
    "STRONG_COVERAGE",
    "TEST_ACCURACY",
    "TEST_CONFUSION",
    "TRAIN_ACCURACY",
    "TRAIN_CONFUSION",
]
