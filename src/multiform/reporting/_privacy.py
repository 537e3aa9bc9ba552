"""What a report may show of the data: by default nothing that says who somebody is.

Values of identifiers, dates and free text are not shown, nor those of columns whose name says that they are about a
person (name, address, birth), nor of text that has many values; of other text, only values that five rows have or more.
"""

from __future__ import annotations

import re
from typing import Any

from multiform._typing import Array

LEAST_ROWS = 5  # that have a value which is shown
MANY_VALUES = 50  # of a text that nobody has called a category
PRIVATE_ROLES = {"identifier": "an identifier", "date": "a date", "text": "free text"}
# What a word in the name of a column begins with, in English, German, French, Spanish and Italian; and whole words.
ABOUT_A_PERSON = {"vorname", "nachname", "surname", "lastname", "firstname", "prenom", "prénom", "apellido", "cognome"}
ABOUT_A_PERSON |= {"address", "adresse", "direccion", "indirizzo", "street", "strasse", "straße", "postcode", "postal"}
ABOUT_A_PERSON |= {"phone", "telefon", "telephone", "email", "birth", "geburt", "naissance", "nacimiento", "nascita"}
ABOUT_A_PERSON |= {"versicher", "passport"}
WHOLE_WORDS = {"name", "nom", "nombre", "initials", "geb", "plz", "zip", "dob", "ssn", "iban", "mail", "mobile"}


def hidden_columns(model: Any, columns: dict[str, Array]) -> dict[str, str]:
    """Of each column whose values are not shown, why.

    >>> import numpy as np
    >>> hidden_columns(None, {"Vorname": np.array(["Ada"], dtype=object), "age": np.array([36.0])})
    {'Vorname': 'its name says that it is about a person'}
    """
    roles = {column.name: column.role for column in getattr(model, "columns_", [])}
    found = {}
    for name, column in columns.items():
        role = roles.get(name, "")
        if role in PRIVATE_ROLES:
            found[name] = PRIVATE_ROLES[role]
        elif column.dtype.kind == "M":
            found[name] = PRIVATE_ROLES["date"]
        elif column.dtype.kind != "f" and _about_a_person(name):
            found[name] = "its name says that it is about a person"
        elif column.dtype.kind != "f" and role not in ("category", "code") and _n_values(column) > MANY_VALUES:
            found[name] = "text of many values"
    return found


def _n_values(column: Array) -> int:
    return len({value for value in column.tolist() if value is not None})


def _about_a_person(name: str) -> bool:
    words = re.findall(r"[^\W\d_]+", re.sub(r"(?<=[a-zà-ÿ])(?=[A-Z])", " ", name))
    return any(word.casefold() in WHOLE_WORDS or word.casefold().startswith(tuple(ABOUT_A_PERSON)) for word in words)
