"""Prompts for models behind an endpoint: text files with placeholders in braces.

A line whose placeholders are all empty is left out, so one file serves texts with and
without context.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxaug.core.errors import UserError
from jaxaug.core.files import read_text
from jaxaug.core.suggestion import nearest, suggestion
from jaxaug.models.endpoint import replies

NAMES = ("plain", "schema")
"""The prompts that come with jaxaug; others are user files."""
PLACES = (
    "text", "num", "kind", "service", "siblings", "values", "keep", "known", "format",
)  # fmt: skip
_FOLDER = Path(__file__).parent / "prompts"
_PLACE = re.compile(r"\{([a-z_]+)\}")
_BREAKS = re.compile(r"\n{3,}")
# Maximum texts of a list in a prompt.
_MOST = 20


def find(name: str) -> str:
    """Returns the checked template with this name, or from this file.

    Raises:
        UserError: `name` is neither a name nor a file, the template has no place for
            the text, or a placeholder is unknown.
    """
    path = _FOLDER / f"{name}.txt" if name in NAMES else name
    template = read_text(
        path,
        f"Use {' or '.join(NAMES)}, or name a text file with {{text}} in it."
        f"{nearest(name, NAMES)}",
    )
    places = _PLACE.findall(template)
    for place in places:
        if place not in PLACES:
            raise UserError(
                f"prompt {name}: unknown place {{{place}}}; {suggestion(place, PLACES)}"
            )
    if "text" not in places:
        raise UserError(
            f"prompt {name}: has no place for the text. Write {{text}} where it goes."
        )
    return template


def filled(
    template: str, text: str, count: int, context: Mapping[str, Any],
    known: Sequence[str], as_json: bool,
) -> str:  # fmt: skip
    """Returns the prompt for a text.

    Args:
        context: context of a text of a schema; see `jaxaug.augment.descriptions`.
        as_json: the form of the reply; see `replies.instruction`.
    """
    values = {
        "text": text,
        "num": str(count),
        "kind": context.get("kind", ""),
        "service": context.get("service", ""),
        "siblings": _listed(context.get("siblings", ())),
        "values": _listed(context.get("values", ())),
        "keep": _listed(context.get("keep", ())),
        "known": _listed(known),
        "format": replies.instruction(count, as_json),
    }
    if "format" not in _PLACE.findall(template):
        template += "\n\n{format}\n"
    lines = []
    for line in template.splitlines():
        places = _PLACE.findall(line)
        if not places or any(values[place] for place in places):
            # One substitution fills all placeholders, as a text may contain braces
            # itself.
            lines.append(_PLACE.sub(lambda match: values[match[1]], line))
    return _BREAKS.sub("\n\n", "\n".join(lines)).strip()


def _listed(texts: Sequence[str]) -> str:
    return "; ".join(texts[:_MOST]) + ("; ..." if len(texts) > _MOST else "")
