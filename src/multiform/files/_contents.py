"""What a model file holds of the rows that it was trained on, said for every kind, without making the model.

A file may be anybody's, so its description is walked without recursion, and whatever is not as expected is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

LEFT_OUT = ("identifier", "constant", "dropped", "group")
MOST_NAMES = 12


def held_rows(header: dict[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    """``rows``, how many training rows are in a file, and ``sentences`` that say all that it holds of them."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for node in _nodes(header["model"]):
        if isinstance(node.get("kind"), str) and isinstance(node.get("state"), dict):
            kinds.setdefault(node["kind"], []).append(node["state"])
    plans, ensembles = kinds.get("DiagnosisPlanner", []), kinds.get("QMSClassifierCV", [])
    n_rows = max((_length(_entry(plan.get("judge_"), "rows"), arrays) for plan in plans), default=0)
    if n_rows:
        told = [f"the {n_rows:,} training rows, as numbers, with their labels: treat it as you treat the data"]
    else:
        told = ["no training row; averages and spreads of the columns, over all rows"]
    columns = [column for column in header["columns"] or [] if isinstance(column, dict)]
    seen = [_pairs(state.get("seen_")) for found in kinds.values() for state in found]
    if names := [str(name) for pairs in seen for name, _ in pairs]:
        told.append(
            f"of {_listed(names)}: values that rows had, about 100 of a column of numbers or dates, among them the "
            "least and the greatest, and the commonest categories, with how many rows have each"
        )
    categories = [one["name"] for one in columns if one["role"] in ("category", "code") and one["name"] not in names]
    if categories:
        told.append(f"of {_listed(categories)}: the values that rows had")
    texts = [column["name"] for column in columns if column["role"] == "text"]
    if texts:
        told.append(f"of {_listed(texts)}: the most frequent words, which may be names")
    if ensembles:
        told.append("quantiles and categories of columns, which are values that rows had")
    if any(state.get("partners_") for state in ensembles):
        told.append("thresholds of trees, which lie between values that rows had")
    for state in kinds.get("TableClassifier", []):
        n_hashes = _length(_entry(state.get("training_rows"), "keys"), arrays)
        if n_hashes:
            told.append(
                f"a fingerprint (hash) of {n_hashes:,} rows each: no value can be read off it, but whoever has a whole "
                "row can find out whether it was among the training rows"
            )
    left_out = [column["name"] for column in columns if column["role"] in LEFT_OUT]
    if left_out:
        told.append(f"of {_listed(left_out)}: nothing but the name of the column")
    return {"rows": n_rows, "sentences": told}


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object of a JSON value."""
    waiting = [tree]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    """The entries of a dict, as files have it."""
    found = value.get("dict") if isinstance(value, dict) else None
    pairs = found if isinstance(found, list) else []
    return [(pair[0], pair[1]) for pair in pairs if isinstance(pair, list) and len(pair) == 2]


def _entry(value: Any, name: str) -> Any:
    return next((entry for key, entry in _pairs(value) if key == name), None)


def _length(value: Any, arrays: dict[str, Any]) -> int:
    """Of an array, as files have it."""
    name = value.get("array") if isinstance(value, dict) else None
    array = arrays.get(name) if isinstance(name, str) else None
    return len(array) if isinstance(array, np.ndarray) and array.ndim else 0


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
