"""Text of any encoding as UTF-8, a piece at a time.

A mark at the beginning decides (UTF-8, UTF-16, UTF-32), then zero bytes in every second or fourth place. All other text
is UTF-8 until a byte shows that it is not. If nothing but ASCII came before, the rest is in an encoding of one byte a
letter: Windows-1252 (which has Latin-1 in it) if that gives letters of western Europe, else what charset-normalizer
says.
"""

from __future__ import annotations

import codecs
from typing import Any

from multiform.columns import TableError

MARKS = (  # the longer ones first
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
WITHOUT_MARK: dict[tuple[int, ...], str] = {
    (0, 1, 1, 1): "utf-32-le",
    (1, 1, 1, 0): "utf-32-be",
    (0, 1, 0, 1): "utf-16-le",
    (1, 0, 1, 0): "utf-16-be",
}
LOOKED_AT = 4096  # bytes, for zero bytes
MOSTLY, HARDLY = 0.6, 0.1  # zero bytes in a place
WESTERN = frozenset("äöüÄÖÜßéèêëàâçîïôûùÿœæŒÆÉÈÀÇñáíóúÑÁÍÓÚìòåøÅØãõÊÂÎÔ¿¡°ºª²³µ€§±½¼×·–—’“”…«»ÿ\xa0")
OTHERS = ["cp1250", "cp1251", "cp1253", "cp1254", "cp1257", "cp850", "cp852", "mac_roman", "koi8_r", "cp932", "gb18030"]
SAMPLE, ENOUGH = 200_000, 20_000  # bytes that charset-normalizer is asked about: at most, and that are waited for
NAMES = {"cp1252": "Windows-1252 (western Europe)", "utf-16": "UTF-16", "utf-32": "UTF-32"}


class Utf8:
    """A stream of bytes as UTF-8 without a mark.

    Attributes
    ----------
    encoding : str
        What it is in, as far as is known; ASCII counts as UTF-8.
    """

    def __init__(self, stream: Any, name: str, encoding: str | None = None) -> None:
        self._stream, self._name = stream, name
        self._line = 1
        self._only_ascii, self._checks = True, encoding is None
        self._checker = codecs.getincrementaldecoder("utf-8")()
        self._decoder: codecs.IncrementalDecoder | None = None
        self.encoding = "utf-8"
        self._first = b""
        if encoding is None:
            self._first = stream.read1(LOOKED_AT)
            while 0 < len(self._first) < LOOKED_AT and (more := stream.read1(LOOKED_AT - len(self._first))):
                self._first += more
            encoding = _marked(self._first)
        if encoding not in (None, "utf-8"):
            self._become(encoding or "")

    def _become(self, encoding: str) -> None:
        try:
            known = codecs.lookup(encoding)
            is_text = getattr(known, "_is_text_encoding", True)
        except (LookupError, ValueError):
            is_text = False
        if not is_text:
            raise TableError(f"There is no encoding {encoding!r}; examples are utf-8, cp1252, latin-1 and utf-16.")
        self.encoding, self._checks = encoding, False
        self._decoder = codecs.getincrementaldecoder(encoding)()

    def read1(self, size: int) -> bytes:
        """About so many bytes; none at the end."""
        while True:
            piece, self._first = self._first[:size], self._first[size:]
            piece = piece or self._stream.read1(size)
            found = self._decoded(piece) if self._decoder is not None else self._checked(piece)
            if found or not piece:
                return found

    def _checked(self, piece: bytes) -> bytes:
        """The piece itself, while it is UTF-8."""
        if not self._checks or (piece.isascii() and not self._checker.getstate()[0]):
            return piece
        try:
            self._checker.decode(piece, final=not piece)
        except UnicodeDecodeError as error:
            if self._only_ascii and not self._checker.getstate()[0] and piece[: error.start].isascii():
                while len(self._first) < ENOUGH and (more := self._stream.read1(ENOUGH)):
                    self._first += more
                self._become(one_byte_encoding(piece + self._first))
                return self._decoded(piece)
            self._checks = False  # whoever reads the line says that it is not UTF-8
        else:
            self._only_ascii = False
        return piece

    def _decoded(self, piece: bytes) -> bytes:
        assert self._decoder is not None
        try:
            text = self._decoder.decode(piece, final=not piece)
        except UnicodeError as error:
            raise TableError(
                f"{self._name}, after line {self._line}: a character is not {self.encoding}; name another encoding "
                "(--encoding, for example cp1252)."
            ) from error
        self._line += text.count("\n")
        return text.encode("utf-8", "replace")  # half a pair of UTF-16 has no other meaning


def _marked(first: bytes) -> str | None:
    """The encoding that a mark, or zero bytes in their places, show."""
    for mark, encoding in MARKS:
        if first.startswith(mark):
            return encoding
    if len(first) < 4 or b"\0" not in first:
        return None
    zeros = [first[place::4].count(0) / len(first[place::4]) for place in range(4)]
    places = tuple(0 if share <= HARDLY else 1 if share >= MOSTLY else 2 for share in zeros)
    return WITHOUT_MARK.get(places)


def one_byte_encoding(piece: bytes) -> str:
    """The encoding of text that is not UTF-8."""
    sample = piece[:SAMPLE]
    try:
        if {letter for letter in sample.decode("cp1252") if not letter.isascii()} <= WESTERN:
            return "cp1252"
    except UnicodeDecodeError:
        pass
    try:
        import charset_normalizer
    except ImportError as error:
        raise ImportError(
            'Encodings are recognised with charset-normalizer; install it with pip install "multiform[cli]".'
        ) from error
    best = charset_normalizer.from_bytes(sample, cp_isolation=["cp1252", *OTHERS]).best()
    for encoding in (None if best is None else best.encoding, "cp1252"):
        try:
            if encoding is not None:
                piece.decode(encoding)
                return encoding
        except UnicodeDecodeError:
            continue
    return "latin-1"


def told(encoding: str) -> str:
    """An encoding as people call it."""
    return NAMES.get(encoding, encoding)
