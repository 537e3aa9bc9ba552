"""GDFS (Covert, Qiu, Lu, Kim, White, Lee, ICML 2023): greedy dynamic feature selection by an amortised network.

After their public method (github iancovert/dynamic-selection, the tabular experiment), written anew. A selector network
says which test is next, given the results so far; it is trained together with the predictor to lower the loss one test
ahead, through a relaxed choice (Concrete) at five falling temperatures,

    min E sum over steps of CE(y, f(x on S and the relaxed choice of g(x on S))),  then S and the hard choice.

It minds no prices. Its parameter is the number of tests, the same for all patients.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.contest import Answers, Fold, rival
from benchmarks.masked_network import MaskedNetwork, network

TEMPERATURES = np.geomspace(1.0, 0.1, 5).tolist()
SHARPNESS = 5.0  # of the logits: the authors' 1 / gamma
MOST_STEPS = 12
EPOCHS = 250


def gdfs(fold: Fold) -> Iterator[tuple[str, Answers]]:
    learnt = MaskedNetwork(fold)
    torch = learnt.torch
    steps = min(MOST_STEPS, learnt.n_tests)
    selector = network(torch, len(fold.owner) + learnt.n_tests, learnt.n_tests)

    def relaxed(logits: Any, temperature: float) -> Any:
        own = torch.distributions.RelaxedOneHotCategorical(torch.tensor(temperature), logits=SHARPNESS * logits)
        return own.rsample()

    def hard(logits: Any) -> Any:
        return torch.nn.functional.one_hot(logits.argmax(dim=1), learnt.n_tests).float()

    def passed(patients: Any, temperature: float, training: bool) -> float:
        """The mean loss over the steps; in training it is propagated back step by step."""
        rows, target = learnt.rows[patients], learnt.target[patients]
        held, total = torch.zeros(len(patients), learnt.n_tests), 0.0
        for _ in range(steps):
            logits = selector(learnt.masked(rows, held))
            open_logits = logits - 1e6 * held
            soft = relaxed(logits if training else open_logits, temperature)
            loss = learnt.loss(learnt.answered(rows, torch.maximum(held, soft)), target) / steps
            if training:
                loss.backward()
            total += float(loss.detach())
            held = torch.maximum(held, hard(relaxed(open_logits.detach(), 1e-6 if training else temperature)))
        return total

    for temperature in TEMPERATURES:
        learnt.train(
            [selector, learnt.predictor],
            partial(passed, temperature=temperature, training=True),
            partial(passed, learnt.stopping, temperature, False),
            EPOCHS,
            copies=1,
        )
    with torch.no_grad():
        held, order = torch.zeros(len(learnt.asked), learnt.n_tests), []
        for step in range(steps):
            following = (selector(learnt.masked(learnt.asked, held)) - 1e6 * held).argmax(dim=1)
            order.append(following.numpy())
            held[torch.arange(len(held)), following] = 1.0
            answer = learnt.answered(learnt.asked, held).argmax(dim=1).numpy()
            yield f"{step + 1} tests", (np.column_stack(order), answer)


GDFS = {"GDFS": rival(gdfs, "benchmarks/gdfs.py", "benchmarks/masked_network.py", "torch")}
