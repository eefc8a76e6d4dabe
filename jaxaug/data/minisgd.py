"""MiniSGD: a small world of our own in the layout of the SGD repository.

It makes every command run offline. Of its 28 services, with 205 descriptions of services,
intents and slots, two occur only in dev and nine only in test; values are shared between
slots, so a tracker has to read the descriptions. It is no benchmark. `jaxaug_papers.minisgd`
generates it, in any size, and packs `minisgd.tar.xz`.
"""

import functools
import hashlib
import tarfile
from pathlib import Path

from etils import epath

from jaxaug.core import cached, manifest
from jaxaug.core.files import PathLike

ARCHIVE = Path(__file__).with_suffix(".tar.xz")
"""Holds the folder `world`, MiniSGD, and the folder `example`, of `jaxaug init`."""
COMPLETE = "minisgd.json"
"""A file of every world: its seed, and the number of dialogues of each split."""


def materialise(cache_dir: PathLike) -> epath.Path:
    """Returns MiniSGD in a cache folder, unpacked at the first call.

    The name of the folder holds the digest of the archive. Processes may do this at once.
    A file that is missing or is not what was written is replaced.

    Raises:
        UserError: the folder cannot be written (disk full, no permission).
    """
    folder = epath.Path(cache_dir) / f"minisgd-{_digest()}"
    if manifest.opened(folder) is None:
        cached.publish(folder, _write)
    return folder


def _write(folder: epath.Path) -> None:
    for name, data in unpacked("world").items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    manifest.write(folder)


def unpacked(folder: str) -> dict[str, bytes]:
    """Returns a map from returns path to content of the files in a folder of the archive."""
    found = {}
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is not None and member.name.startswith(f"{folder}/"):
                found[member.name.removeprefix(f"{folder}/")] = content.read()
    return found


@functools.cache
def _digest() -> str:
    return hashlib.sha256(ARCHIVE.read_bytes()).hexdigest()[:16]
