"""Tasks and mixtures of dialogue state tracking; `jaxaug.feed.recipes` lists them."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from absl import logging

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.feed import cache, recipes, sets, tokens
from jaxaug.feed.lengths import LEFT
from jaxaug.feed.tokens import Ends, Ids, Lengths, TokenCache, keep_last_turns
from tasks import metrics, vocabulary

_CYCLE = _BLOCK = 16  # Evaluations read shards in turn, as seqio.FileDataSource does.


class DialogueTask(sets.Task):
    """A task over record caches of dialogue frames.

    Attributes:
        recipes: maps the name of a split to its content.
    """

    loses = LEFT

    def __init__(self, name: str, splits: Mapping[str, cache.Recipe]):
        """Creates the task; a record cache is built when its split is first used."""
        options = next(iter(splits.values())).options
        super().__init__(
            name,
            splits,
            vocabulary.default_vocabulary(),
            postprocess_fn=metrics.postprocessor(options.parse),
            metric_fns=[metrics.goal_metrics(splits)],
        )
        self.recipes = splits
        self._records: dict[str, cache.RecordCache] = {}

    @staticmethod
    def cut(fields: Mapping[str, Ids], lengths: Lengths, ends: Ends) -> dict[str, Ids]:
        """See `Task.cut`."""
        return keep_last_turns(fields, lengths, ends)

    def records(self, split: str) -> cache.RecordCache:
        """Returns the record cache of a split; builds it on first use."""
        if split not in self._records:
            self._records[split] = cache.build(self.recipes[split])
        return self._records[split]

    def token_cache(self, split: str) -> TokenCache:
        """Returns the token cache of a split; builds it on first use."""
        words = self.output_features["inputs"].vocabulary
        encode = words.encode_batch if words.is_published else None
        return tokens.build(self.records(split), words.file, encode=encode)

    def fields(self, split: str) -> Sequence[sets.Fields]:
        """See `Task.fields`."""
        name = self.recipes[split].corpus.split
        return [
            {**msgspec.structs.asdict(example), "split": name}
            for example in self.records(split).read()
        ]

    def order(self, split: str) -> Sequence[int]:
        """See `Task.order`: blocks of all shards in turn, so a part is a mix."""
        return interleaved(self.records(split).counts())


def interleaved(counts: Sequence[int]) -> list[int]:
    """Returns the order in which tf.data interleaves the examples of shards.

    `counts` are the numbers of examples of the shards, which are numbered
    consecutively.
    """
    ends = itertools.accumulate(counts)
    shards = (iter(range(e - n, e)) for e, n in zip(ends, counts, strict=True))
    open_shards = [*itertools.islice(shards, _CYCLE)]
    found: list[int] = []
    while len(found) < sum(counts):
        for place, shard in enumerate(open_shards):
            block = [*itertools.islice(shard, _BLOCK)]
            found += block
            if len(block) < _BLOCK:
                open_shards[place] = next(shards, iter(()))
    return found


def register(data_dir: PathLike | None = None) -> None:
    """Adds the sets of a data folder; logs the wordings of their evaluation.

    Args:
        data_dir: data folder; None means the default of `folders.resolve_data_dir`.

    Raises:
        UserError: the data folder or a folder of variants is malformed.
    """
    found = recipes.table(data_dir)
    level = logging.INFO if found.is_sgdx else logging.WARNING
    logging.log(level, "%s", found.evaluation)
    for name, splits in found.recipes.items():
        sets.add(DialogueTask(name, splits))
    for name, tasks in found.mixtures.items():
        sets.add_mixture(name, dict.fromkeys(tasks, 1.0))


def with_records(name: Any, split: str) -> list[DialogueTask]:
    """Returns the tasks of a set that have the split; empty for other data."""
    found = getattr(sets.find(name), "tasks", ())
    if not all(isinstance(task, DialogueTask) for task in found):
        return []
    return [task for task in found if split in task.splits]


def aligned(tasks: Sequence[sets.Task], split: str) -> list[DialogueTask]:
    """Returns tasks whose examples with equal indices differ only in their wording.

    They have this split only. See `jaxaug.feed.recipes.aligned`.

    Raises:
        UserError: a task has no record cache.
    """
    known = [task for task in tasks if isinstance(task, DialogueTask)]
    for task in tasks:
        if task not in known:
            raise UserError(
                f"task {task.name!r} has no wordings: training on several wordings is "
                "for dialogue state tracking on schemas (`jaxaug tasks`)."
            )
    found = recipes.aligned([task.recipes[split] for task in known])
    return [
        DialogueTask(f"{task.name}_aligned", {split: recipe})
        for task, recipe in zip(known, found, strict=True)
    ]
