"""Real tables: text, categories, dates, missing values and identifiers, from a file to a matrix and to answers.

What becomes of each column is decided on the training data, by rules that a person can read, and kept in the model as
plain values. Polars does the reading and the counting; it comes with ``pip install "multiform[cli]"``.
"""

from multiform.tables._classifier import TableClassifier
from multiform.tables._columns import Category, Code, Column, Date, Dropped, Number, Text
from multiform.tables._errors import TableError
from multiform.tables._reading import Batch, Source, batches, located, read, sources
from multiform.tables._roles import ROLES, decide

__all__ = [
    "ROLES",
    "Batch",
    "Category",
    "Code",
    "Column",
    "Date",
    "Dropped",
    "Number",
    "Source",
    "TableClassifier",
    "TableError",
    "Text",
    "batches",
    "decide",
    "located",
    "read",
    "sources",
]
