"""Calls of the kernels in `attention_kernels` over blocks, heads, and batch rows."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Bool, Float, Int, Int8

from t5x.on_gpu import attention_kernels as kernels
from t5x.on_gpu.attention_kernels import Blocks

# Block sizes were measured on an H100 (`benchmarks/NOTES.md`).
FORWARD = Blocks(128, 64, 4, 3)
OF_KEYS = Blocks(32, 128, 4, 3)
# The first kernel sums the bias gradient over the blocks that the second skips.
OF_QUERIES = Blocks(64, 64, 4, 2)
OF_NEAR = Blocks(64, 64, 8, 3)
# Runs kernels as plain operations, on any device.
INTERPRET = False

# An input array, or shape and dtype of an output, and the part that a program sees.
_Operand = tuple[Any, pl.BlockSpec]


class Inputs(NamedTuple):
    """Inputs of attention.

    `bias` has one value per distance -radius ... radius from a query to a key, or is
    None. `hidden` is 1 for hidden keys; None hides nothing.
    """

    query: Float[Array, "batch queries heads dim"]
    key: Float[Array, "batch keys heads dim"]
    value: Float[Array, "batch keys heads dim"]
    bias: Float[Array, "heads distances"] | None
    hidden: Int8[Array, "#batch queries keys"] | None

    @property
    def radius(self) -> int:
        return 0 if self.bias is None else self.bias.shape[1] // 2


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def attend(inputs: Inputs, scale: float) -> Float[Array, "batch queries heads dim"]:
    """Computes attention; a query that sees no key gets zeros."""
    return forward(inputs, scale)[0]


def _attend_forward(inputs: Inputs, scale: float) -> tuple[Array, Any]:
    attended, lse = forward(inputs, scale)
    return attended, (inputs, attended, lse)


def _attend_backward(scale: float, kept: Any, gradient: Array) -> tuple[Inputs]:
    inputs, attended, lse = kept
    products = attended.astype(jnp.float32) * gradient.astype(jnp.float32)
    delta = jnp.sum(products, axis=-1).swapaxes(1, 2)
    known = kernels.OfQueries(gradient, lse, delta)
    of_query, far = gradient_of_queries(inputs, known, scale)
    of_key, of_value = gradient_of_keys(inputs, known, scale)
    of_bias = None
    if inputs.bias is not None and far is not None:
        near = gradient_of_near_pairs(inputs, known, scale)
        of_bias = near.at[:, 0].add(far[:, 0]).at[:, -1].add(far[:, 1])
        of_bias = of_bias.astype(inputs.bias.dtype)
    return (Inputs(of_query, of_key, of_value, of_bias, None),)


attend.defvjp(_attend_forward, _attend_backward)


def forward(
    inputs: Inputs, scale: float
) -> tuple[
    Float[Array, "batch queries heads dim"], Float[Array, "batch heads queries"]
]:
    """Returns the attention output, and log2 of the sums of its weights."""
    sizes, query = FORWARD, inputs.query
    rows, length, heads, dim = query.shape
    attended, lse = _call(
        kernels.forward,
        _visiting_keys(inputs, sizes),
        grid=(length // sizes.queries, heads, rows),
        setting=_setting(inputs, sizes, scale),
        outputs=[
            (query, _block(sizes.queries, dim)),
            (_float32(rows, heads, length), _numbers(sizes.queries)),
        ],
        name="attention",
    )
    return attended, lse


def gradient_of_queries(
    inputs: Inputs, known: kernels.OfQueries, scale: float
) -> tuple[Float[Array, "batch queries heads dim"], Float[Array, "heads 2"] | None]:
    """Returns the gradient of queries, and of the biases of far keys on either side."""
    sizes, query = OF_QUERIES, inputs.query
    rows, length, heads, dim = query.shape
    block, numbers = _block(sizes.queries, dim), _numbers(sizes.queries)
    outputs: list[_Operand] = [(query, block)]
    if inputs.bias is not None:
        of_two = pl.BlockSpec(
            (None, None, 2, sizes.queries), lambda i, h, b: (b, h, 0, i)
        )
        outputs.append((_float32(rows, heads, 2, length), of_two))
    of_query, *far = _call(
        kernels.of_queries,
        _visiting_keys(inputs, sizes),
        list(zip(known, (block, numbers, numbers), strict=True)),
        grid=(length // sizes.queries, heads, rows),
        setting=_setting(inputs, sizes, scale),
        outputs=outputs,
        name="attention_of_queries",
    )
    return of_query, jnp.sum(far[0], axis=(0, 3)) if far else None


def gradient_of_keys(
    inputs: Inputs, known: kernels.OfQueries, scale: float
) -> tuple[Float[Array, "batch keys heads dim"], Float[Array, "batch keys heads dim"]]:
    """Returns the gradients of keys and values."""
    sizes, key, value = OF_KEYS, inputs.key, inputs.value
    rows, length, heads, dim = key.shape
    block, queries = _block(sizes.keys, dim), _all(inputs.query)
    numbers = pl.BlockSpec(
        (None, None, inputs.query.shape[1]), lambda j, h, b: (b, h, 0)
    )
    hidden = None if inputs.hidden is None else inputs.hidden.swapaxes(1, 2)
    of_key, of_value = _call(
        kernels.of_keys,
        [
            (inputs.query, queries),
            (key, block),
            (value, block),
            *_tiles(inputs, sizes, transposed=True),
            *_masked(hidden, sizes.keys, sizes.queries),
        ],
        list(zip(known, (queries, numbers, numbers), strict=True)),
        grid=(length // sizes.keys, heads, rows),
        setting=_setting(inputs, sizes, scale),
        outputs=[(key, block), (value, block)],
        name="attention_of_keys",
    )
    return of_key, of_value


def gradient_of_near_pairs(
    inputs: Inputs, known: kernels.OfQueries, scale: float
) -> Float[Array, "heads distances"]:
    """Returns the bias gradient from the blocks near the diagonal."""
    query, key, value, _, hidden = inputs
    sizes, size = OF_NEAR, OF_NEAR.queries
    rows, length, heads, dim = query.shape
    blocks = key.shape[1] // size
    first, last = kernels.near_offsets(sizes, inputs.radius)
    offsets = last - first + 1

    def at_key(i: Any, j: Any) -> Any:
        return jnp.clip(i + j + first, 0, blocks - 1)

    of_queries = pl.BlockSpec((rows, size, None, dim), lambda i, j, h: (0, i, h, 0))
    of_keys = pl.BlockSpec(
        (rows, size, None, dim), lambda i, j, h: (0, at_key(i, j), h, 0)
    )
    numbers = pl.BlockSpec((rows, None, size), lambda i, j, h: (0, h, i))
    near, far = _biases(inputs, sizes)
    tile = pl.BlockSpec((None, None, size, size), lambda i, j, h: (h, j, 0, 0))
    masked = None
    if hidden is not None:
        pair = (hidden.shape[0], size, size)
        masked = hidden, pl.BlockSpec(pair, lambda i, j, h: (0, i, at_key(i, j)))
    pairs = (heads, length // size, offsets, size, size)
    (of_pairs,) = _call(
        functools.partial(kernels.of_near_logits, blocks=blocks),
        [
            (query, of_queries),
            (key, of_keys),
            (value, of_keys),
            (near, tile),
            (far, pl.BlockSpec((None, 2), lambda i, j, h: (h, 0))),
            masked,
            None,
        ],
        list(zip(known, (of_queries, numbers, numbers), strict=True)),
        grid=(length // size, offsets, heads),
        setting=_setting(inputs, sizes, scale),
        outputs=[
            (
                _float32(*pairs),
                pl.BlockSpec(
                    (None, None, None, size, size), lambda i, j, h: (h, i, j, 0, 0)
                ),
            )
        ],
        name="attention_of_near_logits",
    )
    return _by_distance(jnp.sum(of_pairs, axis=1), inputs.radius)


def _by_distance(
    blocks: Float[Array, "heads offsets queries keys"], radius: int
) -> Float[Array, "heads distances"]:
    """Sums over pairs of equal distance; distances beyond the radius share an entry."""
    heads, offsets, size, _ = blocks.shape
    rows = blocks.swapaxes(1, 2).reshape(heads, size, -1)
    # A distance is one column further right in each row. Reading the rows with a length
    # of one more puts it into a single column; columns before the first land in the
    # padding.
    width = rows.shape[-1] + size
    rows = jnp.pad(rows, ((0, 0), (0, 0), (0, size)))
    flat = jnp.pad(rows.reshape(heads, -1), ((0, 0), (0, size)))
    columns = jnp.sum(flat.reshape(heads, size, width + 1), axis=1)
    middle = (offsets // 2) * size
    columns = jnp.roll(columns, size, axis=1)
    lower, upper = middle + size - radius + 1, middle + size + radius
    return jnp.concatenate(
        [
            jnp.sum(columns[:, :lower], axis=1, keepdims=True),
            columns[:, lower:upper],
            jnp.sum(columns[:, upper:], axis=1, keepdims=True),
        ],
        axis=1,
    )


def _setting(inputs: Inputs, sizes: Blocks, scale: float) -> kernels.Setting:
    return kernels.Setting(scale * kernels.LOG2_E, sizes, inputs.radius)


def _call(
    kernel: Callable[..., None],
    inputs: list[_Operand | None],
    known: list[_Operand] | None = None,
    *,
    grid: tuple[int, int, int],
    setting: kernels.Setting,
    outputs: list[_Operand],
    name: str,
) -> tuple[Array, ...]:
    """Calls a kernel.

    `inputs` are the arrays of `kernels.Refs`, with both arrays of `Tiles` instead of
    the bias; `known` are the arrays of `kernels.OfQueries`, if the kernel has them.
    """
    operands = [operand for operand in (*inputs, *(known or [])) if operand is not None]

    def with_refs(*flat: Any) -> None:
        left = iter(flat)
        query, key, value, near, far, *mask = (
            x if x is None else next(left) for x in inputs
        )
        bias = None if near is None else kernels.Tiles(near, far)
        refs = kernels.Refs(query, key, value, bias, *mask)
        rest = (
            [] if known is None else [kernels.OfQueries(*(next(left) for _ in known))]
        )
        kernel(refs, *rest, *left, setting=setting)

    made = pl.pallas_call(
        with_refs,
        grid=grid,
        in_specs=[spec for _, spec in operands],
        out_specs=[spec for _, spec in outputs],
        out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype) for x, _ in outputs],
        compiler_params=triton.CompilerParams(
            num_warps=setting.sizes.warps, num_stages=setting.sizes.stages
        ),
        interpret=INTERPRET,
        name=name,
    )(*(array for array, _ in operands))
    return tuple(made)


def _visiting_keys(inputs: Inputs, sizes: Blocks) -> list[_Operand | None]:
    """Returns the operands of a kernel whose programs own a block of queries."""
    block = _block(sizes.queries, inputs.query.shape[-1])
    keys = _all(inputs.key)
    return [
        (inputs.query, block),
        (inputs.key, keys),
        (inputs.value, keys),
        *_tiles(inputs, sizes),
        *_masked(inputs.hidden, sizes.queries, sizes.keys),
    ]


def _block(size: int, dim: int) -> pl.BlockSpec:
    """Returns the spec of one block of one head, of [batch, length, heads, dim]."""
    return pl.BlockSpec((None, size, None, dim), lambda i, h, b: (b, i, h, 0))


def _all(x: Float[Array, "batch length heads dim"]) -> pl.BlockSpec:
    """Returns the spec of all positions of one head of one row."""
    return pl.BlockSpec(
        (None, x.shape[1], None, x.shape[3]), lambda i, h, b: (b, 0, h, 0)
    )


def _numbers(size: int) -> pl.BlockSpec:
    """Returns the spec of one number per position, of [batch, heads, length]."""
    return pl.BlockSpec((None, None, size), lambda i, h, b: (b, h, i))


def _tiles(
    inputs: Inputs, sizes: Blocks, transposed: bool = False
) -> list[_Operand | None]:
    """Returns the operands of `kernels.Tiles` for the head of a program."""
    if inputs.bias is None:
        return [None, None]
    near, far = _biases(inputs, sizes)
    if transposed:
        near = near.swapaxes(2, 3)
    return [
        (near, pl.BlockSpec((None, *near.shape[1:]), lambda i, h, b: (h, 0, 0, 0))),
        (far, pl.BlockSpec((None, 2), lambda i, h, b: (h, 0))),
    ]


def _biases(
    inputs: Inputs, sizes: Blocks
) -> tuple[Float[Array, "heads offsets queries keys"], Float[Array, "heads 2"]]:
    """Returns the arrays of `kernels.Tiles` for all heads."""
    assert inputs.bias is not None
    radius, unit = inputs.radius, min(sizes.queries, sizes.keys)
    first, last = kernels.near_offsets(sizes, radius)
    apart = np.arange(sizes.keys) - np.arange(sizes.queries)[:, None]
    apart = np.arange(first, last + 1)[:, None, None] * unit + apart
    powers = inputs.bias.astype(jnp.float32) * kernels.LOG2_E
    # Rounded like the biases of all pairs.
    near = powers.astype(inputs.query.dtype)[:, apart.clip(-radius, radius) + radius]
    return near, powers[:, :: 2 * radius]


def _masked(
    hidden: Int8[Array, "#batch length others"] | None, size: int, other: int
) -> list[_Operand | None]:
    """Returns the operands of the mask of a program and its bounds."""
    if hidden is None:
        return [None, None]
    many = hidden.shape[0] > 1

    def of_block(i: Any, h: Any, b: Any) -> tuple[Any, Any, int]:
        return (b if many else 0, i, 0)

    return [
        (hidden, pl.BlockSpec((None, size, hidden.shape[2]), of_block)),
        (_bounds(hidden, size, other), pl.BlockSpec((None, None, 4), of_block)),
    ]


def _bounds(
    hidden: Int8[Array, "#batch length others"], size: int, other: int
) -> Int[Array, "#batch blocks 4"]:
    """Returns `kernels.Refs.bounds` of blocks of `size` that visit those of `other`."""
    rows, length, others = hidden.shape
    number = jnp.arange(others // other, dtype=jnp.int32)
    end = others // other
    blocks = hidden.reshape(rows, length // size, size, end, other) > 0
    some, whole = ~jnp.all(blocks, axis=(2, 4)), ~jnp.any(blocks, axis=(2, 4))

    def first(found: Bool[Array, "rows blocks others"]) -> Int[Array, "rows blocks"]:
        return jnp.min(jnp.where(found, number, end), axis=-1)

    first_whole = first(whole)
    after_whole = first(~whole & (number > first_whole[..., None]))
    last = jnp.max(jnp.where(some, number + 1, 0), axis=-1)
    return jnp.stack([first(some), last, first_whole, after_whole], axis=-1)


def _float32(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)
