"""Several examples in one row: which ones fit together, and the rows they make.

SeqIO's packing fills one row after the other in the order of the data and closes a row
as soon as the next example does not fit. Here a window of examples is packed at once,
the longest first, each into the fullest row that has room for it (best fit decreasing),
which leaves far less padding where examples have very different lengths.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Int

# Examples that are packed together. More of them fit better, but wait for each other.
WINDOW = 1024


def assign(
    lengths: Int[np.ndarray, "examples features"], room: Int[np.ndarray, " features"]
) -> list[list[int]]:
    """Rows as lists of examples, such that every feature of a row fits.

    Args:
        lengths: tokens of each feature of each example, none above `room`.
        room: positions of a row for each feature.

    Returns:
        Every example once. Rows come in the order of their first example, and so do the
        examples in a row, so that long ones are not the first of a window.
    """
    order = np.argsort(-np.max(lengths / room, axis=1), kind="stable")
    free = np.empty((len(lengths), len(room)), lengths.dtype)
    rows: list[list[int]] = []
    for example in order:
        left = free[: len(rows)] - lengths[example]
        slack = np.where((left >= 0).all(axis=1), (left / room).sum(axis=1), np.inf)
        if not rows or np.isinf(slack.min()):
            free[len(rows)] = room - lengths[example]
            rows.append([int(example)])
            continue
        fullest = int(slack.argmin())
        free[fullest] = left[fullest]
        rows[fullest].append(int(example))
    return sorted(sorted(row) for row in rows)


def fill(
    examples: Sequence[Mapping[str, Int[np.ndarray, " tokens"]]],
    rows: Sequence[Sequence[int]],
    room: Mapping[str, int],
) -> dict[str, Int[np.ndarray, "rows length"]]:
    """The arrays of packed rows, under the names that SeqIO's feature converters expect.

    Args:
        examples: tokens of each feature.
        rows: from `assign`.
        room: positions of a row for each feature.

    Returns:
        For each feature its tokens, `<feature>_segment_ids` (1, 2, ... for the examples
        of a row, 0 for padding) and `<feature>_positions` (0, 1, ... in each example).
    """
    packed = {}
    for name, length in room.items():
        dtype = examples[0][name].dtype if examples else np.dtype(np.int32)
        tokens = np.zeros((len(rows), length), dtype)
        segments = np.zeros((len(rows), length), np.int32)
        positions = np.zeros((len(rows), length), np.int32)
        for number, row in enumerate(rows):
            start = 0
            for segment, example in enumerate(row, start=1):
                part = examples[example][name]
                place = number, slice(start, start + len(part))
                tokens[place], segments[place] = part, segment
                positions[place] = np.arange(len(part))
                start += len(part)
        packed[name] = tokens
        packed[f"{name}_segment_ids"] = segments
        packed[f"{name}_positions"] = positions
    return packed


def pack(
    examples: Sequence[Mapping[str, Int[np.ndarray, " tokens"]]],
    room: Mapping[str, int],
) -> dict[str, Int[np.ndarray, "rows length"]]:
    """`fill` of `assign`; what is longer than its room is cut off."""
    trimmed = [{name: e[name][: room[name]] for name in room} for e in examples]
    lengths = np.array([[len(e[name]) for name in room] for e in trimmed], np.int64)
    rows = assign(lengths.reshape(len(trimmed), len(room)), np.array([*room.values()]))
    return fill(trimmed, rows, room)
