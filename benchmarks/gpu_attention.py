"""Attention of T5 in our kernels on a GPU (`t5x.on_gpu`), as ratios to cuDNN's kernel.

    python benchmarks/gpu_attention.py --rows 16 --length 1024

For each kind of mask: errors of the output and of the gradients against products in
float32, and the time of a forward and a backward pass. cuDNN gets the biases of all pairs,
as T5 did before there were kernels of ours. --blocks prints the milliseconds of each kernel
by its `Blocks` first, and takes the fastest.
"""

import argparse
import concurrent.futures
import functools
import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from t5x.examples.t5.position_bias import ByDistance
from t5x.on_gpu import attention, attention_calls
from t5x.on_gpu.attention_kernels import Blocks, OfQueries

RADIUS, SCALE = 128, 0.125


class Case(NamedTuple):
    """What attention gets.

    Attributes:
        name: of the mask.
        arrays: queries, keys, values, and biases by distance or None.
        mask: [rows, 1, queries, keys], or None.
        gradient: of the output.
    """

    name: str
    arrays: tuple[Any, ...]
    mask: Any
    gradient: Any

    def few(self) -> "Case":
        """Two rows of it."""
        *heads, bias = self.arrays
        mask = None if self.mask is None else self.mask[:2]
        arrays = (*(x[:2] for x in heads), bias)
        return self._replace(arrays=arrays, mask=mask, gradient=self.gradient[:2])


def cases(rows: int, length: int, heads: int) -> list[Case]:
    """Self-attention with masks of several kinds, and cross-attention without biases."""
    rng = np.random.default_rng(0)

    def drawn(*shape: int) -> Any:
        return jnp.asarray(rng.standard_normal(shape), jnp.bfloat16)

    segments = np.arange(length) * 3 // length
    masks = {
        "none": None,
        "all seen": np.ones((length, length)),
        "packed": segments[:, None] == segments,
        "causal": np.tril(np.ones((length, length))),
    }
    query, key, value, gradient = (drawn(rows, length, heads, 64) for _ in range(4))
    bias = drawn(heads, 2 * RADIUS + 1).astype(jnp.float32)
    made = [
        Case(name, (query, key, value, bias), _of_rows(mask, rows), gradient)
        for name, mask in masks.items()
    ]
    fewer = length // 4
    mask = _of_rows(np.ones((fewer, length)), rows)
    arrays = (query[:, :fewer], key, value, None)
    return [*made, Case("cross", arrays, mask, gradient[:, :fewer])]


def _of_rows(mask: Any, rows: int) -> Any:
    if mask is None:
        return None
    return jnp.asarray(np.broadcast_to(mask, (rows, 1, *mask.shape)), jnp.bfloat16)


def of_pairs(query, key, value, bias, mask, *, dtype: Any, implementation: Any) -> Any:
    """Attention of JAX with biases of all pairs."""
    query, key, value = (x.astype(dtype) for x in (query, key, value))
    if bias is not None:
        bias = ByDistance(bias, query.shape[1], key.shape[1]).of_pairs().astype(dtype)
    return jax.nn.dot_product_attention(
        query,
        key,
        value,
        bias=bias,
        mask=None if mask is None else mask > 0,
        scale=SCALE,
        implementation=implementation,
    )


WAYS = {
    "ours": functools.partial(attention.attend, scale=SCALE),
    "cuDNN": functools.partial(of_pairs, dtype=jnp.bfloat16, implementation="cudnn"),
    "float32": functools.partial(of_pairs, dtype=jnp.float32, implementation="xla"),
}


def passes(attend: Callable[..., Any], arrays: Any, mask: Any, gradient: Any) -> Any:
    """Output and gradients of queries, keys, values and biases."""
    out, back = jax.vjp(lambda *a: attend(*a, mask), *arrays)
    return jax.tree.leaves((out, back(gradient.astype(out.dtype))))


def milliseconds(call: Callable[..., Any], *arguments: Any) -> float:
    """Of a call, the median of five rounds of ten that follow each other."""
    jax.block_until_ready(call(*arguments))
    rounds = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(10):
            out = call(*arguments)
        jax.block_until_ready(out)
        rounds.append(100 * (time.perf_counter() - start))
    return statistics.median(rounds)


def relative_error(x: Any, y: Any) -> float:
    x, y = np.asarray(x, np.float32), np.asarray(y, np.float32)
    return float(np.linalg.norm(x - y) / np.linalg.norm(y))


def compare(case: Case) -> None:
    """Prints errors and times of both ways."""
    runs = {
        way: jax.jit(functools.partial(passes, attend)) for way, attend in WAYS.items()
    }
    few, spent = case.few(), {}
    expected = runs["float32"](*few[1:])
    for way in ("ours", "cuDNN"):
        errors = map(relative_error, runs[way](*few[1:]), expected)
        spent[way] = milliseconds(runs[way], *case[1:])
        print(
            f"{case.name:9} {way:6} {spent[way]:6.2f} ms  errors of output and gradients "
            + " ".join(f"{100 * error:.2f}%" for error in errors)
        )
    print(
        f"{case.name:9} {spent['cuDNN'] / spent['ours']:.2f} times as fast", flush=True
    )


def by_blocks(case: Case) -> None:
    """Prints the milliseconds of each kernel, and sets the fastest blocks."""
    hidden = (case.mask[:, 0] <= 0).astype(jnp.int8)
    inputs = attention_calls.Inputs(*case.arrays, hidden)
    out, lse = jax.jit(attention_calls.forward, static_argnums=1)(inputs, SCALE)
    delta = jnp.sum(out * case.gradient, -1, jnp.float32).swapaxes(1, 2)
    known = OfQueries(case.gradient, lse, delta)
    wide = [
        Blocks(*sizes)
        for sizes in itertools.product((32, 64, 128), (32, 64, 128), (4, 8), (2, 3))
        if sizes[0] * sizes[1] >= 512 * sizes[2]
    ]
    square = [blocks for blocks in wide if blocks.queries == blocks.keys > 32]
    for name, call, settings in (
        ("FORWARD", attention_calls.forward, wide),
        ("OF_KEYS", attention_calls.gradient_of_keys, wide),
        ("OF_QUERIES", attention_calls.gradient_of_queries, square),
        ("OF_NEAR", attention_calls.gradient_of_near_pairs, square),
    ):
        arguments = (inputs,) if name == "FORWARD" else (inputs, known)
        if name == "OF_NEAR":
            size = attention_calls.OF_QUERIES.queries
            settings = [blocks for blocks in settings if blocks.queries == size]
        found = _times(name, call, arguments, settings)
        setattr(attention_calls, name, found[0][1])
        print(name, *(f"{tuple(b)}: {t:.3f}" for t, b in found), flush=True)


def _times(
    name: str, call: Callable[..., Any], arguments: Any, settings: list[Blocks]
) -> list[tuple[float, Blocks]]:
    """Milliseconds by blocks, the fastest first."""

    def lowered(blocks: Blocks) -> Any:
        setattr(attention_calls, name, blocks)
        return jax.jit(functools.partial(call, scale=SCALE)).lower(*arguments)

    def compiled(program: Any) -> Any:
        try:
            return program.compile()
        except jax.errors.JaxRuntimeError:
            return None  # It needs more shared memory than the GPU has.

    # XLA compiles on all cores; JAX traces on one.
    with concurrent.futures.ThreadPoolExecutor() as pool:
        programs = list(pool.map(compiled, map(lowered, settings)))
    return sorted(
        (milliseconds(program, *arguments), blocks)
        for program, blocks in zip(programs, settings, strict=True)
        if program is not None
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--length", type=int, default=1024, help="positions of a row")
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--blocks", action="store_true", help="times by size of blocks")
    arguments = parser.parse_args()
    if jax.default_backend() != "gpu":
        parser.error("the kernels run on a GPU, and JAX finds none here")
    print(jax.devices()[0].device_kind, "jax", jax.__version__)
    made = cases(arguments.rows, arguments.length, arguments.heads)
    if arguments.blocks:
        by_blocks(next(case for case in made if case.name == "all seen"))
    for case in made:
        compare(case)


if __name__ == "__main__":
    main()
