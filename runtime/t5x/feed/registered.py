"""Imports configured modules and looks up the SeqIO tasks they register."""

import dataclasses
import difflib
import importlib
import inspect
import sys
from collections.abc import Callable
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


_REGISTERING: list[Callable[[], None]] = []


def when_used(register: Callable[[], None]) -> None:
    """Calls `register` whenever a program is about to look up tasks of SeqIO.

    A package can thus offer tasks without importing SeqIO itself.
    """
    _REGISTERING.append(register)


def names() -> set[str]:
    """Returns the names of all tasks and mixtures of SeqIO; imports it."""
    import seqio

    for register in _REGISTERING:
        register()
    return {*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names()}


def finder(reader: Any) -> Callable[[str], Any] | None:
    """Returns the attribute `find` of a `get_dataset_fn` or evaluator, or None.

    It is a function from a name to a task or mixture that needs no SeqIO, or to None.
    Such an object has `name`, `splits` or `tasks`, and `output_features`.
    """
    return getattr(inspect.unwrap(reader), "find", None) if reader else None


def find(cfg: DatasetConfig, reader: Any) -> Any | None:
    """Returns the task or mixture of a configuration; None if it is not registered.

    SeqIO is imported if `reader`, a `get_dataset_fn` or evaluator with a `finder`, does
    not know the name. If it has none and nothing has imported SeqIO, no task can be
    registered.
    """
    name, own = cfg.mixture_or_task_name, finder(reader)
    if isinstance(name, str) and not cfg.module:
        found = own(name) if own and not cfg.use_cached else None
        if found is not None:
            return found
        if not own and "seqio" not in sys.modules:
            return None
    try:
        return task_or_mixture(cfg)
    except UserError:
        return None  # A get_dataset_fn may interpret the name differently.


def resolved(cfg: DatasetConfig, reader: Any) -> DatasetConfig:
    """Returns `cfg` with the task or mixture itself, if it is found."""
    found = find(cfg, reader)
    if found is None:
        return cfg
    return dataclasses.replace(cfg, mixture_or_task_name=found)


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
    known = sorted(names())
    if given in known:
        import seqio

        return seqio.get_mixture_or_task(given)
    near = difflib.get_close_matches(given, known, n=3)
    if near:
        advice = f"Did you mean {' or '.join(map(repr, near))}?"
    elif known:
        advice = f"{len(known)} are registered, e.g. {known[0]!r}."
    else:
        advice = "None is registered: write `import my_tasks` in a gin file."
    raise UserError(f"No SeqIO task or mixture is named {given!r}. {advice}")
