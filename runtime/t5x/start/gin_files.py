"""Reads gin files: non-empty UTF-8 text without circular includes."""

import cmath
import codecs
import contextlib
import dataclasses
import difflib
import io
import os
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO

import gin
from gin import config_parser
from jaxaug_base.files import read_bytes

from t5x.errors import UserError

_LONGEST = 200  # Maximum number of characters of a flag in a message.
NO_GIN = tokenize.TokenError, SyntaxError, ValueError, TypeError, RecursionError
"""Errors of gin's parser for text that is not gin."""
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class _Text(io.StringIO):
    """A file for gin's parser, which uses the name in its messages."""

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
            f"{path} is not text (it holds a NUL byte): give a gin file, in the "
            f"encoding UTF-8."
        )
    return text


@dataclasses.dataclass(frozen=True)
class Macro:
    """An unresolved macro, `%name`."""

    name: str

    def __repr__(self) -> str:
        return f"%{self.name}"


class Reference(str):
    """A reference `@name` or `@name()`, shown as it is written."""

    def __repr__(self) -> str:
        return str(self)


class Delegate(config_parser.ParserDelegate):
    """Parser delegate that keeps references: it imports and runs nothing."""

    def configurable_reference(self, scoped_configurable_name: str, evaluate: bool):
        """Returns the reference `@name` or `@name()`."""
        return Reference(f"@{scoped_configurable_name}{'()' if evaluate else ''}")

    def macro(self, scoped_macro_name: str) -> Macro:
        """Returns the macro `%NAME`."""
        return Macro(scoped_macro_name)


def resolved(value: Any, values: Mapping[str, Any]) -> Any:
    """Returns a value with the macros in it replaced, as far as they are known."""
    if isinstance(value, Macro) and value.name in values:
        rest = {name: kept for name, kept in values.items() if name != value.name}
        return resolved(values[value.name], rest)
    if isinstance(value, dict):
        pairs = value.items()
        return {resolved(key, values): resolved(one, values) for key, one in pairs}
    if isinstance(value, list | tuple):
        return type(value)(resolved(one, values) for one in value)
    return value


def rewrite_gin_args(args: Sequence[str]) -> list[str]:
    """Rewrites `--gin.NAME=VALUE` to `--gin_bindings=NAME = VALUE`."""
    rewritten = []
    for arg in args:
        if arg.startswith("--gin."):
            name, equals, value = arg.removeprefix("--gin.").partition("=")
            if not equals:
                raise UserError(
                    "Gin bindings must be of the form '--gin.<param>=<value>', got: "
                    f"{arg}"
                )
            arg = f"--gin_bindings={name} = {value}"
        rewritten.append(arg)
    return rewritten


def check_binding(binding: str) -> None:
    """Raises `UserError` for a command-line binding that gin cannot parse.

    gin itself would not name the binding.
    """
    name, equals, value = (part.strip() for part in binding.partition("="))
    flag = f"--gin.{name}{equals}{value}"
    flag = flag if len(flag) <= _LONGEST else f"{flag[:_LONGEST]}..."
    check_numbers(f"--gin.{binding:.80}", binding)
    try:
        list(config_parser.ConfigParser(binding, Delegate()))
    except tokenize.TokenError as error:
        raise UserError(f"{flag}: a bracket or string is not closed.") from error
    except NO_GIN as error:
        raise UserError(f"{flag}: {_why_no_binding(name, equals, value)}") from error


def _why_no_binding(name: str, equals: str, value: str) -> str:
    if not equals or not re.fullmatch(r"[\w./]+", name):
        return (
            f"{name!r} is no name of a setting. Write --gin.NAME=VALUE, where NAME is "
            f"a macro or FUNCTION.PARAMETER."
        )
    if not value:
        return f"the value is missing. Write --gin.{name}=VALUE."
    text = value if re.fullmatch(r"[\w./:~-]{1,80}", value) else "text"
    return (
        "the value is no number, text, list, @function or %MACRO. Strings need quotes "
        f'of their own: --gin.{name}=\\"{text}\\".'
    )


def check_numbers(where: str, text: str) -> None:
    """Raises `UserError` for a number that overflows, such as 1e999.

    gin would write `inf` into the config.gin of a run, which it cannot read, or leave
    the line out.
    """
    # gin itself refuses text that is not gin syntax.
    with contextlib.suppress(tokenize.TokenError, SyntaxError):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NUMBER and _is_infinite(token.string):
                raise UserError(
                    f"{where}, line {token.start[0]}: {token.string:.80} is not "
                    f"finite: give a number below 1.8e308."
                )


def _is_infinite(number: str) -> bool:
    if not set(number.lower()) & set(".ej") or number[:2] in ("0x", "0X"):
        return False
    return cmath.isinf(complex(number))


def first_use(texts: Mapping[str, str], macro: str) -> str | None:
    """Returns the first place in texts by path that refers to a macro, or None."""
    for path, text in texts.items():
        for number, line in enumerate(text.splitlines(), 1):
            if re.search(rf"%{re.escape(macro)}\b", line):
                return f"{path}, line {number}"
    return None


@contextlib.contextmanager
def checked() -> Iterator[dict[str, str]]:
    """Makes gin refuse files that are empty, binary, or include themselves.

    Errors for open brackets, wrong indentation, and infinite numbers name the file.

    Yields:
        The texts of the files read so far, by path; it grows.
    """
    being_read: list[str] = []
    texts: dict[str, str] = {}

    @contextlib.contextmanager
    def read(path: str) -> Iterator[TextIO]:
        real = os.path.realpath(path)
        if real in being_read:
            circle = [*being_read[being_read.index(real) :], real]
            names = " -> ".join(os.path.relpath(name) for name in circle)
            raise UserError(
                f"{path} includes itself ({names}): take out one of these includes."
            )
        text = _decoded(path, read_bytes(path))
        check_numbers(path, text)
        texts[path] = text
        being_read.append(real)
        try:
            yield _Text(text, path)
        # Python's tokenizer does not know the name of the file.
        except IndentationError as error:
            raise UserError(
                f"{path}: line {error.lineno}: {error.msg}: correct the indentation."
            ) from error
        except tokenize.TokenError as error:
            raise UserError(f"{path}: a bracket or string is not closed.") from error
        finally:
            being_read.pop()

    readers = gin.config._FILE_READERS
    kept = list(readers)
    readers[:] = [
        (read, os.path.isfile),
        *((reader, _surely(exists)) for reader, exists in kept[1:]),
    ]
    try:
        yield texts
    finally:
        readers[:] = kept


def _surely(exists: Callable[[str], bool]) -> Callable[[str], bool]:
    """Returns a test that tolerates folders that Python treats as packages."""

    def found(path: str) -> bool:
        try:
            return exists(path)
        except TypeError:
            return False

    return found


def nearest_file(path: str, folders: Iterable[str]) -> str | None:
    """Returns the existing gin file with the most similar path in the same folder."""
    known = {
        os.path.join(os.path.dirname(path), name)
        for folder in folders
        for name in _names(os.path.join(folder, os.path.dirname(path)))
        if name.endswith(".gin")
    }
    found = difflib.get_close_matches(path, sorted(known), n=1)
    return found[0] if found else None


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder or ".")
    except OSError:
        return []
