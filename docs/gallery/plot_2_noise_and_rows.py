"""
Choosing q and the noise
========================

``n_components`` (q) is how many rows each separator has: it decides which shapes there can be. ``noise`` is how
strongly they are smoothed.
"""

# %%
# Two moons with a lot of noise: 150 samples to learn from, many more to judge.
from matplotlib import pyplot as plt
from sklearn.datasets import make_classification, make_moons

from multiform import QMSClassifier
from multiform.geometry import SeparatorDisplay

X, y = make_moons(150, noise=0.35, random_state=0)
X_new, y_new = make_moons(5000, noise=0.35, random_state=1)

figure, axes = plt.subplots(2, 3, figsize=(9, 6), sharex=True, sharey=True, layout="constrained")
for row, n_components in enumerate([1, 3]):
    for column, noise in enumerate([0.0, 0.35, 1.0]):
        model = QMSClassifier(n_components, noise=noise, random_state=0).fit(X, y)
        axis = axes[row, column]
        SeparatorDisplay.from_model(model, X, y, ax=axis, grid_resolution=120)
        axis.set_title(f"q = {n_components}, noise {noise:g}: {model.score(X_new, y_new):.1%}")
        axis.set(xlabel="", ylabel="")
        axis.get_legend().remove()
figure.suptitle("Two moons (made up): accuracy on 5,000 new rows")

# %%
# With one row, :math:`f_k` is the squared distance to a line, and the regions are wedges. In two dimensions three
# rows (p + 1) are all that a quadratic can use (Lemma 1), so ``n_components="auto"`` never takes more. More noise gives
# rounder boundaries; in two dimensions there is little to overfit, and the accuracy hardly cares.

# %%
# With twenty features, of which six matter, it does care.
noises = [0.0, 0.1, 0.35, 0.7, 1.0, 1.5, 2.0, 3.0]
X, y = make_classification(2000, 20, n_informative=6, flip_y=0.2, random_state=0)
accuracies = [
    QMSClassifier(noise=noise, random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) for noise in noises
]
figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
ax.plot(noises, accuracies, "o-", color="#0072B2")
ax.set(
    xlabel="noise",
    ylabel="accuracy on new samples",
    title="Made-up data: 300 rows, 20 columns,\na fifth of the labels drawn by lot",
)
plt.show()
