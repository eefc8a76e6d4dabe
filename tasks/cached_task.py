"""Tasks that can be read from an offline cache: `USE_CACHED_TASKS = True`.

`seqio_cache_tasks` (Apache Beam) and `jaxaug data cache` write such caches; both keep
what the preprocessors before `seqio.CacheDatasetPlaceholder` make. SeqIO finds them in
the folders of `--seqio_additional_cache_dirs` or `seqio.add_global_cache_dirs`.
"""

from collections.abc import Mapping
from typing import Any

import seqio
import tensorflow as tf
from etils import epath

from jaxaug.core import manifest
from jaxaug.core.digests import file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import read_json

COMPLETED = "COMPLETED"
"""Name of the file that SeqIO looks for: a cache without it is not there."""


class CachedTask(seqio.Task):
    """A task that says what its lengths cut off, and what is wrong with its cache."""

    def report(
        self, split: str, sequence_length: tuple[tuple[str, int], ...], use_cached: bool
    ) -> None:
        """Logs what the lengths cut off; called whenever a stream is made.

        Args:
          split: of the stream.
          sequence_length: sorted (feature, length) pairs.
          use_cached: whether the stream comes from the cache.
        """

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
            self.report(split, tuple(sorted(sequence_length.items())), use_cached)
        # A cache in memory would be written into every checkpoint of the iterator.
        kwargs["try_in_mem_cache"] = False
        # AutoGraph takes longer than all else here, and rewrites nothing in preprocessors
        # without a loop or a decision over tensors. `@tf.function` brings it back for one.
        plain = tf.autograph.experimental.do_not_convert(super().get_dataset)
        return plain(sequence_length, split, use_cached=use_cached, **kwargs)

    def first_examples(self, split: str, count: int, use_cached: bool) -> Any:
        """The first examples as they stand at the placeholder, as NumPy values."""
        source = self._get_cached_source(split) if use_cached else self.source
        found = source.get_dataset(split, shuffle=False).take(count)
        if not use_cached:
            found = self.preprocess_precache(found)
        return found.as_numpy_iterator()

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


def facts(folder: epath.Path) -> dict[str, Any]:
    """What `jaxaug data cache` wrote about a cache; empty for one made by Beam."""
    try:
        found = read_json(folder / manifest.NAME, "")
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
