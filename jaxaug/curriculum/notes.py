"""The note next to a file of levels, `<out>.json`: its origin and digest."""

import json
from collections.abc import Mapping
from typing import Any

from etils import epath

from jaxaug.core.digests import file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import read_json

# Options whose values are names; the note records the identity of the named thing.
_NAMES = ("model", "prompt", "similarity", "implication")


def check_same(out: epath.Path, note: epath.Path, made_of: Mapping[str, Any]) -> None:
    """Compares a finished file with the output of this run.

    Args:
        out: file of levels.
        note: note of the file.
        made_of: origin of this run, in the form of the note.

    Raises:
        UserError: `out` is not a file of levels, has another origin, or has changed.
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
    """Checks that a note without a file comes from an interrupted `jaxaug levels`.

    Raises:
        UserError: the note was not written by `jaxaug levels`.
    """
    fix = f"Name another --out: beside {out} its note would be written there."
    found = read_json(note, fix)
    if not isinstance(found, dict) or not {"texts", "models"} <= found.keys():
        raise UserError(f"{note}: is no note of `jaxaug levels`. {fix}")
