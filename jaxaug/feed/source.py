"""SeqIO data source over the record cache.

This is one of the two modules of jaxaug that may import SeqIO and TensorFlow. Streams
use only tf.data ops. An iterator can therefore be saved and restored within an epoch,
which is impossible for a source that calls Python.
"""

from collections.abc import Mapping, Sequence

import seqio
import tensorflow as tf

from jaxaug.feed import cache
from jaxaug.feed.parallel import COLUMNS

_INTEGERS = ("turn", "frame")


class RecordSource(seqio.FileDataSource):
    """Streams record caches, which are built when a split is first requested.

    Each example has the fields of `jaxaug.formats.records.Example` (strings, `turn` and
    `frame` int32) and `split`, the name of the split in the data folder. Hosts read
    disjoint shards.
    """

    def __init__(self, recipes: Mapping[str, cache.Recipe]):
        """Creates the source; `recipes` maps SeqIO split names to their content."""
        self.recipes = dict(recipes)
        self._caches: dict[str, cache.RecordCache] = {}
        super().__init__(
            read_file_fn=_read_shard,
            split_to_filepattern=dict.fromkeys(recipes, ""),
        )

    def cache(self, split: str) -> cache.RecordCache:
        """Returns the cache of a split; builds it if missing."""
        if split not in self._caches:
            self._caches[split] = cache.build(self.recipes[split])
        return self._caches[split]

    def list_shards(self, split: str) -> Sequence[str]:
        """Returns the paths of the split's shards."""
        return self.cache(split).paths

    def num_input_examples(self, split: str) -> int:
        """Returns the number of examples of the split, including all renderings."""
        return self.cache(split).examples

    def file_seed(self, split: str, seed: int) -> int:
        """Returns the seed of the shard order, given the seed of the whole stream."""
        return seed ^ self.recipes[split].options.seed

    def get_dataset(
        self,
        split: str = "train",
        shuffle: bool = True,
        seed: int | None = None,
        shard_info: seqio.ShardInfo | None = None,
        **unused,
    ) -> tf.data.Dataset:
        """Returns the examples of a split; see `seqio.DataSource`.

        Shards are shuffled by `seed` and the seed of the recipe. SeqIO passes the same
        seed to all tasks of a mixture; without the recipe's seed they would read the
        same dialogues at the same time.
        """
        if seed is not None:
            seed = self.file_seed(split, seed)
        dataset = super().get_dataset(split, shuffle, seed, shard_info, **unused)
        name = self.recipes[split].corpus.split
        return dataset.map(lambda example: {**example, "split": tf.constant(name)})


def _read_shard(path: tf.Tensor) -> tf.data.Dataset:
    return tf.data.TextLineDataset(path).map(_parse_line)


def _parse_line(line: tf.Tensor) -> dict[str, tf.Tensor]:
    fields = tf.io.decode_csv(
        line, [[""]] * len(COLUMNS), field_delim="\t", use_quote_delim=False
    )
    example = dict(zip(COLUMNS, fields, strict=True))
    for name in _INTEGERS:
        example[name] = tf.strings.to_number(example[name], tf.int32)
    return example
