"""Folders and files of the cache: atomic, verified, and rebuilt if damaged."""

from collections.abc import Callable

from absl import logging
from etils import epath
from jaxaug_base.files import files_below, temporary_name

from jaxaug.core import manifest
from jaxaug.core.cache_folder import CACHE_DIR_VARIABLE
from jaxaug.core.errors import UserError


def publish(folder: epath.Path, write: Callable[[epath.Path], None]) -> None:
    """Publishes a folder: it appears complete or not at all.

    Several processes may publish the same folder at once; one of them wins. An existing
    folder is kept if it is complete. Otherwise its files are replaced one by one, the
    list last, so that concurrent readers of intact files always find them.

    Args:
        folder: folder to build; its content must be deterministic.
        write: fills the given temporary folder, and ends with `manifest.write`.

    Raises:
        UserError: the folder cannot be written.
    """
    try:
        _publish(folder, write)
    except OSError as error:
        raise UserError(
            f"cache {folder} cannot be made: {error}. Free disk space, or name a cache "
            f"folder that can be written with ${CACHE_DIR_VARIABLE}."
        ) from error


def _publish(folder: epath.Path, write: Callable[[epath.Path], None]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    logging.info("building the cache %s", folder)
    temporary = temporary_name(folder)
    temporary.mkdir()
    try:
        write(temporary)
        try:
            temporary.rename(folder)
        except OSError:
            if not manifest.is_whole(folder):
                _replace_files(folder, temporary)
    finally:
        temporary.rmtree(missing_ok=True)


def published_file(path: epath.Path, make: Callable[[], bytes]) -> epath.Path:
    """Returns a file whose folder's name determines it; builds it if needed."""

    def write(temporary: epath.Path) -> None:
        (temporary / path.name).write_bytes(make())
        manifest.write(temporary)

    if manifest.opened(path.parent) is None:
        publish(path.parent, write)
    return path


def _replace_files(folder: epath.Path, source: epath.Path) -> None:
    if folder.exists() and not folder.is_dir():
        folder.unlink()
    folder.mkdir(exist_ok=True)
    names = {*files_below(source)} - {manifest.NAME}
    for name in [*sorted(names), manifest.NAME]:
        target = folder / name
        if target.is_dir():
            target.rmtree()
        target.parent.mkdir(parents=True, exist_ok=True)
        (source / name).replace(target)
