"""Unknown names in error messages."""

import difflib
from collections.abc import Iterable


def suggestion(name: str, known: Iterable[str]) -> str:
    """The end of an error message about an unknown name: the nearest known ones."""
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=3)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"known: {shown or 'none'}."
