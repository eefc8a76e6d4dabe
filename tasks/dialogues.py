"""The dialogue state tracking sets without SeqIO and TensorFlow.

A program that has not imported SeqIO finds its training and evaluation sets here;
`tasks.dst` registers the same sets with SeqIO. Other tasks need SeqIO.
"""

import dataclasses
import functools
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from absl import logging

from jaxaug.feed import cache, recipes, tokens
from jaxaug.feed.arrays import TokenCache
from jaxaug.feed.examples import Ends, Ids, Lengths, keep_last_turns
from jaxaug.feed.lengths import LEFT
from jaxaug.formats.answers import FrameAnswer, postprocessor
from tasks import metrics, vocabulary
from tasks.fed import FedTask

_CYCLE = _BLOCK = 16  # Defaults of seqio.FileDataSource.


class Feature(NamedTuple):
    """A feature of a set, with the attributes of `seqio.Feature` that are used here."""

    vocabulary: vocabulary.FoundVocabulary
    add_eos: bool = True


class DialogueSet(FedTask):
    """A set of dialogue frames with its metrics, like the SeqIO task of that name."""

    loses = LEFT

    def __init__(self, name: str, splits: Mapping[str, cache.Recipe]):
        """Creates the set; `splits` maps names of SeqIO's splits to their content."""
        self.name = name
        self.tasks = [self]
        self._recipes = splits
        self.splits = tuple(splits)
        words = vocabulary.default_vocabulary()
        self.output_features = {"inputs": Feature(words), "targets": Feature(words)}
        options = next(iter(splits.values())).options
        self.postprocess_fn = postprocessor(options.parse)
        self._metrics = metrics.goal_metrics(splits)
        self.predict_metric_fns = (self.metric_fn,)
        self._records = functools.cache(lambda split: cache.build(splits[split]))
        self._tokens = functools.cache(self._token_cache)

    @staticmethod
    def cut(fields: Mapping[str, Ids], lengths: Lengths, ends: Ends) -> dict[str, Ids]:
        """See `FedTask.cut`."""
        return keep_last_turns(fields, lengths, ends)

    def token_ids(self, split: str, use_cached: bool) -> TokenCache:
        """See `FedTask.token_ids`; offline caches are read by SeqIO's task."""
        assert not use_cached
        return self._tokens(split)

    def _token_cache(self, split: str) -> TokenCache:
        words = self.output_features["inputs"].vocabulary
        return tokens.build(self._records(split), words.file, encode=words.encode_batch)

    def in_order(
        self, split: str, number: int | None = None
    ) -> tuple[list[int], list[dict[str, Any]]]:
        """Returns the examples of a split in the order of SeqIO's unshuffled pipeline.

        Args:
            split: name of the split.
            number: number of examples; None means all.

        Returns:
            The index of each example in `examples(split)`, and its fields before
            tokenization.
        """
        records = self._records(split)
        name = self._recipes[split].corpus.split
        shards = [
            [
                {**msgspec.structs.asdict(example), "split": name}
                for example in dataclasses.replace(records, shards=(shard,)).read()
            ]
            for shard in records.shards
        ]
        order = interleaved([len(shard) for shard in shards])[:number]
        fields = [example for shard in shards for example in shard]
        return order, [fields[index] for index in order]

    def metric_fn(
        self, targets: Sequence[FrameAnswer], predictions: Sequence[FrameAnswer]
    ) -> dict[str, float]:
        """Returns the metrics of `tasks.metrics.goal_metrics`."""
        return self._metrics(targets, predictions)


@dataclasses.dataclass(frozen=True)
class DialogueMixture:
    """A mixture of sets at equal rates.

    Attributes:
        name: name of the mixture.
        tasks: its sets, sorted by name as in SeqIO.
    """

    name: str
    tasks: Sequence[DialogueSet]

    @property
    def splits(self) -> set[str]:
        """Splits that a set of the mixture has."""
        return {split for task in self.tasks for split in task.splits}

    @property
    def output_features(self) -> Mapping[str, Feature]:
        """Features of the sets."""
        return self.tasks[0].output_features


def interleaved(counts: Sequence[int]) -> list[int]:
    """Returns the order in which tf.data interleaves the examples of shards.

    Args:
        counts: number of examples of each shard; the examples of all shards are
            numbered consecutively.
    """
    ends = [sum(counts[: number + 1]) for number in range(len(counts))]
    waiting = deque(
        deque(range(end - count, end)) for count, end in zip(counts, ends, strict=True)
    )
    # None is a free place, which the next shard takes when its turn comes.
    places: list[deque[int] | None] = [None] * _CYCLE
    found: list[int] = []
    turn = 0
    while waiting or any(place is not None for place in places):
        if places[turn] is None and waiting:
            places[turn] = waiting.popleft()
        if (shard := places[turn]) is not None:
            taken = min(_BLOCK, len(shard))
            found += [shard.popleft() for _ in range(taken)]
            if taken < _BLOCK:
                places[turn] = None
        turn = (turn + 1) % _CYCLE
    return found


@functools.cache
def table() -> recipes.Table:
    """Returns the sets of the data folder, which is looked up once per process.

    Raises:
        UserError: the data folder or a variants folder is wrong.
    """
    found = recipes.table()
    level = logging.INFO if found.is_sgdx else logging.WARNING
    logging.log(level, "%s", found.evaluation)
    return found


@functools.cache
def _set(name: str) -> DialogueSet:
    return DialogueSet(name, table().recipes[name])


def names() -> set[str]:
    """Returns the names of all sets and mixtures of this module."""
    return {*table().recipes, *table().mixtures}


def find(name: Any) -> DialogueSet | DialogueMixture | None:
    """Returns a set or mixture; None for other names, or if SeqIO is imported.

    A program that imports SeqIO may have registered tasks or bound settings there, so
    all of its data come from SeqIO's registries.
    """
    if "seqio" in sys.modules or name not in names():
        return None
    if name in table().recipes:
        return _set(name)
    tasks = sorted(table().mixtures[name])
    return DialogueMixture(name, [_set(task) for task in tasks])
