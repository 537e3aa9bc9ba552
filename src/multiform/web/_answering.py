"""The rows of a table, answered a piece at a time, for the page and for programs alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from multiform.tables import Batch, Familiarity, TableError
from multiform.web._model import TableModel

MOST_NOTES = 10
FEW = 100  # rows whose labels Python counts before polars has begun


class Piece(NamedTuple):
    """Some rows, their answers, what in them is unlike training, and what was decided in reading them, in sentences;
    and how much of the table has been read by then.
    """

    frame: Any
    answers: Any
    found: Familiarity
    notes: tuple[str, ...]
    share: float | None


class Answering:
    """What is said of all rows together, while they come in pieces: as ``multiform predict --json``.

    Attributes
    ----------
    rows : int
    labels : Counter
        How many rows have each.
    known : Familiarity
        What is unlike training, counted.
    """

    def __init__(self, model: TableModel) -> None:
        self.model, self.rows, self.labels, self.known = model, 0, Counter[str](), Familiarity()

    def answers(self, rows: Any, chances: bool = False) -> tuple[Any, Familiarity]:
        """The answers to some rows, and what in them is unlike training."""
        answers, found = self.model.answers(rows, chances=chances)
        self.rows += len(answers)
        labels = answers["label"]
        if len(labels) < FEW:
            self.labels.update(map(str, labels.to_list()))
        else:
            each, counts = labels.value_counts().get_columns()
            self.labels.update(dict(zip(map(str, each.to_list()), counts.to_list(), strict=True)))
        self.known += found.counted()
        return answers, found

    def pieces(
        self, batches: Iterable[Batch], size: int, chances: bool = False, target: str | None = None
    ) -> Iterator[Piece]:
        """The answers to a table, `size` rows at a time; what is wrong with a cell says in which line it stands.

        The column `target` is not shown to the model, which may know its columns by their order alone.
        """
        before = 0.0
        for batch in batches:
            n = len(batch.frame)
            for start in range(0, n, size):
                frame = batch.frame.slice(start, size)
                try:
                    answers, found = self.answers(frame.drop(target or [], strict=False), chances)
                except TableError as error:
                    raise batch.located(error, None if error.row is None else start + error.row) from error
                share = batch.share
                if share is not None:
                    share = before + (share - before) * min(1.0, (start + size) / n)
                yield Piece(frame, answers, found, batch.dialect.notes, share)
            before = batch.share or 0.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        ranked = sorted(self.labels.items(), key=lambda one: (-one[1], one[0]))
        notes = self.known.sentences()[:MOST_NOTES]
        return {"rows": self.rows, "labels": dict(ranked), "unfamiliar": self.known.as_dict(), "notes": notes}


def beside(frame: Any, answers: Any, names: Sequence[str]) -> Any:
    """These columns of a table with the answers after them; one that is called as an answer is has another name."""
    taken = {name: f"{name} given" for name in names if name in answers.columns}
    return frame.select(names).rename(taken).hstack(answers) if names else answers
