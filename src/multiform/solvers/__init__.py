"""What is to be trained (a problem, a batch of members) and how (settings of Adam and CPM); `engines` do it.

All of these are constant values: plain settings and arrays.
"""

from multiform.solvers.adam import AdamSolver, Moments
from multiform.solvers.cpm import CpmSolver
from multiform.solvers.problem import (
    MOST_FOR_MEANS,
    ModelBatch,
    Solver,
    TrainingProblem,
    class_means,
    samples_for_means,
)

__all__ = [
    "MOST_FOR_MEANS",
    "AdamSolver",
    "CpmSolver",
    "ModelBatch",
    "Moments",
    "Solver",
    "TrainingProblem",
    "class_means",
    "samples_for_means",
]
