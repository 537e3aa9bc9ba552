"""A safety net for changes inside: what every public estimator answers, against stored arrays.

A case fits something by public names alone and returns its answers as arrays; `stored/` holds what they were.
`python -m tests.behaviour --exact` says which cases are still the same to the bit.
"""
