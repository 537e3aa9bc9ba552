"""The rivals of a plan by their names, the simple ones first."""

from benchmarks.aaco import AACO
from benchmarks.contest import Method
from benchmarks.cost_trees import COST_TREES
from benchmarks.gdfs import GDFS
from benchmarks.sets_of_tests import SETS_OF_TESTS

RIVALS: dict[str, Method] = {**SETS_OF_TESTS, **COST_TREES, **GDFS, **AACO}
