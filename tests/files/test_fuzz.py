"""Mutated files: a sentence, or a model with the same answers; nothing else ever."""

import numpy as np
import pytest

import multiform
from multiform.files import ModelFileError
from multiform.files._format import BODY_AT, DIGEST_AT, JSON_AT, MAGIC, unpack
from tests.files import models


def mutated(content, random):
    """Flips, cuts, insertions, repetitions, exchanges and foreign bytes, one to three of them."""
    found = bytearray(content)
    for _ in range(random.integers(1, 4)):
        at = int(random.integers(0, max(1, len(found))))
        length = int(random.integers(1, 64))
        match random.integers(0, 8):
            case 0 if found:
                found[at] ^= 1 << int(random.integers(0, 8))
            case 1:
                del found[at:]
            case 2:
                del found[at : at + length]
            case 3:
                found[at:at] = random.bytes(length)
            case 4:
                found[at : at + length] = random.bytes(length)
            case 5:
                other = int(random.integers(0, max(1, len(found))))
                found[at : at + length] = found[other : other + length]
            case 6:  # the header, which a random place seldom hits
                place = int(random.integers(0, JSON_AT))
                found[place : place + 1] = random.bytes(1)
            case 7:
                found[at : at + length] = bytes(length)
    return bytes(found)


def resealed(content):
    """With the checksum made right, so that what lies behind it is reached."""
    import hashlib

    if len(content) < JSON_AT or not content.startswith(MAGIC):
        return content
    digest = hashlib.sha256(content[:DIGEST_AT] + content[BODY_AT:]).digest()
    return content[:DIGEST_AT] + digest + content[BODY_AT:]


def opened(path):
    """The model, or the one sentence that says why there is none."""
    try:
        return multiform.load(path), None
    except ModelFileError as error:
        return None, str(error)


def run(name, n, seed, tmp_path):
    path = tmp_path / "model.mfm"
    multiform.save(models.model(name), path)
    content, X = path.read_bytes(), models.samples(name)[:5]
    expected = models.answers(models.model(name), X)
    random = np.random.default_rng(seed)
    for _ in range(n):
        changed = mutated(content, random)
        path.write_bytes(changed)
        loaded, sentence = opened(path)
        if sentence is None:
            assert models.same(models.answers(loaded, X), expected)
            assert changed == content  # the checksum lets nothing else pass
        else:
            assert "\n" not in sentence


def run_resealed(name, n, seed, tmp_path):
    """The checksum is right, as in a file that somebody wrote on purpose: an error of ours, or a model."""
    path = tmp_path / "model.mfm"
    multiform.save(models.model(name), path)
    content = path.read_bytes()
    random = np.random.default_rng(seed)
    outcomes = {"refused": 0, "loaded": 0}
    for _ in range(n):
        path.write_bytes(resealed(mutated(content, random)))
        _, sentence = opened(path)
        assert "\n" not in (sentence or "")
        outcomes["loaded" if sentence is None else "refused"] += 1
    return outcomes


def test_mutations(tmp_path):
    run("loyalty", 700, 0, tmp_path)
    run("table", 700, 1, tmp_path)


def test_mutations_with_a_right_checksum(tmp_path):
    outcomes = run_resealed("table", 150, 0, tmp_path)
    assert outcomes["refused"] > 0


def test_json_mutations_with_a_right_checksum(tmp_path):
    """Values of the description exchanged for others: the parts no longer fit each other."""
    from multiform.files._format import pack

    path = tmp_path / "model.mfm"
    multiform.save(models.model("cv"), path)
    random = np.random.default_rng(0)
    strange = [None, True, -1, 0, 10**30, 1e308, "", "x", [], {}, {"tuple": []}, {"array": "0"}, {"same": 0}]
    for _ in range(300):
        header, arrays = unpack(path.read_bytes(), "here")
        places = list(_places(header))
        parent, key = places[random.integers(len(places))]
        parent[key] = strange[random.integers(len(strange))]
        changed = tmp_path / "changed.mfm"
        changed.write_bytes(pack(header, arrays))
        loaded, sentence = opened(changed)
        assert type(loaded).__name__ == "QMSClassifierCV" if sentence is None else "\n" not in sentence


def _places(tree):
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, entry in list(entries):
        yield tree, key
        if isinstance(entry, dict | list):
            yield from _places(entry)


@pytest.mark.slow
def test_100_000_mutations(tmp_path):
    names = [name for name in models.NAMES if name != "qms, partial_fit"]
    for seed, name in enumerate(names):
        run(name, 100_000 // len(names), 100 + seed, tmp_path)


@pytest.mark.slow
def test_20_000_mutations_with_a_right_checksum(tmp_path):
    outcomes = {"refused": 0, "loaded": 0}
    for seed, name in enumerate(("qms", "cv", "triage", "table")):
        for outcome, count in run_resealed(name, 5_000, seed, tmp_path).items():
            outcomes[outcome] += count
    assert min(outcomes.values()) > 0
