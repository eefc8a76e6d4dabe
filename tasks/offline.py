"""The verb `jaxaug data cache`: writes offline caches of SeqIO without Apache Beam.

A cache of a task is the folder `<out>/<task>` in the layout of `seqio_cache_tasks`:
`<split>.tfrecord-00000-of-0000N`, `info.<split>.json`, `stats.<split>.json` and
`COMPLETED`. jaxaug adds the list `meta.json` (see `jaxaug.core.manifest`).

Beam distributes the examples at random. Here each shard of the source becomes one
shard, so a stream from the cache equals the uncached stream, in the same order for
every seed.
"""

import argparse
import functools
import importlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import seqio
import tensorflow as tf
from etils import epath

from jaxaug.core import manifest
from jaxaug.core.cached import publish
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, reach
from jaxaug.core.progress import progress
from jaxaug.core.suggestion import nearest
from jaxaug.feed.source import RecordSource
from tasks.cached_task import COMPLETED, CachedTask, facts

# Number of shards for a source of a single shard, so that hosts can share its cache.
_SHARDS = 32
_LAYOUT = 1  # Increase it when the output for the same examples changes.

Example = Mapping[str, Any]


def run(arguments: argparse.Namespace) -> int:
    """Runs `jaxaug data cache`."""
    _import(arguments.module)
    out = reach(arguments.out, "Name the folder of the caches (--out).")
    for task in _chosen(arguments.task, arguments.mixture):
        folder, examples = cache_task(task, out)
        counts = ", ".join(f"{split} {count}" for split, count in examples.items())
        print(f"{folder}: {counts} examples", file=sys.stderr)
    return 0


def _import(modules: Sequence[str]) -> None:
    """Imports modules that register tasks, installed or in the current folder.

    Raises:
        UserError: there is no such module.
    """
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # Only `python -m` adds it.
    for module in modules:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise  # The missing module is an import of the named module.
            raise UserError(
                f"--module {module}: there is no module {error.name!r}. Name one of "
                f"the current folder or of an installed package, as in an import line."
            ) from error


def _chosen(tasks: Sequence[str], mixtures: Sequence[str]) -> list[seqio.Task]:
    """Returns the named tasks and the tasks of the mixtures, each once."""
    found: dict[str, seqio.Task] = {}
    registries = (
        (tasks, seqio.TaskRegistry, "task"),
        (mixtures, seqio.MixtureRegistry, "mixture"),
    )
    for names, registry, kind in registries:
        known = sorted(registry.names())
        for name in names:
            if name not in known:
                raise UserError(
                    f"{name!r} is no registered {kind}; {len(known)} are: "
                    f"{', '.join(known[:12])}{', ...' if len(known) > 12 else ''}."
                    f"{nearest(name, known)} Name one of them, or the module that "
                    "registers it (--module)."
                )
            for task in seqio.get_subtasks(registry.get(name)):
                found[task.name] = task
    return list(found.values())


def cache_task(task: seqio.Task, out: PathLike) -> tuple[epath.Path, dict[str, int]]:
    """Writes the cache of a task, unless it exists.

    Args:
        task: its preprocessors contain a `seqio.CacheDatasetPlaceholder`.
        out: parent of the folder, local or gs://.

    Returns:
        The folder of the cache, and the number of examples of each split.

    Raises:
        UserError: the task cannot be cached, or the folder contains another cache.
    """
    if not task.supports_caching:
        raise UserError(
            f"task {task.name!r} has no seqio.CacheDatasetPlaceholder() among its "
            "preprocessors: there is nothing that a cache could hold. Add one."
        )
    folder = epath.Path(out) / seqio.get_task_dir_from_name(task.name)
    content = _content(task)
    if folder.exists():
        found = facts(folder)
        if {name: found.get(name) for name in content} != content:
            raise UserError(
                f"{folder}: holds something else than this cache: one of other data, "
                "of another vocabulary or of another program. Remove it, or name "
                "another folder (--out)."
            )
    if manifest.opened(folder) is None:
        write = functools.partial(_write, task, content)
        publish(folder, write, "another folder (--out)")
    return folder, manifest.verified(folder)["examples"]


def _content(task: seqio.Task) -> dict[str, Any]:
    """Returns the properties that determine a cache, as far as known in advance."""
    found: dict[str, Any] = {
        "layout": _LAYOUT,
        "task": task.name,
        "seqio_version": seqio.__version__,
    }
    if isinstance(task, CachedTask):
        found["vocabulary"] = task.vocabulary_digest()
    if isinstance(task.source, RecordSource):
        found["records"] = {
            split: task.source.cache(split).folder.name for split in task.splits
        }
    return found


def _write(task: seqio.Task, content: Example, folder: epath.Path) -> None:
    examples = {}
    for split in task.splits:
        examples[split] = _write_split(task, split, folder)
    (folder / COMPLETED).write_text("tfrecord\n")
    manifest.write(folder, examples=examples, **content)


def _write_split(task: seqio.Task, split: str, folder: epath.Path) -> int:
    """Writes shards, `info`, and `stats` of one split; returns its example count."""
    sources = len(task.source.list_shards(split))
    shards = sources if sources > 1 else _SHARDS
    prefix = seqio.get_cached_tfrecord_prefix(str(folder), split)
    writers = [
        tf.io.TFRecordWriter(f"{prefix}-{shard:05}-of-{shards:05}")
        for shard in range(shards)
    ]
    stats = {"examples": 0}
    first: Example | None = None
    label = f"{task.name} {split}"
    total = task.num_input_examples(split)
    try:
        for place, example in progress(
            _examples(task, split), desc=label, unit="ex", total=total
        ):
            first = first or example
            writers[place % shards].write(_serialized(example))
            _count(stats, task, example)
    finally:
        for writer in writers:
            writer.close()
    features = {} if first is None else {k: _feature(v) for k, v in first.items()}
    info = {
        "num_shards": shards,
        "features": features,
        "seqio_version": seqio.__version__,
    }
    _write_json(seqio.get_cached_info_path(str(folder), split), info)
    _write_json(seqio.get_cached_stats_path(str(folder), split), stats)
    return stats["examples"]


def _examples(task: seqio.Task, split: str) -> Iterator[tuple[int, Example]]:
    """Yields (number of the shard, example) at the placeholder.

    For a source of one shard, example i has the number i, so the examples are
    distributed.
    """
    sources = len(task.source.list_shards(split))

    def stream(shard: Any) -> tf.data.Dataset:
        info = seqio.ShardInfo(shard, sources) if sources > 1 else None
        found = task.source.get_dataset(split, shuffle=False, shard_info=info)
        return task.preprocess_precache(found)

    def numbered(shard: tf.Tensor) -> tf.data.Dataset:
        return tf.data.Dataset.zip(
            tf.data.Dataset.from_tensors(shard).repeat(), stream(shard)
        )

    if sources == 1:
        yield from enumerate(stream(0).prefetch(tf.data.AUTOTUNE).as_numpy_iterator())
    elif isinstance(task.source, seqio.FileDataSource):
        # Several shards are read at once; the examples of each shard stay in order.
        shards = tf.data.Dataset.range(sources)
        yield from shards.interleave(
            numbered, num_parallel_calls=tf.data.AUTOTUNE
        ).as_numpy_iterator()
    else:
        for shard in range(sources):
            for example in stream(shard).as_numpy_iterator():
                yield shard, example


def _serialized(example: Example) -> bytes:
    """Serializes like `seqio.dict_to_tfexample`, but many times faster, without
    tensors.
    """
    found = tf.train.Example()
    for name, value in example.items():
        feature = found.features.feature[name]
        # NumPy would cut zeros off the end of bytes.
        flat = np.ravel(np.asarray(value, object if type(value) is bytes else None))
        if flat.dtype.kind in "iub":
            feature.int64_list.value.extend(flat.astype(np.int64).tolist())
        elif flat.dtype.kind == "f":
            feature.float_list.value.extend(flat.tolist())
        else:
            feature.bytes_list.value.extend(flat.tolist())
    return found.SerializeToString(deterministic=True)


def _feature(value: Any) -> dict[str, Any]:
    """Returns shape (first axis variable) and type, in the form of `info.json`."""
    found = tf.constant(value)
    shape = found.shape.as_list()
    return {"shape": [None, *shape[1:]] if shape else [], "dtype": found.dtype.name}


def _count(stats: dict[str, int], task: seqio.Task, example: Example) -> None:
    """Counts examples and, for each feature, ids except padding and end of sequence."""
    stats["examples"] += 1
    for name, feature in task.output_features.items():
        ids = example.get(name)
        if not isinstance(ids, np.ndarray) or ids.dtype not in (np.int32, np.int64):
            continue
        words = feature.vocabulary
        ends = [end for end in (words.eos_id, words.pad_id) if end is not None]
        count = int(np.size(ids) - np.isin(ids, ends).sum())
        total, most = f"{name}_tokens", f"{name}_max_tokens"
        stats[total] = stats.get(total, 0) + count
        stats[most] = max(stats.get(most, 0), count)


def _write_json(path: PathLike, value: Any) -> None:
    text = json.dumps(value, sort_keys=True, indent=2)
    epath.Path(path).write_text(f"{text}\n")
