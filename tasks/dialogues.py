"""Dialogue state tracking sets that need neither SeqIO nor TensorFlow.

A program that has not imported SeqIO finds its training and evaluation sets here;
`tasks.dst` registers the same sets with SeqIO. Other tasks need SeqIO.
"""

import abc
import dataclasses
import functools
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from absl import logging

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.feed import cache, recipes, tokens
from jaxaug.feed.arrays import TokenCache
from jaxaug.feed.examples import Ends, Ids, Lengths, keep_last_turns
from jaxaug.feed.lengths import LEFT
from tasks import metrics, vocabulary
from tasks.fed import FedTask


class DialogueRecords(FedTask):
    """Task over record caches of dialogue frames.

    Attributes:
        recipes: maps the name of a split to its content.
    """

    loses = LEFT
    recipes: Mapping[str, cache.Recipe]

    @staticmethod
    def cut(fields: Mapping[str, Ids], lengths: Lengths, ends: Ends) -> dict[str, Ids]:
        """See `FedTask.cut`."""
        return keep_last_turns(fields, lengths, ends)

    @abc.abstractmethod
    def records(self, split: str) -> cache.RecordCache:
        """Returns the record cache of a split; builds it on first use."""

    def token_cache(self, split: str) -> TokenCache:
        """Returns the token cache of a split; builds it on first use."""
        words = self.output_features["inputs"].vocabulary
        return tokens.build(self.records(split), words.file, encode=words.encode_batch)


class Feature(NamedTuple):
    """A feature of a set, with the attributes of `seqio.Feature` that are used here."""

    vocabulary: vocabulary.FoundVocabulary
    add_eos: bool = True


class DialogueSet(DialogueRecords):
    """A set of dialogue frames with its metrics, like the SeqIO task of its name."""

    def __init__(self, name: str, splits: Mapping[str, cache.Recipe]):
        """Creates the set.

        Args:
            name: name of the set and of its SeqIO task.
            splits: maps the names of SeqIO's splits to their content.
        """
        self.name, self.tasks = name, [self]
        self.recipes = self.splits = splits
        feature = Feature(vocabulary.default_vocabulary())
        self.output_features = {"inputs": feature, "targets": feature}
        options = next(iter(splits.values())).options
        self.postprocess_fn = metrics.postprocessor(options.parse)
        self.predict_metric_fns = [metrics.goal_metrics(splits)]

    def records(self, split: str) -> cache.RecordCache:
        """See `DialogueRecords.records`."""
        return _records(self, split)

    def token_ids(self, split: str, use_cached: bool) -> TokenCache:
        """See `FedTask.token_ids`; only SeqIO's task reads offline caches."""
        assert not use_cached
        return _token_ids(self, split)


@functools.cache
def _records(task: DialogueSet, split: str) -> cache.RecordCache:
    return cache.build(task.recipes[split])


@functools.cache
def _token_ids(task: DialogueSet, split: str) -> TokenCache:
    return task.token_cache(split)


@dataclasses.dataclass(frozen=True)
class DialogueMixture:
    """A mixture of sets at equal rates.

    Attributes:
        name: name of the mixture.
        tasks: sets of the mixture, sorted by name as in SeqIO.
    """

    name: str
    tasks: Sequence[DialogueSet]

    @property
    def output_features(self) -> Mapping[str, Feature]:
        """Features `inputs` and `targets`, which all sets share."""
        return self.tasks[0].output_features


def table(data_dir: PathLike | None = None) -> recipes.Table:
    """Returns the sets of a data folder; logs the wordings of their evaluation.

    Args:
        data_dir: data folder; None means the default of `folders.resolve_data_dir`.

    Raises:
        UserError: the data folder or a folder of variants is malformed.
    """
    found = recipes.table(data_dir)
    level = logging.INFO if found.is_sgdx else logging.WARNING
    logging.log(level, "%s", found.evaluation)
    return found


@functools.cache
def _sets() -> dict[str, DialogueSet | DialogueMixture]:
    """Returns the sets and mixtures by name; looks them up once per process."""
    found = table()
    sets = {name: DialogueSet(name, found.recipes[name]) for name in found.recipes}
    mixtures = {
        name: DialogueMixture(name, [sets[task] for task in sorted(tasks)])
        for name, tasks in found.mixtures.items()
    }
    return {**sets, **mixtures}


def find(name: Any) -> DialogueSet | DialogueMixture | None:
    """Returns a set or mixture; None for other names, or if SeqIO is imported.

    A `DialogueMixture` is returned unchanged.

    A program that imports SeqIO may have changed the registries, so all of its tasks
    come from the registries.
    """
    if isinstance(name, DialogueMixture):
        return name
    return None if "seqio" in sys.modules else _sets().get(name)


def with_records(name: str, split: str) -> list[Any]:
    """Returns the tasks of a set or mixture that have the split.

    The list is empty if a task has no record caches. Without SeqIO, it is also empty
    for names of other tasks.
    """
    source: Any = find(name)
    if seqio := sys.modules.get("seqio"):
        source = seqio.get_mixture_or_task(name)
    found = getattr(source, "tasks", [source])
    known = all(isinstance(task, DialogueRecords) for task in found)
    return [task for task in found if split in task.splits] if known else []


def aligned(tasks: Sequence[Any], split: str) -> list[DialogueSet]:
    """Returns sets whose examples with equal indices differ only in their wording.

    See `jaxaug.feed.recipes.aligned`.

    Args:
        tasks: tasks with record caches.
        split: the only split of the returned sets.

    Raises:
        UserError: a task has no record cache.
    """
    for task in tasks:
        if not isinstance(task, DialogueRecords):
            raise UserError(
                f"task {task.name!r} has no wordings: training on several wordings is "
                "for dialogue state tracking on schemas (`jaxaug tasks`)."
            )
    found = recipes.aligned([task.recipes[split] for task in tasks])
    return [
        DialogueSet(f"{task.name}_aligned", {split: recipe})
        for task, recipe in zip(tasks, found, strict=True)
    ]
