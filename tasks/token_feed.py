"""Training data from token caches: a value for `train.get_dataset_fn` of T5X.

  train_script.train.get_dataset_fn = @token_feed.get_dataset
  token_feed.get_dataset.otherwise = @utils.get_dataset

An epoch has the examples of SeqIO's pipeline, in the order of `jaxaug.feed.order`.
Tasks of other packages, which have no token caches, come from SeqIO's pipeline.
"""

import functools
from collections.abc import Callable
from typing import Annotated, Any

from absl import logging

from jaxaug.core.errors import UserError
from jaxaug.core.typed import Range, check
from jaxaug.feed import lengths
from jaxaug.feed.batches import TokenBatches
from jaxaug.feed.order import Stage
from tasks import curriculum, dialogues

_LAYOUTS = {
    "seqio:EncDecFeatureConverter": "enc_dec",
    "seqio:PrefixLMFeatureConverter": "prefix_lm",
    "seqio:DecoderFeatureConverter": "prefix_lm",
}


def get_dataset(
    cfg: Any,
    shard_id: int,
    num_shards: int,
    feature_converter_cls: Callable[..., Any],
    num_epochs: int | None = None,
    continue_from_last_checkpoint: bool = False,
    *,
    otherwise: Callable[..., Any],
    wordings: Annotated[int, Range(1)] = 1,
) -> Any:
    """Returns the batches of one host.

    Args:
        cfg: a `t5x.utils.DatasetConfig`.
        shard_id: index of this host.
        num_shards: number of hosts that share the data.
        feature_converter_cls: feature converter of the model.
        num_epochs, continue_from_last_checkpoint: as in T5X.
        otherwise: called with the preceding arguments if the data has no token caches;
            a log line gives the reason.
        wordings: number of consecutive rows that hold the same examples under different
            schemas of a mixture (`configs/runs/consistency.gin`).

    Returns:
        `TokenBatches`, or the result of `otherwise`.

    Raises:
        UserError: the batch size is not divisible by the number of hosts, a task has no
            example, or several wordings are asked of data without them.
    """
    check({"wordings": wordings}, get_dataset, "token_feed.get_dataset")
    reason = why_not(cfg, feature_converter_cls)
    if wordings > 1 and (cfg.use_cached or reason):
        raise UserError(
            f"token_feed.get_dataset.wordings = {wordings} needs the token feed: "
            f"{reason or 'offline caches have one order of slots for each schema'}. "
            "Set USE_CACHED_TASKS = False, or leave out configs/runs/consistency.gin."
        )
    if reason is not None:
        logging.warning("Training data come from SeqIO's pipeline: %s.", reason)
        return curriculum.get_dataset(
            cfg,
            shard_id,
            num_shards,
            feature_converter_cls,
            num_epochs,
            continue_from_last_checkpoint,
            otherwise=otherwise,
        )
    tasks = names = _tasks(cfg)
    if wordings > 1:
        tasks = dialogues.aligned(tasks, cfg.split)
    for task in tasks:
        counts = task.token_counts(cfg.split, cfg.use_cached)
        lengths.report(counts, cfg.task_feature_lengths)
    made = TokenBatches(
        [task.examples(cfg.split, cfg.use_cached) for task in tasks],
        cfg.task_feature_lengths,
        cfg.batch_size,
        stages=_stages(cfg, names),
        seed=int(cfg.seed),
        shuffle=cfg.shuffle,
        pack=cfg.pack,
        layout=str(layout_of(_made(feature_converter_cls, cfg.pack))),
        shard=(shard_id, num_shards),
        num_epochs=num_epochs,
        wordings=wordings,
    )
    return made


get_dataset.counts_examples = True  # type: ignore[attr-defined]
get_dataset.find = dialogues.find  # type: ignore[attr-defined]


def why_not(cfg: Any, feature_converter_cls: Any) -> str | None:
    """Returns why the data needs SeqIO's pipeline, or None if it does not."""
    converter = _made(feature_converter_cls, cfg.pack)
    lengths = cfg.task_feature_lengths or {}
    asked = {
        f"features are made by {type(converter).__name__}": not layout_of(converter),
        "the loss is computed on inputs, too": not vars(converter).get(
            "_loss_on_targets_only", True
        ),
        "DatasetConfig.use_custom_packing_ops is set": cfg.use_custom_packing_ops,
        "DatasetConfig.trim_output_features is not set": not cfg.trim_output_features,
        "DatasetConfig.seed is None": cfg.seed is None,
        "lengths of inputs and targets are not both given": {*lengths}
        != {"inputs", "targets"}
        or not all(isinstance(length, int) for length in lengths.values()),
    }
    for reason, holds in asked.items():
        if holds:
            return reason
    try:
        found, tasks = source(cfg), _tasks(cfg)
    except (ValueError, KeyError):
        return f"{cfg.mixture_or_task_name!r} is not registered"
    if not tasks:
        return f"no task of {found.name} has the split {cfg.split}"
    return None if _found(cfg) else _why_not_in_seqio(found, tasks, cfg.split)


def _why_not_in_seqio(source: Any, tasks: list[Any], split: str) -> str | None:
    from jaxaug.curriculum.scheduled import ScheduledMixture
    from tasks.cached_task import CachedTask

    for task in tasks:
        if not isinstance(task, CachedTask) or not task.is_fed:
            return f"task {task.name} has preprocessors of its own"
    if not _has_known_rates(source):
        return f"mixture {source.name} has a sample_fn of its own"
    if isinstance(source, ScheduledMixture) and len(tasks) < len(source.tasks):
        return f"a task of {source.name} lacks the split {split}"
    return None


def _made(feature_converter_cls: Any, pack: bool) -> Any:
    """Returns a converter; or its class, if an attribute `kind` says what it makes."""
    if getattr(feature_converter_cls, "kind", None):
        return feature_converter_cls
    return feature_converter_cls(pack=pack)


def layout_of(converter: Any) -> str | None:
    """Returns the layout of a converter's features; None if SeqIO does not define it.

    Args:
        converter: a feature converter; or an object whose `kind` names a class of
            SeqIO, such as "seqio:EncDecFeatureConverter", which is then not imported.
    """
    cls = type(converter)
    kind = getattr(converter, "kind", None) or f"{cls.__module__}:{cls.__name__}"
    return _LAYOUTS.get(kind.replace("seqio.feature_converters:", "seqio:"))


def _has_known_rates(source: Any) -> bool:
    import seqio

    from jaxaug.curriculum.scheduled import ScheduledMixture

    if not isinstance(source, seqio.Mixture) or isinstance(source, ScheduledMixture):
        return True
    sample_fn = source._sample_fn
    plain = isinstance(sample_fn, functools.partial) and sample_fn.keywords == {
        "stop_on_empty_dataset": True
    }
    named = getattr(getattr(sample_fn, "func", None), "__name__", "")
    return plain and named == "sample_from_datasets"


def _found(cfg: Any) -> Any:
    """Returns the set or mixture that needs no SeqIO, or None."""
    if cfg.use_cached or cfg.module:
        return None
    return dialogues.find(cfg.mixture_or_task_name)


def source(cfg: Any) -> Any:
    """Returns the task or mixture of a `DatasetConfig`."""
    if (found := _found(cfg)) is not None:
        return found
    import seqio

    given = cfg.mixture_or_task_name
    return seqio.get_mixture_or_task(given) if isinstance(given, str) else given


def _tasks(cfg: Any) -> list[Any]:
    """Returns the tasks that have the split, in SeqIO's order."""
    given = source(cfg)
    tasks = getattr(given, "tasks", [given])
    return [task for task in tasks if cfg.split in task.splits]


def _stages(cfg: Any, tasks: list[Any]) -> list[Stage]:
    given = source(cfg)
    if hasattr(given, "stages"):
        return given.stages()
    rate_of = getattr(given, "get_rate", lambda task: 1.0)
    return [Stage(1, tuple(float(rate_of(task)) for task in tasks))]
