"""
What is it: three separators in a plane
=======================================

Each class has one member function, :math:`f_k(x) = \\|A_k x - b_k\\|^2`, and a sample belongs to the class whose
function is smallest. Two features of the wine data are enough to see all of it.
"""

# %%
# Nothing has to be scaled or tuned.
import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_wine

from multiform import QMSClassifier
from multiform.geometry import SeparatorDisplay

wine = load_wine()
names = ["flavanoids", "color_intensity"]
X = wine.data[:, [wine.feature_names.index(name) for name in names]]
y = np.array(["first", "second", "third"])[wine.target]
model = QMSClassifier(random_state=0).fit(X, y)

# %%
# The boundary between two classes is where their functions are equal: one quadric. The dashed line of a class is a
# level of its function, an ellipse here.
display = SeparatorDisplay.from_model(model, X, y)
display.ax_.set(xlabel="flavanoids", ylabel="colour intensity", title="Three cultivars of wine")

# %%
# The functions themselves: along a line through the plane, each has its valley where its class lives.
line = np.column_stack([np.linspace(0.3, 4.5, 200), np.full(200, 5.0)])
figure, ax = plt.subplots()
for label, values in zip(model.classes_, model.member_values(line).T, strict=True):
    ax.semilogy(line[:, 0], values, label=label)
ax.set(xlabel="flavanoids, at a colour intensity of 5", ylabel="f(x), the smallest decides", title="The same wines")
ax.legend(loc="upper center")
plt.show()
