"""Batches of examples of similar length, without the padding that all of them share.

Padding at the end of a row changes nothing in the networks of this package, but costs as
much as tokens. A batch is cut to the longest of its examples, rounded up to one of a few
widths, since each width is a compiled program; where a row's result depends on no other
row, examples of similar length come together.
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
"""Batches that are sorted together: what this process keeps in memory."""
# Of the whole width, the widths that have programs: wide rows cost most, as attention
# looks at pairs of positions.
_SHARES = (1, 3 / 4, 1 / 2, 3 / 8, 1 / 4, 3 / 16, 1 / 8)
# Below it, padding costs nothing that could be noticed.
_SHORTEST = 16
# Batches that are worth a program of their own.
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
    """What may be done to the batches of a step.

    Attributes:
        cut: features whose padding may be cut, at one share of their width for all.
        sort: whether examples may be decoded in other company.
    """

    cut: frozenset[str]
    sort: bool


def rule_of(infer_step: Callable[..., Any]) -> Rule | None:
    """What may be done to the batches of a method of a model; None is nothing.

    Model and network have to say by `ignores_padding`, each in the body of its own class,
    that padding behind the tokens changes none of their results: a subclass may do what
    its base class does not. A decode function says by `rows_alone` that a row's result
    depends on that row alone; sampling does so where it takes the most probable token,
    since numbers are drawn for a batch.
    """
    model = getattr(infer_step, "__self__", None)
    module = getattr(model, "module", None)
    if not (_ignores_padding(model) and _ignores_padding(module)):
        return None
    if infer_step.__name__ == "score_batch":
        return Rule(_ENCODER | _DECODER, sort=True)
    # What a decoder-only model writes ends where its inputs leave no room.
    if not hasattr(module, "encode"):
        return None
    return Rule(_ENCODER, sort=are_rows_alone(getattr(model, "decode_fn", None)))


def _ignores_padding(thing: Any) -> bool:
    return vars(type(thing)).get("ignores_padding", False)


def batches(windows: Iterable[Indexed], rows: int, rule: Rule) -> Iterator[Indexed]:
    """The examples in batches of similar length; a collective operation per window.

    Args:
        windows: indices and features [n, ...] of some batches of this process; n is a
            multiple of `rows`, the same on all processes, and index -1 is filling.
        rows: of a batch.
        rule: of the step.
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
            # The long ones first: what does not fit into memory fails early. Inside of a
            # width by the targets, whose lengths tell when a batch will have ended.
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
    """Tokens of each row [n, width] up to the last that is not padding."""
    filled = tokens != 0
    last = tokens.shape[1] - np.argmax(filled[:, ::-1], axis=1)
    return np.where(filled.any(axis=1), last, 0)


def _widths(full: int) -> list[int]:
    """The width at each of the shares, none of which is less than the shortest."""
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
    """Which of the shares is the smallest that each row fits into."""
    fits = []
    for name in cut & features.keys():
        lengths, full = _lengths(features[name]), features[name].shape[1]
        fits.append((lengths[:, None] <= np.array(_widths(full))).sum(axis=1) - 1)
    return np.min(fits, axis=0)


def _worthwhile(steps: Int[np.ndarray, " batches"]) -> Int[np.ndarray, " batches"]:
    """Steps of which each comes often enough; the others are left at fewer."""
    found = steps.copy()
    for value in range(len(_SHARES) - 1, 0, -1):
        here = found == value
        if np.any(found < value) and here.sum() < _WORTH:
            found[here] = value - 1
    return found
