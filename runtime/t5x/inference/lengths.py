"""Batches of examples of similar length, without their common padding.

Padding at the end of a row does not change the results of these networks, but costs as
much as tokens. A batch is cut to its longest example, rounded up to one of a few
widths, because each width is a compiled program. If a row's result depends on no other
row, examples of similar length are batched together.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from t5x.distributed import greatest_of_all
from t5x.search.decode_state import are_rows_alone

Batch = dict[str, np.ndarray]
Indexed = tuple[np.ndarray, Batch]

WINDOW = 64
"""Number of batches that are sorted together and kept in memory by this process."""
# Compiled widths, as shares of the full width. They are denser for narrow rows, because
# attention cost grows with pairs of positions.
_SHARES = (1, 3 / 4, 1 / 2, 3 / 8, 1 / 4, 3 / 16, 1 / 8)
# Below this width the cost of padding is negligible.
_SHORTEST = 16
# Minimum number of batches that justifies a program.
_WORTH = 4

_ENCODER = frozenset({"encoder_input_tokens"})
_DECODER = frozenset(
    {
        "decoder_input_tokens",
        "decoder_target_tokens",
        "decoder_loss_weights",
        "decoder_causal_attention",
    }
)


class Rule(NamedTuple):
    """Allowed changes to the batches of a step.

    The padding of the features in `cut` may be cut, all to the same share of their
    widths. With `sort`, examples may be decoded in other batches.
    """

    cut: frozenset[str]
    sort: bool


def rule_of(infer_step: Callable[..., Any]) -> Rule | None:
    """Returns the allowed changes to the batches of a model's method; None for none.

    Model and network must each set `ignores_padding` in their own class body, because a
    subclass may break the promise of its base class. It promises that padding after the
    tokens changes no result. A decode function promises by `rows_alone` that the result
    of a row depends on that row only. For sampling this holds only if it takes the most
    probable token, since random numbers are drawn per batch.
    """
    model = getattr(infer_step, "__self__", None)
    module = getattr(model, "module", None)
    if not (_ignores_padding(model) and _ignores_padding(module)):
        return None
    if infer_step.__name__ == "score_batch":
        return Rule(_ENCODER | _DECODER, sort=True)
    # The output of a decoder-only model ends at the end of the row, so its width
    # matters.
    if not hasattr(module, "encode"):
        return None
    return Rule(_ENCODER, sort=are_rows_alone(getattr(model, "decode_fn", None)))


def _ignores_padding(thing: Any) -> bool:
    return vars(type(thing)).get("ignores_padding", False)


def batches(windows: Iterable[Indexed], rows: int, rule: Rule) -> Iterator[Indexed]:
    """Yields the examples in batches of similar length; one collective per window.

    A window has indices and features [n, ...] of several batches of this process. n is
    a multiple of `rows` and equal on all processes; index -1 marks padding rows.
    """
    for indices, features in windows:
        if not features.keys() <= _ENCODER | _DECODER:
            for start in range(0, len(indices), rows):
                yield _slice(indices, features, slice(start, start + rows))
            continue
        steps = _steps(features, rule.cut)
        steps[indices < 0] = len(_SHARES) - 1
        order = np.arange(len(indices))
        if rule.sort:
            # Long examples come first, so that running out of memory shows early.
            # Within a width, examples are sorted by target length, which determines
            # when a batch ends.
            targets = np.zeros_like(order)
            if "decoder_target_tokens" in features:
                targets = _lengths(features["decoder_target_tokens"])
            targets[indices < 0] = 0
            order = np.lexsort((-targets, steps))
        of_batch = steps[order].reshape(-1, rows).min(axis=1).astype(np.int32)
        of_batch = -greatest_of_all(-of_batch)
        for number, step in enumerate(_worthwhile(of_batch)):
            chosen = order[number * rows : (number + 1) * rows]
            yield _slice(
                indices,
                {k: _cut(v, step) if k in rule.cut else v for k, v in features.items()},
                chosen,
            )


def _slice(indices: np.ndarray, features: Batch, chosen: Any) -> Indexed:
    return indices[chosen], {k: v[chosen] for k, v in features.items()}


def _lengths(tokens: np.ndarray) -> Int[np.ndarray, " n"]:
    """Returns the length of each row [n, width] up to its last non-padding token."""
    filled = tokens != 0
    last = tokens.shape[1] - np.argmax(filled[:, ::-1], axis=1)
    return np.where(filled.any(axis=1), last, 0)


def _widths(full: int) -> list[int]:
    """Returns the width for each share; no share goes below the minimum width."""
    widths = [full]
    for share in _SHARES[1:]:
        width = math.ceil(share * full)
        widths.append(width if width >= _SHORTEST else widths[-1])
    return widths


def _cut(values: np.ndarray, step: int) -> np.ndarray:
    return values[:, : _widths(values.shape[1])[step]]


def _steps(
    features: Mapping[str, np.ndarray], cut: frozenset[str]
) -> Int[np.ndarray, " n"]:
    """Returns the index of the smallest share that each row fits into."""
    fits = []
    for name in cut & features.keys():
        lengths, full = _lengths(features[name]), features[name].shape[1]
        fits.append((lengths[:, None] <= np.array(_widths(full))).sum(axis=1) - 1)
    return np.min(fits, axis=0)


def _worthwhile(steps: Int[np.ndarray, " batches"]) -> Int[np.ndarray, " batches"]:
    """Merges rare steps into wider ones, so that each program serves enough batches."""
    found = steps.copy()
    for value in range(len(_SHARES) - 1, 0, -1):
        here = found == value
        if np.any(found < value) and here.sum() < _WORTH:
            found[here] = value - 1
    return found
