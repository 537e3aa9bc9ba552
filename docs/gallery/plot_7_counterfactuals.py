"""
What would change the decision?
===============================

The boundary between two classes is a quadric, so the nearest point where a decision changes is found exactly. Its
distance certifies that nothing nearer changes it.
"""

# %%
import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_iris

from multiform import QMSClassifier
from multiform.geometry import SeparatorDisplay, certified_radius, counterfactuals

iris = load_iris()
X, y = iris.data[:, [2, 3]], iris.target_names[iris.target]
model = QMSClassifier(random_state=0).fit(X, y)

# %%
# For twelve flowers: the circle within which the decision cannot change, and the arrow to where it does.
chosen = np.arange(4, len(X), 13)
radius = certified_radius(model, X[chosen])
nearest = counterfactuals(model, X[chosen])
display = SeparatorDisplay.from_model(model, X, y, limits=((0.2, 7.6), (-0.9, 3.2)))
ax = display.ax_
for start, end, length in zip(X[chosen], nearest.points, radius, strict=True):
    ax.add_patch(plt.Circle(start, length, fill=False, color="black", linewidth=0.8))
    ax.annotate("", end, start, arrowprops={"arrowstyle": "->"})
ax.set(xlabel="petal length (cm)", ylabel="petal width (cm)", title="Iris: certified radius and nearest change")
ax.set_aspect("equal")
ax.get_legend().set_loc("lower right")
plt.show()
