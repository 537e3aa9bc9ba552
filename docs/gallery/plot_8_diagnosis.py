"""
What to measure next, at the least cost
=======================================

Evidence costs money. A plan buys one test after the other and stops as soon as what is known suffices (the medical
diagnosis problem, section 3.3 of the paper).
"""

# %%
# Six tests of the Cleveland heart data with what they cost in Ontario; some share a part of their price.
from matplotlib import pyplot as plt

from multiform import DiagnosisPlanner
from multiform.datasets import load_heart_disease
from multiform.displays import CostAccuracyDisplay, PlanDisplay

heart = load_heart_disease(as_frame=True)
tests = ["age", "sex", "cp", "exang", "thal", "ca"]
costs = {name: heart.costs[name] for name in tests}
planner = DiagnosisPlanner(costs, cv=3, random_state=0).fit(heart.data, heart.target)
print("order:", ", ".join(planner.order_))
print(f"expected cost {planner.expected_cost_:.2f} of {planner.panel_cost_:.2f}")

# %%
# The plan: what is bought next, and who stops where.
PlanDisplay.from_estimator(planner).ax_.set_title("Cleveland heart data, six tests (0: well, 1: ill)")

# %%
# Stopping earlier is cheaper and a little worse; each dot is a stopping level, cross-fitted.
CostAccuracyDisplay.from_estimator(planner).ax_.set_title("Cleveland heart data, six tests")

# %%
# One patient, at the bedside: the next test, until the plan says stop.
bill = planner.acquire(heart.data.head(1))
print(bill.bill(0))
plt.show()
