"""Inference over a dataset: batches, padding of the tail, results in order."""

import concurrent.futures
import functools
import inspect
import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from absl import logging
from jaxtyping import PRNGKeyArray

from t5x.distributed import multihost_assert_equal
from t5x.feed.iterators import is_tf_dataset, shard_batch
from t5x.inference import lengths
from t5x.on_cpu.features import SMALL, cores
from t5x.search.decode_state import check_decodes

# More programs at once would compete for the caches of a core.
_MOST = 4

Step = Callable[[], Any]


def threads_for(params: Any) -> int:
    """Returns the number of concurrent steps: one per core, at most four.

    On a CPU, XLA runs the steps of one thread in sequence, and the small operations of
    a small model hardly use a second core. The result is 1 on other backends, for large
    models, and on several devices. A large model uses all cores and much memory per
    step; several devices need the same order of steps on all processes.
    """
    if jax.default_backend() != "cpu" or jax.device_count() > 1:
        return 1
    if sum(leaf.size for leaf in jax.tree.leaves(params)) >= SMALL:
        return 1
    return min(cores(), _MOST)


@contextmanager
def enqueueing(number: int) -> Iterator[Callable[[Hashable, Step], Callable[[], Any]]]:
    """Yields a function that enqueues a step and returns a function for its result.

    The first argument of the yielded function is the shape of the step. The first step
    of each shape is traced and compiled, so it runs in the calling thread. With one
    thread all steps do.
    """
    seen: set[Hashable] = set()
    if number == 1:
        yield lambda shape, step: _known(step())
        return
    with concurrent.futures.ThreadPoolExecutor(number) as pool:

        def enqueue(shape: Hashable, step: Step) -> Callable[[], Any]:
            if shape not in seen:
                seen.add(shape)
                return _known(step())
            return pool.submit(step).result

        yield enqueue


def _known(value: Any) -> Callable[[], Any]:
    return lambda: value


Example = Mapping[str, Any]


# Runs inference on an enumerated dataset: (ds, train_state, rng=None); `get_infer_fn`.
InferFnCallable = Callable[..., Any]


def get_infer_fn(
    infer_step: Callable[..., Any],
    batch_size: int,
    train_state_axes: Any,
    partitioner: Any,
    keep_aux_as_numpy: bool = False,
    trim_padding: bool = True,
    on_done: Callable[[int], None] = lambda count: None,
) -> InferFnCallable:
    """Returns the function that SeqIO evaluators call to predict or score.

    Args:
        infer_step: (params, batch[, rng][, flax_mutables]) -> a tree of arrays [batch,
            ...], or (array, mapping of auxiliary arrays). A key is passed only if it
            has a parameter named `rng`.
        trim_padding: whether to cut padding that changes no result, if the step is a
            model method that allows it (see `lengths.rule_of`). Results are equal up to
            rounding.
        on_done: called with the number of examples whenever some are done.

    Returns:
        `infer_fn(ds, train_state, rng=None)`. `ds` yields (index, example) and has a
            known length; the indices are 0 ... n-1 in any order. `rng` is split once
            per batch. The result is a list of (index, prediction as Python lists) in
            index order; with auxiliary values it is (that list, mapping of lists). It
            raises UserError if a decoding model found no token to choose.
    """
    parameters = inspect.signature(infer_step).parameters
    takes_rng = "rng" in parameters
    takes_mutables = "flax_mutables" in parameters

    def step_with_indices(
        params: Any, batch: Any, rng: Any, indices: Any, mutables: Any
    ) -> Any:
        kwargs = {"flax_mutables": mutables} if takes_mutables else {}
        args = (params, batch, rng) if takes_rng else (params, batch)
        return indices, infer_step(*args, **kwargs)

    data_spec = partitioner.data_partition_spec
    partitioned_step = partitioner.partition(
        step_with_indices,
        in_axis_resources=(
            train_state_axes.params,
            data_spec,
            None,
            data_spec,
            train_state_axes.flax_mutables,
        ),
        out_axis_resources=(None, None),
    )
    layout = partitioner.get_data_layout(batch_size)
    rows = batch_size // layout.num_shards
    rule = lengths.rule_of(infer_step) if trim_padding else None

    def batches(ds: Any, length: int) -> Iterator[lengths.Indexed]:
        if rule is None:
            return _padded_batches(ds, length, batch_size, layout)
        windows = _padded_batches(ds, length, batch_size, layout, lengths.WINDOW)
        return lengths.batches(windows, rows, rule)

    def run(train_state: Any, batch: Any, indices: Any, step_rng: Any) -> Any:
        placed = shard_batch({**batch, "": indices}, partitioner)
        placed_indices = placed.pop("")  # type: ignore[attr-defined]
        result = partitioned_step(
            train_state.params,
            placed,
            step_rng,
            placed_indices,
            train_state.flax_mutables,
        )
        # Starts the copies now, to overlap them with the next batch.
        return jax.tree.map(_start_copy_to_host, result)

    def infer_fn(ds: Any, train_state: Any, rng: PRNGKeyArray | None = None) -> Any:
        length = len(ds)
        multihost_assert_equal(
            np.array(length), "The dataset has different lengths on the processes."
        )
        if not length:
            return []
        results: list[Any] = []
        threads = threads_for(train_state.params)
        with enqueueing(threads) as enqueue:
            for indices, batch in batches(ds, length):
                step_rng = None
                if rng is not None:
                    step_rng, rng = jax.random.split(rng)
                step = functools.partial(run, train_state, batch, indices, step_rng)
                shape = tuple((name, x.shape) for name, x in batch.items())
                real = int(np.sum(indices >= 0)) * layout.num_shards
                results.append((enqueue(shape, step), real))
            for place, (result, real) in enumerate(results):
                results[place] = jax.block_until_ready(result())
                on_done(real)
        logging.info("Inference of %d examples is done.", length)
        check = check_decodes if _decodes(infer_step) else None
        return _in_order(results, length, keep_aux_as_numpy, check)

    return infer_fn


def _decodes(infer_step: Callable[..., Any]) -> bool:
    """Returns whether a step is a prediction of a model with a decode function."""
    while isinstance(infer_step, functools.partial):
        infer_step = infer_step.func
    name = getattr(infer_step, "__name__", "")
    model = getattr(infer_step, "__self__", None)
    return name.startswith("predict_batch") and hasattr(model, "decode_fn")


def _start_copy_to_host(x: Any) -> Any:
    local = x.addressable_data(0) if isinstance(x, jax.Array) else x
    if isinstance(local, jax.Array):
        local.copy_to_host_async()
    return local


def _padded_batches(
    ds: Any, length: int, batch_size: int, layout: Any, together: int = 1
) -> Iterator[lengths.Indexed]:
    """Yields the batches of this process's shard; all processes yield equally many.

    The tail is padded with the first example at index -1. `together` batches are
    yielded as one array; fewer at the end.
    """
    rows = batch_size // layout.num_shards
    found = _host_batches(ds, rows * together, layout)
    left = math.ceil(length / batch_size)
    first: dict[str, np.ndarray] = {}
    while left:
        indices, batch = next(found, (np.zeros(0, np.int64), {}))
        if not first and layout.shard_id == 0:
            first = {k: v[:1] for k, v in batch.items()}
        missing = rows * min(together, left) - len(indices)
        left -= min(together, left)
        if missing:
            # Opening the data again is slow, so it happens only if this process has
            # no example to repeat.
            first = first or _stack(itertools.islice(_examples(ds), 1))[1]
            indices = np.concatenate([indices, np.full(missing, -1, indices.dtype)])
            batch = {
                k: np.concatenate([batch.get(k, v[:0]), np.repeat(v, missing, axis=0)])
                for k, v in first.items()
            }
        # JAX would truncate 64-bit indices with a warning.
        yield indices.astype(np.int32), batch


def _host_batches(ds: Any, rows: int, layout: Any) -> Iterator[lengths.Indexed]:
    if is_tf_dataset(ds):
        shard = ds.shard(layout.num_shards, layout.shard_id).batch(rows)
        for indices, batch in shard.as_numpy_iterator():
            yield np.asarray(indices), dict(batch)
        return
    mine = itertools.islice(_examples(ds), layout.shard_id, None, layout.num_shards)
    while chunk := list(itertools.islice(mine, rows)):
        yield _stack(chunk)


def _examples(ds: Any) -> Iterator[tuple[Any, Example]]:
    return ds.as_numpy_iterator() if is_tf_dataset(ds) else iter(ds)


def _stack(
    examples: Iterable[tuple[Any, Example]],
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    indices, features = zip(*examples, strict=True)
    return np.asarray(indices), {
        k: np.stack([np.asarray(f[k]) for f in features]) for k in features[0]
    }


def _in_order(
    results: list[Any],
    length: int,
    keep_aux_as_numpy: bool,
    check: Callable[[Any], None] | None,
) -> Any:
    """Joins batch results, drops padding, sorts by index, and checks predictions."""
    indices, inferences = jax.tree.map(
        lambda *parts: np.concatenate([np.asarray(p) for p in parts]), *results
    )
    kept = np.flatnonzero(indices >= 0)
    order = kept[np.argsort(indices[kept], kind="stable")]
    if not np.array_equal(indices[order], np.arange(length)):
        raise ValueError(
            f"Inference over {length} examples returned {len(order)} results; their "
            f"indices are not 0 ... {length - 1}. Is the dataset enumerated?"
        )
    inferences = jax.tree.map(lambda x: x[order], inferences)
    aux = None
    if (
        isinstance(inferences, tuple)
        and len(inferences) == 2
        and isinstance(inferences[1], Mapping)
    ):
        inferences, aux = inferences
    if check is not None:
        check(inferences)
    leaves, structure = jax.tree.flatten(inferences)
    rows = zip(*(leaf.tolist() for leaf in leaves), strict=True)
    predictions = [
        (i, jax.tree.unflatten(structure, row)) for i, row in enumerate(rows)
    ]
    if aux is None:
        return predictions
    to_list = list if keep_aux_as_numpy else (lambda x: x.tolist())
    return predictions, jax.tree.map(to_list, aux)
