"""Quadratic Multiform Separation: what is it, how far to trust that, what to measure next."""

__version__ = "0.1.0"
