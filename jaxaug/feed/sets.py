"""Tasks and mixtures by name: the sets that a run trains and evaluates on.

A task gives its examples as token ids. `add` makes a task known; the package `tasks`
adds the tasks of jaxaug. SeqIO is not needed: `tasks.views` shows it the same ids.
"""

import abc
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import gin

from jaxaug.core import bundled, cache_folder
from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import suggestion
from jaxaug.data import folders
from jaxaug.data.arguments import Cache
from jaxaug.feed import lengths, vocabulary
from jaxaug.feed.order import Stage
from jaxaug.feed.tokens import (
    PAIRS,
    Ends,
    Examples,
    Ids,
    Lengths,
    Parts,
    TokenCache,
    collected,
    keep_left_end,
)

Fields = Mapping[str, Any]
"""An example before tokenization: texts `inputs` and `targets`, and other fields."""


@gin.configurable
def accept(truncation: bool = False, unknown_pieces: bool = False) -> dict[str, bool]:
    """Returns settings of `Task.check_lengths`; gin files bind `sets.accept`.

    Args:
        truncation: whether to accept feature lengths that cut any number of examples.
        unknown_pieces: whether to accept any number of targets with pieces that the
            vocabulary does not know.
    """
    return {"accept_truncation": truncation, "accept_unknown": unknown_pieces}


class Feature(NamedTuple):
    """A feature of a task, with attributes of `seqio.Feature`."""

    vocabulary: Any
    add_eos: bool = True


class Task(abc.ABC):
    """Named splits of examples as token ids, with the metrics of their answers.

    Attributes:
        output_features: features `inputs` and `targets`.
        postprocess_fn: converts an output to an answer, as in SeqIO.
        metric_fns: metric functions, as in SeqIO.
    """

    loses: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("inputs", "targets"), "their right end"
    )
    """Maps a feature to the part that truncated examples lose."""

    parts: ClassVar[Parts] = PAIRS
    """Maps a feature to the fields of the token cache that form it."""

    def __init__(
        self,
        name: str,
        splits: Iterable[str],
        words: Any,
        ends_inputs: bool = True,
        ends_targets: bool = True,
        postprocess_fn: Callable[..., Any] | None = None,
        metric_fns: Sequence[Callable[..., Any]] = (),
    ):
        """Creates a task; reads no example.

        Args:
            words: vocabulary of both features.
            ends_inputs, ends_targets: whether the feature ends with end of sequence.
            postprocess_fn, metric_fns: see the class.
        """
        self.name, self.splits, self.tasks = name, tuple(splits), (self,)
        self.output_features = {
            "inputs": Feature(words, ends_inputs),
            "targets": Feature(words, ends_targets),
        }
        self.postprocess_fn, self.metric_fns = postprocess_fn, list(metric_fns)
        self._ids: dict[str, TokenCache] = {}

    @abc.abstractmethod
    def token_cache(self, split: str) -> TokenCache:
        """Returns the token ids of a split without end of sequence."""

    @abc.abstractmethod
    def fields(self, split: str) -> Sequence[Fields]:
        """Returns the fields of each example of a split before tokenization."""

    def order(self, split: str) -> Sequence[int]:
        """Returns the order of the examples of a split in evaluations."""
        return range(len(self.token_ids(split)))

    @staticmethod
    def cut(fields: Mapping[str, Ids], lengths: Lengths, ends: Ends) -> dict[str, Ids]:
        """Truncates an example to lengths; see `Examples.cut`."""
        return keep_left_end(fields, lengths, ends)

    def token_ids(self, split: str) -> TokenCache:
        """Returns `token_cache` of a split, which is called once."""
        if split not in self._ids:
            self._ids[split] = self.token_cache(split)
        return self._ids[split]

    def examples(self, split: str) -> Examples:
        """Returns all examples of a split as token ids.

        Raises:
            UserError: the data is missing or wrong.
        """
        ends = {
            name: feature.vocabulary.eos_id if feature.add_eos else None
            for name, feature in self.output_features.items()
        }
        found = self.token_ids(split)
        return Examples(self.name, found, ends, self.parts, self.cut)

    def token_counts(self, split: str, use_cached: bool = False) -> lengths.TokenCounts:
        """Returns the token counts of all examples of a split.

        `use_cached` is part of the interface of the T5X programs and unused.
        """
        del use_cached
        words = self.output_features["targets"].vocabulary
        return lengths.of_examples(
            f"{self.name} {split}",
            self.examples(split),
            words.unk_id,
            str(getattr(words, "file", words)),
            self.loses,
        )

    @staticmethod
    def check_lengths(
        needs: lengths.Needs, accept_truncation: bool, advice: str
    ) -> None:
        """Refuses feature lengths that cut examples; see `jaxaug.feed.lengths.check`.

        The global setting `accept` may accept them too.

        Raises:
            UserError: more than 1% of the inputs or any target of a data set would be
                cut, or more than 1% of its targets contain unknown pieces.
        """
        accepted = accept()
        accepted["accept_truncation"] |= accept_truncation
        lengths.check(needs, advice=advice, **accepted)

    fitting_lengths = staticmethod(lengths.fitting)


class TextTask(Task):
    """A task whose texts are in memory."""

    def __init__(
        self, name: str, splits: Iterable[str], words: Any, fields: Any, **options: Any
    ):
        """Creates a task; `fields` returns the fields of each example of a split."""
        super().__init__(name, splits, words, **options)
        self._read, self._fields = fields, dict[str, Sequence[Fields]]()

    def fields(self, split: str) -> Sequence[Fields]:
        """See `Task.fields`."""
        if split not in self._fields:
            self._fields[split] = self._read(split)
        return self._fields[split]

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Returns the ids of texts."""
        return self.output_features["inputs"].vocabulary.encode_batch(texts)

    def token_cache(self, split: str) -> TokenCache:
        """See `Task.token_cache`."""
        names = [part for parts in self.parts.values() for part in parts]
        found = self.fields(split)
        columns = [self.encode([one[name] for one in found]) for name in names]
        rows = zip(*columns, strict=True)
        return collected(f"{self.name}-{split}", rows, names)


@dataclass(frozen=True)
class Mixture:
    """Tasks at rates that are fixed or follow a schedule.

    Attributes:
        tasks: tasks of the mixture, sorted by name as in SeqIO.
        rates: task -> relative frequency.
        stages: rates of the tasks by training step, in the order of `tasks`; empty for
            fixed rates.
    """

    name: str
    tasks: Sequence[Task]
    rates: Mapping[str, float]
    stages: Sequence[Stage] = ()

    @property
    def output_features(self) -> Mapping[str, Feature]:
        """Features `inputs` and `targets`, which all tasks share."""
        return self.tasks[0].output_features


_SETS: dict[str, Task | Mixture] = {}
_PROVIDERS: list[Callable[[], None]] = []


def add(task: Task) -> None:
    """Makes a task known under its name; it replaces another of that name."""
    _SETS[task.name] = task


def add_mixture(name: str, rates: Mapping[str, float]) -> None:
    """Makes a mixture of known tasks known; `rates` maps a task to its frequency."""
    _SETS[name] = mixture(name, rates)


def mixture(name: str, rates: Mapping[str, float]) -> Mixture:
    """Returns a mixture of known tasks at fixed rates."""
    return Mixture(name, [_SETS[task] for task in sorted(rates)], dict(rates))  # type: ignore[misc]


def provide(register: Callable[[], None]) -> None:
    """Calls `register` before a name is looked up that no set has so far."""
    _PROVIDERS.append(register)


def find(name: Any) -> Any:
    """Returns the task or mixture of a name, or None if the name is unknown.

    A task or mixture is returned unchanged.
    """
    if isinstance(name, Task | Mixture):
        return name
    while name not in _SETS and _PROVIDERS:
        _PROVIDERS[0]()
        _PROVIDERS.pop(0)  # A provider that fails is called again.
    return _SETS.get(name)


def known() -> Mapping[str, Task | Mixture]:
    """Returns all tasks and mixtures by name."""
    find(None)
    return _SETS


def named(name: str) -> Task | Mixture:
    """Returns the task or mixture of a name.

    Raises:
        UserError: the name is unknown; the message suggests similar names.
    """
    if (found := find(name)) is None:
        raise UserError(
            f"{name!r} is no task and no mixture; {suggestion(name, [*known()])} "
            "d3st_NAME_* needs variants of the training schema in variants/NAME of the "
            "data folder, or in a folder NAME that $JAXAUG_VARIANTS_DIR lists. Make "
            "them with `jaxaug augment --data_dir DIR --out DIR/variants/tree`."
        )
    return found


def run(arguments: Cache) -> int:
    """Runs `jaxaug data cache`: writes the token caches of tasks and mixtures.

    Tasks read their data folder and vocabulary from environment variables at import
    time. The command-line values are therefore set as variables first.

    Raises:
        UserError: neither a task nor a mixture is named, or a name is unknown.
    """
    names = [*arguments.task, *arguments.mixture]
    if not names:
        raise UserError(
            "nothing to cache: name tasks (--task) or mixtures (--mixture)."
        )
    if arguments.data_dir is not None:
        found = folders.resolve_data_dir(arguments.data_dir)
        os.environ[folders.DATA_DIR_VARIABLE] = str(found)
    if arguments.vocabulary is not None:
        os.environ[vocabulary.VOCABULARY_VARIABLE] = arguments.vocabulary
    if arguments.out is not None:
        os.environ[cache_folder.CACHE_DIR_VARIABLE] = arguments.out
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # Only `python -m` adds it.
    for module in arguments.module or [bundled.tasks_module()]:
        _import(module)
    for task in dict.fromkeys(task for name in names for task in named(name).tasks):
        counts = [f"{split} {len(task.token_ids(split))}" for split in task.splits]
        print(f"{task.name}: {', '.join(counts)} examples", file=sys.stderr)
    return 0


def _import(module: str) -> None:
    """Imports a module that adds tasks, installed or in the current folder."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # The missing module is an import of the named module.
        raise UserError(
            f"--module {module}: there is no module {error.name!r}. Name one of "
            f"the current folder or of an installed package, as in an import line."
        ) from error
