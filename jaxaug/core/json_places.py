"""Positions of values in the text of a JSON file, which `json` does not report."""

import json
import re
from collections.abc import Iterable, Iterator

Keys = tuple[str | int, ...]
"""Path of a value, from outside inwards: names of members, numbers of items."""

# Matches a string, a mark, or a number or word.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def offsets(text: str) -> Iterator[tuple[Keys, int]]:
    """Yields the keys of every value with its start offset, in text order.

    A member of an object starts with its name. A repeated name is yielded again. `text`
    must be JSON; otherwise the positions are meaningless.
    """
    keys: list[str | int] = []
    name_next = True  # True if the next token in an object is a name.
    for match in _TOKEN.finditer(text):
        token, start = match[0], match.start()
        if token in "}]":
            keys.pop()
        elif token == ",":
            if isinstance(keys[-1], int):
                keys[-1] += 1
            name_next = True
        elif token == ":":
            name_next = False
        elif name_next and keys and isinstance(keys[-1], str):
            keys[-1] = json.loads(token)
            yield tuple(keys), start
        else:
            if not keys or isinstance(keys[-1], int):
                yield tuple(keys), start
            if token in "{[":
                keys.append("" if token == "{" else 0)
                name_next = True


def places(text: str, wanted: Iterable[Keys]) -> dict[Keys, tuple[int, int]]:
    """Returns line and column, from 1, of values or of their nearest holders."""
    wanted = list(wanted)
    around = {keys[:length] for keys in wanted for length in range(len(keys) + 1)}
    found: dict[Keys, int] = {(): 0}
    for keys, offset in offsets(text):
        if keys in around:
            found[keys] = offset
    result = {}
    for keys in wanted:
        nearest = next(
            keys[:length]
            for length in range(len(keys), -1, -1)
            if keys[:length] in found
        )
        result[keys] = line_and_column(text, found[nearest])
    return result


def repeated_name(text: str) -> tuple[int, int] | None:
    """Returns line and column of the first repeated name in an object."""
    seen: set[Keys] = set()
    for keys, offset in offsets(text):
        if keys in seen:
            return line_and_column(text, offset)
        seen.add(keys)
    return None


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Returns line and column, both from 1, as in editors and `json`."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
