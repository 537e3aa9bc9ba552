"""A table of three categories, where many rows are alike: what the command line says of itself is true."""

import itertools

import polars as pl
import pytest

# Survived and died by class, sex and age: the passengers of the Titanic (Dawson 1995, after the Board of Trade).
SURVIVED_DIED = {
    ("1st", "male", "child"): (5, 0),
    ("1st", "male", "adult"): (57, 118),
    ("1st", "female", "child"): (1, 0),
    ("1st", "female", "adult"): (140, 4),
    ("2nd", "male", "child"): (11, 0),
    ("2nd", "male", "adult"): (14, 154),
    ("2nd", "female", "child"): (13, 0),
    ("2nd", "female", "adult"): (80, 13),
    ("3rd", "male", "child"): (13, 35),
    ("3rd", "male", "adult"): (75, 387),
    ("3rd", "female", "child"): (14, 17),
    ("3rd", "female", "adult"): (76, 89),
}


@pytest.fixture(scope="module")
def passengers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("passengers")
    rows = [
        (*kind, survived)
        for kind, counts in SURVIVED_DIED.items()
        for survived, count in zip(("yes", "no"), counts, strict=True)
        for _ in range(count)
    ]
    table = pl.DataFrame(rows, schema=["class", "sex", "age", "survived"], orient="row")
    table = table.sample(fraction=1, shuffle=True, seed=0)
    table.write_csv(folder / "passengers.csv")
    kinds = pl.DataFrame(list(SURVIVED_DIED), schema=["class", "sex", "age"], orient="row")
    kinds.write_csv(folder / "kinds.csv")
    return folder


@pytest.mark.parametrize("model", ["loyalty", "cv"])
def test_estimates_of_a_table_of_categories(passengers, model, call):
    path, out = passengers / f"{model}.mfm", passengers / f"{model}.csv"
    code, said, _ = call("fit", passengers / "passengers.csv", "-t", "survived", "-o", path, "--model", model)
    assert code == 0
    estimated = float(said.partition("estimated accuracy on new rows ")[2].partition("%")[0])
    assert estimated == pytest.approx(79.8, abs=2)  # the best rule of these columns is right for 79.8 %
    assert call("predict", path, passengers / "kinds.csv", "-o", out, "--chances")[0] == 0
    answers = pl.read_csv(out)
    for answer, (_, counts) in zip(answers.iter_rows(named=True), SURVIVED_DIED.items(), strict=True):
        if sum(counts) >= 90:
            share = counts[0] / sum(counts)
            assert answer["chance of yes"] == pytest.approx(share, abs=0.13)
    best = answers.select("chance of no", "chance of yes").max_horizontal()
    assert (answers["chance"] - best).abs().max() < 1e-9  # one number
    assert answers["chance"].min() >= 0.5
    women = answers.row(list(SURVIVED_DIED).index(("1st", "female", "adult")), named=True)
    assert women["label"] == "yes"
    assert women["chance"] > 0.85


def test_every_combination_is_there():
    assert list(SURVIVED_DIED) == list(itertools.product(("1st", "2nd", "3rd"), ("male", "female"), ("child", "adult")))
    assert sum(map(sum, SURVIVED_DIED.values())) == 1316
