"""Views of tasks for SeqIO: the same ids, fields, and metrics as `seqio.Task`s."""

import functools
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import seqio
import tensorflow as tf

from jaxaug.feed import lengths, sets

_WHOLE = 2**31 - 1  # More tokens than any example has.
# AutoGraph takes longer than everything else here, and finds nothing to convert.
_plain = tf.autograph.experimental.do_not_convert


class View(seqio.Task):
    """A task as SeqIO reads it.

    Streams use only stateless ops, so they can be saved. They cannot leave the process.
    """

    def __init__(self, task: sets.Task):
        """Creates the view of a task."""
        self.task = task
        self.token_counts = task.token_counts
        self.check_lengths, self.fitting_lengths = task.check_lengths, lengths.fitting
        super().__init__(
            task.name,
            source=seqio.FunctionDataSource(
                functools.partial(_examples, task), splits=task.splits
            ),
            output_features={
                name: seqio.Feature(feature.vocabulary, add_eos=feature.add_eos)
                for name, feature in task.output_features.items()
            },
            preprocessors=[
                seqio.CacheDatasetPlaceholder(),
                functools.partial(_cut, task),
            ],
            postprocess_fn=task.postprocess_fn,
            metric_fns=task.metric_fns,
        )

    def get_dataset(  # type: ignore[override]
        self,
        sequence_length: Mapping[str, int] | None = None,
        split: str = "train",
        *args: Any,
        **kwargs: Any,
    ) -> tf.data.Dataset:
        """See `seqio.Task.get_dataset`; reports how many examples are cut."""
        if sequence_length:
            lengths.report(self.token_counts(split), dict(sequence_length))
        # An in-memory cache would be written into every checkpoint of the iterator.
        kwargs["try_in_mem_cache"] = False
        return super().get_dataset(sequence_length, split, *args, **kwargs)


def _examples(
    task: sets.Task, split: str, shuffle_files: bool = False, seed: int | None = None
) -> tf.data.Dataset:
    """Returns the examples of a split: ids of the parts, texts, and other fields."""
    order = np.asarray(task.order(split), np.int64)
    if shuffle_files:
        # The tasks of a mixture get the same seed, but should not show the same
        # dialogue in all wordings at the same time.
        own = None if seed is None else (seed, zlib.crc32(task.name.encode()))
        order = np.random.default_rng(own).permutation(len(order))
    cache, fields = task.token_ids(split), task.fields(split)
    columns = {}
    for name in fields[0] if fields else ():
        column = [one[name] for one in fields]
        dtype = tf.int32 if isinstance(column[0], int) else tf.string
        text = f"{name}_pretokenized" if name in task.output_features else name
        columns[text] = tf.constant(column, dtype)
    ids = {name: tf.constant(flat) for name, flat in cache.ids.items()}
    offsets = {name: tf.constant(ends) for name, ends in cache.offsets.items()}

    @_plain
    def example(index: tf.Tensor) -> dict[str, tf.Tensor]:
        found = {name: column[index] for name, column in columns.items()}
        for name, flat in ids.items():
            found[name] = flat[offsets[name][index] : offsets[name][index + 1]]
        return found

    return tf.data.Dataset.from_tensor_slices(order).map(example)


def _cut(
    task: sets.Task,
    dataset: tf.data.Dataset,
    output_features: Mapping[str, seqio.Feature],
    sequence_length: Mapping[str, int | None] | None = None,
) -> tf.data.Dataset:
    """Joins the parts of each feature and cuts them as training does."""
    given = sequence_length or {}
    limits = {name: given.get(name) or _WHOLE for name in task.parts}
    ends = {
        name: output_features[name].vocabulary.eos_id
        if output_features[name].add_eos
        else None
        for name in task.parts
    }
    parts = [part for names in task.parts.values() for part in names]

    def cut(*ids: np.ndarray) -> list[np.ndarray]:
        found = task.cut(dict(zip(parts, ids, strict=True)), limits, ends)
        return [found[name].astype(np.int32) for name in limits]

    @_plain
    def convert(example: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        rest = dict(example)
        ids = [rest.pop(part) for part in parts]
        made = tf.numpy_function(cut, ids, [tf.int32] * len(limits), stateful=False)
        found: dict[str, tf.Tensor] = {}
        for name, feature in zip(limits, made, strict=True):
            feature.set_shape([None])
            text = f"{name}_pretokenized"
            found |= {text: rest.pop(text), name: feature}
        return found | rest

    return dataset.map(convert, num_parallel_calls=tf.data.AUTOTUNE)


def register() -> None:
    """Adds a view of each task, and each mixture, to SeqIO's registries.

    Names that SeqIO knows already are left alone.
    """
    known = sets.known()
    tasks, mixtures = {*seqio.TaskRegistry.names()}, {*seqio.MixtureRegistry.names()}
    for name, found in known.items():
        if isinstance(found, sets.Task) and name not in tasks:
            seqio.TaskRegistry.add_provider(name, View(found))
    for name, found in known.items():
        if isinstance(found, sets.Mixture) and name not in mixtures:
            seqio.MixtureRegistry.add(name, list(found.rates.items()))
