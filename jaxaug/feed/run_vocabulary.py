"""The vocabulary of a run: a copy in its folder, which all programs read.

A model works only with the ids it was trained with. The default vocabulary is built
from the data folder, which may change or disappear. Training therefore copies the model
file into the run folder, and programs that load the run read the copy.
"""

import copy
import json
import os
import re
import sys
from collections.abc import Callable
from typing import Any

from absl import logging
from etils import epath
from jaxaug_base.files import absolute

from jaxaug.core.digests import file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_bytes, read_json, write_bytes, write_text
from jaxaug.feed import run_choices

NAME = "vocabulary.model"
"""Name of the copy in the run folder."""

NOTES = "vocabulary.json"
"""Name of the note next to the copy, with its digest and source."""

# File types of tokenizers that are published with their models and found by name.
_PUBLISHED = (".json", ".gguf")
_CONFIG = "config.gin"
_CHECKPOINT = re.compile(r"checkpoint_\d+")


def of_run(folder: PathLike) -> epath.Path | None:
    """Returns the copy in a run folder; None for an older run without a copy.

    Args:
        folder: folder of the run, or one of its checkpoints.

    Raises:
        UserError: the copy has changed, or a checkpoint was trained with another
            vocabulary.
    """
    root = _root(folder)
    path = root / NAME
    if not path.exists():
        return None
    written = _noted(root / NOTES, f"It belongs to {path}: restore both.")
    if (found := file_digest(path)) != written:
        raise UserError(
            f"{path} has digest {found}, but the run was trained with {written} "
            f"({root / NOTES}): with other ids its checkpoints are worthless. Restore "
            "the file from a copy of the run."
        )
    _check_checkpoints(epath.Path(folder), path, written)
    return path


def _noted(notes: epath.Path, fix: str) -> str | None:
    found = read_json(notes, fix)
    return found.get("digest") if isinstance(found, dict) else None


def _check_checkpoints(
    folder: epath.Path, path: epath.Path, digest: str | None
) -> None:
    """Compares the digest in the notes of checkpoints with the copy."""
    pattern = NOTES if _CHECKPOINT.fullmatch(folder.name) else f"checkpoint_*/{NOTES}"
    for notes in sorted(folder.glob(pattern)):
        if (other := _noted(notes, "Restore the checkpoint from a copy.")) != digest:
            raise UserError(
                f"{notes.parent} was trained with the vocabulary of digest {other}, "
                f"and {path} has {digest}: with other ids it is worthless. Move it "
                "back to the run that it came from."
            )


def is_older(folder: PathLike) -> bool:
    """Returns whether a folder holds an older run without a copy."""
    root = _root(folder)
    return (root / _CONFIG).exists() and not (root / NAME).exists()


def keep(folder: PathLike, path: PathLike) -> epath.Path:
    """Copies a model file into the folder of a run; returns the copy."""
    root = epath.Path(folder)
    notes = {"digest": file_digest(path), "source": os.fspath(path)}
    write_text(root / NOTES, json.dumps(notes, indent=1) + "\n")
    write_bytes(root / NAME, read_bytes(path, "Name another vocabulary."))
    return root / NAME


def owned(named: str, find: Callable[[bool], str]) -> str:
    """Returns the model file that the program must use.

    Inside a T5X program, it is the copy of the run that the program trains or restores.
    A new run gets its copy here, unless this is a dry run. The copy is made from the
    named file, else from the vocabulary of the run that it starts from, else from the
    default. Outside of a T5X program, the result is the named file or the default.

    Args:
        named: file named by the user, or an empty string.
        find: returns the default file, and builds it if missing; called with whether
            the run is an older one without a copy.

    Raises:
        UserError: the run has another vocabulary than the named one, or was started
            with other data (`run_choices.keep`).
    """
    trained, restored = _trained_folder(), _restored_folder()
    # Before the first step there are only the notes and the copy of a failed start.
    begun = trained is not None and run_choices.has_begun(trained)
    if trained:
        run_choices.keep(trained, begins=not begun)
    if named.endswith(_PUBLISHED):
        return named
    own = of_run(trained) if trained and begun else None
    if own is None and restored and not (trained and named):
        own = of_run(restored)
    if own is not None and named:
        _check_same(own, named)
    if own is not None:
        logging.info("The vocabulary is that of the run: %s.", own)
        path = os.fspath(own)
    else:
        runs = [folder for folder in (trained, restored) if folder]
        path = named or find(any(map(is_older, runs)))
    if trained and own != trained / NAME and not run_choices.is_dry_run():
        path = os.fspath(keep(trained, path))
    return path


def _check_same(own: epath.Path, named: str) -> None:
    given = epath.Path(named)
    if not given.exists():
        logging.warning("%s is not there; the run's own %s is used.", named, own)
        return
    if (found := file_digest(given)) != (kept := file_digest(own)):
        raise UserError(
            f"the run was trained with the vocabulary {own} (digest {kept}), and "
            f"{named} is another one (digest {found}). Name no vocabulary, neither "
            "with $JAXAUG_VOCABULARY nor with vocabulary.default_vocabulary.path, to "
            "use that of the run, or train in another MODEL_DIR."
        )


def _root(folder: PathLike) -> epath.Path:
    path = epath.Path(folder)
    return path.parent if _CHECKPOINT.fullmatch(path.name) else path


def _trained_folder() -> epath.Path | None:
    """Returns `model_dir` of the training program in this process, or None."""
    found = _bound("train", "model_dir")
    return _as_folder(found)


def _restored_folder() -> epath.Path | None:
    """Returns the run whose checkpoint this process restores, or None."""
    found = _bound("RestoreCheckpointConfig", "path")
    if isinstance(found, list | tuple):
        found = found[0] if found else None
    path = _as_folder(found)
    return _root(path) if path else None


def _as_folder(value: Any) -> epath.Path | None:
    if isinstance(value, str | os.PathLike) and os.fspath(value):
        return absolute(value)
    return None


def _bound(name: str, parameter: str) -> Any:
    """Returns the gin binding of a program's parameter; None outside of a program."""
    gin = sys.modules.get("gin")
    if gin is None:
        return None
    try:
        bindings = gin.get_bindings(name, resolve_references=False)
        # Resolves only this reference.
        return copy.deepcopy(bindings.get(parameter))
    # The program does not exist here, or the gin file leaves the parameter open.
    except ValueError:
        return None
