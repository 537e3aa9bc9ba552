"""
What to measure next, at the least cost
=======================================

Evidence costs money. A plan buys one test after the other and stops as soon as what is known suffices (the medical
diagnosis problem, section 3.3 of the paper).
"""

# %%
# Six tests of the Cleveland heart data with what they cost in Ontario; tests of a group share a part of their price.
from matplotlib import pyplot as plt

from multiform import DiagnosisPlanner
from multiform.datasets import load_heart_disease

heart = load_heart_disease(as_frame=True)
tests = ["age", "sex", "cp", "exang", "thal", "ca"]
costs = {name: heart.costs[name] for name in tests}
planner = DiagnosisPlanner(costs, cv=3, random_state=0).fit(heart.data, heart.target)
print("order:", ", ".join(planner.order_))
print(f"expected cost {planner.expected_cost_:.2f} of {planner.panel_cost_:.2f}")

# %%
# Stopping earlier is cheaper and a little worse; each dot is a stopping level, cross-fitted.
figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
points = sorted(planner.frontier_, key=lambda point: point.cost)
ax.plot([p.cost for p in points], [p.accuracy for p in points], "o-", color="#0072B2", label="stopping levels")
ax.plot(planner.panel_cost_, planner.full_accuracy_, "s", color="#6E6E6E", label="all evidence")
ax.axvline(planner.expected_cost_, color="#E69F00", label="the plan's expected cost")
ax.set(xlabel="mean bill (Canadian dollars)", ylabel="accuracy")
ax.legend()

# %%
# One patient, at the bedside: the next test, until the plan says stop.
bill = planner.acquire(heart.data.head(1))
print(bill.bill(0))
plt.show()
