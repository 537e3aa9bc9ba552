"""The cells of a table of sets by models, kept as they come, so that a table can be completed over several runs.

A cell's key names all that its figures follow from: the set and its file's checksum, the model, its library's version,
its settings, the seed; of our own models, whose code changes between versions, the checksum of the package's code, too.
Accuracy and losses do not depend on the machine (but of a model that stops by time, whose note says so); seconds do.
"""

import csv
import io
import os
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path

from benchmarks.peers import Model
from benchmarks.tables import version_of

Key = tuple[str, str, str, int, str]
CODE = ("*.py", "core/*pp", "core/*.inl")  # of the package, from which our figures follow
ASIDE = ("cli", "web", "reporting", "displays", "export", "reproduction")  # what speaks to people moves no figure


@dataclass(frozen=True)
class Result:
    """One model on one set. The first five fields are its key."""

    set: str
    model: str
    version: str
    seed: int
    recipe: str  # checksum of the set's file, of the classifier's settings, of our code
    accuracy: float
    fit_seconds: float  # wall time of all folds together
    predict_seconds: float
    failed_folds: int
    log_loss: float = float("nan")  # of a model that gives chances; NaN of others, and where a fold failed
    brier: float = float("nan")
    calibration_error: float = float("nan")
    roc_auc: float = float("nan")
    pr_auc: float = float("nan")
    processor_seconds: float = float("nan")  # of the fits

    @property
    def key(self) -> Key:
        return self.set, self.model, self.version, self.seed, self.recipe


def key_of(path: Path, model: Model, seed: int) -> Key:
    """Under which the cell of this set, model and seed is kept."""
    recipe = zlib.crc32(path.read_bytes() + repr(model.build(1, seed)).encode())
    if model.ours:
        recipe = zlib.crc32(_our_code(), recipe)
    return path.stem, model.name, version_of(model.library), seed, f"{recipe:08x}"


@cache
def _our_code() -> bytes:
    import multiform

    package = Path(multiform.__file__).parent
    paths = sorted(path for pattern in CODE for path in package.rglob(pattern))
    return b"".join(path.read_bytes() for path in paths if path.relative_to(package).parts[0] not in ASIDE)


def read_cells(path: Path) -> dict[Key, Result]:
    """The cells of a CSV file, the newest of a key; a line that a killed run left half written is none."""
    if not path.exists():
        return {}
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    found = {}
    for row in csv.DictReader(lines):
        if all(row.get(field.name) for field in fields(Result)):
            result = Result(**{field.name: field.type(row[field.name]) for field in fields(Result)})  # type: ignore[operator]
            found[result.key] = result
    return found


def append_cell(path: Path, result: Result) -> None:
    """Add a line to a CSV file in one write, so that several runs may share it."""
    begins = not path.exists() or path.stat().st_size == 0
    path.parent.mkdir(parents=True, exist_ok=True)
    broken = not begins and not path.read_bytes().endswith(b"\n")
    with open(path, "ab", buffering=0) as stream:
        stream.write((("\n" if broken else "") + _as_csv([result], header=begins)).encode())
        os.fsync(stream.fileno())


def keep_cells(path: Path, results: Iterable[Result], told: Sequence[str]) -> None:
    """Add cells to a file that others take on: sorted, without seconds (those are of a machine), under some lines."""
    unknown = dict.fromkeys(("fit_seconds", "predict_seconds", "processor_seconds"), float("nan"))
    cells = read_cells(path) | {result.key: replace(result, **unknown) for result in results}
    head = "".join(f"# {line}\n" for line in told)
    path.write_text(head + _as_csv([cells[key] for key in sorted(cells)], header=True), encoding="utf-8")


def _as_csv(results: Iterable[Result], *, header: bool) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Result)], lineterminator="\n")
    if header:
        writer.writeheader()
    for result in results:
        cells = asdict(result).items()
        writer.writerow({name: f"{cell:.8g}" if isinstance(cell, float) else cell for name, cell in cells})
    return text.getvalue()
