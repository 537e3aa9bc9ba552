"""`describe`: what is said of columns, rows and the target before anything is learnt."""

import datetime
import json

import numpy as np
import polars as pl
import pytest

from multiform.cli import main
from multiform.tables import TableError, describe, nearest


def people(n=200):
    random = np.random.default_rng(4)
    ill = random.random(n) < 0.5
    return pl.DataFrame(
        {
            "id": [f"P{k % 150:04d}" for k in range(n)],
            "age": [str(age) for age in random.integers(20, 90, n)],
            "weight": random.normal(80, 10, n).round(1),
            "pounds": np.zeros(n),
            "ward": random.choice(["north", "south", "North ", "noth", "east"], n, p=[0.5, 0.3, 0.1, 0.02, 0.08]),
            "seen": [datetime.date(2024, 1, 1) + datetime.timedelta(k % 300) for k in range(n)],
            "discharge": np.where(ill, "ward 3", "home"),
            "ill": np.where(ill, "yes", "no"),
        }
    ).with_columns(pounds=pl.col("weight") * 2.2046)  # fmt: skip


def test_every_column_is_told_with_its_reason():
    found = describe(people(), "ill")
    columns = {one["name"]: one for one in found["columns"]}
    assert list(columns) == ["id", "age", "weight", "pounds", "ward", "seen", "discharge"]
    assert [columns[name]["role"] for name in ("id", "age", "ward", "seen")] == [
        "identifier",
        "number",
        "category",
        "date",
    ]
    assert columns["age"]["range"].startswith("20 to 89, median ")
    assert columns["id"]["range"] == ""  # these may be names of people
    assert columns["seen"]["range"] == "2024-01-01 to 2024-07-18"
    assert found["rows"] == 200
    assert found["target"]["classes"].keys() == {"yes", "no"}
    json.dumps(found)


def test_what_is_odd_and_what_would_help():
    table = people().with_columns(
        age=pl.Series(["999"] * 4 + people()["age"].to_list()[4:]),
        weight=pl.when(pl.int_range(pl.len()) == 7).then(800.0).otherwise(pl.col("weight")),
        seen=pl.when(pl.int_range(pl.len()) == 9).then(datetime.date(2999, 1, 1)).otherwise(pl.col("seen")),
    )
    found = describe(table, "ill")
    odd = {one["name"]: one["suspicious"] for one in found["columns"]}
    assert odd["age"] == ["999 stands in 4 cells, far from all others (20 to 89)"]
    assert odd["weight"][0].startswith("800 lies far from all others")
    assert odd["seen"] == ["1 date after today, for example 2999-01-01"]
    assert "'noth' may be 'north', misspelt" in odd["ward"]
    assert any("'north', 'North' differ in nothing but case and blanks" in one for one in odd["ward"])
    assert list(found["leaks"]) == ["discharge"]
    advice = " ".join(found["advice"])
    for words in ("--na 999", "--drop discharge", "--group id", "one spelling for each", "--drop seen"):
        assert words in advice, advice
    assert not any("999" in one["suspicious"] for one in describe(table, missing=["999"])["columns"])


def test_words_that_keep_a_column_from_being_numbers():
    cells = [f"{k}.5" for k in range(30)] + ["haemolysed", "clotted", "lost it"] * 5
    found = describe(pl.DataFrame({"potassium": cells}))
    (odd,) = found["columns"][0]["suspicious"]
    assert odd.startswith("67% of the cells are numbers, the others are not: ")
    assert any("--na " in one for one in found["advice"])
    assert (
        describe(pl.DataFrame({"potassium": cells}), missing=["haemolysed", "clotted", "lost it"])["columns"][0]["role"]
        == "number"
    )


def test_rows_and_columns_that_are_there_twice():
    table = people(60).with_columns(id=pl.Series([f"P{k:03d}" for k in range(60)]))
    assert describe(table)["same_columns"] == [["weight", "pounds"], ["discharge", "ill"]]
    twice = pl.concat([table, table[:3], table[10:11].with_columns(age=pl.lit("55"))])
    found = describe(twice)
    assert found["repeated_rows"] == 3
    assert found["similar_rows"] == 2
    assert describe(table)["repeated_rows"] == describe(table)["similar_rows"] == 0


def test_rows_that_are_similar_by_chance_are_no_matter():
    random = np.random.default_rng(0)
    drawn = {f"code{k}": random.integers(0, 3, 300) for k in range(4)} | {"age": random.integers(20, 80, 300)}
    assert describe(drawn)["similar_rows"] == 0
    measured = {name: np.append(cells, cells[:3]) for name, cells in drawn.items()}
    for name in ("weight", "height"):
        cells = random.normal(size=300)
        measured[name] = np.append(cells, cells[:3])
    measured["age"][-3:] += 1  # typed twice, and wrong once
    assert describe(measured)["similar_rows"] == 6


def test_a_target_that_cannot_be_learnt_is_told():
    found = describe(people(), "weight")
    assert "like a measurement" in found["target"]["suspicious"][0]
    with pytest.raises(
        TableError, match=r"There is no column 'Il' to predict; the nearest is 'ill'; the columns are 'id'"
    ):
        describe(people(), "Il")
    assert nearest("nothing like it", ["a", "b"]) == "the columns are 'a', 'b'."


def test_a_fit_says_so_too(tmp_path, capsys):
    cells = [f"{k}.5" for k in range(30)] + ["haemolysed", "clotted", "lost it"] * 5
    pl.DataFrame({"potassium": cells, "x": range(45), "ill": (["a", "b"] * 23)[:45]}).write_csv(tmp_path / "t.csv")
    quick = ("--model", "qms", "--noise", "1", "--max-iter", "2", "--components", "2", "--jobs", "1")
    assert main(["fit", str(tmp_path / "t.csv"), "-t", "ill", "-o", str(tmp_path / "m.mfm"), *quick]) == 0
    told = capsys.readouterr().err
    assert (
        "column 'potassium' is taken as category, but 67% of the cells are numbers, the others are not: 'clotted' (5)"
        in told
    )


# ------------------------------------------------------------------------------------------------------- the command


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("described")
    people().write_csv(folder / "people.csv")
    quick = ("--model", "qms", "--noise", "1", "--max-iter", "2", "--components", "2", "--jobs", "1", "-q")
    assert main(["fit", str(folder / "people.csv"), "-t", "ill", "-o", str(folder / "m.mfm"), *quick]) == 0
    return folder


def test_the_command(folder, capsys):
    assert main(["describe", str(folder / "people.csv"), "-t", "ill"]) == 0
    text = capsys.readouterr().out
    for words in (
        "200 rows, 7 columns beside the target",
        "target 'ill': ",
        "because",
        "what would help:",
        "--drop disch",
    ):
        assert words in text
    assert main(["describe", str(folder / "people.csv"), "-t", "ill", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["leaks"].keys() == {"discharge"}
    assert main(["describe", str(folder / "people.csv"), "-t", "Ill"]) == 1
    assert "the nearest is 'ill'" in capsys.readouterr().err


def test_arguments_in_the_wrong_order(folder, tmp_path, capsys):
    table, model = str(folder / "people.csv"), str(folder / "m.mfm")
    assert main(["evaluate", table, model]) == 0
    assert f"note: {model} is the model and {table} a table; the model comes first." in capsys.readouterr().err
    assert main(["predict", table, model, "-o", str(tmp_path / "a.csv")]) == 0
    capsys.readouterr()
    assert main(["describe", model]) == 2
    assert "is a model file and no table; `multiform info` says what is in it" in capsys.readouterr().err
    assert main(["info", table]) == 1
    assert "is not a model file of multiform; `multiform describe` says what is in a table" in capsys.readouterr().err
    assert main(["predict", model, table, "--keep", "Ages"]) == 1
    assert "has no column 'Ages' to keep; the nearest is 'age'" in capsys.readouterr().err
