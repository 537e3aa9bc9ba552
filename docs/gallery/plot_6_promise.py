"""
A promise, kept
===============

``TriageClassifier`` promises an accuracy of the answers that it gives, with a confidence. Here 60 people calibrate on
samples of their own; at most one in twenty may end up below the target in the long run.
"""

# %%
# One classifier, a large population that stands for the truth, and many small calibration sets.
import warnings

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import make_blobs
from sklearn.frozen import FrozenEstimator

from multiform import QMSClassifier, TriageClassifier
from multiform.triage import TargetNotReachedWarning

X, y = make_blobs(60_000, centers=3, cluster_std=2.2, random_state=3)
model = FrozenEstimator(QMSClassifier(random_state=0).fit(X[:1000], y[:1000]))
X, y = X[1000:], y[1000:]
right, chance = model.predict(X) == y, model.predict_proba(X).max(axis=1)

# %%
rng = np.random.default_rng(0)
coverage, accuracy = [], []
for _ in range(60):
    some = rng.choice(len(X), 1500, replace=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TargetNotReachedWarning)
        triage = TriageClassifier(model, target_accuracy=0.97, random_state=0).fit(X[some], y[some])
    accepted = chance >= triage.thresholds_[0]
    coverage.append(accepted.mean())
    accuracy.append(right[accepted].mean() if accepted.any() else np.nan)

# %%
# Every dot is one person's threshold. The dashed line is the promise.
figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
ax.scatter(coverage, accuracy, color="#0072B2", alpha=0.7)
ax.axhline(0.97, color="#6E6E6E", linestyle="--")
ax.set(xlabel="share of the answers that are accepted", ylabel="true accuracy of those")
broken = np.mean(np.array(accuracy) < 0.97)
share = f"right on everything: {right.mean():.1%}; promises broken: {broken:.0%} (allowed: 5%)"
ax.set_title(f"Three overlapping classes (made up)\n{share}", fontsize=10)
plt.show()
