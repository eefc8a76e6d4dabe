"""Token counts of data sets: lengths that cut examples, and lengths that fit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from absl import logging
from jaxtyping import Int

from jaxaug.core.errors import UserError
from jaxaug.feed.tokens import Examples

MOST_CUT = 0.01
"""Share of the inputs of a data set that may be cut without acceptance."""

MOST_UNKNOWN = 0.01
"""Share of the targets of a data set that may contain unknown pieces."""

LEFT = {"inputs": "their left end", "targets": "their right end"}
"""Lost parts of cut examples of dialogue state tracking; the schema is on the left."""

_SHOWN = 6  # Maximum number of data sets in a message.
_SMALLEST = 16


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Token counts of one split of one task.

    Attributes:
        name: task and split, for messages.
        lengths: feature -> tokens of each example, end of sequence included.
        unknown: number of targets with a piece that the vocabulary lacks.
        vocabulary: file of the vocabulary, for messages.
        loses: feature -> the part that a cut example loses, for messages.
    """

    name: str
    lengths: Mapping[str, Int[np.ndarray, " examples"]]
    unknown: int
    vocabulary: str
    loses: Mapping[str, str]

    def cut(self, feature: str, limit: Any) -> int:
        """Returns the number of examples that are longer than `limit` tokens."""
        if not isinstance(limit, int) or feature not in self.lengths:
            return 0  # SeqIO allows None for any length, and tuples for several axes.
        return int(np.sum(self.lengths[feature] > limit))

    def longest(self, feature: str) -> int:
        """Returns the number of tokens of the longest example."""
        return int(self.lengths[feature].max(initial=0))


Needs = Sequence[tuple[TokenCounts, Mapping[str, Any]]]


def of_examples(
    name: str,
    found: Examples,
    unk_id: int | None,
    vocabulary: str,
    loses: Mapping[str, str],
) -> TokenCounts:
    """Counts the tokens of the examples of a task.

    `unk_id` is the id of unknown pieces, or None if the vocabulary can write every
    text. `TokenCounts` explains the others.
    """
    unknown = 0
    if unk_id is not None:
        places = np.flatnonzero(found.cache.ids["targets"] == unk_id)
        ends = found.cache.offsets["targets"]
        unknown = len(np.unique(np.searchsorted(ends, places, side="right")))
    return TokenCounts(name, found.whole_lengths(), unknown, vocabulary, loses)


def fitting(counts: Sequence[TokenCounts]) -> dict[str, int]:
    """Returns the shortest bucket of each feature that cuts no example.

    Buckets are multiples of 16 and of an eighth of the next lower power of two. A
    bucket therefore adds at most an eighth of a long example as padding.
    """
    features = dict.fromkeys(name for each in counts for name in each.lengths)
    return {
        name: _bucket(
            max(each.longest(name) for each in counts if name in each.lengths)
        )
        for name in features
    }


def _bucket(length: int) -> int:
    step = max(_SMALLEST, 2 ** (max(length, 1).bit_length() - 1) // 8)
    return max(1, -(-length // step)) * step


def report(counts: TokenCounts, limits: Mapping[str, Any]) -> None:
    """Logs how many examples are cut; as a warning if there are any."""
    for feature, limit in limits.items():
        if feature in counts.lengths and isinstance(limit, int):
            cut = counts.cut(feature, limit)
            logging.log(
                logging.WARNING if cut else logging.INFO,
                "%s: %d of %d %s lose %s at %d tokens (longest: %d)",
                counts.name,
                cut,
                len(counts.lengths[feature]),
                feature,
                counts.loses[feature],
                limit,
                counts.longest(feature),
            )


def check(
    needs: Needs,
    accept_truncation: bool = False,
    accept_unknown: bool = False,
    advice: str = "DatasetConfig.task_feature_lengths = {}",
) -> None:
    """Refuses lengths that cut examples, and vocabularies that cannot write targets.

    Args:
        needs: token counts of each data set of a run, with its feature lengths.
        accept_truncation: whether to accept lengths that cut any number of examples.
        accept_unknown: whether to accept any number of targets with unknown pieces.
        advice: how to set or accept lengths; `{}` stands for lengths that cut nothing.

    Raises:
        UserError: more than 1% of the inputs of a data set or any target would be cut,
            or more than 1% of its targets contain unknown pieces. The message gives the
            numbers and the lengths to use.
    """
    for counts, _ in needs:
        _check_unknown(counts, accept_unknown)
    # Evaluations often share a data set.
    each = {(counts.name, str(limits)): (counts, limits) for counts, limits in needs}
    wrong = [
        (counts, limits) for counts, limits in each.values() if _cuts(counts, limits)
    ]
    if not wrong or accept_truncation:
        return
    lines = [f"  {_cut(counts, limits)}" for counts, limits in wrong[:_SHOWN]]
    if len(wrong) > _SHOWN:
        lines.append(f"  and {len(wrong) - _SHOWN} more data sets")
    first, limits = wrong[0]
    lost = ", ".join(f"{name} lose {what}" for name, what in first.loses.items())
    fit = fitting([counts for counts, _ in needs])
    raise UserError(
        f"The feature lengths {dict(limits)} would cut too many examples of "
        f"{first.name}:\n" + "\n".join(lines) + "\nAt most 1% of the inputs and no "
        f"target of a data set may be cut ({lost}). Lengths that cut nothing:\n"
        f"  {advice.format(fit)}"
    )


def _cuts(counts: TokenCounts, limits: Mapping[str, Any]) -> bool:
    most = {"inputs": MOST_CUT * len(counts.lengths.get("inputs", ()))}
    return any(counts.cut(name, limits[name]) > most.get(name, 0) for name in limits)


def _cut(counts: TokenCounts, limits: Mapping[str, Any]) -> str:
    """Returns one line on the examples of a data set that lengths cut."""
    parts = []
    for feature, limit in limits.items():
        if cut := counts.cut(feature, limit):
            total = len(counts.lengths[feature])
            parts.append(
                f"{cut:,} of {total:,} {feature} ({_share(cut, total)}) exceed {limit} "
                f"tokens (longest: {counts.longest(feature):,})"
            )
    return f"{counts.name}: {', '.join(parts)}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if part >= 0.001 * whole else "under 0.1%"


def _check_unknown(counts: TokenCounts, accept: bool) -> None:
    if not counts.unknown:
        return
    total = len(counts.lengths["targets"])
    found = (
        f"{counts.unknown:,} of {total:,} targets of {counts.name} "
        f"({_share(counts.unknown, total)}) contain pieces that the vocabulary lacks"
    )
    if accept or counts.unknown <= MOST_UNKNOWN * total:
        logging.warning("%s (%s).", found, counts.vocabulary)
        return
    raise UserError(
        f"{found}.\nNo model with the vocabulary {counts.vocabulary} can write them; "
        f"at most 1% are allowed. Use a vocabulary with these characters "
        "(vocabulary.default_vocabulary.path or $JAXAUG_VOCABULARY), such as that of a "
        "model with byte fallback, or another text format."
    )
