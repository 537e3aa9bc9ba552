"""Thirty tables as people have them, in German, English, French and Spanish, each with the truth that is to be read.

All hold the same patients: `patients` is the table as somebody would have cleaned it by hand. `python -m
tests.tables.awkward FOLDER` writes them; `Awkward.wrong` says what a model has read otherwise.
"""

import datetime
import gzip
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

N_ROWS = 240
GAPS = {"height": 0.02, "pressure": 0.05, "white": 0.04, "protein": 0.06, "smoker": 0.03, "visit": 0.03}
ROLES = {
    "id": "identifier", "age": "number", "height": "number", "pressure": "number", "white": "number", "cost": "number",
    "protein": "number", "oxygen": "number", "smoker": "boolean", "ward": "category", "visit": "date",
}  # fmt: skip
NAMES = {
    "en": ["patient id", "age", "height", "blood pressure", "white cells", "cost", "protein", "oxygen", "smoker",
           "ward", "visit", "ill"],
    "de": ["Patienten-Nr", "Alter", "Größe", "Blutdruck", "Leukozyten", "Kosten", "Eiweiß", "Sättigung", "Raucher",
           "Station", "Aufnahme", "krank"],
    "fr": ["patient id", "âge", "taille", "tension artérielle", "leucocytes", "coût", "protéine", "oxygène", "fumeur",
           "unité", "entrée", "malade"],
    "es": ["paciente id", "edad", "tamaño", "presión", "leucocitos", "coste", "proteína", "oxígeno", "fumador",
           "unidad", "visita", "enfermo"],
}  # fmt: skip
TRUTHS = {"en": ("yes", "no"), "de": ("ja", "nein"), "fr": ("oui", "non"), "es": ("sí", "no")}
WARDS = {
    "en": ["north", "south", "children"],
    "de": ["Süd", "Nord", "Kinder"],
    "fr": ["étage", "nord", "pédiatrie"],
    "es": ["niños", "norte", "sur"],
}
TITLES = {
    "en": "Patients of the ward, as of March",
    "de": "Patientenliste Innere Abteilung, Stand März",
    "fr": "Liste des patients, état de mars",
    "es": "Lista de pacientes, año pasado",
}


def patients(language="en"):
    """The table cleaned by hand: numbers, truth values and dates as such, None where a value is missing."""
    random = np.random.default_rng(21)
    n = N_ROWS
    age = random.integers(19, 91, n)
    pressure = random.normal(125 + 0.2 * age, 14).round().astype(int)
    protein = random.gamma(2.0, 14.0, n).round(1)
    smoker = random.random(n) < 0.4
    risk = 0.06 * (age - 55) + 0.07 * (pressure - 136) + 0.05 * (protein - 28) + 1.5 * smoker - 0.6
    columns = {
        "id": [f"P-{number:05d}" for number in random.permutation(90_000)[:n]],
        "age": age.tolist(),
        "height": random.normal(171, 9, n).round(1).tolist(),
        "pressure": pressure.tolist(),
        "white": random.integers(3100, 14800, n).tolist(),
        "cost": random.gamma(2.0, 700.0, n).round(2).tolist(),
        "protein": protein.tolist(),
        "oxygen": random.integers(82, 101, n).tolist(),
        "smoker": smoker.tolist(),
        "ward": [WARDS[language][kind] for kind in random.integers(0, 3, n)],
        "visit": [datetime.date(2023, 1, 1) + datetime.timedelta(int(day)) for day in random.integers(0, 700, n)],
    }
    for name, share in GAPS.items():
        columns[name] = [None if random.random() < share else cell for cell in columns[name]]
    yes, no = TRUTHS[language]
    ill = risk + random.normal(0, 0.8, n) > 0
    frame = pl.DataFrame(columns).with_columns(ill=pl.Series([yes if one else no for one in ill]))
    return frame.rename(dict(zip(frame.columns, NAMES[language], strict=True)))


@dataclass(frozen=True)
class Awkward:
    """How one table is written."""

    name: str
    language: str = "de"
    suffix: str = "csv"
    encoding: str = "utf-8"
    separator: str = ";"
    decimal: str = ","
    thousands: str = ""
    missing: tuple = ("",)
    units: dict = field(default_factory=dict)
    bounds: tuple = ()
    truths: tuple = ()
    days: str = "%d.%m.%Y"
    before: tuple = ()
    sheets: tuple = ("Tabelle1",)
    line_end: str = "\r\n"
    tail: str = ""
    extra: str = ""

    @property
    def target(self):
        return NAMES[self.language][-1]

    def truth(self):
        """The table cleaned by hand; where crosses and nothing else say yes and no, nobody can tell no from unknown."""
        frame = patients(self.language)
        if self.truths and not self.truths[1]:
            frame = frame.with_columns(pl.col(NAMES[self.language][8]).fill_null(False))
        number = np.arange(N_ROWS)
        if self.extra == "notes":
            said = [f'seen on day {k % 9},\nsaid "{["well", "tired"][k % 2]}" and went' for k in number]
            frame = frame.with_columns(note=pl.Series(said))
        if self.extra == "twice":
            frame = frame.with_columns(pl.Series("cost (2)", number * 7 % 31 + 0.5))
        return frame

    def write(self, folder):
        """The file."""
        path = Path(folder) / f"{self.name}.{self.suffix}"
        header, rows = self.cells()
        if self.suffix == "xlsx":
            self._write_xlsx(path, header, rows)
        elif self.suffix == "ods":
            self._write_ods(path, header, rows)
        else:
            content = self._text(header, rows).encode(self.encoding)
            path.write_bytes(gzip.compress(content, mtime=0) if self.suffix.endswith("gz") else content)
        return path

    def cells(self):
        """The header, and rows of cells as text; those of spreadsheets that are numbers or dates there are such."""
        frame, random = patients(self.language), np.random.default_rng(5)
        key_of = dict(zip(frame.columns, [*ROLES, "ill"], strict=True))
        in_sheet = self.suffix in ("xlsx", "ods")
        typed = in_sheet and self.extra != "texts"
        yes, no = self.truths or TRUTHS[self.language]

        def written(name, cell):
            key = key_of[name]
            if cell is None:
                word = self.missing[int(random.integers(len(self.missing)))]
                return "" if key == "smoker" and not no else word
            if key == "smoker":
                return cell if typed and self.extra == "truths" else yes if cell else no
            if key == "visit":
                return cell if typed else cell.strftime(self.days)
            if key in ("id", "ward", "ill"):
                return cell
            if typed and key not in self.units:
                return cell
            text = self._number(cell, key)
            if key in self.bounds and random.random() < 0.15:
                text = f"{'<' if random.random() < 0.5 else '>'} {text}"
            return text + self.units.get(key, "")

        rows = [[written(name, cell) for name, cell in zip(frame.columns, row, strict=True)] for row in frame.rows()]
        header = list(frame.columns)
        if self.extra == "two lines":
            header[2] = f"{header[2]}\n(cm)"
        if self.extra == "notes":
            header.append("note")
            for note, row in zip(self.truth()["note"], rows, strict=True):
                row.append(note)
        if self.extra == "twice":  # two columns of one name, one that is empty, one without a name
            header += ["cost", "", "comment"]
            for cost, row in zip(self.truth()["cost (2)"], rows, strict=True):
                row += [str(cost), "", ""]
        if self.extra == "blank":
            for at in (200, 90, 40):
                rows.insert(at, None)
        return header, rows

    def _number(self, value, key):
        places = 0 if isinstance(value, int) else 2 if key == "cost" else 1
        text = f"{value:,.{places}f}" if self.thousands else f"{value:.{places}f}"
        return text.translate({ord(","): self.thousands, ord("."): self.decimal})

    def _text(self, header, rows):
        def quoted(cell):
            text = str(cell)
            if any(mark in text for mark in (self.separator, '"', "\n")):
                return '"' + text.replace('"', '""') + '"'
            return text

        lines = ["" if row is None else self.separator.join(map(quoted, row)) + self.tail for row in rows]
        first = [self.separator.join(map(quoted, header)) + (self.tail if self.extra != "rows only" else "")]
        return self.line_end.join([*self.before, *first, *lines]) + self.line_end

    def _write_xlsx(self, path, header, rows):
        import openpyxl

        book = openpyxl.Workbook()
        book.active.title = self.sheets[0]
        for line in self.before:
            book.active.append([line] if line else [])
        for row in [header, *rows]:
            book.active.append([None if cell == "" else cell for cell in row])
        for name in self.sheets[1:]:
            book.create_sheet(name).append(["code", "means"])
        book.save(path)

    def _write_ods(self, path, header, rows):
        from odf.opendocument import OpenDocumentSpreadsheet
        from odf.table import Table, TableCell, TableRow
        from odf.text import P

        book = OpenDocumentSpreadsheet()
        for number, name in enumerate(self.sheets):
            sheet = Table(name=name)
            for cells in [*([line] for line in self.before), header, *rows] if number == 0 else [["code", "means"]]:
                row = TableRow()
                for cell in cells:
                    if cell is None or cell == "":
                        one = TableCell()
                    elif isinstance(cell, bool):
                        one = TableCell(valuetype="boolean", booleanvalue=str(cell).lower())
                    elif isinstance(cell, int | float):
                        one = TableCell(valuetype="float", value=cell)
                    elif isinstance(cell, datetime.date):
                        one = TableCell(valuetype="date", datevalue=cell.isoformat())
                    else:
                        one = TableCell(valuetype="string")
                        one.addElement(P(text=cell))
                    row.addElement(one)
                sheet.addElement(row)
            book.spreadsheet.addElement(sheet)
        book.save(path)

    # ------------------------------------------------------------------------------------------------- judging

    def wrong(self, columns, typed):
        """What was read otherwise: `columns` are descriptions (name, role), `typed` the table as the model reads it."""
        found, truth = [], self.truth()
        roles = {one["name"]: one["role"] for one in columns}
        for name, (key, role) in zip(truth.columns, ROLES.items(), strict=False):
            given = next((own for own in roles if own.split("\n")[0] == name), None)
            if given is None:
                found.append(f"{name} is not there")
                continue
            if roles[given] != role:
                found.append(f"{name} is taken as {roles[given]}, not {role}")
                continue
            cells, wanted = typed[given].to_list(), truth[name].to_list()
            if len(cells) != len(wanted):
                found.append(f"{name} has {len(cells)} rows")
                continue
            if key == "visit":
                cells = [None if cell is None else cell.date() for cell in cells]
            if key == "smoker":
                yes, no = self.truths or TRUTHS[self.language]
                said = {yes: True, no or "no": False, "true": True, "false": False, None: None}
                cells = [said.get(cell, cell) for cell in cells]
            if key in ("height", "cost", "protein") and role == "number":
                cells = [None if cell is None else round(cell, 2) for cell in cells]
            if cells != wanted:
                at = next(k for k, pair in enumerate(zip(cells, wanted, strict=True)) if pair[0] != pair[1])
                found.append(f"{name}, row {at}: {cells[at]!r}, not {wanted[at]!r}")
        return found


DE_MISSING = ("k.A.", "unbekannt", "nicht durchgeführt", "-", "?")
TABLES = (
    Awkward("01-windows", encoding="cp1252", missing=("k.A.",)),
    Awkward("02-sep-line", encoding="latin-1", before=("sep=;",), missing=("unbekannt", "")),
    Awkward("03-unicode-text", suffix="txt", encoding="utf-16", separator="\t", missing=("k. A.",)),
    Awkward("04-thousands", encoding="utf-8-sig", thousands=".", missing=("n.b.", "")),
    Awkward("05-units", encoding="cp1252", units={"height": " cm", "protein": " mg/l", "oxygen": " %"}, missing=("",)),
    Awkward("06-bounds", encoding="cp1252", bounds=("protein", "pressure"), missing=("fehlt",)),
    Awkward("07-letters", truths=("J", "N"), missing=DE_MISSING),
    Awkward("08-crosses", encoding="cp1252", truths=("x", ""), tail=";", missing=("",)),
    Awkward(
        "09-excel-title", suffix="xlsx", before=(TITLES["de"], ""), sheets=("Daten", "Legende"), missing=("k.A.", "")
    ),
    Awkward("10-excel-texts", suffix="xlsx", extra="texts", missing=DE_MISSING, thousands="."),
    Awkward("11-open-document", suffix="ods", missing=("unbekannt", "")),
    Awkward("12-title-lines", encoding="cp1252", before=(TITLES["de"], ""), missing=("keine Angabe", "")),
    Awkward("13-utf-32", encoding="utf-32", missing=("k.A.", "")),
    Awkward("14-utf-16-no-mark", encoding="utf-16-le", missing=("nicht erhoben",), truths=("Ja", "Nein")),
    Awkward(
        "15-percent", encoding="cp1252", thousands=".", units={"oxygen": "%", "cost": " €"}, missing=("entfällt", "")
    ),
    Awkward(
        "16-commas", "en", separator=",", decimal=".", thousands=",", days="%Y-%m-%d", missing=("N/A", "?", "not done")
    ),
    Awkward(
        "17-tabs",
        "en",
        "tsv",
        separator="\t",
        decimal=".",
        days="%d/%m/%Y",
        units={"pressure": " mmHg"},
        missing=("unknown", "n/k"),
    ),
    Awkward(
        "18-excel-sheets", "en", "xlsx", extra="truths", sheets=("patients", "codes", "notes"), missing=("missing", "")
    ),
    Awkward(
        "19-line-ends",
        "en",
        separator=",",
        decimal=".",
        days="%d %b %Y",
        extra="notes",
        missing=("NA", "."),
        line_end="\n",
    ),
    Awkward("20-names-twice", "en", separator=",", decimal=".", days="%m/%d/%Y", extra="twice", missing=("NULL", "-")),
    Awkward(
        "21-blank-lines",
        "en",
        separator=",",
        decimal=".",
        days="%d-%m-%Y",
        extra="blank",
        missing=("--", "n.a."),
        truths=("TRUE", "FALSE"),
    ),
    Awkward(
        "22-pipes",
        "en",
        "txt",
        "cp1252",
        separator="|",
        decimal=".",
        days="%d-%b-%Y",
        missing=("-", "refused"),
        truths=("Y", "N"),
    ),
    Awkward(
        "23-packed",
        "en",
        "csv.gz",
        separator=",",
        decimal=".",
        days="%d/%m/%y",
        bounds=("protein",),
        units={"oxygen": "%"},
        missing=("pending", ""),
    ),
    Awkward("24-french", "fr", encoding="cp1252", days="%d/%m/%Y", missing=("n/d",)),
    Awkward(
        "25-french-spaces", "fr", encoding="latin-1", days="%d/%m/%Y", thousands="\xa0", missing=("non renseigné", "")
    ),
    Awkward(
        "26-french-letters",
        "fr",
        encoding="utf-8-sig",
        before=("sep=;",),
        days="%d/%m/%Y",
        truths=("O", "N"),
        missing=("NR", "inconnu"),
    ),
    Awkward(
        "27-french-excel", "fr", "xlsx", before=(TITLES["fr"],), sheets=("Feuil1", "Feuil2"), missing=("inconnu", "n/d")
    ),
    Awkward("28-spanish", "es", encoding="cp1252", days="%d/%m/%Y", missing=("sin dato",)),
    Awkward(
        "29-spanish-rows",
        "es",
        encoding="utf-16",
        days="%d/%m/%Y",
        tail=";",
        extra="rows only",
        units={"protein": " mg/dl"},
        missing=("s/d", "no consta"),
    ),
    Awkward(
        "30-spanish-sheets", "es", "ods", before=(TITLES["es"],), sheets=("Hoja1", "Hoja2"), missing=("desconocido", "")
    ),
)


def main(folder):
    """Write all tables."""
    for table in TABLES:
        sys.stdout.write(f"{table.write(folder)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
