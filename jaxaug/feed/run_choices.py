"""Records the environment variables that determine a run's data, and compares them.

Otherwise a run that resumes in another shell or on another machine would silently train
on other data.
"""

import json
import os
import sys

from etils import epath
from jaxaug_base.files import absolute

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_json, write_text

NAME = "choices.json"
"""Name of the record in the run folder."""

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
"""Variables that determine the examples. The vocabulary is kept as a copy."""


def keep(folder: PathLike, begins: bool = False) -> None:
    """Records the choices of a new run, or checks a resumed run.

    A dry run records nothing. `begins` replaces the record of a failed start.

    Raises:
        UserError: the run was started with other choices.
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
            f"${name} was {noted.get(name) or 'unset'} and is "
            f"{now.get(name) or 'unset'}"
            for name in changed
        )
        raise UserError(
            f"{path.parent} was begun with other data: {shown}. Set what it was, train "
            f"in another MODEL_DIR, or, where the same data have moved, correct {path}."
        )


def has_begun(folder: PathLike) -> bool:
    """Returns whether a run has passed the checks before its first step."""
    root = epath.Path(folder)
    return (root / "config.gin").exists() or any(root.glob("checkpoint_*"))


def is_dry_run() -> bool:
    """Returns whether a T5X program in this process only checks its configuration."""
    flags = getattr(sys.modules.get("absl.flags"), "FLAGS", None)
    return flags is not None and "dry_run" in flags and bool(flags["dry_run"].value)


def read(folder: PathLike) -> dict[str, str]:
    """Returns the recorded choices in a run folder; empty if there are none.

    Raises:
        UserError: the record is damaged.
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
