"""Damaged tables: answers, or one sentence that names the file; nothing else ever."""

import numpy as np
import pytest


def damaged(content, random):
    """Bytes flipped, cut, doubled, moved, and the marks that matter to a text table strewn in."""
    found = bytearray(content)
    for _ in range(random.integers(1, 4)):
        at, length = int(random.integers(100, len(found))), int(random.integers(1, 6))
        match random.integers(0, 9):
            case 0:
                found[at] = int(random.integers(0, 256))
            case 1:
                del found[at : at + length]
            case 2:
                found[at:at] = found[at : at + length]
            case 3:
                found[at:at] = random.choice([b'"', b",", b"\n", b"\r", b";", b"\x00", b"\xff", b'""', b"-", b"1e999"])
            case 4:
                found[at : at + length] = b"?" * length
            case 5:  # the names of the columns
                found[int(random.integers(0, 40))] = int(random.integers(32, 127))
            case _:  # inside a cell
                found[at] = int(random.integers(48, 123)) if chr(found[at]).isalnum() else found[at]
    return bytes(found)


def run(n, seed, folder, tmp_path, call):
    content = (folder / "test.csv").read_bytes()
    random = np.random.default_rng(seed)
    table, output = tmp_path / "table.csv", tmp_path / "out.csv"
    outcomes = {0: 0, 1: 0}
    for _ in range(n):
        table.write_bytes(damaged(content, random))
        output.write_text("old")
        code, _, err = call("predict", folder / "model.mfm", table, "-o", output)
        outcomes[code] += 1
        if code:
            assert err.splitlines()[-1].startswith("multiform: ")
            assert str(table) in err
            assert output.read_text() == "old"
        assert all(line.startswith(("note: ", "multiform: ")) for line in err.splitlines())
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["out.csv", "table.csv"]
    return outcomes


def test_damaged_tables(folder, tmp_path, call):
    outcomes = run(60, 0, folder, tmp_path, call)
    assert min(outcomes.values()) > 5, outcomes


@pytest.mark.slow
def test_5000_damaged_tables(folder, tmp_path, call):
    outcomes = run(5000, 1, folder, tmp_path, call)
    assert min(outcomes.values()) > 500
