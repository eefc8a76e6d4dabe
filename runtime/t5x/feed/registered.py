"""Configured datasets, and the modules and SeqIO tasks that they name."""

import dataclasses
import difflib
import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import logging

from t5x import checks
from t5x.errors import UserError

AUTO = "auto"
"""Marks feature lengths that a program derives from its data.

See `start.feature_lengths`.
"""


@dataclasses.dataclass
class DatasetConfig:
    """Configuration of a dataset made from a SeqIO Task or Mixture.

    Attributes:
        mixture_or_task_name: registered name, or a Task or Mixture object. A custom
            `get_dataset_fn` may interpret the name differently.
        task_feature_lengths: maximum length of each feature in tokens. In gin files it
            may be 'auto', which the program replaces at startup.
        batch_size: examples in a global batch (over all processes).
        shuffle: whether the examples are shuffled.
        seed: seed of shuffling and of random preprocessors; None picks a new one.
        module: module to import first (preferably import it in the gin file).
        use_memory_cache: whether to keep evaluation examples in memory.
        trim_output_features: whether to cut features to `task_feature_lengths`.
        runtime_preprocessors: preprocessors for datasets that apply them at run time;
            SeqIO tasks have their own.
        num_prefetch_threads, num_workers: hints for custom `get_dataset_fn` functions.

    Raises:
        UserError: the batch size or a length is not a positive whole number.
    """

    mixture_or_task_name: Any
    task_feature_lengths: Any
    split: str
    batch_size: int
    shuffle: bool
    seed: int | None
    use_cached: bool = False
    pack: bool = False
    use_custom_packing_ops: bool = False
    module: str | None = None
    use_memory_cache: bool = True
    trim_output_features: bool = True
    runtime_preprocessors: Sequence[Any] | None = None
    num_prefetch_threads: int | None = None
    num_workers: int | None = 0

    def __post_init__(self) -> None:
        checks.whole_number("DatasetConfig.batch_size", self.batch_size, least=1)
        name, lengths = "DatasetConfig.task_feature_lengths", self.task_feature_lengths
        if lengths is None or lengths == AUTO:
            return
        if not isinstance(lengths, Mapping):
            raise UserError(
                f"{name} = {lengths!r}: give a length for each feature, such as "
                "{'inputs': 512, 'targets': 64}, 'auto' or None."
            )
        for feature, length in lengths.items():
            # SeqIO allows tuples for features with several axes, and None for any
            # length.
            if length is not None and not isinstance(length, (tuple, list)):
                checks.whole_number(f"{name}[{feature!r}]", length, least=1)

    @property
    def name(self) -> str:
        """Name of the task or mixture, also if an object is given."""
        given = self.mixture_or_task_name
        return given if isinstance(given, str) else getattr(given, "name", str(given))


def import_module(module: str) -> None:
    """Imports a module named in a configuration."""
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
