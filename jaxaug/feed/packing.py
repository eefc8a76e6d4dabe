"""Best-fit-decreasing packing: assigns examples to shared rows."""

import numpy as np
from jaxtyping import Int


def assign(
    lengths: Int[np.ndarray, "examples features"], room: Int[np.ndarray, " features"]
) -> list[list[int]]:
    """Assigns examples to rows such that every feature of a row fits.

    Examples are placed longest first, each into the fullest row that has room for it.

    Args:
        lengths: tokens of each feature of each example, at most `room`.
        room: positions of a row for each feature.

    Returns:
        Rows as lists of examples, each example once. Rows are sorted by their first
        example, and examples within a row are sorted, so that long ones do not come
        first.
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
