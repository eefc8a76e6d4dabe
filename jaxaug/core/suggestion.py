"""Unknown names in error messages."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jaxaug.core.errors import UserError
from jaxaug.core.files import shown

_LONGEST = 100  # characters of a name that is compared
_COMPARED = 20  # names that difflib compares


def suggestion(name: str, known: Iterable[str]) -> str:
    """Returns the end of an error message about an unknown name: the nearest known ones.

    Names are near if they are spelled alike, or if one is the beginning or the end of
    the other, marks and case aside: `topk` is near to `top_k_top_p`.
    """
    names = sorted(known)
    near = _near(str(name), names)
    if near:
        return f"did you mean {' or '.join(map(shown, near))}?"
    listed = ", ".join(name[:80] for name in names[:12])
    return f"known: {listed or 'none'}{', ...' if len(names) > 12 else '.'}"


def one_of(name: object, known: Iterable[str], verb: str = "use") -> str:
    """Returns the end of a message about a name that has to be one of a few.

    The list of names comes first, then the nearest ones.
    """
    names = list(known)
    return f"{verb} one of {', '.join(names)}.{nearest(name, names)}"


def nearest(name: object, known: Iterable[str]) -> str:
    """Returns the question for the nearest names behind a space; nothing if none is near."""
    near = _near(str(name), list(known))
    return f" Did you mean {' or '.join(map(shown, near))}?" if near else ""


def check_keys(value: Mapping[str, Any], keys: Iterable[str], where: str) -> None:
    """Refuses an object that has other keys; `where` begins the message.

    Raises:
      UserError: it names the key and the nearest known one.
    """
    keys = tuple(keys)
    for key in value:
        if key not in keys:
            raise UserError(
                f"{where}: unknown key {shown(key)}; {suggestion(key, keys)} Correct or "
                "remove it."
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
    """Returns the names to compare: difflib takes seconds for long ones or thousands."""
    short = [known for known in names if len(known) <= _LONGEST]
    if len(short) <= _COMPARED:
        return short
    from rapidfuzz import fuzz, process  # Most programs end without a wrong name.

    # Its similarity is never below that of difflib, whose threshold is 0.6.
    found = process.extract(
        name, short, scorer=fuzz.ratio, limit=_COMPARED, score_cutoff=60
    )
    return [known for known, _, _ in found]


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))


def _is_edge(part: str, whole: str) -> bool:
    return len(part) > 2 and (whole.startswith(part) or whole.endswith(part))
