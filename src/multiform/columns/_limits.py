"""How few is few: every limit of this room.

Where plans differ from tables, both stand side by side: a plan is made from few patients and pays for every column.
"""

__all__: list[str] = []

# A number of 3 to 12 distinct values may be a code, and gets a column per value (in plans, up to 6).
FEWEST_VALUES, MOST_VALUES = 3, 12
MOST_VALUES_IN_PLANS = 6
MOST_CODED = 200  # columns of a table: in a wider one, a number of few values is no code but a pixel, or the like
MOST_ENRICHED = 500  # columns of a matrix: a wider one is not enriched unless it is asked for

# Cells that must have a value for it to get a column, and cells that must be missing for a column to say so.
LEAST_CELLS = 1, 1
LEAST_CELLS_IN_PLANS = 5, 10

# Tables: columns that a category and a text become at most.
MOST_CATEGORIES = 50
MOST_WORDS = 200

# Tables: what is text, and what is an identifier.
MANY_VALUES = 50  # distinct ones, from which on words are read one by one
MANY_WORDS = 3.0  # on average, in free text
ENOUGH_ROWS = 20  # to call a column of distinct values an identifier
ALMOST_ALL = 0.95
LONG_NUMBER = 9  # digits

# Plans: patients from which on a number is cut, and the quantiles at which: close to each other in the tails, which is
# where the ill are.
CUT_FROM = 1_000
CUTS = (0.01, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 0.75, 0.85, 0.9, 0.92, 0.94, 0.96, 0.97, 0.98, 0.99)

# "enriched": knots of the hinges.
N_KNOTS = 5
