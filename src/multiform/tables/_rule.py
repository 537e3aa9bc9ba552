"""Which class is looked for, and from which chance on a row is called so.

Without a threshold a row gets the likeliest class. That is right where all mistakes cost the same. If to miss a row of
the class costs r times as much as a false alarm, the mean cost is least if every row is called so whose chance is at
least ``1 / (1 + r)``, as far as chances are true: to call it costs ``1 - p``, not to call it ``r p``.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np

from multiform.columns import polars
from multiform.metrics.labels import positions

# Words for "it is so" and "it is not" that targets are written in; a class is looked for if it is one of the first, or
# the other one is one of the second.
YES = {
    "yes",
    "y",
    "ja",
    "j",
    "oui",
    "o",
    "si",
    "sí",
    "sì",
    "true",
    "wahr",
    "vrai",
    "1",
    "+",
    "x",
    "positive",
    "positiv",
}
YES |= {"pos", "ill", "sick", "krank", "malade", "enfermo", "case", "event"}
NO = {"no", "n", "nein", "non", "false", "falsch", "faux", "0", "-", "negative", "negativ", "neg", "none"}
NO |= {"well", "healthy", "gesund", "sain", "sano", "control"}


@dataclass(frozen=True)
class Rule:
    """The class that is looked for, why it is that one, and the threshold, or None where the likeliest class answers.

    >>> Rule("ill", "you said so", cost_of_miss=9.0).least_chance
    0.1
    """

    positive: Any
    why: str
    threshold: float | None = None
    cost_of_miss: float | None = None

    @property
    def least_chance(self) -> float | None:
        """From which chance on a row is called so."""
        return self.threshold if self.cost_of_miss is None else 1 / (1 + self.cost_of_miss)

    def decide(self, answers: Any, classes: Any) -> Any:
        """Answers, which have the chance of every class, with the labels that the threshold gives.

        A row that gets another label has the chance of that label, no loyalty type, and no promise covers it; the
        column ``changed`` marks it.
        """
        pl, least = polars(), self.least_chance
        if least is None:
            return answers
        chances = np.column_stack([answers[f"chance of {label}"].to_numpy() for label in classes])
        own = int(positions(np.array([self.positive], dtype=object), np.asarray(classes))[0])
        others = chances.copy()
        others[:, own] = -1.0
        place = np.where(chances[:, own] >= least, own, others.argmax(axis=1))
        labels = np.asarray(classes)[place]
        changed = place != positions(answers["label"].to_numpy(), np.asarray(classes))
        moved = pl.Series(changed)
        told = answers.with_columns(
            pl.Series("label", labels),
            pl.when(moved).then(pl.Series(chances[np.arange(len(place)), place])).otherwise("chance").alias("chance"),
        )
        if "loyalty" in told.columns:
            told = told.with_columns(pl.when(~moved).then("loyalty").alias("loyalty"))
        if "accepted" in told.columns:
            told = told.with_columns(pl.col("accepted") & ~moved)
        return told.with_columns(moved.alias("changed"))

    def sentence(self) -> str:
        """What the threshold does, for people."""
        return f"rows are called {self.positive!r} from a chance of {self.least_chance:.3g} on"


def rule_for(
    model: Any, positive: str | None = None, threshold: float | None = None, cost_of_miss: float | None = None
) -> Rule | None:
    """The rule for a model of tables; None of one with many classes of which none is looked for.

    Parameters
    ----------
    model : TableClassifier or MatrixModel
    positive : str, default=None
        The class that is looked for, as text. Of two classes one is found by its word (yes, ja, 1, positive, ill, or
        that the other one says no), else the one that training had fewer rows of is, else the second.
    threshold, cost_of_miss : float, default=None
        From which chance on a row is called so, or how many false alarms a miss is worth. One of them at most.
    """
    classes = list(np.asarray(model.classes_).tolist())
    names = [str(label) for label in classes]
    acts = threshold is not None or cost_of_miss is not None
    if threshold is not None and cost_of_miss is not None:
        raise ValueError("The cost of a miss sets the threshold; give one of the two, not both.")
    if acts and not hasattr(model.estimator_, "predict_proba"):
        raise ValueError(f"{type(model.estimator_).__name__} gives no chances, so there is no threshold to set.")
    if positive is not None:
        if positive not in names:
            close = names if len(names) <= 10 else get_close_matches(positive, names, n=3, cutoff=0.5) or names[:10]
            more = f" and {len(names) - len(close)} more" * (len(close) < len(names))
            raise ValueError(
                f"{positive!r} is no class of the model; its classes are {', '.join(map(repr, close))}{more}."
            )
        return Rule(classes[names.index(positive)], "as you asked", threshold, cost_of_miss)
    if len(classes) != 2:
        if acts:
            raise ValueError(
                f"With {len(classes)} classes a threshold is for one class; name it with --positive, one of "
                f"{', '.join(map(repr, names[:10]))}."
            )
        return None
    found, why = _found(names, getattr(model, "training_", {}).get("class_counts", {}))
    return Rule(classes[found], why, threshold, cost_of_miss)


def _found(names: list[str], counts: dict[str, int]) -> tuple[int, str]:
    words = [name.strip().casefold() for name in names]
    yes = [k for k, word in enumerate(words) if word in YES or words[1 - k] in NO]
    if len(yes) == 1:
        return yes[0], "guessed by its name"
    rows = [counts.get(name, 0) for name in names]
    if rows[0] != rows[1]:
        return int(np.argmin(rows)), "guessed, as training had fewer rows of it"
    return 1, "guessed, as it is the second of the two"
