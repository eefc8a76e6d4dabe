"""Registration of the dialogue state tracking tasks and mixtures."""

import functools
from collections.abc import Mapping

import seqio
import tensorflow as tf

from jaxaug.core.files import PathLike
from jaxaug.feed import recipes, tokens
from jaxaug.feed.source import RecordSource
from tasks import metrics, preprocessors, vocabulary

_POSTPROCESS = {
    "d3st": metrics.d3st_postprocess,
    "t5dst": metrics.t5dst_postprocess,
}


class DialogueTask(seqio.Task):
    """A task that logs how many inputs it truncates when a stream is made."""

    def get_dataset(  # type: ignore[override]
        self,
        sequence_length: Mapping[str, int] | None = None,
        split: str = "train",
        **kwargs,
    ) -> tf.data.Dataset:
        """See `seqio.Task.get_dataset`."""
        limit = (sequence_length or {}).get("inputs")
        if limit is not None:
            _report(self, split, limit)
        # A cache in memory would be written into every checkpoint of the iterator.
        kwargs["try_in_mem_cache"] = False
        return super().get_dataset(sequence_length, split, **kwargs)


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


def register(data_dir: PathLike | None = None) -> None:
    """Adds every task and mixture of `jaxaug.feed.recipes` to SeqIO's registries.

    Raises:
      UserError: the data folder or a variants folder is wrong.
    """
    table = recipes.table(data_dir)
    words = vocabulary.default_vocabulary()
    features = {
        "inputs": seqio.Feature(words, add_eos=True),
        "targets": seqio.Feature(words, add_eos=True),
    }
    for name, splits in table.recipes.items():
        task = DialogueTask(
            name,
            source=RecordSource(splits),
            output_features=features,
            preprocessors=[
                seqio.preprocessors.tokenize,
                preprocessors.truncate_inputs_left,
                seqio.preprocessors.append_eos_after_trim,
            ],
            postprocess_fn=_POSTPROCESS[name.partition("_")[0]],
            metric_fns=[metrics.goal_metrics(splits)],
        )
        seqio.TaskRegistry.add_provider(name, task)
    for name, tasks in table.mixtures.items():
        seqio.MixtureRegistry.add(name, list(tasks), default_rate=1.0)
