"""
The confusion tensor
====================

A confusion matrix for each loyalty type (section 3.2 of the paper): where the mistakes are, and whether they were
announced.
"""

# %%
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits

from multiform import LoyaltyClassifier
from multiform.displays import ConfusionTensorDisplay

X, y = load_digits(return_X_y=True)
model = LoyaltyClassifier(beta=0.01, gamma=50, cv=3, random_state=0).fit(X[:900], y[:900])

# %%
# Handwritten digits by other writers. Nearly all mistakes are in the second and third layer.
display = ConfusionTensorDisplay.from_estimator(model, X[900:], y[900:])
display.figure_.suptitle("Handwritten digits (scikit-learn), 897 by other writers")
plt.show()
