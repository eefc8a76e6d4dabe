"""Training data from token caches: a value for `train.get_dataset_fn` of T5X.

  train_script.train.get_dataset_fn = @token_feed.get_dataset
  token_feed.get_dataset.otherwise = @utils.get_dataset

`jaxaug.feed.order` defines the order of the examples. Sets that are not in
`jaxaug.feed.sets` come from SeqIO's pipeline.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from absl import logging

from jaxaug.core.errors import UserError
from jaxaug.core.typed import Range, check
from jaxaug.feed import lengths, sets
from jaxaug.feed.batches import TokenBatches
from jaxaug.feed.order import Stage
from tasks import dialogues

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
    """Returns `TokenBatches` of one host, or the result of `otherwise`.

    Args:
        cfg, shard_id, num_shards, feature_converter_cls: as in T5X.
        num_epochs, continue_from_last_checkpoint: as in T5X.
        otherwise: called with the preceding arguments if the data has no token caches;
            a log line gives the reason.
        wordings: number of consecutive rows that hold the same examples under different
            schemas of a mixture (`configs/runs/consistency.gin`).

    Raises:
        UserError: the batch size is not divisible by the number of hosts, a task has no
            example, or several wordings are asked of data without them.
    """
    check({"wordings": wordings}, get_dataset, "token_feed.get_dataset")
    reason = why_not(cfg, feature_converter_cls)
    if wordings > 1 and reason:
        raise UserError(
            f"token_feed.get_dataset.wordings = {wordings} needs the token feed: "
            f"{reason}. Change that, or leave out configs/runs/consistency.gin."
        )
    if reason is not None:
        logging.warning("Training data come from SeqIO's pipeline: %s.", reason)
        return otherwise(
            cfg,
            shard_id,
            num_shards,
            feature_converter_cls,
            num_epochs,
            continue_from_last_checkpoint,
        )
    found = sets.find(cfg.mixture_or_task_name)
    tasks = _tasks(found, cfg.split)
    stages = found.stages if isinstance(found, sets.Mixture) else ()
    if stages and len(tasks) < len(found.tasks):
        raise UserError(
            f"curriculum: only {len(tasks)} of the {len(found.tasks)} tasks of "
            f"{found.name} have the split {cfg.split!r}; every level needs it."
        )
    rates = getattr(found, "rates", {})
    stages = stages or [Stage(1, tuple(float(rates.get(t.name, 1)) for t in tasks))]
    if wordings > 1:
        tasks = dialogues.aligned(tasks, cfg.split)
    for task in tasks:
        lengths.report(task.token_counts(cfg.split), cfg.task_feature_lengths)
    return TokenBatches(
        [task.examples(cfg.split) for task in tasks],
        cfg.task_feature_lengths,
        cfg.batch_size,
        stages=stages,
        seed=int(cfg.seed),
        shuffle=cfg.shuffle,
        pack=cfg.pack,
        layout=str(layout_of(_made(feature_converter_cls, cfg.pack))),
        shard=(shard_id, num_shards),
        num_epochs=num_epochs,
        wordings=wordings,
    )


get_dataset.find = sets.find  # type: ignore[attr-defined]


def why_not(cfg: Any, feature_converter_cls: Any) -> str | None:
    """Returns why the data needs SeqIO's pipeline, or None if it does not."""
    converter = _made(feature_converter_cls, cfg.pack)
    lengths = cfg.task_feature_lengths or {}
    asked = {
        "DatasetConfig.use_cached is set": cfg.use_cached,
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
    if (found := sets.find(cfg.mixture_or_task_name)) is None:
        return f"{cfg.name!r} is no set of jaxaug.feed.sets"
    if not _tasks(found, cfg.split):
        return f"no task of {found.name} has the split {cfg.split}"
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


def _tasks(found: sets.Task | sets.Mixture, split: str) -> Sequence[sets.Task]:
    """Returns the tasks that have the split, in SeqIO's order."""
    return [task for task in found.tasks if split in task.splits]
