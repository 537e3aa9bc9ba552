"""Free text in a graph: the weights of its words, as scikit-learn's TfidfVectorizer has them.

No operator folds case and accents as Python does (`StringNormalizer` asks the machine's locale, which often knows no
letters but those of English), so a table does it, character by character: a letter of a known word becomes the number
of that letter, what is no letter a blank, any other letter one that no word has; "½" becomes several, an accent none.
What stands between two blanks is a word, so that words are counted as runs of numbers, by the standard operator for
n-grams. `Tokenizer`, which cuts a text into its characters, is an operator of onnxruntime and not of ONNX itself.

Python alone knows that a capital sigma at the end of a word has a small letter of its own.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import strip_accents_unicode

from multiform.columns import Text
from multiform.export._graph import Graph

BLANK, STRANGE, FIRST = 0, 1, 2  # the numbers of no letter, of a letter that no word has, and of the first one that has
STAND_IN = "_"  # a text before all others, so that there is one


def weights(graph: Graph, column: Text, given: str) -> str:
    """The weights of the words of texts (n, 1): shape (n, width)."""
    letters = "".join(sorted(set("".join(column.words))))
    counts = _counted(graph, column, letters, _folded(graph, letters, given))
    # (1 + log count) idf, over the length of the row
    one, none = graph.constant(1.0), graph.constant(0.0)
    told = graph.node("Add", graph.node("Log", graph.node("Max", counts, one)), one)
    told = graph.node("Mul", told, graph.constant(column.weights[None, :]))
    told = graph.node("Where", graph.node("Greater", counts, none), told, none)
    length = graph.node("Sqrt", graph.total(graph.node("Mul", told, told), axis=1, keepdims=True))
    return graph.node("Div", told, graph.node("Where", graph.node("Greater", length, none), length, one))


def _folded(graph: Graph, letters: str, given: str) -> str:
    """The numbers of the letters of each text, a blank before and blanks after: shape (1 + n, longest)."""
    table = folds(letters)
    kinds = ["", *sorted(set(table.values()) - {""}), chr(STRANGE)]
    numbers = np.full((len(kinds), max(map(len, kinds))), -1)
    for number, kind in enumerate(kinds):
        numbers[number, : len(kind)] = [ord(one) for one in kind]
    place = {kind: number for number, kind in enumerate(kinds)}
    texts = graph.node("Concat", graph.constant(np.array([STAND_IN])), graph.flat(given), axis=0)
    characters = graph.node("Tokenizer", texts, mark=0, pad_value="", separators=[""], mincharnum=1)
    known: dict[str, Any] = {
        "keys_strings": ["", *table],
        "values_int64s": [0, *(place[kind] for kind in table.values())],
    }
    kind_of = graph.node("LabelEncoder", characters, **known, default_int64=len(kinds) - 1)
    found = graph.node("Gather", graph.constant(numbers), kind_of)
    by_text = graph.node("Reshape", found, graph.constant([0, -1]))
    # move together what is there, behind a blank; the rest goes to the first place, which stays one
    there = graph.node("GreaterOrEqual", by_text, graph.constant(0))
    so_far = graph.node("CumSum", graph.cast(there, np.int64), graph.constant(1))
    place_of = graph.node("Where", there, so_far, graph.constant(0))
    value = graph.node("Where", there, by_text, graph.constant(BLANK))
    shape = graph.node("Add", graph.node("Shape", by_text), graph.constant([0, 2]))
    blanks = graph.node("Expand", graph.constant([[BLANK]]), shape)
    return graph.node("ScatterElements", blanks, place_of, value, axis=1)


def _counted(graph: Graph, column: Text, letters: str, numbers: str) -> str:
    """How often each word stands between two blanks: shape (n, width)."""
    order = sorted(range(column.width), key=lambda word: len(column.words[word]))
    grams = [[BLANK, *(FIRST + letters.index(one) for one in column.words[word]), BLANK] for word in order]
    sizes = np.array([len(gram) for gram in grams])
    begins = [int(sizes[sizes < size].sum()) for size in range(1, int(sizes.max()) + 1)]  # of those of each size
    found = graph.node(
        "TfIdfVectorizer",
        numbers,
        mode="TF",
        min_gram_length=int(sizes.min()),
        max_gram_length=int(sizes.max()),
        max_skip_count=0,
        ngram_counts=begins,
        ngram_indexes=order,
        pool_int64s=[number for gram in grams for number in gram],
    )
    counts = graph.node("Slice", found, graph.constant([1]), graph.constant([sys.maxsize]), graph.constant([0]))
    return graph.cast(counts, np.float64)


@cache
def folds(letters: str) -> dict[str, str]:
    """What each character becomes, characters of these numbers; those that become one `STRANGE` letter are left out."""
    number = {letter: chr(FIRST + place) for place, letter in enumerate(letters)}
    strange, runs = chr(STRANGE), re.compile(f"{chr(STRANGE)}+|{chr(BLANK)}+")

    def folded(character: str) -> str:
        plain = strip_accents_unicode(character.lower())
        each = "".join(number.get(one, strange) if one.isalnum() or one == "_" else chr(BLANK) for one in plain)
        return runs.sub(lambda run: run[0][0], each)  # a run of these is as good as one

    table = {}
    for code in range(1, sys.maxunicode + 1):
        character = chr(code)
        kind = unicodedata.category(character)
        nobodys = kind in ("Cs", "Cn") or (kind == "Co" and code > 0xFFFF)  # half characters, and not given to any
        if not nobodys and (new := folded(character)) != strange:
            table[character] = new
    return table
