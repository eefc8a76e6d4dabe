"""Unknown names in error messages."""

import difflib
from collections.abc import Iterable

from jaxaug.core.files import shown


def suggestion(name: str, known: Iterable[str]) -> str:
    """The end of an error message about an unknown name: the nearest known ones."""
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=3)
    if near:
        return f"did you mean {' or '.join(map(shown, near))}?"
    listed = ", ".join(name[:80] for name in names[:12])
    return f"known: {listed or 'none'}{', ...' if len(names) > 12 else ''}."
