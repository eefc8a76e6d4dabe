"""Tasks that give their examples as token ids, without SeqIO and TensorFlow."""

import abc
from collections.abc import Mapping
from typing import Any, ClassVar

import gin

from jaxaug.feed import lengths
from jaxaug.feed.arrays import TokenCache
from jaxaug.feed.examples import (
    PAIRS,
    Ends,
    Examples,
    Ids,
    Lengths,
    Parts,
    keep_left_end,
)


@gin.configurable(module="tasks.cached_task")
def accept(truncation: bool = False, unknown_pieces: bool = False) -> dict[str, bool]:
    """Returns settings of `FedTask.check_lengths`; gin files bind `cached_task.accept`.

    Args:
        truncation: whether to accept feature lengths that cut any number of examples.
        unknown_pieces: whether to accept any number of targets with pieces that the
            vocabulary does not know.
    """
    return {"accept_truncation": truncation, "accept_unknown": unknown_pieces}


class FedTask(abc.ABC):
    """Task that gives its examples to the token feed, and checks feature lengths.

    Attributes:
        name: name of the task.
        output_features: maps a name to a feature with `vocabulary` and `add_eos`.
    """

    name: str
    output_features: Mapping[str, Any]

    loses: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("inputs", "targets"), "their right end"
    )
    """Maps a feature to the part that truncated examples lose."""

    parts: ClassVar[Parts] = PAIRS
    """Maps a feature to the fields that form it after the placeholder."""

    @staticmethod
    def cut(fields: Mapping[str, Ids], lengths: Lengths, ends: Ends) -> dict[str, Ids]:
        """Truncates an example to lengths; see `Examples.cut`."""
        return keep_left_end(fields, lengths, ends)

    @abc.abstractmethod
    def token_ids(self, split: str, use_cached: bool) -> TokenCache:
        """Returns the token ids of a split; builds them once per process.

        Args:
            split: name of the split.
            use_cached: whether to read the offline cache.
        """

    def examples(self, split: str, use_cached: bool = False) -> Examples:
        """Returns all examples of a split as token ids; builds them once per process.

        Args:
            split: name of the split.
            use_cached: whether to read the offline cache.

        Raises:
            UserError: the data or the cache is missing or wrong.
        """
        found = self.token_ids(split, use_cached)
        ends = {
            name: self.output_features[name].vocabulary.eos_id
            if self.output_features[name].add_eos
            else None
            for name in self.parts
        }
        return Examples(self.name, found, ends, self.parts, self.cut)

    def token_counts(self, split: str, use_cached: bool = False) -> lengths.TokenCounts:
        """Returns the token counts of all examples of a split; see `examples`."""
        words = self.output_features["targets"].vocabulary
        return lengths.of_examples(
            f"{self.name} {split}",
            self.examples(split, use_cached),
            words.unk_id,
            str(getattr(words, "file", words)),
            self.loses,
        )

    @staticmethod
    def check_lengths(
        needs: lengths.Needs, accept_truncation: bool, advice: str
    ) -> None:
        """Refuses feature lengths that cut examples; see `jaxaug.feed.lengths.check`.

        Args:
            needs: token counts of each data set of a run, with its feature lengths.
            accept_truncation: whether to accept lengths that cut any number of
                examples; the global setting `accept` may accept them too.
            advice: how to set the lengths; `{}` stands for lengths that cut nothing.

        Raises:
            UserError: more than 1% of the inputs or any target of a data set would be
                cut, or more than 1% of its targets contain unknown pieces.
        """
        accepted = accept()
        accepted["accept_truncation"] |= accept_truncation
        lengths.check(needs, advice=advice, **accepted)

    fitting_lengths = staticmethod(lengths.fitting)
