"""The only JSON reader: all files, lines, and requests from outside pass through it."""

import json
import sys
from collections import Counter
from typing import Any

from jaxaug.core import json_places

MAX_DEPTH = 200
"""Maximum nesting of lists and objects.

Deeper values would exceed Python's recursion limit later, when a program copies,
hashes, or prints them.
"""


class JsonError(ValueError):
    """A text that is not accepted as JSON; the message gives reason and position."""


class _RepeatedNameError(ValueError):
    """An object has a duplicate name."""


def decoded(text: str | bytes, what: str = "the text", halves: bool = False) -> Any:
    """Returns the value of a JSON text.

    Args:
        halves: whether strings may contain half of a surrogate pair, for callers that
            call `check_pairs` where they know the position.

    Raises:
        JsonError: the text is empty, incomplete, or not UTF-8 or JSON; an object has a
            duplicate name, an integer has too many digits, a string contains half of a
            surrogate pair, or values are nested deeper than `MAX_DEPTH`.
    """
    try:
        text = text.decode() if isinstance(text, bytes) else text
        value = json.loads(text, object_pairs_hook=_distinct_names)
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise JsonError(
            f"byte {byte:#04x} at offset {error.start} is not UTF-8"
        ) from None
    except json.JSONDecodeError as error:
        raise JsonError(_of_syntax(error, what)) from None
    except RecursionError:
        raise JsonError("invalid JSON: nested too deeply") from None
    except _RepeatedNameError as error:
        assert isinstance(text, str)
        place = json_places.repeated_name(text)
        where = " (again at line {}, column {})".format(*place) if place else ""
        raise JsonError(f"invalid JSON: {error}{where}") from None
    except ValueError:  # The only other ValueError concerns the length of a number.
        raise JsonError(
            f"invalid JSON: an integer has more than {sys.get_int_max_str_digits()} "
            f"digits"
        ) from None
    if text.count("[") + text.count("{") > MAX_DEPTH and _is_deep(value):
        raise JsonError("invalid JSON: nested too deeply")
    if not halves and ("\\ud" in text or "\\uD" in text):
        try:
            check_pairs(value)
        except JsonError as error:
            raise JsonError(f"invalid JSON: {error}") from None
    return value


def _of_syntax(error: json.JSONDecodeError, what: str) -> str:
    end = len(error.doc.rstrip())
    if not end:
        return f"{what} is empty"
    # The parser reports an unterminated string at its start.
    cut_off = error.pos >= end or error.msg.startswith("Unterminated string")
    problem = "truncated JSON" if cut_off else "invalid JSON"
    return f"{problem}: {error.msg} at line {error.lineno}, column {error.colno}"


def _distinct_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = Counter(name for name, _ in pairs)
        name, count = names.most_common(1)[0]
        quoted = repr(name) if len(repr(name)) <= 80 else f"{name!r:.77}..."
        raise _RepeatedNameError(f"an object has the name {quoted} {count} times")
    return found


def _is_deep(value: Any) -> bool:
    """Returns whether lists and objects are nested deeper than `MAX_DEPTH`."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for one in level:
            items = one.values() if type(one) is dict else one
            if type(one) in (dict, list):
                inner += [item for item in items if type(item) in (dict, list)]
        level = inner
    return bool(level)


def check_pairs(value: Any) -> None:
    """Raises `JsonError` for a JSON value with half of a surrogate pair in a string."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise JsonError("nested too deeply") from None
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise JsonError(f"a string holds {half}, half of a surrogate pair") from None
