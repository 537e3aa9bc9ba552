"""The interface for programs: the same answers as the command line's, and one sentence for whatever is no question."""

import io
import json
import re

import httpx
import jsonschema
import numpy as np
import openapi_spec_validator
import polars as pl
import pyarrow as pa
import pytest

import multiform
from multiform.cli import main
from multiform.diagnosis import DiagnosisSession
from multiform.tables import TableClassifier
from multiform.web import Limits
from multiform.web._arrow import arrow_table, matrix_of_arrow
from tests.web import samples
from tests.web.conftest import people, served
from tests.web.test_guard import problem

ARROW, CSV, LINES = "application/vnd.apache.arrow.stream", "text/csv", "application/x-ndjson"
JSON = {"content-type": "application/json"}
ROWS = [[0.1, 0.2, 0.3], [1.1, 0.9, 1.0]]


def arrow(table, **options):
    """The bytes of a stream."""
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, table.schema, **options) as writer:
        writer.write_table(table)
    return stream.getvalue()


@pytest.fixture(scope="module")
def fresh():
    """Rows that the model has not seen."""
    return people(60, 1)


@pytest.fixture
def asked(table_server):
    """Whoever asks the table's model."""
    with table_server.client() as client:
        yield client


@pytest.fixture
def matrix(matrix_server):
    """Whoever asks the classifier without a table."""
    with matrix_server.client() as client:
        yield client


@pytest.fixture
def bedside(plan_server):
    """Whoever asks the plan."""
    with plan_server.client() as client:
        yield client


# ------------------------------------------------------------------------------------------------------------- predict


@pytest.fixture(scope="module")
def by_command(table_model, fresh, tmp_path_factory):
    """What the command line says of the same rows: the answers, and its JSON."""
    folder = tmp_path_factory.mktemp("command")
    multiform.save(table_model, folder / "model.mfm")
    fresh.drop("level").write_csv(folder / "new.csv")
    words = ["predict", str(folder / "model.mfm"), str(folder / "new.csv"), "--chances", "-o", str(folder / "a.jsonl")]
    assert main([*words, "--json"]) == 0
    return [json.loads(line) for line in (folder / "a.jsonl").read_text().splitlines()]


def test_json_rows_are_answered_as_by_the_command(asked, fresh, by_command):
    rows = fresh.drop("level").to_dicts()
    told = asked.post("/v1/predict", json={"rows": rows, "chances": True}).json()
    assert told["answers"] == by_command
    assert told["rows"] == 60
    assert sum(told["labels"].values()) == 60
    assert set(told) == {"answers", "rows", "labels", "unfamiliar", "notes"}


def test_rows_may_be_lists(asked, fresh, by_command):
    table = fresh.drop("level")
    body = {"columns": table.columns, "rows": [list(row) for row in table.rows()], "chances": True}
    assert asked.post("/v1/predict", json=body).json()["answers"] == by_command


def test_a_csv_table_is_answered_in_every_form(asked, fresh, by_command):
    body = fresh.drop("level").write_csv().encode()
    headers = {"content-type": CSV}
    told = asked.post("/v1/predict?chances=true&keep=city", content=body, headers=headers)
    assert told.headers["content-type"].startswith(CSV)
    found = pl.read_csv(told.content)
    assert found["city"].to_list() == fresh["city"].to_list()
    assert found["label"].to_list() == [one["label"] for one in by_command]
    lines = asked.post("/v1/predict?chances=true", content=body, headers=headers | {"accept": LINES}).text.splitlines()
    assert [json.loads(line) for line in lines[:-1]] == by_command
    assert json.loads(lines[-1])["rows"] == 60
    told = asked.post("/v1/predict?chances=true", content=body, headers=headers | {"accept": "application/json"})
    assert told.json()["answers"] == by_command


def test_an_arrow_stream_is_answered_as_one(asked, fresh, by_command):
    body = arrow(fresh.drop("level").to_arrow(compat_level=pl.CompatLevel.oldest()))
    told = asked.post("/v1/predict?chances=true", content=body, headers={"content-type": ARROW})
    assert told.headers["content-type"] == ARROW
    assert pl.read_ipc_stream(told.content).to_dicts() == by_command
    told = asked.post("/v1/predict", content=body, headers={"content-type": ARROW, "accept": "application/json"})
    assert [one["label"] for one in told.json()["answers"]] == [one["label"] for one in by_command]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_matrix_is_answered_in_every_form(matrix, matrix_model, kind):
    X = np.random.default_rng(1).normal(0.5, 1, (50, 3)).astype(kind)
    table = pa.table({f"c{k}": X[:, k] for k in range(3)})
    told = matrix.post("/v1/predict?chances=true", content=arrow(table), headers={"content-type": ARROW})
    found = pl.read_ipc_stream(told.content)
    np.testing.assert_array_equal(found["label"].to_numpy(), matrix_model.predict(X))
    chances = np.column_stack([found["chance of 0"].to_numpy(), found["chance of 1"].to_numpy()])
    np.testing.assert_array_equal(chances, matrix_model.predict_proba(X))
    lists = matrix.post("/v1/predict", json={"rows": X.astype(float).tolist()}).json()["answers"]
    assert [one["label"] for one in lists] == matrix_model.predict(X.astype(float)).tolist()
    objects = [dict(zip(("x0", "x1", "x2"), row, strict=True)) for row in X.astype(float).tolist()]
    assert matrix.post("/v1/predict", json={"rows": objects}).json()["answers"] == lists


def test_a_cell_unlike_training_is_named(asked):
    row = {"age": 40, "city": "Atlantis", "visit": "2024-01-01", "note": "tired"}
    told = asked.post("/v1/predict", json={"rows": [row]}).json()
    assert "Atlantis" in told["answers"][0]["unfamiliar"]
    assert told["unfamiliar"]["rows"] == 1
    assert "Atlantis" in told["notes"][0]


# ------------------------------------------------------------------------------------------------------- no questions


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"", 400, "'rows' is needed"),
        (b"{", 400, "no JSON"),
        (b"\xff\xfe", 400, "no JSON"),
        (b"[]", 400, "must be an object"),
        (b"nonsense", 400, "no JSON"),
        (b'{"rows": NaN}', 400, "NaN is no number of JSON"),
        (b'{"rows": [[1, 2, -Infinity]]}', 400, "-Infinity is no number"),
        (b'{"rows": [[1, 2, 3]], "rows": []}', 400, "'rows' comes twice"),
        (b'{"rows": [{"x0": 1, "x0": 2}]}', 400, "'x0' comes twice"),
        (b'{"rows": {}}', 400, "rows has the wrong type: an object"),
        (b'{"rows": null}', 400, "rows has the wrong type: null"),
        (b'{"rows": [[1, 2, 3]], "chances": 1}', 400, "chances has the wrong type: a number"),
        (b'{"rows": [[1, 2, 3]], "__class__": "x"}', 400, "no member '__class__'"),
        (b'{"rows": []}', 422, "no rows"),
        (b'{"rows": [1, 2]}', 400, "list of objects, or a list of lists"),
        (b'{"rows": [[1, 2, 3], {"x0": 1}]}', 400, "list of objects, or a list of lists"),
        (b'{"rows": [[1, 2]]}', 422, "row 1 has 2 cells"),
        (b'{"rows": [[1, 2, 3], [1]]}', 422, "row 2 has 1 cells"),
        (b'{"rows": [[1, 2, [3]]]}', 422, "a cell is a number"),
        (b'{"rows": [[1, 2, {}]]}', 422, "a cell is a number"),
        (b'{"rows": [[1, 2, "three"]]}', 422, "needs a number"),
        (b'{"rows": [[1, 2, 1e999]]}', 422, "needs a number|infinity"),
        (b'{"rows": [[1, 2, ' + b"9" * 400 + b"]]}", 422, "needs a number|infinity"),
        (b'{"rows": [[1, 2, ' + b"9" * 5000 + b"]]}", 400, "no JSON"),
        (b'{"rows": [[1, 2, 3]], "columns": ["a", "a", "b"]}', 400, "each of them once"),
        (b'{"rows": [[1, 2, 3]], "columns": [1, 2, 3]}', 400, "list of names"),
        (b'{"rows": [{"x0": 1}], "columns": ["x0"]}', 400, "rows that are lists"),
        (b'{"rows": [{"x0": 1}]}', 422, "no column|columns of numbers"),
        (b'{"rows": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400, "lists in lists"),
        (b'{"rows": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}", 400, "lists in lists"),
    ],
    ids=range(30),
)
def test_odd_json_is_one_sentence(matrix, body, status, says):
    told = problem(matrix.post("/v1/predict", content=body, headers=JSON), status)
    assert re.search(says, told), told


def test_huge_numbers_are_numbers(matrix):
    told = matrix.post("/v1/predict", json={"rows": [[1e30, -1e30, 10**25]]}).json()
    assert 0 <= told["answers"][0]["chance"] <= 1


def test_a_large_matrix_in_json_is_answered_as_a_small_one(matrix, matrix_model):
    X = np.random.default_rng(1).normal(0.5, 1, (30_000, 3)).round(12)
    body = json.dumps({"chances": True, "rows": X.tolist()})
    assert len(body) > 1_000_000
    told = matrix.post("/v1/predict", content=body, headers=JSON).json()
    assert [one["label"] for one in told["answers"]] == matrix_model.predict(X).tolist()
    assert [one["chance of 1"] for one in told["answers"]] == matrix_model.predict_proba(X)[:, 1].tolist()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text.replace("[0.5", '["a"', 1), "needs a number"),
        (lambda text: text.replace("[0.5", "[NaN", 1), "NaN is no number"),
        (lambda text: text.replace("[0.5,", "[", 1), "row 1 has 2 cells"),
        (lambda text: text.replace("{", '{"rows": [], ', 1), "'rows' comes twice"),
        (lambda text: text + text, "Extra data"),
        (lambda text: text.replace("{", '{"x": 1, ', 1), "no member 'x'"),
    ],
    ids=range(6),
)
def test_a_large_matrix_that_is_none_is_one_sentence(matrix, change, says):
    body = change(json.dumps({"rows": [[0.5, 0.25, 0.125]] * 60_000}))
    assert len(body) > 1_000_000
    response = matrix.post("/v1/predict", content=body, headers=JSON)
    assert says in problem(response, response.status_code)
    assert response.status_code in (400, 422)


def test_json_that_would_hold_others_up_is_refused(table_model):
    with served(table_model, Limits(json_bytes=1000)) as server, server.client() as client:
        assert client.post("/v1/predict", json={"rows": [CASE]}).status_code == 200
        assert "JSON may have 1,000 bytes" in problem(client.post("/v1/predict", json={"rows": [CASE] * 20}), 413)


def test_columns_may_come_in_any_order(matrix):
    told = matrix.post("/v1/predict", json={"rows": [{"x0": 0.1, "x1": 2.0, "x2": -1.0}]}).json()
    assert matrix.post("/v1/predict", json={"rows": [{"x2": -1.0, "x0": 0.1, "x1": 2.0}]}).json() == told
    listed = {"columns": ["x1", "x2", "x0"], "rows": [[2.0, -1.0, 0.1]]}
    assert matrix.post("/v1/predict", json=listed).json() == told
    listed["columns"][0] = "y"
    assert "no column 'x1'" in problem(matrix.post("/v1/predict", json=listed), 422)


def test_a_number_may_be_missing_where_the_model_takes_gaps(matrix, matrix_model):
    expected = matrix_model.predict_proba([[0.1, np.nan, 0.3]]).max()
    for rows in ([[0.1, None, 0.3]], [{"x0": 0.1, "x2": 0.3, "x1": None}]):
        told = matrix.post("/v1/predict", json={"rows": rows}).json()
        assert told["answers"][0]["chance"] == pytest.approx(expected)
    table = pa.table({"a": [0.1], "b": [float("nan")], "c": [0.3]})
    told = matrix.post("/v1/predict", content=arrow(table), headers={"content-type": ARROW})
    assert pl.read_ipc_stream(told.content)["chance"][0] == pytest.approx(expected)
    loyal = multiform.LoyaltyClassifier(matrix_model, cv=3, random_state=0)
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 60)
    with served(loyal.fit(random.normal(y[:, None], 0.5, (60, 3)), y)) as server, server.client() as client:
        assert "needs a number" in problem(client.post("/v1/predict", json={"rows": [[0.1, None, 0.3]]}), 422)


def test_values_are_counted_before_they_are_read(matrix_model):
    with served(matrix_model, Limits(cells=1000)) as server, server.client() as client:
        assert client.post("/v1/predict", json={"rows": [[1, 2, 3]] * 200}).status_code == 200
        assert "1,000 values" in problem(client.post("/v1/predict", json={"rows": [[1, 2, 3]] * 400}), 413)
        nulls = arrow(pa.table({"c": pa.nulls(10**6)}))
        response = client.post("/v1/predict", content=nulls, headers={"content-type": ARROW})
        assert response.status_code in (413, 422)


def test_forms_that_are_none(matrix):
    assert "got another" in problem(matrix.post("/v1/predict", content=b"x", headers={"content-type": "text/xml"}), 415)
    assert "none of these" in problem(
        matrix.post("/v1/predict", json={"rows": ROWS}, headers={"accept": "image/*"}), 406
    )
    assert "true or false" in problem(
        matrix.post("/v1/predict?chances=perhaps", content=b"a,b,c\n1,2,3", headers={"content-type": CSV}), 400
    )
    problem(matrix.get("/v1/predict"), 405)
    problem(matrix.get("/v1/nothing"), 404)
    problem(matrix.post("/v1/sessions", json={}), 404)  # it is no plan


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (pa.table({"a": [[1.0]], "b": [1.0], "c": [1.0]}), "'a' is list<"),
        (pa.table({"a": pa.array([b"x"]), "b": [1.0], "c": [1.0]}), "'a' is binary"),
        (pa.table({"a": pa.array(["x"]).dictionary_encode(), "b": [1.0], "c": [1.0]}), "needs a number; got 'x'"),
        (pa.Table.from_arrays([pa.array([1.0])] * 2, names=["a", "a"]), "one name"),
        (pa.table({"a": [None], "b": [1.0], "c": [1.0]}), "'a' is null|needs a number"),
        (pa.table({"a": pa.array([], pa.float64())}), "no rows"),
        (pa.table({"a": [1.0]}), "3 columns of numbers"),
        (pa.table({"a": [float("inf")], "b": [1.0], "c": [1.0]}), "needs a number|infinity"),
    ],
    ids=range(8),
)
def test_arrow_tables_that_do_not_do(matrix, table, says):
    told = problem(matrix.post("/v1/predict", content=arrow(table), headers={"content-type": ARROW}), 422)
    assert re.search(says, told), told


def test_bytes_that_are_no_arrow_stream(matrix):
    whole = arrow(pa.table({f"c{k}": np.ones(100) for k in range(3)}))
    random = np.random.default_rng(0)
    for cut in (0, 1, 8, 100, len(whole) // 2):
        problem(matrix.post("/v1/predict", content=whole[:cut], headers={"content-type": ARROW}), 400)
    for _ in range(100):
        damaged = bytearray(whole)
        for place in random.integers(0, 600, 3):
            damaged[place] = random.integers(0, 256)
        response = matrix.post("/v1/predict", content=bytes(damaged), headers={"content-type": ARROW})
        assert response.status_code in (200, 400, 413, 422), response.text


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_arrow(matrix, compression):
    """A few kilobytes that would become gigabytes are refused by what they say of themselves."""
    options = {"options": pa.ipc.IpcWriteOptions(compression=compression)}
    X = np.random.default_rng(1).normal(0.5, 1, (50, 3))
    table = pa.table({f"c{k}": X[:, k] for k in range(3)})
    plain = matrix.post("/v1/predict", content=arrow(table), headers={"content-type": ARROW})
    packed = matrix.post("/v1/predict", content=arrow(table, **options), headers={"content-type": ARROW})
    assert packed.content == plain.content
    body = arrow(pa.table({"c": np.zeros(2**25 + 1)}), **options)
    assert len(body) < 2 * 10**6
    told = problem(matrix.post("/v1/predict", content=body, headers={"content-type": ARROW}), 413)
    assert told == "a body may hold 256 MB, unpacked; send fewer rows at a time."


def test_one_text_in_many_cells(asked):
    """A long word that a thousand cells point to would be a gigabyte, written out."""
    long = "x" * 2**20
    coded = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1000, dtype=np.int8)), pa.array([long]))
    viewed = pl.Series([long]).new_from_index(0, 1000).to_arrow(compat_level=pl.CompatLevel.newest())
    for column in (coded, viewed):
        body = arrow(pa.table({"note": column}))
        told = problem(asked.post("/v1/predict", content=body, headers={"content-type": ARROW}), 413)
        assert "256 MB, unpacked" in told


def test_a_table_says_where_it_is_wrong(asked):
    body = b"age,city,visit,note\n40,Rome,2024-01-01,tired\n40,Rome\n"
    assert "line 3" in problem(asked.post("/v1/predict", content=body, headers={"content-type": CSV}), 422)
    body = b"age,city,visit\n40,Rome,2024-01-01\n"
    assert "no column 'note'" in problem(asked.post("/v1/predict", content=body, headers={"content-type": CSV}), 422)
    body = b"age,city,visit,note\n40,Rome,2024-01-01,tired\n"
    response = asked.post("/v1/predict?keep=name", content=body, headers={"content-type": CSV})
    assert "no column 'name' to keep" in problem(response, 422)


def test_half_a_table_does_not_look_like_a_whole_one(asked):
    """A line that is wrong after thousands of rows are answered."""
    body = b"age,city,visit,note\n" + (b"40,Rome,2024-01-01," + b"x" * 2000 + b"\n") * 2500 + b"40,Rome\n"
    with pytest.raises(httpx.RemoteProtocolError, match=r"without sending complete|incomplete"):
        asked.post("/v1/predict", content=body, headers={"content-type": CSV})
    lines = asked.post("/v1/predict", content=body, headers={"content-type": CSV, "accept": LINES}).text.splitlines()
    assert len(lines) > 1900
    assert json.loads(lines[-1])["status"] == 422
    assert "line 2502" in json.loads(lines[-1])["detail"]


# --------------------------------------------------------------------------------------------------- assess and so on

CASE = {"age": 41.0, "city": "Rome", "visit": "2024-03-04", "note": "tired well rest cough"}


def test_a_case_is_assessed(asked, table_model):
    told = asked.post("/v1/assess", json={"case": CASE}).json()
    answers, _ = table_model.answers(pl.DataFrame([CASE]), chances=True)
    [row] = answers.to_dicts()
    assert {name: told[name] for name in ("label", "chance", "loyalty", "unfamiliar")} == {
        name: row[name] for name in ("label", "chance", "loyalty", "unfamiliar")
    }
    assert told["chances"] == {label: row[f"chance of {label}"] for label in ("mild", "none", "severe")}
    assert {one["column"] for one in told["deciding"]} == set(CASE)
    sizes = [abs(one["change"]) for one in told["deciding"]]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 0.01


def test_dates_may_be_written_as_iso_8601_has_them(table_model):
    """Whatever training wrote."""
    frame = people(100, 3).with_columns(pl.col("visit").str.to_date().dt.strftime("%d.%m.%Y"))
    model = TableClassifier(multiform.QMSClassifier(2, noise=0.3, max_iter=5, random_state=0)).fit(frame, "level")
    with served(model) as server, server.client() as client:
        own, iso, wrong = (
            client.post("/v1/assess", json={"case": CASE | {"visit": day}}).json()
            for day in ("04.03.2024", "2024-03-04", "yesterday")
        )
    assert own == iso
    assert own["unfamiliar"] is None
    assert "visit yesterday" in wrong["unfamiliar"]


def test_the_least_change_alters_the_label(asked):
    before = asked.post("/v1/assess", json={"case": CASE}).json()["label"]
    change = asked.post("/v1/change", json={"case": CASE}).json()["change"]
    assert change["label"] != before
    case = CASE | {one["column"]: one["to"] for one in change["changes"]}
    after = asked.post("/v1/assess", json={"case": case}).json()
    assert after["label"] == change["label"]
    assert after["chance"] == change["chance"]
    changed = {one["column"] for one in change["changes"]}
    told = asked.post("/v1/change", json={"case": CASE, "locked": sorted(changed)}).json()["change"]
    assert told is None or not changed & {one["column"] for one in told["changes"]}
    assert asked.post("/v1/change", json={"case": CASE, "locked": list(CASE)}).json() == {"change": None}


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("/v1/assess", {"case": {"Age": 41.0, "city": "Rome"}}, "no column 'Age'.*nearest is 'age'"),
        ("/v1/change", {"case": {"Age": 41.0, "city": "Rome"}}, "no column 'Age'.*nearest is 'age'"),
        ("/v1/change", {"case": CASE, "locked": ["age", "City"]}, "no column 'City' that could be locked.*'city'"),
    ],
)
def test_a_name_that_is_misspelt_is_no_gap(asked, path, body, says):
    told = problem(asked.post(path, json=body), 422)
    assert re.search(says, told), told


def test_a_case_may_have_gaps_or_more_than_the_model_reads(asked):
    assert asked.post("/v1/assess", json={"case": {"age": 41.0}}).status_code == 200
    whole = asked.post("/v1/assess", json={"case": CASE}).json()
    assert asked.post("/v1/assess", json={"case": CASE | {"name": "nobody"}}).json() == whole


def test_half_of_a_letter_is_one_sentence(asked):
    for row in ({"age": 41, "city": "\ud800"}, {"\ud800": 1}):
        told = problem(asked.post("/v1/predict", content=json.dumps({"rows": [row]}), headers=JSON), 422)
        assert "half of a letter" in told


def test_a_labelled_table_is_judged_as_by_the_command(asked, table_model, fresh, tmp_path, capsys):
    multiform.save(table_model, tmp_path / "model.mfm")
    fresh.write_csv(tmp_path / "test.csv")
    assert main(["evaluate", str(tmp_path / "model.mfm"), str(tmp_path / "test.csv"), "--json"]) == 0
    expected = json.loads(capsys.readouterr().out)
    body = (tmp_path / "test.csv").read_bytes()
    told = asked.post("/v1/evaluate", content=body, headers={"content-type": CSV}).json()
    assert {name: told[name] for name in expected if name != "notes"} == {
        name: value for name, value in expected.items() if name != "notes"
    }
    assert asked.post("/v1/evaluate", json={"rows": fresh.to_dicts()}).json() == told
    assert "no column 'truth'" in problem(
        asked.post("/v1/evaluate?target=truth", content=body, headers={"content-type": CSV}), 422
    )


# --------------------------------------------------------------------------------------------------------------- cases


def test_a_case_goes_as_at_the_command_line(bedside, plan):
    session = plan.start()
    told = bedside.post("/v1/sessions", json={})
    assert told.status_code == 201
    where = told.headers["location"]
    assert where == f"/v1/sessions/{told.json()['id']}"
    values = {"question": 0.5, "scan": 0.9, "colour": "red"}
    while not session.finished:
        expected = session.as_dict()
        told = bedside.get(where).json()
        assert {name: told[name] for name in expected} == json.loads(json.dumps(expected))
        test = told["next"]["test"]
        session.observe(test, values[test])
        answer = bedside.post(f"{where}/observe", json={"test": test, "values": values[test]}).json()
        assert answer["observed"] == session.observed
    assert answer["finished"]
    assert answer["next"] is None
    kept = bedside.get(f"{where}/file")
    assert kept.text == session.to_json()
    assert "attachment" in kept.headers["content-disposition"]
    assert DiagnosisSession.from_json(plan, kept.text).as_dict() == session.as_dict()
    again = bedside.post("/v1/sessions", json={"session": kept.json()}).json()
    assert again["bill"] == answer["bill"]
    assert again["id"] not in where
    assert bedside.delete(where).status_code == 204
    assert "no such case" in problem(bedside.get(where), 404)


def test_evidence_that_is_known_and_results_that_are_corrected(bedside):
    told = bedside.post("/v1/sessions", json={"evidence": {"question": 0.2}}).json()
    where = f"/v1/sessions/{told['id']}"
    assert told["observed"] == {"question": 0.2}
    better = bedside.post(f"{where}/correct", json={"test": "question", "values": 1.4}).json()
    assert better["observed"] == {"question": 1.4}
    assert better["bill"] == told["bill"]
    assert better["chances"] != told["chances"]
    without = bedside.post(f"{where}/undo", json={}).json()
    assert without["observed"] == {}
    assert "nothing has happened" in problem(bedside.post(f"{where}/undo", json={}), 422)
    barred = bedside.post(f"{where}/not_available", json={"test": "scan"}).json()
    assert barred["not_available"] == ["scan"]
    assert "has not been observed" in problem(bedside.post(f"{where}/correct", json={"test": "scan", "values": 1}), 422)


def test_a_result_unlike_training_is_a_conflict_that_one_may_insist_on(bedside):
    where = bedside.post("/v1/sessions", json={}).headers["location"]
    response = bedside.post(f"{where}/observe", json={"test": "question", "values": 540})
    assert "question is 540" in problem(response, 409)
    assert response.json()["type"] == "urn:multiform:problem:unfamiliar-value"
    assert bedside.get(where).json()["observed"] == {}
    told = bedside.post(f"{where}/observe", json={"test": "question", "values": 540, "insist": True}).json()
    assert told["observed"] == {"question": 540}
    assert "recorded, and not used" in told["notes"][0]


def test_who_is_behind_changes_nothing(bedside):
    """Two programs, or two tabs, at one case."""
    told = bedside.post("/v1/sessions", json={}).json()
    where = f"/v1/sessions/{told['id']}"
    body = {"test": "question", "values": 0.2, "version": told["version"]}
    assert bedside.post(f"{where}/observe", json=body).status_code == 200
    late = {"test": "colour", "values": "red", "version": told["version"]}
    response = bedside.post(f"{where}/observe", json=late)
    assert "has changed since" in problem(response, 409)
    assert response.json()["type"] == "urn:multiform:problem:changed"
    assert bedside.get(where).json()["observed"] == {"question": 0.2}


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("observe", {"test": "no such", "values": 1}, 422, "no test is named"),
        ("observe", {"test": "question"}, 400, "'values' is needed"),
        ("observe", {"test": 3, "values": 1}, 400, "test has the wrong type"),
        ("observe", {"test": "question", "values": [1]}, 422, "finite numbers, words or None"),
        ("observe", {"test": "question", "values": {"x": 1}}, 422, "got a value for"),
        ("observe", {"test": "question", "values": {"question": {}}}, 422, "finite numbers, words or None"),
        ("observe", {"test": "question", "values": "many"}, 422, "number|many"),
        ("observe", {"test": "question", "values": 1, "version": True}, 400, "version has the wrong type"),
        ("undo", {"all": True}, 400, "no member 'all'"),
    ],
    ids=range(9),
)
def test_what_cannot_happen_changes_nothing(bedside, path, body, status, says):
    where = bedside.post("/v1/sessions", json={}).headers["location"]
    before = bedside.get(where).json()
    told = problem(bedside.post(f"{where}/{path}", json=body), status)
    assert re.search(says, told), told
    assert bedside.get(where).json() == before


@pytest.mark.parametrize(
    "session", [{}, {"format": 1}, {"format": 9, "tests": [], "events": []}, {"format": 1, "tests": [], "events": [[]]}]
)
def test_sessions_that_are_none_begin_nothing(bedside, plan_server, session):
    before = len(plan_server.app.state.sessions)
    problem(bedside.post("/v1/sessions", json={"session": session}), 422)
    problem(bedside.post("/v1/sessions", json={"evidence": {"no such": 1}}), 422)
    assert len(plan_server.app.state.sessions) == before


def test_cases_are_no_more_than_are_kept(plan):
    with served(plan, Limits(sessions=2)) as server, server.client() as client:
        first = client.post("/v1/sessions", json={}).headers["location"]
        client.post("/v1/sessions", json={})
        assert "2 cases are open" in problem(client.post("/v1/sessions", json={}), 503)
        assert client.get(first).status_code == 200
        client.delete(first)
        assert client.post("/v1/sessions", json={}).status_code == 201
        for case in server.app.state.sessions.open():
            case.asked -= 13 * 3600  # nobody has asked for half a day
        assert client.post("/v1/sessions", json={}).status_code == 201


# --------------------------------------------------------------------------------------------------------- description


@pytest.mark.parametrize("name", ["table_server", "matrix_server", "plan_server"])
def test_the_description_is_sound_and_of_all_that_there_is(name, request):
    server = request.getfixturevalue(name)
    with server.client() as client:
        told = client.get("/openapi.json").json()
    openapi_spec_validator.validate(told)
    described = {
        (path, method.upper()) for path, one in told["paths"].items() for method in one if method != "parameters"
    }
    routes = {
        (route.path, method)
        for route in server.app.routes
        for method in getattr(route, "methods", None) or ()
        if route.path.startswith(("/v1", "/healthz", "/openapi")) and method != "HEAD"
    }
    assert described == routes


def conforms(client, method, path, template, **options):
    """The answer, which is as described."""
    told = client.get("/openapi.json").json()
    response = client.request(method, path, **options)
    answers = told["paths"][template][method.lower()]["responses"]
    content = answers.get(str(response.status_code), answers["default"])["content"]
    schema = content[response.headers["content-type"].partition(";")[0]]["schema"]
    jsonschema.validate(response.json(), schema | {"components": told["components"]})
    assert list(undescribed(response.json(), schema, told)) == []
    return response.json()


def undescribed(value, schema, told, place=""):
    """Members that the description does not name."""
    schema = told["components"]["schemas"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    if value is None:
        return
    [schema] = [one for one in schema["anyOf"] if one != {"type": "null"}] if "anyOf" in schema else [schema]
    if "$ref" in schema:
        yield from undescribed(value, schema, told, place)
    elif isinstance(value, dict):
        for name, one in value.items():
            inner = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            if inner is None:
                yield f"{place}/{name}"
            else:
                yield from undescribed(one, inner, told, f"{place}/{name}")
    elif isinstance(value, list):
        for one in value:
            yield from undescribed(one, schema["items"], told, f"{place}[]")


def test_answers_are_as_described(asked, bedside):
    conforms(asked, "GET", "/v1/model", "/v1/model")
    conforms(asked, "GET", "/healthz", "/healthz")
    strange = CASE | {"age": 900}
    conforms(asked, "POST", "/v1/predict", "/v1/predict", json={"rows": [CASE]})
    conforms(asked, "POST", "/v1/predict", "/v1/predict", json={"rows": [strange] * 50, "chances": True})
    conforms(asked, "POST", "/v1/assess", "/v1/assess", json={"case": strange})
    given = asked.post("/v1/evaluate", json={"rows": [CASE | {"level": "mild"}]}).json()
    lists = {"columns": [*CASE, "level"], "rows": [[*CASE.values(), "mild"]]}
    assert conforms(asked, "POST", "/v1/evaluate", "/v1/evaluate", json=lists) == given
    tsv = "\t".join(lists["columns"]) + "\n" + "\t".join(map(str, lists["rows"][0])) + "\n"
    headers = {"content-type": "text/tab-separated-values"}
    assert asked.post("/v1/evaluate", content=tsv, headers=headers).json() == given
    answers = asked.post("/v1/predict?keep=city", content=tsv, headers=headers)
    assert answers.headers["content-type"].startswith(CSV)
    assert answers.text.startswith("city,label,chance")
    conforms(asked, "POST", "/v1/predict", "/v1/predict", json={"rows": 3})
    conforms(asked, "POST", "/v1/assess", "/v1/assess", json={"case": CASE})
    conforms(asked, "POST", "/v1/change", "/v1/change", json={"case": CASE})
    conforms(asked, "POST", "/v1/evaluate", "/v1/evaluate", json={"rows": [CASE | {"level": "mild"}]})
    conforms(bedside, "GET", "/v1/model", "/v1/model")
    id = conforms(bedside, "POST", "/v1/sessions", "/v1/sessions", json={})["id"]
    conforms(bedside, "GET", f"/v1/sessions/{id}", "/v1/sessions/{id}")
    conforms(bedside, "GET", f"/v1/sessions/{id}/file", "/v1/sessions/{id}/file")
    body = {"test": "question", "values": 0.2}
    for name, given in (
        ("order", {"tests": ["scan"]}),
        ("observe", body),
        ("observe", body),
        ("correct", {"test": "question", "values": 900, "insist": True}),
        ("not_available", {"test": "colour"}),
        ("undo", {}),
    ):
        conforms(bedside, "POST", f"/v1/sessions/{id}/{name}", f"/v1/sessions/{{id}}/{name}", json=given)
    conforms(bedside, "GET", f"/v1/sessions/{id}/file", "/v1/sessions/{id}/file")
    assert bedside.delete(f"/v1/sessions/{id}").status_code == 204


def test_answers_of_a_promise_are_as_described():
    with served(samples.triage_model()) as server, server.client() as client:
        rows = samples.patients().head(40).to_dicts()
        conforms(client, "GET", "/v1/model", "/v1/model")
        conforms(client, "POST", "/v1/predict", "/v1/predict", json={"rows": rows})
        conforms(client, "POST", "/v1/assess", "/v1/assess", json={"case": rows[0]})
        conforms(client, "POST", "/v1/evaluate", "/v1/evaluate", json={"rows": rows})


def test_a_matrix_in_parts_some_of_them_empty_or_cut_out_of_others():
    pa = pytest.importorskip("pyarrow")
    X = np.arange(15, dtype=np.float32).reshape(5, 3)
    whole = pa.record_batch({f"x{k}": X[:, k] for k in range(3)})
    nothing = pa.record_batch({f"x{k}": pa.array([], pa.float32()) for k in range(3)})
    parts = pa.Table.from_batches([nothing, whole.slice(1, 3), whole.slice(0, 0), whole.slice(4)])
    assert np.array_equal(matrix_of_arrow(parts), X[1:])
    assert np.array_equal(matrix_of_arrow(pa.table({"a": X[:, 0].copy()})), X[:, :1])
    assert matrix_of_arrow(pa.table({"a": [1.0, None]})) is None
    assert matrix_of_arrow(pa.table({"a": [1.0], "b": [1]})) is None


def test_a_matrix_lies_where_the_table_does_and_keeps_it():
    random = np.random.default_rng(0)
    X = random.normal(size=(5000, 20)).astype(np.float32)
    body = np.frombuffer(arrow(pa.table({f"x{k}": X[:, k] for k in range(20)})), np.uint8).copy()
    matrix = matrix_of_arrow(arrow_table(body, 10**6))
    assert np.shares_memory(matrix, body)
    assert not matrix.flags.writeable
    del body
    others = [np.full(10**5, 7, np.float32) for _ in range(20)]  # which would lie there by now
    assert np.array_equal(matrix, X), len(others)
    model = multiform.QMSClassifier(max_iter=2, random_state=0).fit(X, X[:, 0] > 0)
    assert np.array_equal(model.member_values(matrix), model.member_values(X))
    doubles = matrix_of_arrow(pa.table({f"x{k}": X[:, k].astype(float) for k in range(20)}))
    assert doubles.flags.c_contiguous
    assert np.array_equal(doubles, X)
