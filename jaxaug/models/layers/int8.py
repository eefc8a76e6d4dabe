"""Weights of linear maps and token embeddings as 8-bit integers, computed as floats.

A weight is an integer from -127 to 127 times the scale of its output channel. The scale
is the largest absolute weight of the channel over 127. This takes a quarter of the
memory. A product converts a few channels at a time to floats, which stay in the
processor's cache. When few rows are decoded, reading weights dominates the time.

Networks do not know about integers. Within `products`, calls of their layers are
intercepted if the parameters are integers. A parameter keeps its name and shape; its
scale is stored next to it.
"""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax import traverse_util
from jax import lax
from jaxtyping import Array, Float, Int8
from t5x.examples.t5 import layers as t5_layers

from jaxaug.models.layers import Embed

# Floats that a product converts at a time: one megabyte, which fits the cache of a
# core. With half of it, the loops of SmolLM2 cost more than they save. With twice as
# much, the floats are read from memory.
_FLOATS = 2**18
_MAPS = (t5_layers.DenseGeneral,)
_TABLES = (Embed, t5_layers.Embed)
_LARGEST = 127

Path = tuple[str, ...]
Params = Mapping[str, Any]


def found(trace: Callable[[], Any]) -> dict[Path, int]:
    """Returns path -> number of values for one output, of possible integers."""
    sizes: dict[Path, int] = {}

    def note(call: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
        module = context.module
        if context.method_name == "__call__" and type(module) in _MAPS:
            sizes[(*module.path, "kernel")] = math.prod(
                args[0].shape[a] for a in _axes(module, args[0])
            )
        elif type(module) in _TABLES:
            sizes[(*module.path, "embedding")] = module.features
        return call(*args, **kwargs)

    with nn.intercept_methods(note):
        jax.eval_shape(trace)
    return sizes


def quantised(params: Params, sizes: Mapping[Path, int]) -> dict[str, Any]:
    """Returns the parameters; those in `sizes` are integers unless they are stacked."""
    flat = traverse_util.flatten_dict(dict(params))
    for path, size in sizes.items():
        values = np.asarray(flat[path], np.float32)
        is_table = path[-1] == "embedding"
        if is_table and values.ndim != 2:
            continue
        matrix = values.T if is_table else values.reshape(size, -1)
        if matrix.shape[0] != size:
            continue
        largest = np.abs(matrix).max(axis=0)
        scale = np.where(largest > 0, largest / _LARGEST, 1.0).astype(np.float32)
        integers = np.rint(matrix / scale).astype(np.int8)
        flat[path] = integers.T.copy() if is_table else integers.reshape(values.shape)
        flat[_beside(path)] = scale
    return traverse_util.unflatten_dict(flat)


def table(embedder: Params) -> Float[Array, "vocab features"]:
    """Returns the token embeddings of the parameters of a table as floats."""
    values = embedder["embedding"]
    scale = embedder.get("embedding_scale")
    return values if scale is None else values * jnp.asarray(scale)[:, None]


@contextlib.contextmanager
def products() -> Iterator[None]:
    """Lets networks compute with integer parameters inside a `with` block."""
    with nn.intercept_methods(_compute):
        yield


def _beside(path: Path) -> Path:
    return (*path[:-1], f"{path[-1]}_scale")


def _axes(module: Any, inputs: Array) -> tuple[int, ...]:
    axis = module.axis
    return tuple(a % inputs.ndim for a in ((axis,) if isinstance(axis, int) else axis))


def _compute(call: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
    module, method = context.module, context.method_name
    kind = type(module)
    name = "kernel" if kind in _MAPS else "embedding"
    if kind in (*_MAPS, *_TABLES) and method in ("__call__", "attend"):
        values = module.get_variable("params", name)
        if values is not None and values.dtype == jnp.int8:
            scale = module.get_variable("params", f"{name}_scale")
            compute: Callable[..., Array] = _lookup
            if kind in _MAPS:
                compute = _linear
            elif method == "attend":
                compute = _attend
            return compute(module, args[0], jnp.asarray(values), jnp.asarray(scale))
    return call(*args, **kwargs)


def _linear(
    module: Any, inputs: Array, values: Int8[Array, "..."], scale: Array
) -> Array:
    axes = _axes(module, inputs)
    kept = [a for a in range(inputs.ndim) if a not in axes]
    rows = inputs.transpose(*kept, *axes)
    size = math.prod(inputs.shape[a] for a in axes)
    features = module.features
    features = (features,) if isinstance(features, int) else tuple(features)
    matrix = values.reshape(size, -1)
    block = functools.partial(lax.dynamic_slice_in_dim, matrix, axis=1)
    outputs = _product(rows.reshape(-1, size), block, scale, module.dtype)
    outputs = outputs.reshape(*(inputs.shape[a] for a in kept), *features)
    dtype = getattr(module, "output_dtype", None) or module.dtype
    outputs = jnp.asarray(outputs, dtype)
    if getattr(module, "use_bias", False):
        outputs += jnp.asarray(module.get_variable("params", "bias"), dtype)
    return outputs


def _attend(
    module: Any, query: Array, values: Int8[Array, "vocab features"], scale: Array
) -> Float[Array, "... vocab"]:
    def block(start: Any, size: int) -> Array:
        return lax.dynamic_slice_in_dim(values, start, size, axis=0).T

    dtype = getattr(module, "attend_dtype", None) or module.dtype
    rows = query.reshape(-1, query.shape[-1])
    return _product(rows, block, scale, dtype).reshape(*query.shape[:-1], -1)


def _lookup(
    module: Any, tokens: Array, values: Int8[Array, "vocab features"], scale: Array
) -> Float[Array, "... features"]:
    rows = tokens.astype(jnp.int32)
    if isinstance(module, Embed):
        rows = module.rows(tokens)
    return jnp.asarray(values[rows] * scale[rows][..., None], module.dtype)


def _product(
    rows: Float[Array, "rows size"],
    block: Callable[[Any, int], Int8[Array, "size width"]],
    scale: Float[Array, " channels"],
    dtype: Any,
) -> Float[Array, "rows channels"]:
    """Returns float32 products, computed in a loop over blocks of channels.

    There are at least two blocks. Otherwise XLA would move the conversion out of all
    surrounding loops, and keep all weights as floats.
    """
    channels = len(scale)
    rows = jnp.asarray(rows, dtype)
    count = max(2, -(-channels * rows.shape[1] // _FLOATS))
    width = -(-channels // count)

    def step(number: Array, outputs: Array) -> Array:
        # The last blocks may overlap; the overlapping results are equal.
        start = jnp.minimum(number * width, channels - width)
        part = lax.dot(
            rows, block(start, width).astype(dtype), preferred_element_type=jnp.float32
        )
        return lax.dynamic_update_slice_in_dim(outputs, part, start, axis=1)

    outputs = jnp.zeros((rows.shape[0], channels), jnp.float32)
    return lax.fori_loop(0, count, step, outputs) * scale
