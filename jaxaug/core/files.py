"""Reading and writing whole files, locally or on gs://, with errors a user can act on."""

import json
import os
from typing import Any

from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.publishing import replacing

PathLike = str | os.PathLike[str]

FETCH_AGAIN = (
    "Correct the file, or get it again (`jaxaug data fetch sgd` for SGD and SGD-X)."
)
"""What to do about a wrong file of a data folder."""


def shown(value: Any) -> str:
    """A value in an error message, shortened."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def read_text(path: PathLike, fix: str) -> str:
    """The text of a UTF-8 file.

    Args:
      path: the file, local or gs://.
      fix: a sentence that tells the user how to mend it; ends every error message.

    Raises:
      UserError: the file is missing or holds bytes that are not UTF-8.
    """
    try:
        data = epath.Path(path).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path}: no such file. {fix}") from None
    except IsADirectoryError:
        raise UserError(f"{path}: is a folder, expected a file. {fix}") from None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{path}: line {line}: byte {data[error.start]:#04x} at offset "
            f"{error.start} is not UTF-8. {fix}"
        ) from None


def read_json(path: PathLike, fix: str) -> Any:
    """The value in a JSON file; the arguments are those of `read_text`.

    Raises:
      UserError: the file is missing, empty, not UTF-8, cut off or not JSON.
    """
    text = read_text(path, fix)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        end = len(text.rstrip())
        if not end:
            raise UserError(f"{path}: the file is empty. {fix}") from None
        # The parser reports an unterminated string where the string begins.
        cut_off = error.pos >= end or error.msg.startswith("Unterminated string")
        problem = "truncated JSON" if cut_off else "invalid JSON"
        raise UserError(
            f"{path}: {problem}: {error.msg} at line {error.lineno}, column "
            f"{error.colno}. {fix}"
        ) from None
    except RecursionError:
        raise UserError(f"{path}: invalid JSON: nested too deeply. {fix}") from None


def write_text(path: PathLike, text: str) -> None:
    """Writes a UTF-8 file under a temporary name, then renames it into place."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: PathLike, data: bytes) -> None:
    """Writes a file under a temporary name, then renames it into place."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)
