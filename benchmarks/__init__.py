"""Benchmarks: problems x libraries, with the peers in the same run (``python -m benchmarks --help``)."""
