"""Checkpoint folders: names, layouts, completeness, and saves that fail.

A checkpoint of step N is the folder `checkpoint_N`. There are two layouts:

- orbax: `state/_METADATA` (pytree) and `dataset/` (data iterator);
- legacy, of the public T5X checkpoints, which is only read: a msgpack file `checkpoint`
  next to one zarr folder per array.

Folders without the file that is written last come from an interrupted save and are
never returned.
"""

import contextlib
import dataclasses
import errno
import functools
import logging as std_logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal

import gin
import jaxaug_base.errors
from absl import logging
from etils import epath
from jaxaug_base.files import FULL, absolute, check_ordinary

from t5x import digests
from t5x.errors import UserError

Layout = Literal["orbax", "legacy"]
LEGACY_FILE = "checkpoint"
STATE = "state"
DATASET = "dataset"
PINNED = "PINNED"
_ORBAX_FILE = "_METADATA"
# Files that are copied next to the weights: the weights are useless without their
# vocabulary, so its digest is kept with them.
_NOTES = ("vocabulary.json",)


@gin.configurable(module="t5x.checkpoints")
def get_checkpoint_prefix(prefix: str = "checkpoint") -> str:
    """Returns the prefix of the folder names; bind its argument in gin to change it."""
    return prefix


def get_checkpoint_dir(
    checkpoints_dir: epath.PathLike,
    step: int,
    step_format_fixed_length: int | None = None,
) -> str:
    """Returns the folder of one step; `step_format_fixed_length` pads its number."""
    number = str(step).zfill(step_format_fixed_length or 0)
    return os.path.join(
        os.fspath(checkpoints_dir), f"{get_checkpoint_prefix()}_{number}"
    )


def step_of(path: epath.PathLike) -> int | None:
    """Returns the step in the last component of `path`, or None."""
    name = os.path.basename(os.path.normpath(os.fspath(path)))
    match = re.fullmatch(re.escape(get_checkpoint_prefix()) + r"_(\d+)", name)
    return int(match.group(1)) if match else None


def copy_notes(directory: epath.PathLike, step_dir: epath.PathLike) -> None:
    """Copies the notes in the run folder `directory` into a new checkpoint."""
    for name in _NOTES:
        note = epath.Path(directory) / name
        if note.exists():
            (epath.Path(step_dir) / name).write_bytes(note.read_bytes())


def is_pinned(step_dir: epath.PathLike) -> bool:
    """Returns whether a file PINNED protects the checkpoint from deletion."""
    return (epath.Path(step_dir) / PINNED).exists()


def layout_of(path: epath.PathLike) -> Layout | None:
    """Returns the layout of one complete checkpoint; None if none is at `path`."""
    path = epath.Path(path)
    if path.is_file():
        return "legacy" if path.name == LEGACY_FILE else None
    if _orbax_state_dir(path) is not None:
        return "orbax"
    if _legacy_file(path) is not None:
        return "legacy"
    return None


def _orbax_state_dir(path: epath.Path) -> epath.Path | None:
    nested = path / STATE
    if (nested / _ORBAX_FILE).exists():
        # Object stores have no atomic rename, so orbax marks finished checkpoints.
        on_store = os.fspath(path).startswith("gs:/")
        if on_store and not (path / "commit_success.txt").exists():
            return None
        return nested
    return path if (path / _ORBAX_FILE).exists() else None


def _legacy_file(path: epath.Path) -> epath.Path | None:
    for candidate in (path / LEGACY_FILE, path / STATE / LEGACY_FILE):
        if candidate.is_file() and not _is_tf_state_file(candidate):
            return candidate
    return None


def _is_tf_state_file(path: epath.Path) -> bool:
    """Returns whether a file named `checkpoint` is TensorFlow's list of checkpoints."""
    try:
        check_ordinary(path)
    except OSError as error:
        raise UserError(
            f"{path}: {error.strerror}. Copy the checkpoint again from where it came "
            f"from."
        ) from None
    with path.open("rb") as f:
        return f.read(22) == b"model_checkpoint_path:"


def refuse_tensorflow(path: epath.PathLike) -> None:
    """Raises UserError for a Mesh TensorFlow checkpoint, or a folder of some."""
    list_of_all = epath.Path(path) / LEGACY_FILE
    if epath.Path(f"{os.fspath(path)}.index").exists() or (
        list_of_all.is_file() and _is_tf_state_file(list_of_all)
    ):
        raise UserError(
            f"{path} is a TensorFlow checkpoint, which is not read. Use the T5X "
            "checkpoint of the same model (gs://t5-data/pretrained_models/t5x), or "
            "convert it with convert_tf_checkpoint of upstream T5X."
        )


def all_steps(checkpoints_dir: epath.PathLike) -> list[int]:
    """Returns the steps of the complete checkpoints in a folder, ascending.

    Incomplete folders are skipped with a warning.
    """
    steps = set()
    for path in _step_folders(checkpoints_dir):
        if layout_of(path) is None:
            logging.warning("Ignoring incomplete checkpoint folder %s.", path)
        else:
            steps.add(int(path.name.rpartition("_")[2]))
    return sorted(steps)


def _step_folders(checkpoints_dir: epath.PathLike) -> Iterator[epath.Path]:
    paths = epath.Path(checkpoints_dir).glob(f"{get_checkpoint_prefix()}_*")
    return (path for path in paths if step_of(path) is not None)


def latest_step(checkpoints_dir: epath.PathLike) -> int | None:
    """Returns the newest step of `all_steps`, or None."""
    steps = all_steps(checkpoints_dir)
    return steps[-1] if steps else None


def all_dataset_checkpoint_steps(checkpoints_dir: epath.PathLike) -> list[int]:
    """Returns the steps whose checkpoint also holds a data iterator, ascending."""
    return [
        step
        for step in all_steps(checkpoints_dir)
        if dataset_files(get_checkpoint_dir(checkpoints_dir, step))
    ]


def dataset_files(step_dir: epath.PathLike) -> list[epath.Path]:
    """Returns the files that hold data iterators, in either layout."""
    root = epath.Path(step_dir)
    found: list[epath.Path] = []
    for folder in (root, root / DATASET, *(root / DATASET).glob("process_*-of-*")):
        found += folder.glob("train_ds-*")
    return sorted(found)


def remove_dataset_files(step_dir: epath.PathLike) -> None:
    """Deletes the data iterators of a checkpoint, unless it is pinned."""
    if is_pinned(step_dir):
        return
    digests.forget(step_dir, digests.is_data_position)
    for path in dataset_files(step_dir):
        if path.is_dir():
            path.rmtree()
        else:
            path.unlink()


def set_aside_incomplete(checkpoints_dir: epath.PathLike) -> None:
    """Renames incomplete `checkpoint_N` folders, so that step N can be saved."""
    for path in _step_folders(checkpoints_dir):
        aside = path.parent / f"{path.name}.incomplete"
        if layout_of(path) is None and not aside.exists():
            path.rename(aside)
            logging.warning("Moved incomplete checkpoint %s to %s.", path, aside)


@dataclasses.dataclass(frozen=True)
class CheckpointLocation:
    """One checkpoint on disk."""

    layout: Layout
    root: epath.Path
    state: epath.Path


def locate(path: epath.PathLike, step: int | None = None) -> CheckpointLocation:
    """Finds the checkpoint that a user path refers to.

    Args:
        path: a model folder (its newest checkpoint, or the one of `step`), a
            `checkpoint_N` folder, or its msgpack file or state folder.
        step: step to take from a model folder.

    Raises:
        UserError: there is no complete checkpoint, or it is one of TensorFlow.
    """
    root = absolute(path)
    if layout_of(root) is None and root.is_dir():
        found = all_steps(root)
        chosen = step if step is not None else (found[-1] if found else None)
        if step is not None and step not in found:
            raise UserError(
                f"No complete checkpoint of step {step} in {root}: it has steps "
                f"{found}."
            )
        if chosen is not None:
            root = epath.Path(get_checkpoint_dir(root, chosen))
    layout = layout_of(root)
    if layout == "orbax":
        state = _orbax_state_dir(root)
        assert state is not None
        return CheckpointLocation(
            "orbax", root if state != root else root.parent, state
        )
    if layout == "legacy":
        file = root if root.is_file() else _legacy_file(root)
        assert file is not None
        return CheckpointLocation("legacy", file.parent if root == file else root, file)
    refuse_tensorflow(root)
    if not root.exists():
        raise UserError(
            f"Path is not a valid checkpoint: {root} does not exist. Give a model "
            "folder or a checkpoint_N folder."
        )
    raise UserError(
        f"Path is not a valid checkpoint: {root} holds neither state/_METADATA (orbax) "
        "nor a msgpack file named 'checkpoint' (legacy T5X), so it is not a checkpoint "
        "or its save was interrupted. Use another step."
    )


def find_checkpoint(path: epath.PathLike, step: int | None = None) -> str:
    """Returns the path of the msgpack file (legacy) or the folder (orbax)."""
    where = locate(path, step)
    return os.fspath(where.state if where.layout == "legacy" else where.root)


_ERRNOS = {*FULL, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO}
# TensorStore reports the operating system's message inside a ValueError.
_TEXT = re.compile(
    r"No space left on device|Disk quota exceeded|File too large"
    r"|Read-only file system|Permission denied|Input/output error"
)


def _causes(error: BaseException) -> Iterator[BaseException]:
    pending, seen = [error], set()
    while pending:
        e = pending.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        yield e
        if isinstance(e, BaseExceptionGroup):
            pending += e.exceptions
        pending += [x for x in (e.__cause__, e.__context__) if x is not None]


def file_system_reason(error: BaseException) -> str | None:
    """Returns the file system's message if it caused `error`, else None."""
    for e in _causes(error):
        if isinstance(e, OSError) and e.errno in _ERRNOS:
            return e.strerror or str(e)
        match = _TEXT.search(str(e))
        if match:
            return match.group(0)
    return None


@contextlib.contextmanager
def clear_save_errors(
    folder: epath.PathLike, clean_up: Callable[[], None]
) -> Iterator[None]:
    """Turns file-system failures of a save in `folder` into one UserError.

    `clean_up` removes the unfinished checkpoint after any failure.
    """
    try:
        yield
    except Exception as e:
        with contextlib.suppress(OSError):
            clean_up()
        reason = file_system_reason(e)
        if reason is None or isinstance(e, jaxaug_base.errors.UserError):
            raise
        raise UserError(
            f"Cannot save a checkpoint in {folder}: {reason}. {_intact(folder)} Free "
            "space there (SaveCheckpointConfig.keep bounds the number of checkpoints) "
            "or use another MODEL_DIR, then run the same command again."
        ) from e


def _intact(folder: epath.PathLike) -> str:
    try:
        steps = all_steps(folder)
    except OSError:
        steps = []
    if not steps:
        return "There was no earlier checkpoint."
    return f"The checkpoint of step {steps[-1]} is intact."


def _is_news(record: std_logging.LogRecord) -> bool:
    """Returns False for a note of orbax, and for its errors, which are raised too."""
    if "/orbax/" not in record.pathname:
        return True
    is_error = record.levelno >= std_logging.ERROR
    return not is_error and "Metadata file does not exist" not in record.getMessage()


def _tells_more(record: std_logging.LogRecord) -> bool:
    """Returns False for asyncio's logs of writes that fail after the first one.

    orbax awaits all writes and raises the first error only.
    """
    error = record.exc_info[1] if record.exc_info else None
    return error is None or file_system_reason(error) is None


@functools.cache
def quieten_orbax() -> None:
    """Installs the filters on the loggers of absl and asyncio once."""
    std_logging.getLogger("absl").addFilter(_is_news)
    std_logging.getLogger("asyncio").addFilter(_tells_more)
    report = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        # Pending reads and writes report to the event loop that orbax has already
        # closed.
        if str(unraisable.exc_value) != "Event loop is closed":
            report(unraisable)

    sys.unraisablehook = hook


def remove_tree(path: epath.Path, attempts: int = 50) -> None:
    """Deletes a folder into which other threads may still be writing."""
    for _ in range(attempts):
        with contextlib.suppress(OSError):
            path.rmtree()
        time.sleep(0.1)
        if not path.exists():
            return
