"""Attention of T5 on a GPU, with a bias that depends on the distance of positions.

A cuDNN kernel reads such a bias and writes its gradient for every pair of positions,
and with a mask even for every row of the batch. This takes longer than the attention
itself. The kernels here (`attention_kernels`) look the bias up by distance. They skip
blocks that the mask hides: blocks beyond the diagonal of a causal mask, or between
examples of a packed row.
"""

import importlib.util
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

# Hopper (H100, H200), on which the kernels and block sizes were tested.
_COMPUTE_CAPABILITY = "9.0"
_COMPILER = "jax.experimental.pallas.triton"
_DTYPES = (jnp.bfloat16, jnp.float16)
_DIMS, _MULTIPLE = (64, 128), 128


def possible(query: Any, key: Any) -> bool:
    """Returns whether the kernels support arguments of `attend` on this device."""
    return (
        query.dtype in _DTYPES
        and query.dtype == key.dtype
        and query.shape[0] == key.shape[0]
        and query.shape[2:] == key.shape[2:]
        and query.shape[3] in _DIMS
        and not (query.shape[1] % _MULTIPLE or key.shape[1] % _MULTIPLE)
        and _are_there()
    )


def _are_there() -> bool:
    # XLA cannot partition the kernels: each of several devices would compute all rows.
    if jax.default_backend() != "gpu" or jax.device_count() > 1:
        return False
    device = jax.devices()[0]
    if getattr(device, "compute_capability", None) != _COMPUTE_CAPABILITY:
        return False
    # JAX has announced the removal of this module.
    return importlib.util.find_spec(_COMPILER) is not None


def attend(
    query: Float[Array, "batch queries heads dim"],
    key: Float[Array, "batch keys heads dim"],
    value: Float[Array, "batch keys heads dim"],
    bias: Float[Array, "heads distances"] | None = None,
    mask: Shaped[Array, "#batch 1 #queries #keys"] | None = None,
    *,
    scale: float,
) -> Float[Array, "batch queries heads dim"]:
    """Computes attention without dropout; logits and softmax are float32.

    A query that sees no key gets zeros.

    Args:
        bias: added to the scaled logits; one value per distance -radius ... radius from
            a query to a key. Larger distances use the nearest value.
        mask: 0 hides a key.
    """
    # Importing Pallas takes most of a second, which CPU runs need not spend.
    from t5x.on_gpu import attention_calls as calls

    hidden = None
    if mask is not None:
        pairs = (mask.shape[0], query.shape[1], key.shape[1])
        hidden = jnp.broadcast_to(mask[:, 0] <= 0, pairs).astype(jnp.int8)
    return calls.attend(calls.Inputs(query, key, value, bias, hidden), scale)
