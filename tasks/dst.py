"""Registration of the dialogue state tracking tasks and mixtures."""

from collections.abc import Mapping
from typing import Any

import seqio
import tensorflow as tf

from jaxaug.core.files import PathLike
from jaxaug.feed.cache import Recipe, RecordCache
from jaxaug.feed.source import RecordSource
from tasks import dialogues, metrics, preprocessors, vocabulary
from tasks.cached_task import CachedTask
from tasks.dialogues import DialogueRecords


class DialogueTask(DialogueRecords, CachedTask):
    """A task over record caches; hosts read disjoint shards of them."""

    behind = (
        preprocessors.truncate_inputs_left,
        seqio.preprocessors.append_eos_after_trim,
    )

    @property
    def recipes(self) -> Mapping[str, Recipe]:  # type: ignore[override]
        """Name of a split -> its content."""
        return self._records.recipes

    def records(self, split: str) -> RecordCache:
        """See `DialogueRecords.records`."""
        return self._records.cache(split)

    @property
    def _records(self) -> RecordSource:
        assert isinstance(self.source, RecordSource)
        return self.source

    def _get_cached_source(self, split: str, *arguments: Any) -> seqio.DataSource:
        found = super()._get_cached_source(split, *arguments)
        source, plain = self._records, found.get_dataset

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
    table = dialogues.table(data_dir)
    words = vocabulary.default_vocabulary()
    for name, splits in table.recipes.items():
        seqio.TaskRegistry.add_provider(name, _task(name, splits, words))
    for name, tasks in table.mixtures.items():
        seqio.MixtureRegistry.add(name, list(tasks), default_rate=1.0)


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
