"""
Answer less, err less
=====================

If only the surest answers are given, the error falls. How fast it falls is what a trust score is worth.
"""

# %%
# Which patients of the thyroid data can be answered? The score of the loyalty machine listens to all of its models.
from matplotlib import pyplot as plt
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from multiform import LoyaltyClassifier, QMSClassifier
from multiform.datasets import load_thyroid
from multiform.displays import RiskCoverageDisplay

X, y = load_thyroid(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, train_size=2500, stratify=y, random_state=0)
models = {
    "loyalty score": LoyaltyClassifier(cv=3, random_state=0),
    "one QMS model": QMSClassifier(random_state=0),
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
}

# %%
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
for name, model in models.items():
    RiskCoverageDisplay.from_estimator(model.fit(X, y), X_new, y_new, name=name, ax=ax)
ax.set_title("Thyroid data: patients that no model has seen")
plt.show()
