"""Feature lengths of a program: resolves 'auto', and refuses lengths that cut examples.

This applies to SeqIO tasks that know their token counts, such as jaxaug tasks. Such
a task has a method `token_counts(split, use_cached)` and two static methods:
`check_lengths(needs, accept_truncation, advice)`, where `needs` pairs token counts with
feature lengths, and `fitting_lengths(counts)`. The examples of other tasks are cut
silently, as in T5X.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import gin

from t5x.errors import UserError
from t5x.feed import registered
from t5x.feed.registered import AUTO, DatasetConfig
from t5x.logs.progress import announce

_PARAMETER = "task_feature_lengths"
READERS = "get_dataset_fn", "inference_evaluator_cls"
_MACRO = "gin.macro"


def arguments_of(
    configured: Callable[..., Any],
    wanted: Callable[[str], bool] = lambda name: True,
    with_data: bool = True,
    skipped: Callable[[Exception], bool] = lambda error: False,
) -> dict[str, Any]:
    """Returns the arguments that gin binds to a program, with 'auto' replaced.

    Args:
        with_data: whether the data can be read; if not, 'auto' stays.
        skipped: called with the error of an argument that cannot be created; returns
            whether to continue without it.

    Raises:
        UserError: 'auto' is given for tasks that do not know their token counts.
    """
    found = _resolved(configured, wanted, skipped)
    cfgs = _dataset_cfgs(found)
    auto = [cfg for cfg in cfgs if cfg.task_feature_lengths == AUTO]
    if not auto or not with_data:
        return found
    _replace_auto(auto, reader_of(found))
    return _resolved(configured, wanted, skipped)


def check(
    arguments: Mapping[str, Any],
    accept_truncation: bool,
    skipped: Callable[[Exception], bool] = lambda error: False,
) -> None:
    """Checks the feature lengths of all datasets of a program.

    Args:
        skipped: called with the error of a task whose examples cannot be counted;
            returns whether to continue without it.

    Raises:
        UserError: lengths cut more examples than the tasks allow.
    """
    counted = []
    reader = reader_of(arguments)
    for cfg in _dataset_cfgs(arguments):
        for task in _tasks(cfg, reader) if cfg.task_feature_lengths else ():
            try:
                counts = task.token_counts(cfg.split, cfg.use_cached)
            except Exception as error:
                if skipped(error):
                    continue
                raise
            counted.append((task.check_lengths, counts, cfg.task_feature_lengths))
    for checker in dict.fromkeys(checker for checker, _, _ in counted):
        needs = [(counts, lengths) for by, counts, lengths in counted if by is checker]
        checker(needs, accept_truncation, _advice())


def _resolved(
    configured: Callable[..., Any],
    wanted: Callable[[str], bool],
    skipped: Callable[[Exception], bool],
) -> dict[str, Any]:
    bindings = gin.get_bindings(configured, resolve_references=False)
    found = {}
    for name, value in bindings.items():
        # gin itself reports missing required values at the call.
        if wanted(name) and not _is_required(value):
            try:
                # Copying a reference evaluates it.
                found[name] = copy.deepcopy(value)
            except Exception as error:
                if not skipped(error):
                    raise
    return found


def _is_required(value: Any) -> bool:
    while (macro := _macro_of(value)) is not None:
        value = gin.config._CONFIG.get((macro, _MACRO), {}).get("value")
    return value is gin.REQUIRED or repr(value) == "%gin.REQUIRED"


def _dataset_cfgs(arguments: Mapping[str, Any]) -> list[DatasetConfig]:
    return [cfg for cfg in arguments.values() if isinstance(cfg, DatasetConfig)]


def reader_of(arguments: Mapping[str, Any]) -> Any:
    """Returns the first argument of the program that reads datasets, or None."""
    return next(filter(None, map(arguments.get, READERS)), None)


def _tasks(cfg: DatasetConfig, reader: Any) -> Iterator[Any]:
    """Yields the tasks of a dataset that have the split and know their token counts.

    `reader` is the `get_dataset_fn` or evaluator of the program, or None.
    """
    source = registered.find(cfg, reader)
    for task in getattr(source, "tasks", [source]):
        if hasattr(task, "token_counts") and cfg.split in task.splits:
            yield task


def _replace_auto(cfgs: Sequence[DatasetConfig], reader: Any) -> None:
    """Replaces 'auto' in the gin configuration with common lengths that cut nothing."""
    counts = []
    for cfg in cfgs:
        tasks = list(_tasks(cfg, reader))
        if not tasks:
            raise UserError(
                f"{_PARAMETER} = {AUTO!r} for {cfg.name!r} ({cfg.split}): no task of "
                f"it knows its token counts. Give lengths, such as "
                "{'inputs': 512, 'targets': 64}."
            )
        counts += [task.token_counts(cfg.split, cfg.use_cached) for task in tasks]
    fitting = tasks[0].fitting_lengths(counts)
    announce(f"feature lengths from the data: {fitting}")
    with gin.unlock_config():
        for values, name in _holders():
            if values[name] == AUTO:
                values[name] = fitting


def _holders() -> Iterator[tuple[dict[str, Any], str]]:
    """Yields (bindings, name) for each value of the parameter or its macros."""
    config = gin.config._CONFIG
    for values in config.values():
        name = _PARAMETER
        while name in values:
            yield values, name
            macro = _macro_of(values[name])
            values, name = config.get((macro, _MACRO), {}), "value"


def _macro_of(value: Any) -> str | None:
    """Returns the name of the macro that a value refers to, or None."""
    selector = getattr(value, "scoped_selector", "")
    scope, _, name = selector.rpartition("/")
    return scope if name == _MACRO else None


def _advice() -> str:
    """Returns advice on the lengths; `{}` stands for lengths that cut nothing."""
    config = gin.config._CONFIG
    macros = {_macro_of(values.get(_PARAMETER)) for values in config.values()} - {None}
    names = sorted(str(macro) for macro in macros) or [
        "/".join(filter(None, (scope, selector.rpartition(".")[2], ""))).rstrip("/")
        + f".{_PARAMETER}"
        for (scope, selector), values in config.items()
        if _PARAMETER in values
    ]
    flags = " ".join(f'--gin.{name}="{{0}}"' for name in names)
    auto = " ".join(f"--gin.{name}=\"'{AUTO}'\"" for name in names)
    return (
        f"{flags}\nor take them from the data:\n  {auto}\n"
        "--accept_truncation starts all the same."
    )
