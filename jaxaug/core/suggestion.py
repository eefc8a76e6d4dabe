"""Unknown names in error messages."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jaxaug.core.errors import UserError
from jaxaug.core.files import shown

_LONGEST = 100  # characters of a name that is compared
_COMPARED = 20  # names that difflib compares


def suggestion(name: str, known: Iterable[str]) -> str:
    """The end of an error message about an unknown name: the nearest known ones."""
    names = sorted(known)
    near = difflib.get_close_matches(str(name), _similar(str(name), names), n=3)
    if near:
        return f"did you mean {' or '.join(map(shown, near))}?"
    listed = ", ".join(name[:80] for name in names[:12])
    return f"known: {listed or 'none'}{', ...' if len(names) > 12 else ''}."


def _similar(name: str, names: Sequence[str]) -> Sequence[str]:
    """Returns the names to compare: difflib takes seconds for long ones or thousands."""
    if len(name) > _LONGEST:
        return ()
    short = [known for known in names if len(known) <= _LONGEST]
    if len(short) <= _COMPARED:
        return short
    from rapidfuzz import fuzz, process  # Most programs end without a wrong name.

    # Its similarity is never below that of difflib, whose threshold is 0.6.
    found = process.extract(
        name, short, scorer=fuzz.ratio, limit=_COMPARED, score_cutoff=60
    )
    return [known for known, _, _ in found]


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
