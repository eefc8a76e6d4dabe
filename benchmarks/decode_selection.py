"""Time of one DiPS selection, in the graph against plain Python, in one run.

    python benchmarks/decode_selection.py [--batch 32] [--sentences 2] [--repeats 5]

One selection chooses k of the 3k candidates of a beam step, by the same objective and
with the same result, which is checked. The other implementation is the one that the
tests use as reference (`tests/decode/naive.py`: lists, sets and loops; edit distances
are computed once for each pair, embedding distances once for each pair of words). Rows
say `L2` where words are compared by embeddings (512 wide) and `no L2` where mu[1] is 0.
"""

import argparse
import functools
import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxaug.decode import dips
from jaxaug.decode.candidates import Candidates

ROOT = Path(__file__).resolve().parent.parent
VOCAB, WIDTH, LAM = 32128, 512, 0.5


def load_naive() -> Any:
    """The plain version, from the folder of the tests."""
    path = ROOT / "tests" / "decode" / "naive.py"
    spec = importlib.util.spec_from_file_location("naive", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def step(batch: int, k: int, length: int) -> Candidates:
    """The last step of a beam search: beams share the first half of their tokens."""
    rng = np.random.default_rng(0)
    beams = np.repeat(rng.integers(2, 400, (batch, 1, length)), k, axis=1)
    half = length // 2
    beams[..., half:] = rng.integers(2, 400, (batch, k, length - half))
    parents = rng.integers(0, k, (batch, 3 * k))
    sequences = np.take_along_axis(beams, parents[..., None], axis=1)
    sequences[..., -1] = rng.integers(2, VOCAB, (batch, 3 * k))
    return Candidates(
        sequences=jnp.array(sequences, jnp.int32),
        lengths=jnp.full((batch, 3 * k), length),
        log_probs=-jnp.broadcast_to(jnp.arange(3.0 * k), (batch, 3 * k)),
        parents=jnp.array(parents, jnp.int32),
        finished=jnp.zeros((batch, 3 * k), bool),
        source=jnp.array(rng.integers(2, 400, (batch, length)), jnp.int32),
        source_lengths=jnp.full((batch,), length),
        step=jnp.array(length - 1),
        rng=jax.random.split(jax.random.key(0), batch),
        k=k,
    )


def best_time(function: Callable[[], Any], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def compare(
    naive: Any, args: argparse.Namespace, k: int, length: int, table: Any, mu: dips.Four
) -> str:
    """One row of the table."""
    candidates = step(args.batch, k, length)
    select = jax.jit(functools.partial(dips.select, lam=LAM, mu=mu))
    compiled = select.lower(candidates, embeddings=table).compile()
    in_graph = compiled(candidates, embeddings=table)
    ours = best_time(
        lambda: jax.block_until_ready(compiled(candidates, embeddings=table)),
        args.repeats,
    )
    vectors = np.asarray(table).astype(float) if mu[1] else np.zeros((VOCAB, 1))
    lists = vectors.tolist()

    def plain(row: int) -> list[int]:
        value = naive.Dips(
            candidates.sequences[row].tolist(),
            candidates.source[row].tolist(),
            lists,
            LAM,
            mu=mu,
        ).value
        return naive.greedy(value, 3 * k, k)

    start = time.perf_counter()
    found = [plain(row) for row in range(args.sentences)]
    theirs = (time.perf_counter() - start) / args.sentences
    agree = in_graph[: args.sentences].tolist() == found
    memory = compiled.memory_analysis()
    assert memory is not None
    return (
        f"{k:3} {length:4} {'L2' if mu[1] else 'no L2':6}"
        f"{1e3 * ours / args.batch:10.3f} {1e3 * theirs:10.1f} "
        f"{args.batch * theirs / ours:8.0f} "
        f"{memory.temp_size_in_bytes / 2**20:9.1f}   {agree}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--sentences", type=int, default=2, help="for plain Python")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    naive = load_naive()
    table = jax.random.normal(jax.random.key(0), (VOCAB, WIDTH)) / WIDTH**0.5
    print(f"device: {jax.devices()[0].device_kind}, batch {args.batch}")
    print("  k    T      ms/sentence: graph  python    ratio  temp MiB   same result")
    for mu in ((1.0, 1.0, 1.0, 1.0), (1.0, 0.0, 1.0, 1.0)):
        for k, length in ((4, 32), (10, 16), (10, 32), (10, 64), (20, 64)):
            print(compare(naive, args, k, length, table, mu), flush=True)


if __name__ == "__main__":
    main()
