"""Repositories of the Hugging Face hub, pinned at their first download."""

import functools
from collections.abc import Callable, Sequence

from etils import epath

from jaxaug.core import pins
from jaxaug.core.errors import UserError
from jaxaug.core.installed import missing_extra

PREFIX = "hf:"
"""Marks a name of the hub: `hf:OWNER/NAME`."""
OFFLINE_VARIABLE = "JAXAUG_OFFLINE"
"""If set, models and data are downloaded only on request; `--offline` sets it."""


def fetch(
    hub_id: str,
    revision: str,
    target: epath.Path,
    patterns: Sequence[Sequence[str]],
    download: Callable[..., str] | None = None,
    **options: str,
) -> epath.Path:
    """Downloads files of a repository into `target`, or verifies existing ones.

    `jaxaug_source.json` records hub id, commit, and digests. It is written last, so a
    folder without it is fetched again. A branch always means its commit at the first
    download; see `pins`.

    Args:
        hub_id: owner and name.
        revision: branch, tag, or commit.
        target: folder to write.
        patterns: alternatives, each a list of name patterns. The first one whose last
            pattern fits a file is taken, else the last one.
        download: replacement of `huggingface_hub.snapshot_download`.
        **options: further arguments of it, such as `repo_type`.

    Raises:
        UserError: the extra is not installed, there is no network, the id is unknown,
            or the files differ from the first download.
    """
    if (target / pins.NOTE).exists():
        pins.verify(target)
        return target
    lock_file = target.parent / pins.LOCK
    locked = pins.locked(lock_file, hub_id)
    asked, revision = revision, locked["commit"] if locked else revision
    download = functools.partial(download or _downloader(hub_id), hub_id, **options)
    try:
        # The first download goes into the cache of the hub and reveals the commit. The
        # second one goes into the folder.
        for chosen in patterns:
            snapshot = download(revision=revision, allow_patterns=chosen)
            if any(epath.Path(snapshot).glob(chosen[-1])):
                break
        commit = epath.Path(snapshot).name
        download(revision=commit, allow_patterns=chosen, local_dir=str(target))
    except (OSError, ValueError, RuntimeError) as error:
        # The hub client has no common error class; its errors derive from these.
        raise UserError(_message(hub_id, target, error)) from None
    files = pins.digests(target)
    if locked:
        pins.check_locked(locked, lock_file, hub_id, files)
    else:
        pins.lock(lock_file, hub_id, commit, files)
    pins.note(target, source=hub_id, revision=asked, commit=commit, sha256=files)
    return target


def _downloader(hub_id: str) -> Callable[..., str]:
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise missing_extra(
            f"{hub_id} is on the Hugging Face hub, whose client (huggingface-hub) is "
            "not installed",
            "huggingface_hub",
        ) from None
    return snapshot_download


def _message(hub_id: str, target: epath.Path, error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return (
        f"{hub_id} cannot be downloaded from the Hugging Face hub: "
        f"{lines[0] if lines else type(error).__name__} Check the name and the "
        "network. Without one: download the files on another machine, put them into "
        f"{target} and name that folder instead."
    )
