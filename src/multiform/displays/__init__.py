"""Pictures of what the metrics count, by scikit-learn's Display conventions.

Each display is made by ``from_estimator`` or ``from_predictions``, which draw at once, or from its plain
figures; ``plot(ax=...)`` draws again. Matplotlib is needed only when something is drawn.
"""

from multiform.displays._diagnosis import CostAccuracyDisplay, PlanDisplay
from multiform.displays._loyalty import ConfusionTensorDisplay, LoyaltyDisplay
from multiform.displays._risk_coverage import RiskCoverageDisplay

__all__ = ["ConfusionTensorDisplay", "CostAccuracyDisplay", "LoyaltyDisplay", "PlanDisplay", "RiskCoverageDisplay"]
