"""
How far to trust it: loyalty types
==================================

The loyalty extraction machine trains two more models for each class, one that would rather not say it and one that
likes to. A row that exactly one held-back class keeps is *strong* (sure); one that three pushed classes win is *weak*
(unsure); all others are *normal* (usual).
"""

# %%
# Four classes that overlap.
import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import make_blobs

from multiform import LoyaltyClassifier
from multiform.displays import LoyaltyDisplay

centers = [[0, 0], [4, 0], [0, 4], [4, 4]]
X, y = make_blobs(2400, centers=centers, cluster_std=1.6, random_state=0)
X, X_new, y, y_new = X[:1200], X[1200:], y[:1200], y[1200:]
model = LoyaltyClassifier(beta=0.1, gamma=10, random_state=0).fit(X, y)

# %%
# Strong samples lie inside, weak ones where three classes meet.
loyalty, right = model.predict_loyalty(X_new), model.predict(X_new) == y_new
figure, ax = plt.subplots(figsize=(7.5, 5), layout="constrained")
for level, colour in zip(model.levels_, ["#009E73", "#56B4E9", "#CC79A7"], strict=True):
    of_type = loyalty == level
    ax.scatter(*X_new[of_type].T, s=12, color=colour, label=f"{level}: {right[of_type].mean():.0%} right")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
ax.set_title("Four overlapping classes (made up), 1,200 unseen rows")

# %%
# What the types are worth is estimated on samples that the models did not see, so it comes true.
display = LoyaltyDisplay.from_estimator(model, X_new, y_new)
display.figure_.suptitle("The same rows: what training expected of each type, and what came true")
print(np.column_stack([model.levels_, model.loyalty_table_.accuracy.round(3)]))
plt.show()
