"""Tasks that can be read from an offline cache: `USE_CACHED_TASKS = True`.

`seqio_cache_tasks` (Apache Beam) and `jaxaug data cache` write such caches. Both store
the output of the preprocessors before `seqio.CacheDatasetPlaceholder`. SeqIO finds the
caches in the folders of `--seqio_additional_cache_dirs` or
`seqio.add_global_cache_dirs`.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import seqio
import tensorflow as tf
from etils import epath

from jaxaug.core import manifest
from jaxaug.core.digests import file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import read_json
from jaxaug.feed import arrays, lengths, offline_tokens
from jaxaug.feed.arrays import TokenCache
from tasks.fed import FedTask, accept

__all__ = ["COMPLETED", "CachedTask", "accept", "facts"]

COMPLETED = "COMPLETED"
"""Name of the file that marks a complete cache for SeqIO."""


class CachedTask(FedTask, seqio.Task):
    """SeqIO task that feeds token ids, and checks lengths and caches."""

    behind: ClassVar[Sequence[Any]] = (seqio.preprocessors.append_eos,)
    """Preprocessors after the placeholder, which `cut` reproduces."""

    @property
    def is_fed(self) -> bool:
        """True if `examples` reproduces the task's preprocessors."""
        found = list(self.preprocessors)
        places = [isinstance(p, seqio.CacheDatasetPlaceholder) for p in found]
        return True in places and found[places.index(True) + 1 :] == [*self.behind]

    def token_ids(self, split: str, use_cached: bool) -> TokenCache:
        """See `FedTask.token_ids`; `use_cached` reads the offline cache."""
        if use_cached:
            self._check_cache(split)
        return _tokens(self, split, use_cached)

    def token_cache(self, split: str) -> TokenCache:
        """Returns the token ids of a split up to the placeholder."""
        found = self.preprocess_precache(self.source.get_dataset(split, shuffle=False))
        fields = self.fields()
        only = found.map(lambda example: tuple(example[field] for field in fields))
        rows = (
            [ids.tolist() for ids in example]
            for example in only.prefetch(tf.data.AUTOTUNE).as_numpy_iterator()
        )
        return arrays.collected(f"{self.name}-{split}", rows, fields)

    def fields(self) -> list[str]:
        """Returns the names of the id fields in an offline cache."""
        return [part for parts in self.parts.values() for part in parts]

    def get_dataset(  # type: ignore[override]
        self,
        sequence_length: Mapping[str, int] | None = None,
        split: str = "train",
        use_cached: bool = False,
        **kwargs,
    ) -> tf.data.Dataset:
        """See `seqio.Task.get_dataset`.

        Raises:
            UserError: the cache is missing, lacks the split, or has another vocabulary.
        """
        if use_cached:
            self._check_cache(split)
        if sequence_length:
            _report(self, split, use_cached, tuple(sorted(sequence_length.items())))
        # An in-memory cache would be written into every checkpoint of the iterator.
        kwargs["try_in_mem_cache"] = False
        # AutoGraph takes longer than everything else here, and changes nothing in
        # preprocessors without loops or branches over tensors. `@tf.function`
        # re-enables it for a preprocessor.
        plain = tf.autograph.experimental.do_not_convert(super().get_dataset)
        return plain(sequence_length, split, use_cached=use_cached, **kwargs)

    def vocabulary_digest(self) -> str:
        """Returns a hash of the vocabulary file of the task."""
        return file_digest(self.output_features["inputs"].vocabulary.file)

    def _check_cache(self, split: str) -> None:
        make = f"`jaxaug data cache --task {self.name} --out DIR`"
        if not self.cache_dir:
            looked = ", ".join(seqio.get_global_cache_dirs()) or "none is named"
            raise UserError(
                f"use_cached = True: task {self.name!r} is in no cache folder "
                f"({looked}). Make it with {make} and name the folder with "
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
def _tokens(task: CachedTask, split: str, use_cached: bool) -> TokenCache:
    if not use_cached:
        return task.token_cache(split)
    found = offline_tokens.build(task.cache_dir, split, fields=task.fields())
    assert found is not None  # `_check_cache` has found the split.
    return found


@functools.cache
def _report(
    task: CachedTask,
    split: str,
    use_cached: bool,
    sequence_length: tuple[tuple[str, int], ...],
) -> None:
    """Reports once per process, because each evaluation may open the same split."""
    lengths.report(task.token_counts(split, use_cached), dict(sequence_length))


def facts(folder: epath.Path) -> dict[str, Any]:
    """Returns the notes of `jaxaug data cache` on a cache; empty for Beam caches."""
    try:
        found = read_json(folder / manifest.NAME, "")
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
