"""Data to start with: Fashion-MNIST from wherever it is, and small medical sets inside the package."""

from multiform.datasets._fashion_mnist import load_fashion_mnist
from multiform.datasets._medical import load_breast_cancer_wisconsin, load_heart_disease, load_hepatitis, load_thyroid

__all__ = ["load_breast_cancer_wisconsin", "load_fashion_mnist", "load_heart_disease", "load_hepatitis", "load_thyroid"]
