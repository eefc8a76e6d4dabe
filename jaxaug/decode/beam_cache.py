"""The cache of beams that look up their past, where the runtime has that."""

from typing import Any

try:
    from t5x.decoding import share_history as share
except ImportError:
    share = None  # type: ignore[assignment]


def is_there() -> bool:
    """Returns whether the runtime has it; upstream T5X has not."""
    return share is not None


def share_history(cache: Any, beams: int) -> Any:
    """See `t5x.search.decode_state.share_history`; without it, the cache as it is."""
    return share(cache, beams) if is_there() else cache
