"""One network that answers on any set of tests: what GDFS and AACO rest on, here as GDFS's authors train it.

Its inputs are the results, 0 where a test was not done, and which tests were. It sees each patient with random sets of
tests, their number uniform; two hidden layers of 128, dropout .3, Adam at .001, a fifth of the patients to stop by.
Where patients are few, an epoch has several masked copies of each: the authors' sets have thousands of rows.
"""

import copy
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.contest import Array, Fold

HIDDEN, DROPOUT = 128, 0.3
RATE, BATCH, EPOCHS, PATIENCE = 1e-3, 128, 100, 5
LEAST_ROWS = 1024  # of an epoch
HELD_BACK = 5  # one patient in so many stops the training


def imported_torch() -> Any:
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise ImportError(
            "The rivals GDFS and AACO need torch: run `pip install torch`, or leave them out with --methods."
        ) from error
    torch.set_num_threads(1)
    return torch


def network(torch: Any, n_inputs: int, n_outputs: int) -> Any:
    nn = torch.nn
    hidden = [nn.Linear(n_inputs, HIDDEN), nn.ReLU(), nn.Dropout(DROPOUT)]
    hidden += [nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Dropout(DROPOUT)]
    return nn.Sequential(*hidden, nn.Linear(HIDDEN, n_outputs))


class MaskedNetwork:
    """The patients of a fold as tensors, and a network that answers on sets of their tests."""

    def __init__(self, fold: Fold) -> None:
        self.torch = torch = imported_torch()
        torch.manual_seed(fold.seed % 2**31)
        self.rows, self.asked = (torch.tensor(np.asarray(part, dtype=np.float32)) for part in (fold.rows, fold.asked))
        self.target = torch.tensor(np.asarray(fold.target, dtype=np.int64))
        self.owner = torch.tensor(np.asarray(fold.owner, dtype=np.int64))
        self.n_tests = len(fold.tariff)
        stops = _every(fold.target, HELD_BACK)
        self.training, self.stopping = torch.tensor(np.flatnonzero(~stops)), torch.tensor(np.flatnonzero(stops))
        self.predictor = network(torch, len(fold.owner) + self.n_tests, fold.n_classes)
        self.loss = torch.nn.CrossEntropyLoss()
        judged = self.stopping.repeat(_copies(len(self.stopping)))
        masks = self.random_masks(len(judged))

        def step(patients: Any) -> None:
            answers = self.answered(self.rows[patients], self.random_masks(len(patients)))
            self.loss(answers, self.target[patients]).backward()

        def judge() -> float:
            return float(self.loss(self.answered(self.rows[judged], masks), self.target[judged]))

        self.train([self.predictor], step, judge, EPOCHS, _copies(len(self.training)))

    def random_masks(self, n: int) -> Any:
        """Sets of tests, their number uniform."""
        return (self.torch.rand(n, self.n_tests) > self.torch.rand(n, 1)).float()

    def masked(self, rows: Any, masks: Any) -> Any:
        return self.torch.cat([rows * masks[:, self.owner], masks], dim=1)

    def answered(self, rows: Any, masks: Any) -> Any:
        """Logits on sets of tests."""
        return self.predictor(self.masked(rows, masks))

    def train(
        self, models: Sequence[Any], step: Callable[[Any], object], judge: Callable[[], float], epochs: int, copies: int
    ) -> None:
        """Adam until the held-back loss has not fallen for a while; the rate falls before that. The best is kept.

        A step propagates the loss of some patients back; an epoch has so many copies of each.
        """
        torch = self.torch
        optimizer = torch.optim.Adam([one for model in models for one in model.parameters()], lr=RATE)
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.2, patience=PATIENCE, min_lr=1e-6)
        best, kept, bad = np.inf, [copy.deepcopy(model.state_dict()) for model in models], 0
        for _ in range(epochs):
            for model in models:
                model.train()
            patients = self.training.repeat(copies)
            for batch in patients[torch.randperm(len(patients))].split(BATCH):
                optimizer.zero_grad()
                step(batch)
                optimizer.step()
            for model in models:
                model.eval()
            with torch.no_grad():
                judged = judge()
            schedule.step(judged)
            bad += 1
            if judged < best:
                best, kept, bad = judged, [copy.deepcopy(model.state_dict()) for model in models], 0
            if bad > PATIENCE + 1:
                break
        for model, state in zip(models, kept, strict=True):
            model.load_state_dict(state)
            model.eval()


def _every(target: Array, one_in: int) -> Array:
    """One patient in so many, of every class alike."""
    chosen = np.zeros(len(target), dtype=bool)
    chosen[np.argsort(target, kind="stable")[one_in // 2 :: one_in]] = True
    return chosen


def _copies(n: int) -> int:
    return max(1, LEAST_ROWS // max(n, 1))
