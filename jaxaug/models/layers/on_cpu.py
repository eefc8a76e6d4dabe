"""What the runtime computes faster on a CPU.

Upstream's T5X has none of it; under that, layers compute as on any other device.
"""

try:
    from t5x.on_cpu import attention, features, products, reductions
except ImportError:
    attention = features = products = reductions = None  # type: ignore[assignment]


def is_there() -> bool:
    """Whether JAX computes on a CPU and the runtime has its functions for that."""
    return features is not None and features.is_used()
