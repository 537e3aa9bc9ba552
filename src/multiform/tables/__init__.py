"""Real tables: text, categories, dates, missing values and identifiers, from a file to a matrix and to answers.

What becomes of each column is decided on the training data, by rules that a person can read (`multiform.columns`), and
kept in the model as plain values. Polars does the reading and the counting; it comes with
``pip install "multiform[cli]"``.
"""

from multiform.columns import (
    ROLES,
    Category,
    Code,
    Column,
    Date,
    Dropped,
    Number,
    Shift,
    TableError,
    Text,
    UnfamiliarWarning,
    decide,
)
from multiform.tables._classifier import TableClassifier, answers_of
from multiform.tables._description import describe, nearly_numbers
from multiform.tables._estimate import Estimate, estimate, parted
from multiform.tables._familiarity import Familiarity, nearest
from multiform.tables._figures import Judgement, compared, figures, labelled
from multiform.tables._formulas import n_formulas, without_formulas
from multiform.tables._labels import labels_of, learn_labels
from multiform.tables._larger import fit_in_batches, needed_memory
from multiform.tables._matrix import MatrixModel
from multiform.tables._overlap import Overlap
from multiform.tables._reading import (
    FORMAT_SUFFIXES,
    FORMATS,
    Batch,
    Dialect,
    Source,
    batches,
    located,
    read,
    sources,
)
from multiform.tables._reasons import deciding_cells, least_change
from multiform.tables._rule import Rule, rule_for

__all__ = [
    "FORMATS",
    "FORMAT_SUFFIXES",
    "ROLES",
    "Batch",
    "Category",
    "Code",
    "Column",
    "Date",
    "Dialect",
    "Dropped",
    "Estimate",
    "Familiarity",
    "Judgement",
    "MatrixModel",
    "Number",
    "Overlap",
    "Rule",
    "Shift",
    "Source",
    "TableClassifier",
    "TableError",
    "Text",
    "UnfamiliarWarning",
    "answers_of",
    "batches",
    "compared",
    "decide",
    "deciding_cells",
    "describe",
    "estimate",
    "figures",
    "fit_in_batches",
    "labelled",
    "labels_of",
    "learn_labels",
    "least_change",
    "located",
    "n_formulas",
    "nearest",
    "nearly_numbers",
    "needed_memory",
    "parted",
    "read",
    "rule_for",
    "sources",
    "without_formulas",
]
