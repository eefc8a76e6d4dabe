"""Functions that the runtime computes faster on a CPU.

Upstream T5X has none of them; there, layers compute as on any other device.
"""

try:
    from t5x.on_cpu import attention, features, products, reductions
except ImportError:
    attention = features = products = reductions = None  # type: ignore[assignment]


def is_there() -> bool:
    """Returns whether JAX uses a CPU and the runtime has functions for it."""
    return features is not None and features.is_used()
