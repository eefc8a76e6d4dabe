"""The note beside a file of levels, `<out>.json`: what it was made of, and its digest."""

import json
from collections.abc import Mapping
from typing import Any

from etils import epath

from jaxaug.core.digests import file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import read_json

# Options that name something which is noted by what it is.
_NAMES = ("model", "prompt", "similarity", "implication")


def check_same(out: epath.Path, note: epath.Path, made_of: Mapping[str, Any]) -> None:
    """Compares a finished file with what this run would write.

    Args:
      out: file of levels.
      note: its note.
      made_of: of this run, as the note has it.

    Raises:
      UserError: `out` is no such file, was made of something else, or has changed.
    """
    if not note.exists():
        raise UserError(
            f"{out}: is no file of `jaxaug levels`, which has {note} beside it. Name "
            "another --out."
        )
    fix = f"Remove {out}, or name another --out."
    found = read_json(note, fix)
    noted = found if isinstance(found, dict) else {}
    for name, value in made_of.items():
        if name not in _NAMES and noted.get(name) != value:
            raise UserError(
                f"{out}: was made with {name} {json.dumps(noted.get(name))}, this run "
                f"has {json.dumps(value)}. {fix}"
            )
    if noted.get("digest") != file_digest(out):
        raise UserError(f"{out}: has changed since it was written. {fix}")


def check_ours(out: epath.Path, note: epath.Path) -> None:
    """A run that stopped between its two files may have left a note, nobody else.

    Raises:
      UserError: the note is none of `jaxaug levels`.
    """
    fix = f"Name another --out: beside {out} its note would be written there."
    found = read_json(note, fix)
    if not isinstance(found, dict) or not {"texts", "models"} <= found.keys():
        raise UserError(f"{note}: is no note of `jaxaug levels`. {fix}")
