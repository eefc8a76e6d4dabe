"""Config files of jaxaug's own programs: Python with `get_config()`."""

import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import ml_collections
from etils import epath

from jaxaug.core import bundled
from jaxaug.core.errors import UserError
from jaxaug.core.files import read_bytes, shown

_T = TypeVar("_T")


def read(path: str, examples: str) -> tuple[dict[str, Any], str]:
    """Returns the fields of a config file, and the name of the file.

    Args:
        path: `file.py`, or `file.py:TEXT`; the text is the argument of `get_config`.
            Files that the current folder lacks are looked up in installed packages,
            like gin files.

    Raises:
        UserError: the file is missing, unreadable, or without `get_config`, or
            `get_config` does not accept the argument.
    """
    fix = (
        f"Name a Python file with a function get_config(), such as those in {examples}."
    )
    name, colon, argument = path.partition(".py:")
    file = _found(epath.Path(f"{name}.py" if colon else name))
    if file.suffix != ".py" or not file.exists():
        raise UserError(f"--config {path}: no such file. {fix}")
    get_config = getattr(_module(file), "get_config", None)
    if not callable(get_config):
        raise UserError(f"--config {file}: has no function get_config(). {fix}")
    given = (argument,) if argument else ()
    takes = (get_config.__doc__ or "").strip()
    try:
        inspect.signature(get_config).bind(*given)
    except TypeError:
        problem = "takes no text behind a colon" if given else "needs a text"
        raise UserError(f"--config {path}: {problem}. {takes}") from None
    try:
        found = get_config(*given)
    except (KeyError, ValueError) as error:
        if not given:
            raise
        raise UserError(
            f"--config {path}: {argument!r} does not fit ({error!r}). {takes}"
        ) from None
    try:
        return fields_of(found), str(file)
    except UserError as error:
        raise UserError(f"--config {file}: {error}") from None


def load(path: str, examples: str, of: Callable[[Mapping[str, Any]], _T]) -> _T:
    """Returns `of(fields)` for the fields of a config file; see `read`.

    Raises:
        UserError: as for `read`, or from `of`, with the name of the file.
    """
    fields, file = read(path, examples)
    try:
        return of(fields)
    except UserError as error:
        raise UserError(f"--config {file}: {error}") from None


def included(file: str, path: str) -> ml_collections.ConfigDict:
    """Returns the config of a file in the folder of another config.

    Args:
        file: `__file__` of the other config.
        path: `file.py`, or `file.py:TEXT`, without a folder.

    Raises:
        UserError: see `read`.
    """
    fields, _ = read(str(epath.Path(file).parent / path), "configs")
    return ml_collections.ConfigDict(fields)


def fields_of(config: ml_collections.ConfigDict | Any) -> dict[str, Any]:
    """Returns a ConfigDict or mapping as a dictionary; raises `UserError` otherwise."""
    if isinstance(config, ml_collections.ConfigDict):
        config = config.to_dict()
    if not isinstance(config, Mapping) or not all(isinstance(n, str) for n in config):
        raise UserError(
            f"{shown(config)} is no ConfigDict and no mapping of fields. Return one "
            "from get_config()."
        )
    return dict(config)


def _found(file: epath.Path) -> epath.Path:
    if file.is_absolute() or file.exists():
        return file
    places = (epath.Path(one) / file for one in bundled.folders_of_configs())
    return next((place for place in places if place.exists()), file)


def _module(file: epath.Path) -> types.ModuleType:
    # Python's own loaders cannot read gs://.
    module = types.ModuleType("jaxaug_config")
    module.__file__ = str(file)
    try:
        code = compile(
            read_bytes(file, "Name a Python file with --config."), str(file), "exec"
        )
        exec(code, module.__dict__)  # noqa: S102 (a config is a program)
    except (SyntaxError, ImportError) as error:
        raise UserError(f"--config {file}: cannot be read: {error}.") from error
    return module
