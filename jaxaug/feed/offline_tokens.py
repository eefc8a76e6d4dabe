"""Reads offline caches of SeqIO without SeqIO and TensorFlow.

`jaxaug data cache` and `seqio_cache_tasks` write ids as `tf.train.Example` records in
TFRecord files; see docs/cached_tasks.md. A machine with only JAX converts a split of
them once into the flat arrays of `TokenCache`, shard by shard. It then trains from
these through `jaxaug.feed.batches`.

Sources of the formats: the documentation of TFRecord ("TFRecord and tf.train.Example",
tensorflow.org) and of protocol buffers.
"""

import functools
import itertools
import re
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import google_crc32c
from etils import epath
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from jaxaug.core import cache_folder, cached, manifest
from jaxaug.core.digests import digest_of, file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, check_ordinary, read_json
from jaxaug.feed import arrays
from jaxaug.feed.arrays import TokenCache

_LAYOUT = 2  # Increase it when the arrays or their order change.
_AGAIN = "Make the cache again: `jaxaug data cache --task {} --out DIR`."


def find(task: str, cache_dirs: Sequence[PathLike]) -> epath.Path | None:
    """Returns the first finished cache of a task in the folders, or None."""
    for folder in cache_dirs:
        found = epath.Path(folder).expanduser().joinpath(*task.split(":"))
        if (found / "COMPLETED").exists():
            return found
    return None


def build(
    cached_task: PathLike,
    split: str,
    sentencepiece_model: PathLike | None = None,
    root: PathLike | None = None,
    fields: Sequence[str] = arrays.FIELDS,
) -> TokenCache | None:
    """Returns the ids of one split of a cached task; None if it has no such split.

    Args:
        cached_task: folder of the cached task.
        split: name of the split in SeqIO.
        sentencepiece_model: None, or the required vocabulary of the ids.
        root: parent of all caches on this machine; None means
            `cache_folder.cache_dir()`.
        fields: fields to read.

    Raises:
        UserError: the cache is damaged, has no ids, or has another vocabulary.
    """
    folder = epath.Path(cached_task)
    info_path = folder / f"info.{split}.json"
    if not info_path.exists():
        return None
    fix = _AGAIN.format(folder.name)
    info = read_json(info_path, fix)
    _check_vocabulary(folder, sentencepiece_model, fix)
    shards = _shards(folder, split, info, fields, fix)
    sizes = [[path.name, path.stat().length] for path in shards]
    notes = folder / manifest.NAME
    known = file_digest(notes) if notes.exists() else ""
    digest = digest_of([_LAYOUT, [*fields], info, sizes, known])
    name = f"offline-{folder.name}-{split}-{digest}"
    target = epath.Path(root or cache_folder.cache_dir()) / "tokens" / name
    if manifest.opened(target) is None:
        examples = itertools.chain.from_iterable(
            _examples(path, fields, fix) for path in shards
        )
        cached.publish(
            target, lambda temporary: arrays.write(examples, temporary, fields)
        )
    return arrays.open_cache(target, fields)


def _check_vocabulary(folder: epath.Path, model: PathLike | None, fix: str) -> None:
    notes = folder / manifest.NAME
    if model is None or not notes.exists():
        return
    used = read_json(notes, fix).get("vocabulary")
    if used is not None and used != file_digest(model):
        raise UserError(
            f"{folder}: this cache has ids of another vocabulary than {model}. Name "
            f"the one that it was made with, or make another. {fix}"
        )


def _shards(
    folder: epath.Path, split: str, info: Any, fields: Sequence[str], fix: str
) -> list[epath.Path]:
    """Returns the files of a split in the order of their names."""
    wrong = UserError(f"{folder / f'info.{split}.json'}: is no info of a cache. {fix}")
    if not isinstance(info, dict) or not isinstance(info.get("features"), dict):
        raise wrong
    count, features = info.get("num_shards"), info["features"]
    if type(count) is not int:
        raise wrong
    for name in fields:
        if features.get(name) != {"dtype": "int32", "shape": [None]}:
            raise UserError(
                f"{folder}: split {split!r} has no ids {name!r} (int32, one axis). "
                "Only tasks of texts are read without SeqIO."
            )
    pattern = re.compile(rf"{re.escape(split)}\.tfrecord-(\d+)-of-0*{count}")
    found = [path for path in folder.iterdir() if pattern.fullmatch(path.name)]
    if len(found) != count:
        raise UserError(f"{folder}: {len(found)} of {count} files of {split!r}. {fix}")
    return sorted(found, key=lambda path: path.name)


def _examples(
    path: epath.Path, fields: Sequence[str], fix: str
) -> Iterator[tuple[list[int], ...]]:
    """Yields the ids of each field for each record of a file."""
    example = _example_class()()
    for data in _records(path, fix):
        example.ParseFromString(data)
        features = example.features.feature
        yield tuple(features[name].int64_list.value[:] for name in fields)


def _records(path: epath.Path, fix: str) -> Iterator[bytes]:
    """Yields the contents of a TFRecord file, each checked by its CRC-32C."""
    check_ordinary(path, fix)
    with path.open("rb") as file:
        while header := file.read(12):
            length = struct.unpack("<Q", header[:8])[0] if len(header) == 12 else 0
            whole = len(header) == 12 and _masked(header[:8]) == header[8:]
            data = file.read(length) if whole else b""
            check = file.read(4)
            if not whole or len(data) != length or _masked(data) != check:
                raise UserError(f"{path}: is damaged or no file of TFRecords. {fix}")
            yield data


def _masked(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    mixed = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return struct.pack("<I", mixed)


@functools.cache
def _example_class() -> Any:
    """Returns the message `tf.train.Example`, under a name that TensorFlow does not
    use.
    """
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="jaxaug/example.proto", package="jaxaug", syntax="proto3"
    )

    def message(name: str, **fields: Any) -> Any:
        found = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields.items(), 1):
            one = found.field.add(name=field, number=number, label=kinds.LABEL_OPTIONAL)
            if isinstance(kind, str):
                one.type, one.type_name = kinds.TYPE_MESSAGE, f".jaxaug.{kind}"
            else:
                one.type = kind
        return found

    lists = {"BytesList": kinds.TYPE_BYTES, "FloatList": kinds.TYPE_FLOAT}
    for name, kind in (lists | {"Int64List": kinds.TYPE_INT64}).items():
        message(name, value=kind).field[0].label = kinds.LABEL_REPEATED
    message(
        "Feature",
        bytes_list="BytesList",
        float_list="FloatList",
        int64_list="Int64List",
    )
    features = message("Features", feature="Features.FeatureEntry")
    features.field[0].label = kinds.LABEL_REPEATED
    entry = message("FeatureEntry", key=kinds.TYPE_STRING, value="Feature")
    entry.options.map_entry = True
    features.nested_type.add().CopyFrom(entry)
    file.message_type.remove(entry)
    message("Example", features="Features")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("jaxaug.Example"))
