"""Imports configured modules and looks up the SeqIO tasks they register."""

import difflib
import importlib
import inspect
import sys
from typing import Any

from absl import logging

from t5x.errors import UserError
from t5x.feed.data_config import DatasetConfig


def import_module(module: str) -> None:
    """Imports a module named in a configuration.

    Raises:
        UserError: the module does not exist, or it defines gin configurables after the
            gin configuration was locked.
    """
    logging.info("Importing %s.", module)
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise UserError(
            f"DatasetConfig.module = {module!r}: no module named {error.name!r}; "
            f"correct the name or put its folder on PYTHONPATH."
        ) from error
    except RuntimeError as error:
        if "config was locked" not in str(error):
            raise
        raise UserError(
            f"DatasetConfig.module = {module!r} defines gin configurables, and the gin "
            f"configuration is already locked; write `import {module}` in a gin file."
        ) from error


def may_be_registered() -> bool:
    """Returns whether tasks are registered, or will be when SeqIO is imported.

    A package may put off its registration with an import finder that has the attribute
    `registers_with` = "seqio".
    """
    return "seqio" in sys.modules or any(
        getattr(finder, "registers_with", "") == "seqio" for finder in sys.meta_path
    )


def without_seqio(cfg: DatasetConfig, get_dataset_fn: Any) -> Any | None:
    """Returns the task or mixture that a `get_dataset_fn` knows without SeqIO, or None.

    Such a function has an attribute `find`, a function from a name to an object with
    `name`, `splits`, `output_features`, and `tasks`, or to None.
    """
    if get_dataset_fn is None:
        return None
    find = getattr(inspect.unwrap(get_dataset_fn), "find", None)
    name = cfg.mixture_or_task_name
    if find is None or cfg.use_cached or cfg.module or not isinstance(name, str):
        return None
    return find(name)


def task_or_mixture(cfg: DatasetConfig) -> Any:
    """Returns the SeqIO Task or Mixture of a configuration.

    Raises:
        UserError: no task or mixture has that name; the message suggests similar names.
    """
    if cfg.module:
        import_module(cfg.module)
    given = cfg.mixture_or_task_name
    if not isinstance(given, str):
        return given
    import seqio

    known = sorted({*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names()})
    if given in known:
        return seqio.get_mixture_or_task(given)
    near = difflib.get_close_matches(given, known, n=3)
    if near:
        advice = f"Did you mean {' or '.join(map(repr, near))}?"
    elif known:
        advice = f"{len(known)} are registered, e.g. {known[0]!r}."
    else:
        advice = "None is registered: write `import my_tasks` in a gin file."
    raise UserError(f"No SeqIO task or mixture is named {given!r}. {advice}")
