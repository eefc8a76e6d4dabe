"""Registration of the dialogue state tracking tasks and mixtures."""

from collections.abc import Mapping, Sequence
from typing import Any

import seqio
import tensorflow as tf
from absl import logging

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.feed import recipes, tokens
from jaxaug.feed.arrays import TokenCache
from jaxaug.feed.cache import Recipe
from jaxaug.feed.examples import Ends, Ids, Lengths, keep_last_turns
from jaxaug.feed.lengths import LEFT
from jaxaug.feed.source import RecordSource
from tasks import metrics, preprocessors, vocabulary
from tasks.cached_task import CachedTask


class DialogueTask(CachedTask):
    """A task over record caches; hosts read disjoint shards of them."""

    loses = LEFT
    behind = (
        preprocessors.truncate_inputs_left,
        seqio.preprocessors.append_eos_after_trim,
    )

    @staticmethod
    def cut(fields: Mapping[str, Ids], lengths: Lengths, ends: Ends) -> dict[str, Ids]:
        """See `CachedTask.cut`."""
        return keep_last_turns(fields, lengths, ends)

    def token_cache(self, split: str) -> TokenCache:
        """Returns the token cache of a split; builds it on first use."""
        source = self.source
        assert isinstance(source, RecordSource)
        words = self.output_features["inputs"].vocabulary
        return tokens.build(source.cache(split), words.file, encode=words.encode_batch)

    def _get_cached_source(self, split: str, *arguments: Any) -> seqio.DataSource:
        found = super()._get_cached_source(split, *arguments)
        source, plain = self.source, found.get_dataset
        assert isinstance(source, RecordSource)

        def get_dataset(*, seed: int | None = None, **options: Any) -> tf.data.Dataset:
            # Keeps the order of the uncached data, and separates the tasks of a
            # mixture.
            own = None if seed is None else source.file_seed(options["split"], seed)
            return plain(seed=own, **options)

        found.get_dataset = get_dataset  # type: ignore[method-assign]
        return found


def register(data_dir: PathLike | None = None) -> None:
    """Adds every task and mixture of `jaxaug.feed.recipes` to SeqIO's registries.

    Raises:
        UserError: the data folder or a variants folder is wrong.
    """
    table = recipes.table(data_dir)
    level = logging.INFO if table.is_sgdx else logging.WARNING
    logging.log(level, "%s", table.evaluation)
    words = vocabulary.default_vocabulary()
    for name, splits in table.recipes.items():
        seqio.TaskRegistry.add_provider(name, _task(name, splits, words))
    for name, tasks in table.mixtures.items():
        seqio.MixtureRegistry.add(name, list(tasks), default_rate=1.0)


def aligned(tasks: Sequence[seqio.Task], split: str) -> list[DialogueTask]:
    """Returns unregistered tasks over one split whose examples correspond.

    See `jaxaug.feed.recipes.aligned`.

    Raises:
        UserError: a task has no record cache.
    """
    found = []
    for task in tasks:
        if not isinstance(task.source, RecordSource):
            raise UserError(
                f"task {task.name!r} has no wordings: training on several wordings is "
                "for dialogue state tracking on schemas (`jaxaug tasks`)."
            )
        found.append(task.source.recipes[split])
    return [
        _task(f"{task.name}_aligned", {split: recipe}, _words(task))
        for task, recipe in zip(tasks, recipes.aligned(found), strict=True)
    ]


def _words(task: seqio.Task) -> seqio.Vocabulary:
    return task.output_features["inputs"].vocabulary


def _task(
    name: str, splits: Mapping[str, Recipe], words: seqio.Vocabulary
) -> DialogueTask:
    options = next(iter(splits.values())).options
    feature = seqio.Feature(words, add_eos=True)
    return DialogueTask(
        name,
        source=RecordSource(splits),
        output_features={"inputs": feature, "targets": feature},
        preprocessors=[
            seqio.preprocessors.tokenize,
            seqio.CacheDatasetPlaceholder(),
            *DialogueTask.behind,
        ],
        postprocess_fn=metrics.postprocessor(options.parse),
        metric_fns=[metrics.goal_metrics(splits)],
    )
