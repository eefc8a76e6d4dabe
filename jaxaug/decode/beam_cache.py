"""Shared history in the cache of beams, if the runtime supports it."""

from typing import Any

try:
    from t5x.decoding import share_history as share
except ImportError:
    share = None  # type: ignore[assignment]


def is_there() -> bool:
    """Returns whether the runtime has `share_history`; upstream T5X does not."""
    return share is not None


def share_history(cache: Any, beams: int) -> Any:
    """Returns a cache in which the beams share their history, if the runtime can.

    Otherwise the cache is returned unchanged. See
    `t5x.search.decode_state.share_history`.

    Args:
        cache: nested arrays, one row per input.
        beams: number of beams per input.
    """
    return share(cache, beams) if is_there() else cache
