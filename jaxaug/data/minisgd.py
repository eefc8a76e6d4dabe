"""MiniSGD: a small generated data set in the layout of the SGD repository.

With it every command runs offline. It has 28 services with 205 descriptions of
services, intents, and slots. Two services occur only in dev and nine only in test.
Slots share values, so a tracker must read the descriptions. MiniSGD is not a benchmark.
`jaxaug_papers.minisgd` generates it in any size and packs `minisgd.tar.xz`.
"""

import functools
import hashlib
import tarfile
from pathlib import Path

from etils import epath

from jaxaug.core import cached, manifest
from jaxaug.core.files import PathLike

ARCHIVE = Path(__file__).with_suffix(".tar.xz")
"""Contains the folders `world` (MiniSGD) and `example` (of `jaxaug init`)."""
COMPLETE = "minisgd.json"
"""A file in each generated data set with its seed and its dialogues per split."""


def materialise(cache_dir: PathLike) -> epath.Path:
    """Returns the folder of MiniSGD in a cache folder; the first call unpacks it.

    The name of the folder contains the digest of the archive. Several processes may
    call this at the same time. Missing and changed files are replaced.

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
    """Returns the content of each file in a folder of the archive, by path."""
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
