"""Registration of the dialogue state tracking tasks and mixtures."""

import functools
from typing import Any

import seqio
import tensorflow as tf
from absl import logging

from jaxaug.core.files import PathLike
from jaxaug.feed import recipes, tokens
from jaxaug.feed.source import RecordSource
from tasks import metrics, preprocessors, vocabulary
from tasks.cached_task import CachedTask


class DialogueTask(CachedTask):
    """A task over record caches; hosts read disjoint shards of them."""

    def report(
        self, split: str, sequence_length: tuple[tuple[str, int], ...], use_cached: bool
    ) -> None:
        """Logs how many inputs lose their left end."""
        limit = dict(sequence_length).get("inputs")
        if limit is not None:
            (_report_cached if use_cached else _report)(self, split, limit)

    def _get_cached_source(self, split: str, *arguments: Any) -> seqio.DataSource:
        found = super()._get_cached_source(split, *arguments)
        source, plain = self.source, found.get_dataset
        assert isinstance(source, RecordSource)

        def get_dataset(*, seed: int | None = None, **options: Any) -> tf.data.Dataset:
            # The order without the cache; and the tasks of a mixture stay apart.
            own = None if seed is None else source.file_seed(options["split"], seed)
            return plain(seed=own, **options)

        found.get_dataset = get_dataset  # type: ignore[method-assign]
        return found


@functools.cache
def _report(task: DialogueTask, split: str, limit: int) -> None:
    """Once a process: the same split may be opened for each evaluation."""
    source = task.source
    assert isinstance(source, RecordSource)
    words = task.output_features["inputs"].vocabulary
    lengths = tokens.input_lengths(
        source.cache(split), words.file, encode=words.encode_batch
    )
    tokens.report_truncation(f"{task.name} {split}", lengths, limit)


@functools.cache
def _report_cached(task: DialogueTask, split: str, limit: int) -> None:
    """From the figures that a cache keeps: the longest input, not how many are long."""
    longest = task.get_cached_stats(split)["inputs_max_tokens"] + 1
    logging.log(
        logging.WARNING if longest > limit else logging.INFO,
        "%s %s: %s truncated on the left to %d tokens (longest: %d; from the cache %s)",
        task.name,
        split,
        "some inputs are" if longest > limit else "no input is",
        limit,
        longest,
        task.cache_dir,
    )


def register(data_dir: PathLike | None = None) -> None:
    """Adds every task and mixture of `jaxaug.feed.recipes` to SeqIO's registries.

    Raises:
      UserError: the data folder or a variants folder is wrong.
    """
    table = recipes.table(data_dir)
    level = logging.INFO if table.is_sgdx else logging.WARNING
    logging.log(level, "%s", table.evaluation)
    words = vocabulary.default_vocabulary()
    features = {
        "inputs": seqio.Feature(words, add_eos=True),
        "targets": seqio.Feature(words, add_eos=True),
    }
    for name, splits in table.recipes.items():
        options = next(iter(splits.values())).options
        task = DialogueTask(
            name,
            source=RecordSource(splits),
            output_features=features,
            preprocessors=[
                seqio.preprocessors.tokenize,
                seqio.CacheDatasetPlaceholder(),
                preprocessors.truncate_inputs_left,
                seqio.preprocessors.append_eos_after_trim,
            ],
            postprocess_fn=metrics.postprocessor(options.parse),
            metric_fns=[metrics.goal_metrics(splits)],
        )
        seqio.TaskRegistry.add_provider(name, task)
    for name, tasks in table.mixtures.items():
        seqio.MixtureRegistry.add(name, list(tasks), default_rate=1.0)
