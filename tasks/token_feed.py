"""Training data from tokenised caches, in SeqIO's order, without its pipeline.

    train_script.train.get_dataset_fn = @token_feed.get_dataset
    token_feed.get_dataset.otherwise = @utils.get_dataset

The batches are those of SeqIO to the bit (`jaxaug.feed.replay`), unless `open_rows` asks
for fuller ones (`jaxaug.feed.packing`). The pipeline that
makes them there, a graph of tf.data for each task, takes seconds to build, and its
threads compete with the steps of a small model.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import seqio
from absl import logging

from jaxaug.core.errors import UserError
from jaxaug.curriculum import mixture as curriculum
from jaxaug.feed import lengths, replay, streams, tokens
from jaxaug.feed.batches import known_to_clu
from jaxaug.feed.source import RecordSource
from tasks import dst
from tasks.curriculum import COUNTED, counted
from tasks.curriculum import get_dataset as seqio_batches
from tasks.hf_vocabulary import HFVocabulary


class _Tagged:
    """A stream of examples, each with the number of its cache."""

    def __init__(self, number: int, stream: Any):
        self._number, self._stream = number, stream
        self.state, self.restore = stream.state, stream.restore

    def __next__(self) -> tuple[int, int]:
        return self._number, next(self._stream)


def get_dataset(
    cfg: Any,
    shard_id: int,
    num_shards: int,
    feature_converter_cls: Callable[..., Any],
    num_epochs: int | None = None,
    continue_from_last_checkpoint: bool = False,
    *,
    otherwise: Callable[..., Any],
    open_rows: int = 1,
) -> Any:
    """Batches of one host: a value for `train.get_dataset_fn` of T5X.

    Args:
      cfg: a `t5x.utils.DatasetConfig`.
      shard_id: index of this host.
      num_shards: hosts that share the data.
      feature_converter_cls: of the model.
      num_epochs, continue_from_last_checkpoint: as in T5X.
      otherwise: called with the arguments before where these batches cannot be made
        from tokenised caches; a line in the log says why.
      open_rows: rows that packing chooses from for every example. With 1 one row after
        the other is filled, as SeqIO does; more leave less padding, so that as many
        examples need fewer rows.

    Returns:
      `jaxaug.feed.streams.StreamBatches`, or what `otherwise` returns.

    Raises:
      UserError: the batch does not divide by the number of hosts, or `open_rows` is no
        number of rows.
    """
    if not isinstance(open_rows, int) or isinstance(open_rows, bool) or open_rows < 1:
        raise UserError(
            f"token_feed.get_dataset.open_rows = {open_rows!r}: must be a whole number of "
            "rows, 1 for SeqIO's packing."
        )
    reason = why_not(cfg, num_shards, feature_converter_cls, num_epochs)
    if reason is None:
        cfg = counted(cfg, num_shards, lambda level: _count(level, open_rows))
    if reason is not None:
        fewer = cfg.pack and open_rows > 1
        logging.warning(
            "Training data come from SeqIO's pipeline: %s.%s",
            reason,
            f" It packs fewer examples into a row than open_rows = {open_rows} does: raise "
            "BATCH_SIZE by about a third."
            if fewer
            else "",
        )
        return seqio_batches(
            cfg,
            shard_id,
            num_shards,
            feature_converter_cls,
            num_epochs,
            continue_from_last_checkpoint,
            otherwise=otherwise,
        )
    if cfg.batch_size % num_shards:
        raise UserError(
            f"DatasetConfig.batch_size = {cfg.batch_size} does not divide by "
            f"{num_shards} hosts. Choose a multiple."
        )
    members = _tasks(cfg)
    caches = [_tokens(task, cfg) for task in members]
    stream = _stream(cfg, members, (shard_id, num_shards))
    source = _source(cfg)
    made = streams.StreamBatches(
        stream,
        caches,
        cfg.task_feature_lengths,
        cfg.batch_size // num_shards,
        cfg.pack,
        {
            "data": source.name,
            "seed": cfg.seed,
            "shuffle": cfg.shuffle,
            "shard": [shard_id, num_shards],
            "draws": _draws(source),
        },
        open_rows,
    )
    return known_to_clu(made)


get_dataset.counts_examples = True  # type: ignore[attr-defined]


def _count(cfg: Any, open_rows: int) -> float:
    """Examples in a row of packed batches."""
    members = _tasks(cfg)
    rows = streams.StreamBatches(
        _stream(cfg, members, (0, 1)),
        [_built(task, cfg) for task in members],
        cfg.task_feature_lengths,
        cfg.batch_size,
        cfg.pack,
        {},
        open_rows,
    )
    return rows.examples_per_row(COUNTED)


def why_not(
    cfg: Any,
    num_shards: int = 1,
    feature_converter_cls: Any = seqio.EncDecFeatureConverter,
    num_epochs: int | None = None,
) -> str | None:
    """Why these batches need SeqIO's pipeline, or None where they do not."""
    made = feature_converter_cls(pack=cfg.pack)
    lengths = cfg.task_feature_lengths or {}
    asked = {
        "its features are not those of an encoder-decoder": type(made)
        is not seqio.EncDecFeatureConverter,
        "DatasetConfig.use_cached is set": cfg.use_cached,
        "DatasetConfig.use_custom_packing_ops is set": cfg.use_custom_packing_ops,
        "DatasetConfig.trim_output_features is not set": not cfg.trim_output_features,
        "DatasetConfig.seed is None": cfg.seed is None,
        "lengths of inputs and targets are not both given": set(lengths)
        != {"inputs", "targets"},
        f"num_epochs is {num_epochs}": num_epochs is not None,
    }
    for reason, holds in asked.items():
        if holds:
            return reason
    try:
        source = _source(cfg)
        members = _tasks(cfg)
    except (ValueError, KeyError):
        return f"{cfg.mixture_or_task_name!r} is not registered"
    for task in members:
        if type(task) is not dst.DialogueTask:
            return f"task {task.name} is of another kind"
        if isinstance(task.output_features["inputs"].vocabulary.found, HFVocabulary):
            return f"task {task.name} has a vocabulary that is no SentencePiece model"
        if len(task.source.list_shards(cfg.split)) < num_shards:
            return f"task {task.name} has fewer files than there are hosts"
    if not members:
        return f"no task of {source.name} has the split {cfg.split}"
    if isinstance(source, seqio.Mixture) and _kind_of_draws(source) is None:
        return f"mixture {source.name} has a sample_fn of its own"
    return None


def _source(cfg: Any) -> Any:
    given = cfg.mixture_or_task_name
    return seqio.get_mixture_or_task(given) if isinstance(given, str) else given


def _tasks(cfg: Any) -> list[Any]:
    """The tasks that have the split, in SeqIO's order."""
    source = _source(cfg)
    tasks = source.tasks if isinstance(source, seqio.Mixture) else [source]
    return [task for task in tasks if cfg.split in task.splits]


def _built(task: Any, cfg: Any) -> Any:
    words = task.output_features["inputs"].vocabulary
    return tokens.build(task.source.cache(cfg.split), words.file)


def _tokens(task: Any, cfg: Any) -> Any:
    built = _built(task, cfg)
    lengths.report(task.token_counts(cfg.split), cfg.task_feature_lengths)
    return built


def _kind_of_draws(source: Any) -> Any:
    """The schedule of a curriculum, `()` for fixed rates, None for anything else."""
    sample_fn = source._sample_fn
    if scheduled := getattr(sample_fn, "scheduled", None):
        return scheduled
    plain = isinstance(sample_fn, functools.partial) and sample_fn.keywords == {
        "stop_on_empty_dataset": True
    }
    named = getattr(getattr(sample_fn, "func", None), "__name__", "")
    return () if plain and named == "sample_from_datasets" else None


def _draws(source: Any) -> Any:
    """What a saved position remembers of how tasks are drawn."""
    if not isinstance(source, seqio.Mixture):
        return []
    rates: Mapping[str, float] = {
        task.name: float(source.get_rate(task)) for task in source.tasks
    }
    found = _kind_of_draws(source)
    return [rates, [found.ends, found.weights, found.levels] if found else []]


def _stream(cfg: Any, members: list[Any], shard: tuple[int, int]) -> Any:
    seed = int(cfg.seed)
    made = []
    for number, task in enumerate(members):
        source = task.source
        assert isinstance(source, RecordSource)
        files = streams.lines_of(source.cache(cfg.split), shard)
        if not any(map(len, files)):
            raise UserError(
                f"task {task.name!r} has no example of split {cfg.split!r} to train on "
                f"(reader {shard[0] + 1} of {shard[1]}). Look at the data with `jaxaug data "
                "check` and `jaxaug tasks`: are there dialogues, and frames of users?"
            )
        file_seed = source.file_seed(cfg.split, seed)
        made.append(_Tagged(number, replay.task(files, cfg.shuffle, file_seed, seed)))
    mixture = _source(cfg)
    if not isinstance(mixture, seqio.Mixture):
        return made[0]
    rates = [float(mixture.get_rate(task)) for task in members]
    scheduled: curriculum.Scheduled | tuple[()] = _kind_of_draws(mixture)
    if not scheduled:
        return replay.Mixed(made, replay.Rates(rates, seed))
    levels = []
    for level in sorted(set(scheduled.levels)):
        of = [n for n, other in enumerate(scheduled.levels) if other == level]
        choices = replay.Rates([rates[n] for n in of], seed)
        levels.append(replay.Mixed([made[n] for n in of], choices))
    table = curriculum.level_logits(scheduled.weights)
    return replay.Mixed(levels, replay.Scheduled(scheduled.ends[:-1], table, seed))
