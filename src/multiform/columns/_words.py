"""Words that people write where a number, a date or yes and no are meant, in English, German, French and Spanish."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

# Missing, where the rest of a column are numbers, dates, or yes and no; in small letters, one meaning a line. Elsewhere
# they may say something, as "unknown" does beside "smoker" and "never".
MISSING_WORDS = frozenset(
    word.strip()
    for word in """
    -, --, ---, –, —, ., .., ..., …, /, //, *, **, ?, ??, ???
    #n/a, #na, #nv, #wert!, #value!, #valeur!, #div/0!, #ref!, #bezug!, #null!, #num!, #zahl!
    na, n/a, n.a., n. a., nan, null, none, nil, nd, n/d, n.d., n. d., n/k, nk, n/v, tbd
    missing, unknown, unk, unkn, blank, empty, refused, declined, pending, no data, no value, not done, not known
    not available, not applicable, not measured, not recorded, not tested, not performed, not reported, not detected
    k.a., k. a., ka, k.a, k/a, keine angabe, keine angaben, ohne angabe, o.a., o. a., leer
    unbekannt, unbek, unbek., fehlt, fehlend, fehlende angabe, n.b., n. b., n.e., n.v., n.g.
    nicht bekannt, nicht bestimmt, nicht bestimmbar, nicht durchgeführt, nicht durchgefuehrt, nicht erhoben
    nicht gemessen, nicht vorhanden, nicht verfügbar, nicht erfasst, nicht beurteilbar, nicht messbar
    entfällt, entfaellt, ausstehend, steht aus, verweigert
    inconnu, inconnue, nr, n.r., nc, n.c., n/c, s.o., vide, manquant, manquante, en attente, refusé, sans objet
    non renseigné, non renseignée, non renseigne, non connu, non disponible, non mesuré, non mesurée, non fait
    non effectué, non effectuée, non réalisé, non réalisée, non déterminé
    desconocido, desconocida, sin dato, sin datos, s/d, s.d., sd, no consta, no disponible, no aplica, no procede
    no realizado, no realizada, no medido, no medida, no sabe, ns, ns/nc, faltante, pendiente, vacío
    """.replace("\n", ",").split(",")
    if word.strip()
)
# Yes and no, by language; a column keeps its own spelling.
YES_NO = (
    ({"yes", "y", "true", "t"}, {"no", "n", "false", "f"}),
    ({"ja", "j", "wahr", "w"}, {"nein", "n", "falsch", "f"}),
    ({"oui", "o", "vrai", "v"}, {"non", "n", "faux", "f"}),
    ({"sí", "si", "s", "verdadero", "v"}, {"no", "n", "falso", "f"}),
)
CROSSES = {"x", "✓", "✔", "☑", "☒", "✗"}
YES = frozenset().union(CROSSES, *(yes for yes, _ in YES_NO))
NO = frozenset().union(*(no for _, no in YES_NO))


def missing_words(cells: Iterable[str]) -> list[str]:
    """Those of some cells that say that a value is missing."""
    return [cell for cell in cells if cell.lower() in MISSING_WORDS]


def yes_and_no(values: Sequence[str], has_gaps: bool) -> tuple[str, str | None] | None:
    """The spelling of yes and of no, if the distinct values, the commonest first, are nothing else; None if not.

    Crosses beside gaps are yes, and the gaps are no, which then has no spelling.

    >>> yes_and_no(["Ja", "nein", "ja"], has_gaps=False), yes_and_no(["x"], has_gaps=True)
    (('Ja', 'nein'), ('x', None))
    """
    found = {value.lower() for value in values}
    if found and found <= CROSSES and has_gaps:
        return values[0], None
    for yes, no in YES_NO:
        if found <= yes | no and found & yes and found & no:
            return next(one for one in values if one.lower() in yes), next(one for one in values if one.lower() in no)
    return None


def in_one_spelling(text: Any, yes: str, no: str, empty: str | None) -> Any:
    """A polars series of words: every yes and no as the column spells them; an empty cell is `empty`, if given."""
    spelt: dict[str, str | None] = {}
    for value in text.unique().drop_nulls().to_list():
        low = value.lower()
        spelt[value] = yes if low in YES else no if low in NO else None if low in MISSING_WORDS else value
    spelt = {value: found for value, found in spelt.items() if value != found}
    text = text.replace(list(spelt), list(spelt.values())) if spelt else text
    return text if empty is None else text.fill_null(empty)
