"""Engines by name, with all their threads at work however small the problem is."""

from multiform.engines import CpuEngine, ReferenceEngine


def cpu(kernel="auto", n_threads=1):
    return ReferenceEngine() if kernel == "reference" else CpuEngine(kernel, n_threads, worth_a_thread=1)
