"""Tasks that can be read from an offline cache: `USE_CACHED_TASKS = True`.

`seqio_cache_tasks` (Apache Beam) and `jaxaug data cache` write such caches; both keep
what the preprocessors before `seqio.CacheDatasetPlaceholder` make. SeqIO finds them in
the folders of `--seqio_additional_cache_dirs` or `seqio.add_global_cache_dirs`.
"""

import functools
from collections.abc import Mapping
from typing import Any, ClassVar

import gin
import numpy as np
import seqio
import tensorflow as tf
from etils import epath

from jaxaug.core import manifest
from jaxaug.core.digests import file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import read_json
from jaxaug.feed import lengths

COMPLETED = "COMPLETED"
"""Name of the file that SeqIO looks for: a cache without it is not there."""


_BATCH = 1024  # examples that are counted at a time


@gin.configurable(module="tasks.cached_task")
def accept(truncation: bool = False, unknown_pieces: bool = False) -> dict[str, bool]:
    """Settings of `CachedTask.check_lengths`, for gin files: `cached_task.accept`.

    Args:
      truncation: accept feature lengths that cut any number of examples.
      unknown_pieces: accept any number of targets that the vocabulary cannot write.
    """
    return {"accept_truncation": truncation, "accept_unknown": unknown_pieces}


class CachedTask(seqio.Task):
    """A task that says what its lengths cut off, and what is wrong with its cache."""

    loses: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("inputs", "targets"), "their right end"
    )
    """Feature -> what an example loses that is too long."""

    parts: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "inputs": ("inputs",),
        "targets": ("targets",),
    }
    """Feature -> what it is put together from behind the placeholder."""

    def token_counts(self, split: str, use_cached: bool = False) -> lengths.TokenCounts:
        """Counts the tokens of all examples of a split.

        Args:
          split: its name.
          use_cached: whether to count those of the offline cache.

        Raises:
          UserError: the data or the cache is missing or wrong.
        """
        if use_cached:
            self._check_cache(split)
        return _counted(self, split, use_cached)

    @staticmethod
    def check_lengths(
        needs: lengths.Needs, accept_truncation: bool, advice: str
    ) -> None:
        """Stops a run whose lengths cut examples; see `jaxaug.feed.lengths.check`."""
        accepted = accept()
        accepted["accept_truncation"] |= accept_truncation
        lengths.check(needs, advice=advice, **accepted)

    fitting_lengths = staticmethod(lengths.fitting)

    def get_dataset(  # type: ignore[override]
        self,
        sequence_length: Mapping[str, int] | None = None,
        split: str = "train",
        use_cached: bool = False,
        **kwargs,
    ) -> tf.data.Dataset:
        """See `seqio.Task.get_dataset`.

        Raises:
          UserError: the cache is not there, lacks the split or has ids of another
            vocabulary.
        """
        if use_cached:
            self._check_cache(split)
        if sequence_length:
            _report(self, split, use_cached, tuple(sorted(sequence_length.items())))
        # A cache in memory would be written into every checkpoint of the iterator.
        kwargs["try_in_mem_cache"] = False
        # AutoGraph takes longer than all else here, and rewrites nothing in preprocessors
        # without a loop or a decision over tensors. `@tf.function` brings it back for one.
        plain = tf.autograph.experimental.do_not_convert(super().get_dataset)
        return plain(sequence_length, split, use_cached=use_cached, **kwargs)

    def count_tokens(self, split: str, use_cached: bool) -> lengths.TokenCounts:
        """See `token_counts`, which calls this once a process for each split."""
        source = self._get_cached_source(split) if use_cached else self.source
        found = source.get_dataset(split=split, shuffle=False)
        if not use_cached:
            found = self.preprocess_precache(found)
        words = self.output_features["targets"].vocabulary
        unk_id = -1 if words.unk_id is None else words.unk_id

        def count(example: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            sizes = {
                feature: tf.add_n([tf.size(example[part]) for part in parts])
                + int(self.output_features[feature].add_eos)
                for feature, parts in self.parts.items()
            }
            lacks = tf.reduce_any(
                tf.equal(tf.cast(example["targets"], tf.int32), unk_id)
            )
            return {**sizes, "unknown": tf.cast(lacks, tf.int32)}

        counted = found.map(count, num_parallel_calls=tf.data.AUTOTUNE).batch(_BATCH)
        batches = list(counted.as_numpy_iterator())
        columns = {
            name: np.concatenate(
                [np.zeros(0, int), *(batch[name] for batch in batches)]
            )
            for name in (*self.parts, "unknown")
        }
        unknown = int(columns.pop("unknown").sum())
        name = f"{self.name} {split}"
        file = str(getattr(words, "file", words))
        return lengths.TokenCounts(name, columns, unknown, file, self.loses)

    def vocabulary_digest(self) -> str:
        """Hash of the file that the ids of the task come from."""
        return file_digest(self.output_features["inputs"].vocabulary.file)

    def _check_cache(self, split: str) -> None:
        make = f"`jaxaug data cache --task {self.name} --out DIR`"
        if not self.cache_dir:
            looked = ", ".join(seqio.get_global_cache_dirs()) or "none is named"
            raise UserError(
                f"use_cached = True: task {self.name!r} is in no cache folder ({looked}). "
                f"Make it with {make} and name the folder with "
                "--seqio_additional_cache_dirs=DIR, or set USE_CACHED_TASKS = False."
            )
        folder = epath.Path(self.cache_dir)
        if not epath.Path(seqio.get_cached_info_path(folder, split)).exists():
            raise UserError(
                f"{folder}: this cache of task {self.name!r} has no split {split!r}. "
                f"Remove the folder and make it again with {make}."
            )
        used = facts(folder).get("vocabulary")
        if used is not None and used != self.vocabulary_digest():
            words = self.output_features["inputs"].vocabulary.file
            raise UserError(
                f"{folder}: this cache of task {self.name!r} has ids of another "
                f"vocabulary than {words}. Use the one that it was made with "
                f"($JAXAUG_VOCABULARY), or make another cache with {make}."
            )


@functools.cache
def _counted(task: CachedTask, split: str, use_cached: bool) -> lengths.TokenCounts:
    return task.count_tokens(split, use_cached)


@functools.cache
def _report(
    task: CachedTask,
    split: str,
    use_cached: bool,
    sequence_length: tuple[tuple[str, int], ...],
) -> None:
    """Once a process: the same split may be opened for each evaluation."""
    lengths.report(task.token_counts(split, use_cached), dict(sequence_length))


def facts(folder: epath.Path) -> dict[str, Any]:
    """What `jaxaug data cache` wrote about a cache; empty for one made by Beam."""
    try:
        found = read_json(folder / manifest.NAME, "")
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
