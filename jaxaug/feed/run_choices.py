"""What environment variables chose for a run: kept in its folder, compared later.

A run that goes on in another shell, or on another machine, would otherwise train on other
data without a word.
"""

import json
import os
import sys

from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_json, write_text
from jaxaug.core.paths import absolute

NAME = "choices.json"
"""Name of the notes in the folder of a run."""

_PATHS = (
    "JAXAUG_DATA_DIR",
    "JAXAUG_VARIANTS_DIR",
    "JAXAUG_TEXT_DIR",
    "JAXAUG_PERSONACHAT_DIR",
    "JAXAUG_PERSONACHAT_LEVELS",
    "JAXAUG_DEMONSTRATIONS",
)
VARIABLES = (
    *_PATHS,
    "JAXAUG_PERSONACHAT_SPLITS",
    "JAXAUG_PARAPHRASES",
    "JAXAUG_RENDERINGS",
    "JAXAUG_LEAVE_OUT",
)
"""Those that decide which examples there are. The vocabulary is kept whole."""


def keep(folder: PathLike, begins: bool = False) -> None:
    """Notes the choices of a run that begins, or compares those of one that goes on.

    A dry run notes nothing.

    Args:
      folder: of the run.
      begins: whether to replace the notes of a start that failed.

    Raises:
      UserError: the run was begun with other choices.
    """
    path = epath.Path(folder) / NAME
    now = {name: value for name in VARIABLES if (value := _resolved(name))}
    if begins or not path.exists():
        if not is_dry_run():
            write_text(path, json.dumps(now, indent=1) + "\n")
        return
    noted = read(folder)
    changed = [name for name in VARIABLES if noted.get(name) != now.get(name)]
    if changed:
        shown = "; ".join(
            f"${name} was {noted.get(name) or 'unset'} and is {now.get(name) or 'unset'}"
            for name in changed
        )
        raise UserError(
            f"{path.parent} was begun with other data: {shown}. Set what it was, train in "
            f"another MODEL_DIR, or, where the same data have moved, correct {path}."
        )


def has_begun(folder: PathLike) -> bool:
    """Whether a run has got further than the checks before its first step."""
    root = epath.Path(folder)
    return (root / "config.gin").exists() or any(root.glob("checkpoint_*"))


def is_dry_run() -> bool:
    """Whether a program of T5X in this process only checks its configuration."""
    flags = getattr(sys.modules.get("absl.flags"), "FLAGS", None)
    return flags is not None and "dry_run" in flags and bool(flags["dry_run"].value)


def read(folder: PathLike) -> dict[str, str]:
    """The choices that were noted in the folder of a run; empty where none were.

    Raises:
      UserError: the notes are damaged.
    """
    path = epath.Path(folder) / NAME
    if not path.exists():
        return {}
    fix = "Restore it from a copy of the run, or delete it to take those of today."
    noted = read_json(path, fix)
    if not isinstance(noted, dict):
        raise UserError(f"{path}: expected an object of variables and values. {fix}")
    return noted


def _resolved(name: str) -> str:
    value = os.environ.get(name, "")
    return os.fspath(absolute(value)) if value and name in _PATHS else value
