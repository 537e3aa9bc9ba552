"""Prices, discounts, precedence: bills by hand, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiform.datasets import load_heart_disease
from multiform.diagnosis import Tariff, read_costs
from multiform.diagnosis._search import remaining_price

BLOOD = {"blood": {"chol": 5.17, "fbs": 3.10}}


@pytest.fixture
def tariff():
    return Tariff.of({"age": 1, "chol": 7.27, "fbs": 5.20, "ecg": 15.5}, discounts=BLOOD, requires={"ecg": ["age"]})


def test_the_first_of_a_group_pays_in_full(tariff):
    assert tariff.bill(["chol", "fbs"]) == [7.27, 3.10]
    assert tariff.bill(["fbs", "age", "chol"]) == [5.20, 1.0, 5.17]
    assert tariff.bill([]) == []


def test_the_panel_of_heart_disease_by_hand():
    """Turney's prices: 4 questions of 1, blood 7.27 + 3.10, ECG 15.50, 102.90 + 1, 87.30 + 1 + 1, 100.90."""
    heart = load_heart_disease()
    tariff = Tariff.of(heart.costs, heart.discounts)
    assert tariff.panel_cost == pytest.approx(323.97)
    assert sum(tariff.prices) == pytest.approx(600.57)


def test_known_evidence_is_free_and_begins_no_discount():
    tariff = Tariff.of({"chol": 7.27, "fbs": 5.20}, discounts=BLOOD, known=["chol"])
    assert tariff.bill(["fbs"]) == [5.20]  # the draw that gave chol was somebody else's
    assert tariff.panel_cost == 5.20
    with pytest.raises(ValueError, match="'chol' is known or has been bought already"):
        tariff.bill(["chol"])


def test_precedence(tariff):
    assert tariff.tests[3] not in [tariff.tests[t] for t in tariff.next_tests(0)]
    assert tariff.bill(["age", "ecg"]) == [1.0, 15.5]
    with pytest.raises(ValueError, match=r"'ecg' must come after \['age'\]"):
        tariff.bill(["ecg"])


def test_price_table_is_the_price(tariff):
    sets = np.arange(1 << len(tariff), dtype=np.int64)
    table = tariff.price_table(sets)
    for held in sets.tolist():
        allowed = tariff.next_tests(held)
        for t in range(len(tariff)):
            assert table[held, t] == (tariff.price(t, held) if t in allowed else np.inf)


@given(st.permutations(range(4)), st.integers(0, 3))
def test_the_remaining_panel_is_the_cheapest_way_to_buy_it(order, n_bought):
    """Two discounts of two: no order of the rest costs less than the remaining price, and the best one costs it."""
    tariff = Tariff.of({"a": 9, "b": 4, "c": 7, "d": 3}, discounts={"g": {"a": 5, "b": 3}, "h": {"c": 1, "d": 2}})
    held = sum(1 << t for t in order[:n_bought])
    expected = remaining_price(tariff, np.array([held]))[0]
    rest = order[n_bought:]
    assert sum(tariff.bill([*order[:n_bought], *rest])[n_bought:]) >= expected - 1e-9
    by_surcharge = sorted(rest, key=lambda t: tariff.prices[t] - tariff.discounted[t])
    assert sum(tariff.bill([*order[:n_bought], *by_surcharge])[n_bought:]) == pytest.approx(expected)


def test_costs_from_a_table(tmp_path):
    frame = pd.DataFrame(
        {
            "test": ["age", "chol", "fbs"],
            "cost": [1, 7.27, 5.2],
            "discount": [None, "A", "A"],
            "discounted_cost": [None, 5, 3],
        }
    )
    path = tmp_path / "costs.csv"
    frame.to_csv(path, index=False)
    for table in (frame, path, str(path)):
        prices, discounts = read_costs(table, None)
        assert prices == {"age": 1.0, "chol": 7.27, "fbs": 5.2}
        assert discounts == {"A": {"chol": 5.0, "fbs": 3.0}}
    assert read_costs(frame, {"B": {"age": 0}})[1] == {"B": {"age": 0}}


def test_the_older_words_of_a_table_are_read(tmp_path):
    path = tmp_path / "costs.csv"
    for words in ("discount,discounted_cost", "group,cost_in_group"):
        path.write_text(f"test,cost,{words}\nage,1,,\nchol,7,A,5\n")
        assert read_costs(path, None) == ({"age": 1.0, "chol": 7.0}, {"A": {"chol": 5.0}})


def test_a_table_as_a_spreadsheet_writes_it(tmp_path):
    path = tmp_path / "costs.csv"
    path.write_text("test, cost, group, cost_in_group\r\nage, 1,,\r\nchol, 7, A, 5\r\n\r\n", encoding="utf-8-sig")
    assert read_costs(path, None) == ({"age": 1.0, "chol": 7.0}, {"A": {"chol": 5.0}})


def test_comments_of_a_cost_file_are_skipped(tmp_path):
    path = tmp_path / "costs.csv"
    path.write_text("# prices of 1995\ntest,cost\nage,1\n")
    assert read_costs(path, None)[0] == {"age": 1.0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"costs": {}}, "must name 1 to 500 tests; got 0"),
        ({"costs": {"a": -1}}, r"costs\['a'\] .* finite and not negative; got -1"),
        ({"costs": {"a": float("nan")}}, "finite and not negative; got nan"),
        ({"costs": {"a": "dear"}}, "got 'dear'"),
        ({"costs": {"a": None}}, "got None"),
        ({"costs": {"a": True}}, "got True"),
        ({"costs": {"a": 1}, "discounts": {"g": {"b": 1}}}, "no test is named 'b'; the tests are"),
        ({"costs": {"a": 1}, "discounts": {"g": ["a"]}}, "must map tests to their price"),
        ({"costs": {"a": 1}, "discounts": {"g": {"a": 2}}}, "must not exceed the full one, 1; got 2"),
        ({"costs": {"a": 2}, "discounts": {"g": {"a": 1}, "h": {"a": 1}}}, "in two discounts"),
        ({"costs": {"a": 1}, "known": ["b"]}, "known of DiagnosisPlanner: no test is named 'b'"),
        ({"costs": {"a": 1}, "requires": {"b": "a"}}, "requires of DiagnosisPlanner: no test is named 'b'"),
        ({"costs": {"a": 1}, "requires": {"a": "a"}}, "names the test itself"),
        ({"costs": {"a": 1}, "requires": {"a": 3}}, r"requires\['a'\] .* a name or a sequence of names; got 3"),
        ({"costs": {"a": 1}, "known": None}, "known of DiagnosisPlanner must be a name or a sequence"),
        ({"costs": {"a": 1, "b": 1}, "requires": {"a": "b", "b": "a"}}, r"\['a', 'b'\] wait for each other"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(ValueError, match=message):
        Tariff.of(**arguments)


def test_tables_that_are_refused(tmp_path):
    path = tmp_path / "costs.csv"
    path.write_text("name,price\na,1\n")
    with pytest.raises(ValueError, match="needs the columns 'test' and 'cost'"):
        read_costs(path, None)
    path.write_text("test,cost\na,1\na,2\n")
    with pytest.raises(ValueError, match="names the test 'a' twice"):
        read_costs(path, None)
    path.write_text("test,cost\na,\n")
    with pytest.raises(ValueError, match="cost of the test 'a' in costs of DiagnosisPlanner must be a price"):
        read_costs(path, None)
    path.write_text("test,cost\na,1,2,3\n")
    assert read_costs(path, None)[0] == {"a": 1.0}
    path.write_bytes("test,cost\nt\xe9st,1\n".encode("latin-1"))
    with pytest.raises(ValueError, match="is not UTF-8 text"):
        read_costs(path, None)
    with pytest.raises(ValueError, match=r"there is no file .*none\.csv"):
        read_costs(tmp_path / "none.csv", None)
    with pytest.raises(ValueError, match="must be a dict of prices, a data frame or the path"):
        read_costs(3, None)
