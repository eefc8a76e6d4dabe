"""Suggestions for unknown names in error messages."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jaxaug.core.errors import UserError
from jaxaug.core.files import shown

_LONGEST = 100  # Maximum number of characters of a compared name.
_COMPARED = 20  # Maximum number of names that difflib compares.


def suggestion(name: str, known: Iterable[str]) -> str:
    """Returns the nearest known names, as the end of a message about an unknown one.

    Names are near if their spelling is similar, or if one is the start or end of the
    other, ignoring marks and case: `topk` is near `top_k_top_p`.
    """
    names = sorted(known)
    near = _near(str(name), names)
    if near:
        return f"did you mean {' or '.join(map(shown, near))}?"
    listed = ", ".join(name[:80] for name in names[:12])
    return f"known: {listed or 'none'}{', ...' if len(names) > 12 else '.'}"


def one_of(name: object, known: Iterable[str], verb: str = "use") -> str:
    """Returns the end of a message: all possible names, then the nearest ones."""
    names = list(known)
    return f"{verb} one of {', '.join(names)}.{nearest(name, names)}"


def nearest(name: object, known: Iterable[str]) -> str:
    """Returns a question with the nearest names after a space, or an empty string."""
    near = _near(str(name), list(known))
    return f" Did you mean {' or '.join(map(shown, near))}?" if near else ""


def check_keys(value: Mapping[str, Any], keys: Iterable[str], where: str) -> None:
    """Raises `UserError` for an object with other keys; `where` starts the message."""
    keys = tuple(keys)
    for key in value:
        if key not in keys:
            raise UserError(
                f"{where}: unknown key {shown(key)}; {suggestion(key, keys)} Correct "
                f"or remove it."
            )


def _near(name: str, names: Sequence[str]) -> list[str]:
    if len(name) > _LONGEST:
        return []
    near = difflib.get_close_matches(name, _similar(name, names), n=3)
    if near:
        return near
    plain = _plain(name)
    others = {one: _plain(one) for one in names if len(one) <= _LONGEST}
    found = difflib.get_close_matches(
        plain, _similar(plain, list(others.values())), n=3
    )
    return [
        one
        for one, other in others.items()
        if other in found or _is_edge(plain, other) or _is_edge(other, plain)
    ][:3]


def _similar(name: str, names: Sequence[str]) -> Sequence[str]:
    """Returns the names to compare: difflib is slow for long or many names."""
    short = [known for known in names if len(known) <= _LONGEST]
    if len(short) <= _COMPARED:
        return short
    # Imported here, because most programs end without a wrong name.
    from rapidfuzz import fuzz, process

    # Its similarity is never below difflib's, whose threshold is 0.6.
    found = process.extract(
        name, short, scorer=fuzz.ratio, limit=_COMPARED, score_cutoff=60
    )
    return [known for known, _, _ in found]


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))


def _is_edge(part: str, whole: str) -> bool:
    return len(part) > 2 and (whole.startswith(part) or whole.endswith(part))
