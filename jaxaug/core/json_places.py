"""Where a value stands in the text of a JSON file: what `json` does not tell."""

import json
import re
from collections.abc import Iterable, Iterator

Keys = tuple[str | int, ...]
"""From the outermost value inwards: names of members, numbers of items."""

# A string, a mark, or a number or word.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def offsets(text: str) -> Iterator[tuple[Keys, int]]:
    """The keys of every value with the offset where it begins, in the text's order.

    A member of an object begins with its name. A name that an object has twice comes
    twice. `text` is JSON; of other text the places mean nothing.
    """
    keys: list[str | int] = []
    name_next = True  # Whether the next token in an object is a name.
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
    """Line and column, from 1, of values in a JSON text.

    A value that the text lacks gets the place of the nearest one around it.
    """
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
    """Line and column of the first name that its object has had before."""
    seen: set[Keys] = set()
    for keys, offset in offsets(text):
        if keys in seen:
            return line_and_column(text, offset)
        seen.add(keys)
    return None


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Both from 1, as editors and `json` count them."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
