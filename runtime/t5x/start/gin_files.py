"""How gin files are read: UTF-8 text with something in it, and no circles."""

import codecs
import contextlib
import io
import os
import tokenize
from collections.abc import Iterator
from typing import TextIO

import gin

from t5x.errors import UserError

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class _Text(io.StringIO):
    """What gin reads a file from; it takes the name into its messages."""

    def __init__(self, text: str, name: str):
        super().__init__(text)
        self.name = name


def _decoded(path: str, data: bytes) -> str:
    if not data.strip():
        raise UserError(
            f"{path} is empty ({len(data)} bytes): give a gin file with bindings, or "
            "leave it out."
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = f"{error.reason} at byte {error.start}"
        detail = "it is UTF-16" if data.startswith(_UTF_16) else place
        raise UserError(
            f"{path} is not UTF-8 text ({detail}): save it in the encoding UTF-8."
        ) from None
    if "\0" in text:
        raise UserError(
            f"{path} is not text (it holds a NUL byte): give a gin file, in the encoding "
            "UTF-8."
        )
    return text


@contextlib.contextmanager
def checked() -> Iterator[None]:
    """While active, gin refuses files that are empty, no text, or include themselves.

    Brackets that stay open and wrong indentation are named with the file they are in.
    """
    being_read: list[str] = []

    @contextlib.contextmanager
    def read(path: str) -> Iterator[TextIO]:
        real = os.path.realpath(path)
        if real in being_read:
            circle = [*being_read[being_read.index(real) :], real]
            names = " -> ".join(os.path.relpath(name) for name in circle)
            raise UserError(
                f"{path} includes itself ({names}): take out one of these includes."
            )
        with open(path, "rb") as file:
            text = _decoded(path, file.read())
        being_read.append(real)
        try:
            yield _Text(text, path)
        # Python's tokenizer does not know the name of the file.
        except IndentationError as error:
            raise UserError(
                f"{path}: line {error.lineno}: {error.msg}: correct the indentation."
            ) from error
        except tokenize.TokenError as error:
            raise UserError(
                f"{path}: a bracket or string is not closed ({error.args[0]})."
            ) from error
        finally:
            being_read.pop()

    readers = gin.config._FILE_READERS
    kept = readers[0]
    readers[0] = (read, os.path.isfile)
    try:
        yield
    finally:
        readers[0] = kept
