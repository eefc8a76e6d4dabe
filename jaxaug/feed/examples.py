"""The examples of a task: its token cache, cut to the lengths of a run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Int

from jaxaug.feed.arrays import TokenCache

Ids = Int[np.ndarray, " tokens"]
Lengths = Mapping[str, int]
Ends = Mapping[str, int | None]
Cut = Callable[[Mapping[str, Ids], Lengths, Ends], dict[str, Ids]]
Parts = Mapping[str, tuple[str, ...]]
PAIRS: Parts = {"inputs": ("inputs",), "targets": ("targets",)}


def keep_last_turns(
    fields: Mapping[str, Ids], lengths: Lengths, ends: Ends
) -> dict[str, Ids]:
    """Cuts inputs at their left end, where the schema is, and targets at their right.

    Args:
        fields: ids of each field of an example.
        lengths: maximum tokens of each feature, end of sequence included.
        ends: id that ends each feature; None if the feature has no end of sequence.

    Returns:
        Ids of each feature, end of sequence included.
    """
    room = {name: lengths[name] - (ends[name] is not None) for name in ends}
    inputs, targets = fields["inputs"], fields["targets"]
    inputs = inputs[max(len(inputs) - room["inputs"], 0) :]
    return {
        "inputs": ended(inputs, ends["inputs"]),
        "targets": ended(targets[: room["targets"]], ends["targets"]),
    }


def keep_left_end(
    fields: Mapping[str, Ids], lengths: Lengths, ends: Ends
) -> dict[str, Ids]:
    """Cuts both features at their right end, end of sequence included.

    See `keep_last_turns` for arguments and result.
    """
    return {name: ended(fields[name], ends[name])[: lengths[name]] for name in ends}


def ended(ids: Ids, end: int | None) -> Ids:
    """Returns the ids with the end of sequence, unless it is None."""
    return ids if end is None else np.append(ids, np.asarray(end, ids.dtype))


@dataclass(frozen=True)
class Examples:
    """All examples of a split of one task.

    Attributes:
        name: name of the task; determines the order of the examples.
        cache: token ids of the examples.
        ends: id that ends each feature; None if the feature has no end of sequence.
        parts: feature -> cache fields that form it.
        cut: joins the fields of an example and cuts them to lengths. A feature gets
            `min(ids of its parts + end, length)` tokens.
    """

    name: str
    cache: TokenCache
    ends: Ends = field(default_factory=lambda: {"inputs": 1, "targets": 1})
    parts: Parts = field(default_factory=lambda: PAIRS)
    cut: Cut = keep_last_turns

    def __len__(self) -> int:
        return len(self.cache)

    def get(self, index: int, lengths: Lengths) -> dict[str, Ids]:
        """Returns the ids of each feature of an example."""
        names = [part for parts in self.parts.values() for part in parts]
        fields = {name: self.cache.get(name, index) for name in names}
        return self.cut(fields, lengths, self.ends)

    def whole_lengths(self) -> dict[str, Int[np.ndarray, " examples"]]:
        """Returns the token counts of each feature of each example before it is cut."""
        return {
            name: np.sum([np.diff(self.cache.offsets[part]) for part in parts], axis=0)
            + (self.ends[name] is not None)
            for name, parts in self.parts.items()
        }

    def cut_lengths(self, lengths: Lengths) -> dict[str, Int[np.ndarray, " examples"]]:
        """Returns the token counts of each feature of each example after it is cut."""
        return {
            name: np.minimum(found, lengths[name])
            for name, found in self.whole_lengths().items()
        }
