"""Tables, through the commands: `predict` by a model that is there, or `fit` and then `predict` of the same table.

An answer is a chance from 0 to 1 for every row. A refusal is a sentence that multiform itself has raised: what NumPy,
polars or scikit-learn say of a table is none.
"""

import contextlib
import datetime
import gzip
import io
import os
import re
import traceback
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
import openpyxl
import polars as pl
from odf.opendocument import OpenDocumentSpreadsheet

from multiform.cli import main
from tests.fuzz import Case

SEPARATORS = (*[","] * 12, ";", "\t", "|", ":", ", ", "::")
LINE_ENDS = (*["\n"] * 12, "\r\n", "\r\n", "\r", "\n\n", "\n\r\n")
ENCODINGS = (
    *["utf-8"] * 20, "utf-8-sig", "utf-16", "utf-16-be", "utf-7", "utf-32", "utf-32-le", "utf-16-le",
    *["cp1252", "latin-1", "cp850", "cp1251", "mac_roman", "gb18030"],
)  # fmt: skip
BEFORE = (*[""] * 12, "sep=;", "sep=,", '"sep=|"', "a title\n", "a title\n\nand another\n", ",,,,\n", "x,y\n")
WRITTEN = (
    "172,1 cm", "80 kg", "> 120", "<5", "1.003,50", "1,003.50", "1 003,5", "12 %", "k.A.", "unbekannt", "-", "n/d",
    "90+", "€ 5", "ca. 7", "5 mg/dl", "6 mg", "1'000", "−4", "ja", "nein", "x", "j", "n", "oui", "12.3.24", "1.2.3",
)  # fmt: skip
NUMBERS = (
    "0", "-0", "00", "007", "1", "-1.5", "+2", ".5", "5.", "1e5", "1e308", "-1e308", "1e309", "-1e999", "1e-320",
    "1e-400", "9007199254740993", "-9223372036854775808", "18446744073709551616", "1" * 40, "0." + "3" * 60, "1,5",
    "1,234.5", "1.234,5", "NaN", "nan", "-nan", "inf", "-inf", "Infinity", "1_000", "0x1F", "1e", "e5", "--1", "1 2",
    "٣", "½", "1%", "$5", "TRUE", "t",
)  # fmt: skip
DATES = (
    "2024-01-31", "2024-02-30", "0000-00-00", "9999-12-31", "-0001-01-01", "99999-01-01", "+262142-12-31", "2024-1-1",
    "2024-01-31 10:20:30", "2024-01-31T25:61", "31.12.2024", "1.1.1", "12/31/2024", "31/12/2024 24:00", "3 Feb 2020",
    "Feb 3, 2020", "February 3, 2020", "20240131", "2024-01-31T10:20:30Z",
)  # fmt: skip
WORDS = (
    "", " ", "NA", "?", "null", "None", "#N/A", "a", "mild", "none", "severe", "Rome", "Oslo", "other", "missing",
    "tired well cough", "=cmd|' /C calc'!A0", "@x", "-x", "\x1b[2J\x07", "\u202eevil", "\ufeff", "\u00a0", "\u2028",
    "é", "e\u0301", "ﬁ", "İ", "ß", "🙂", "\U0010ffff", "\ufffe", "\x7f", "\x01", "\x0b", "\x1c", "x" * 300,
    "y" * 20_000,
    "' OR 1=1", "<script>alert(1)</script>", "{}", "%s%n", "..\\..", "c0", "label", "chance", "unfamiliar",
    "x missing",
)  # fmt: skip
MARKS = (
    '"',
    '""',
    '"a',
    'a"',
    '"a"b',
    '5" pipe',
    '"a""b"',
    '"a, b"',
    '"a\nb"',
    '"\n',
    '"a\r\nb"',
    "\r",
    "'",
    "\\",
    "\x00",
)
NAMES = ("patient_id", "age", "city", "visit", "note", "ward", "level")
BYTES = (
    b'"',
    b",",
    b"\n",
    b"\r",
    b";",
    b"\x00",
    b"\xff",
    b'""',
    b"\xed\xa0\x80",
    b"\xc0\x80",
    b"\xf4\x90\x80\x80",
    b"\xef\xbb\xbf",
)
CONTROLS = [chr(code) for code in range(32) if code not in (9, 10, 13)]  # which XML has not
TYPES = (
    pl.Int8, pl.UInt8, pl.Int64, pl.UInt64, pl.Float32, pl.Float64, pl.Boolean, pl.String, pl.Date, pl.Datetime("us"),
    pl.Datetime("ns", "Europe/Rome"), pl.Time, pl.Duration, pl.Categorical, pl.Binary, pl.List(pl.Int64), pl.Null,
    pl.Struct({"a": pl.Int64}), pl.Decimal(20, 3), pl.Array(pl.Int64, 2), pl.Enum(["mild", "none"]), pl.Int128,
)  # fmt: skip
FORMATS = ("csv", "csv", "csv", "csv", "tsv", "csv.gz", "xlsx", "xlsx", "ods", "parquet", "arrow", "npz")
SHEET = "<sheetData>{}</sheetData>"
BOMBS = (
    '<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>1</v></c></row>',
    '<row r="1">' + '<c t="s"><v>0</v></c>' * 50 + "</row>" * 1,
    '<row><c r="A1" t="s"><v>99999999</v></c></row>',
    '<row r="999999999999"><c r="ZZZZ1"><v>1</v></c></row>',
    "<row>" * 1000,
    '<row r="2"><c r="B2" t="inlineStr"><is><t>level</t></is></c></row>',
)
REPEATS = ("2", "50", "1048576", "999999999", "-1", "x", "")
QUICK = ("--model", "qms", "--noise", "1", "--max-iter", "2", "--components", "2", "--jobs", "1")


def people(n, seed):
    """A table with a column of every role, and a target that can be learnt."""
    random = np.random.default_rng(seed)
    kind = random.integers(0, 3, n)
    words = np.array(["tired", "well", "cough", "fever", "rest", "better", "worse", "slow"])
    return pl.DataFrame(
        {
            "patient_id": [f"P{row:05d}" for row in range(n)],
            "age": [
                None if row % 11 == 0 else round(float(40 + 12 * kind[row] + random.normal()), 1) for row in range(n)
            ],
            "city": [None if row % 19 == 0 else ["Rome", "Oslo", "Bern"][kind[row]] for row in range(n)],
            "visit": [f"2024-{1 + row % 12:02d}-{1 + row % 28:02d}" for row in range(n)],
            "note": [" ".join(random.choice(words, 5)) + f" {row}" for row in range(n)],
            "ward": ["main"] * n,
            "level": np.array(["mild", "none", "severe"])[kind],
        }
    )


class Tables:
    name = "tables"
    weight = 2

    def prepare(self, folder):
        people(120, 0).write_csv(folder / "train.csv")
        words = ["fit", str(folder / "train.csv"), "-t", "level", "-q", "-o"]
        assert main([*words, str(folder / "model.mfm"), *QUICK]) == 0
        assert main([*words, str(folder / "loyal.mfm"), "--noise", "1", "--max-iter", "3", "--jobs", "1"]) == 0
        people(40, 1).write_csv(folder / "test.csv")
        openpyxl.Workbook().save(folder / "book.xlsx")
        OpenDocumentSpreadsheet().save(folder / "book.ods")

    def open(self, folder):
        self.folder = folder
        self.rows = [line.split(",") for line in (folder / "test.csv").read_text().splitlines()]

    # ------------------------------------------------------------------------------------------------ making

    def case(self, random):
        def pick(options):
            return options[int(random.integers(len(options)))]

        format = pick(FORMATS)
        match format:
            case "csv" | "tsv":
                content = self._text(random, pick)
            case "xlsx":
                content = self._xlsx(random, pick)
            case "ods":
                content = self._ods(random, pick)
            case "csv.gz":
                content = gzip.compress(self._text(random, pick), mtime=0)
            case _:
                content = _typed(format, random, pick)
        # Damaged Parquet and Arrow are not ours to survive: polars believes their sizes, and ends the process.
        if not random.integers(6) and content and format not in ("parquet", "arrow"):
            content = _damaged(content, random, pick)
        return Case(content, f"{pick(('predict', 'predict', 'loyal', 'fit'))}.{format}")

    def _text(self, random, pick):
        mark, end = pick(SEPARATORS), pick(LINE_ENDS)
        names, *rows = [list(row) for row in self.rows]
        rows = rows[: int(pick((0, 1, 2, 5, 40, 40, 40)))]
        pools = [NUMBERS, DATES, WORDS, MARKS, WRITTEN]
        if not random.integers(3):  # a whole column
            at, pool = int(random.integers(len(names))), pick(pools)
            for row in rows:
                row[at] = pick(pool)
        for _ in range(int(random.integers(6))):
            if rows:
                row = pick(rows)
                row[int(random.integers(len(row)))] = pick(pick(pools))
        match int(random.integers(12)):
            case 0:  # ragged
                for row in rows[:: int(random.integers(1, 20))]:
                    row[:] = row[: int(random.integers(len(row)))] if random.integers(2) else [*row, "more"]
            case 1:
                names[int(random.integers(len(names)))] = pick((pick(names), "", " ", pick(WORDS), pick(MARKS)))
            case 2:
                width = int(pick((1, 100, 1000)))
                names += [f"{pick(('gene', 'g g', 'id', '='))} {k}" for k in range(width)]
                for row in rows:
                    row += [pick(NUMBERS) for _ in range(width)] if random.integers(2) else [pick(WORDS[:25])] * width
            case 3:
                order = random.permutation(len(names))[: int(random.integers(len(names) + 1))]
                names, *rows = [[row[k] for k in order] for row in [names, *rows]]
            case 4:
                rows = [rows[0]] * int(pick((1, 100, 1000))) if rows else rows
            case 5:
                rows = [[pick(pick(pools)) for _ in names] for _ in rows]
            case 6:
                for row in rows:  # one class, many classes, gaps
                    row[-1] = pick(("mild", "", "x")) if random.integers(2) else pick(WORDS)
            case 7 if rows and not random.integers(10):  # longer than a block
                row = pick(rows)
                row[int(random.integers(len(row)))] = (
                    pick(('"', "", '"', "=")) + "a b" * 1_500_000 + pick(('"', "", '""'))
                )
            case 8:
                at = int(random.integers(len(names)))
                for row in rows:
                    row[at] = row[at].replace(" ", "\n") if row[at].startswith('"') else f'"{row[at]}\n"'
        text = end.join(mark.join(row) for row in [names, *rows]) + pick(("", end, end * 3))
        if before := pick(BEFORE):
            text = before + end + text
        if random.integers(3):
            text = text.replace("\x00", "")
        return text.encode(pick(ENCODINGS), "replace")

    def _cells(self, random, pick):
        names, *rows = [list(row) for row in self.rows]
        rows = rows[: int(pick((0, 1, 5, 40, 40)))]
        for _ in range(int(random.integers(8))):
            if rows:
                pick(rows)[int(random.integers(len(names)))] = pick(pick((NUMBERS, DATES, WORDS, WRITTEN)))
        table = [names, *rows]
        if not random.integers(4):
            table = [["a title"], [], *table]
        return [["" if set(cell) & set(CONTROLS) else cell for cell in row] for row in table]

    def _xlsx(self, random, pick):
        """A workbook of text and numbers, the sheet of which may be anything."""
        rows = []
        for row in self._cells(random, pick):
            cells = [
                f"<c><v>{cell}</v></c>"
                if re.fullmatch(r"[0-9]{1,9}(\.[0-9]+)?", cell)
                else f'<c t="inlineStr"><is><t>{escape(cell)}</t></is></c>'
                for cell in row
            ]
            rows.append(f"<row>{''.join(cells)}</row>")
        sheet = "".join(rows) if random.integers(4) else pick(BOMBS)
        shared = f"<si><t>{'y' * int(pick((1, 100, 100_000)))}</t></si>"
        main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
        parts = {
            "xl/sharedStrings.xml": f"<sst {main}>{shared}</sst>",
            "xl/worksheets/sheet1.xml": f"<worksheet {main}>{SHEET.format(sheet)}</worksheet>",
        }
        return _repacked(self.folder / "book.xlsx", parts, random, pick)

    def _ods(self, random, pick):
        names = {"office": "office", "table": "table", "text": "text"}
        spaces = " ".join(f'xmlns:{k}="urn:oasis:names:tc:opendocument:xmlns:{v}:1.0"' for k, v in names.items())
        rows = []
        for row in self._cells(random, pick):
            cells = []
            for cell in row:
                again = f' table:number-columns-repeated="{pick(REPEATS)}"' if not random.integers(200) else ""
                told = f"<text:p>{escape(cell)}</text:p>" if cell else ""
                cells.append(f'<table:table-cell office:value-type="string"{again}>{told}</table:table-cell>')
            again = f' table:number-rows-repeated="{pick(REPEATS)}"' if not random.integers(200) else ""
            rows.append(f"<table:table-row{again}>{''.join(cells)}</table:table-row>")
        content = (
            f"<office:document-content {spaces}><office:body><office:spreadsheet>"
            f'<table:table table:name="s">{"".join(rows)}</table:table>'
            "</office:spreadsheet></office:body></office:document-content>"
        )
        return _repacked(self.folder / "book.ods", {"content.xml": content}, random, pick)

    # ------------------------------------------------------------------------------------------------- judging

    def judge(self, case, folder):
        how, format = case.how.split(".", 1)
        table = folder / f"table.{format}"
        table.write_bytes(case.content)
        if how == "fit":
            model = folder / "model.mfm"
            if not _done("fit", table, "-t", "level", "-o", model, *QUICK):
                return _nothing_else(folder, table)
            # A table that was learnt can be answered, whatever is in it.
            assert _done("predict", model, table, "-o", folder / "answers.csv", "--plain"), "learnt, and refused"
        else:
            model = self.folder / f"{'loyal' if how == 'loyal' else 'model'}.mfm"
            if not _done("predict", model, table, "-o", folder / "answers.csv", "--plain"):
                return _nothing_else(folder, table)
            _done("predict", model, table, "-o", folder / "alike.csv")  # an encoding may not have every letter
        answers = pl.read_csv(folder / "answers.csv", infer_schema_length=0)
        chances = answers["chance"].cast(pl.Float64)
        assert len(answers), "no answers"
        assert chances.is_between(0, 1).all(), chances
        assert not chances.is_null().any(), chances
        return "answered"


def _repacked(path, changed, random, pick):
    """An archive with other parts in the place of some, which may be damaged."""
    buffer, method = io.BytesIO(), pick((zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED))
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(buffer, "w", method) as archive:
        for name in dict.fromkeys([*old.namelist(), *changed]):
            content = changed[name].encode("utf-8", "replace") if name in changed else old.read(name)
            if not random.integers(40):
                content = _damaged(content, random, pick)
            if not random.integers(200) and method == zipfile.ZIP_DEFLATED:
                content += b" " * 300_000_000
            archive.writestr(name, content)
    return buffer.getvalue()


def _done(*words):
    """Whether a command has done its work; an error that is not multiform's own goes on."""
    os.environ["MULTIFORM_DEBUG"] = "1"
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
            code = main([*map(str, words), "-q"])
    except (ValueError, OSError) as error:
        raised = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
        if "multiform" not in raised.parts or not str(error).strip():
            raise
        return False
    assert code == 0, errors.getvalue()
    return True


def _nothing_else(folder, table):
    """A refusal leaves nothing behind."""
    left = sorted(path.name for path in folder.iterdir() if path != table)
    assert not left, left
    return "refused"


def _damaged(content, random, pick):
    found = bytearray(content)
    for _ in range(int(random.integers(1, 4))):
        at, length = int(random.integers(len(found) + 1)), int(random.integers(1, 6))
        match int(random.integers(5)):
            case 0:
                found[at : at + 1] = bytes([int(random.integers(256))])
            case 1:
                del found[at : at + length]
            case 2:
                found[at:at] = found[at : at + length] * int(pick((1, 1000)))
            case 3:
                found[at:at] = pick(BYTES)
            case 4:
                del found[at:]
        if not found:
            break
    return bytes(found)


def _typed(format, random, pick):
    """A table of columns with types, as Parquet, Arrow or NPZ."""
    n = int(pick((0, 1, 3, 40, 40)))
    frame = people(n, 1)
    for _ in range(int(random.integers(4))):
        name = pick((*NAMES, *NAMES, "", " ", pick(WORDS[:30])))
        frame = frame.with_columns(_series(name, n, random, pick))
    if not random.integers(8):
        frame = frame.select(frame.columns[: int(random.integers(len(frame.columns) + 1))])
    buffer = io.BytesIO()
    with contextlib.suppress(ValueError, KeyError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        if format == "parquet":
            frame.write_parquet(buffer)
        elif format == "arrow":
            frame.write_ipc(buffer, compression=pick(("uncompressed", "lz4", "zstd")))
        elif random.integers(2):
            np.savez(
                buffer, **{name: np.array([str(cell) for cell in frame[name].to_list()]) for name in frame.columns}
            )
        else:
            labels = np.array(["a", "b"] * n)[:n] if random.integers(2) else random.normal(size=n)
            np.savez(buffer, X=np.full((n, 3), pick((np.nan, np.inf, 1e308, 1.0))), level=labels)
    return buffer.getvalue()


def _series(name, n, random, pick):
    dtype = pick(TYPES)
    numbers = [0, 1, -1, 127, None, 2**63 - 1, 1e308, float("inf"), float("nan"), 1e-320, 0.5]
    values = {
        pl.String: [*NUMBERS, *WORDS, None],
        pl.Date: [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None, datetime.date(2024, 2, 29)],
        pl.Time: [datetime.time(0), None],
        pl.Duration: [datetime.timedelta(1), None],
        pl.Binary: [b"", b"\xff", None],
        pl.List: [[1], [], None],
        pl.Array: [[1, 2], None],
        pl.Struct: [{"a": 1}, None],
        pl.Boolean: [True, False, None],
        pl.Null: [None],
        pl.Datetime: [datetime.datetime(1700, 1, 1), datetime.datetime(2200, 12, 31), None],
        pl.Categorical: ["mild", "x", None],
        pl.Enum: ["mild", "none", None],
    }.get(dtype.base_type(), numbers)
    cells = [pick(values) for _ in range(n)]
    try:
        return pl.Series(name, cells, dtype=dtype, strict=False)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        return pl.Series(name, [1] * n, dtype=pl.Int64)
