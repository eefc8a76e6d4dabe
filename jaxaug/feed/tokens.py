"""Token caches: the ids of all examples of a split, without TensorFlow.

`build` makes the cache of a record cache on disk, `collected` one in memory. `Examples`
cuts the examples of a cache to the lengths of a run.
"""

import array
import functools
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from etils import epath
from jaxtyping import Int

from jaxaug.core import cache_folder, cached, digests, manifest
from jaxaug.core.files import PathLike, is_remote
from jaxaug.feed import cache, parallel, vocabulary

FIELDS = ("inputs", "targets")
"""Fields of an example, as SeqIO names them."""

Encode = Callable[[list[str]], list[list[int]]]
Ids = Int[np.ndarray, " tokens"]
Lengths = Mapping[str, int]
Ends = Mapping[str, int | None]
Cut = Callable[[Mapping[str, Ids], Lengths, Ends], dict[str, Ids]]
Parts = Mapping[str, tuple[str, ...]]
PAIRS: Parts = {"inputs": ("inputs",), "targets": ("targets",)}

_LAYOUT = 2  # Part of the folder name: increase it when the arrays or meta.json change.
_CHUNK = 4096


@dataclass(frozen=True, slots=True)
class TokenCache:
    """Token ids of all examples of a split, without end of sequence.

    Example i of field f is `ids[f][offsets[f][i]:offsets[f][i + 1]]`.
    """

    name: str
    ids: Mapping[str, Int[np.ndarray, " tokens"]]
    offsets: Mapping[str, Int[np.ndarray, " examples+1"]]

    def __len__(self) -> int:
        return len(self.offsets["targets"]) - 1

    def get(self, field: str, index: int) -> Int[np.ndarray, " length"]:
        """Returns the tokens of one field of one example."""
        start, stop = self.offsets[field][index : index + 2]
        return self.ids[field][start:stop]


def collected(
    name: str, examples: Iterable[Sequence[Sequence[int]]], fields: Sequence[str]
) -> TokenCache:
    """Returns a token cache in memory, whose name ends in a hash of its ids.

    Args:
        name: start of the name.
        examples: for each example, the ids of each of `fields`.
    """
    ids = [array.array("i") for _ in fields]
    offsets = [array.array("q", [0]) for _ in fields]
    for example in examples:
        for place, found in enumerate(example):
            ids[place].extend(found)
            offsets[place].append(len(ids[place]))
    digest = hashlib.blake2b(digest_size=8)
    for column in (*ids, *offsets):
        digest.update(column)
    return TokenCache(
        f"{name}-{digest.hexdigest()}",
        {f: np.frombuffer(flat, np.int32) for f, flat in zip(fields, ids, strict=True)},
        {
            field: np.frombuffer(ends, np.int64)
            for field, ends in zip(fields, offsets, strict=True)
        },
    )


def open_cache(folder: epath.Path, fields: Sequence[str] = FIELDS) -> TokenCache:
    """Returns the cache in a verified folder written by `write`."""
    return TokenCache(
        folder.name,
        {field: open_array(folder / f"{field}.npy") for field in fields},
        {field: open_array(folder / f"{field}_offsets.npy") for field in fields},
    )


def write(
    examples: Iterable[Sequence[Sequence[int]]],
    folder: epath.Path,
    fields: Sequence[str] = FIELDS,
) -> None:
    """Writes the arrays of a `TokenCache` and the list of its files.

    `examples` has, for each example, the ids of each of `fields`.
    """
    found = collected("", examples, fields)
    for name in fields:
        save(folder / f"{name}.npy", found.ids[name])
        save(folder / f"{name}_offsets.npy", found.offsets[name])
    manifest.write(folder, examples=len(found))


def save(path: epath.Path, values: np.ndarray) -> None:
    """Writes an array as a `.npy` file."""
    with path.open("wb") as file:
        np.save(file, values)


def open_array(path: epath.Path) -> np.ndarray:
    """Opens the array of a file: memory-mapped if it is local, read otherwise."""
    with cache_folder.reading(path):
        if is_remote(path):
            with path.open("rb") as file:
                return np.load(file)
        return np.load(path, mmap_mode="r")


def build(
    records: cache.RecordCache,
    vocabulary_file: PathLike,
    root: PathLike | None = None,
    encode: Encode | None = None,
) -> TokenCache:
    """Returns the token ids of a record cache; builds them if missing or damaged.

    They are written under a temporary name, renamed, and verified like a record cache.

    Args:
        vocabulary_file: file of the vocabulary, local or gs://; determines the ids.
        root: parent of all caches; None means `cache_folder.cache_dir()`.
        encode: returns the token ids of several texts; None for a SentencePiece model.
    """
    # Published tokenizers may read a SentencePiece file but assign other ids.
    kind = "" if encode is None else "encode"
    folder = _folder(records, vocabulary_file, root, kind)
    if manifest.opened(folder) is None:
        ids = encode or functools.partial(_encode, vocabulary.load(vocabulary_file))
        cached.publish(folder, lambda temporary: _write(records, ids, temporary))
    return open_cache(folder)


def _folder(
    records: cache.RecordCache, model: PathLike, root: PathLike | None, kind: str
) -> epath.Path:
    digest = hashlib.blake2b(f"{_LAYOUT}{kind}".encode(), digest_size=6)
    digest.update(digests.file_digest(model).encode())
    parent = epath.Path(root or cache_folder.cache_dir()) / "tokens"
    return parent / f"{records.folder.name}-{digest.hexdigest()}"


def _write(records: cache.RecordCache, encode: Encode, folder: epath.Path) -> None:
    def encoded() -> Iterator[tuple[list[int], ...]]:
        examples = records.read()
        while chunk := list(itertools.islice(examples, _CHUNK)):
            columns = [
                encode([getattr(example, field) for example in chunk])
                for field in FIELDS
            ]
            yield from zip(*columns, strict=True)

    write(encoded(), folder)


def _encode(processor: Any, texts: list[str]) -> list[list[int]]:
    return processor.encode(texts, num_threads=parallel.worker_count(0))


def keep_last_turns(
    fields: Mapping[str, Ids], lengths: Lengths, ends: Ends
) -> dict[str, Ids]:
    """Cuts inputs at their left end, where the schema is, and targets at their right.

    Args:
        fields: ids of each field of an example.
        lengths: maximum tokens of each feature, end of sequence included.
        ends: id that ends each feature; None if the feature has no end of sequence.

    Returns:
        Ids of each feature, end of sequence included.
    """
    room = {name: lengths[name] - (ends[name] is not None) for name in ends}
    inputs, targets = fields["inputs"], fields["targets"]
    inputs = inputs[max(len(inputs) - room["inputs"], 0) :]
    return {
        "inputs": ended(inputs, ends["inputs"]),
        "targets": ended(targets[: room["targets"]], ends["targets"]),
    }


def keep_left_end(
    fields: Mapping[str, Ids], lengths: Lengths, ends: Ends
) -> dict[str, Ids]:
    """Cuts both features at their right end, end of sequence included.

    See `keep_last_turns` for arguments and result.
    """
    return {name: ended(fields[name], ends[name])[: lengths[name]] for name in ends}


def ended(ids: Ids, end: int | None) -> Ids:
    """Returns the ids with the end of sequence, unless it is None."""
    return ids if end is None else np.append(ids, np.asarray(end, ids.dtype))


@dataclass(frozen=True)
class Examples:
    """All examples of a split of one task.

    Attributes:
        name: name of the task; determines the order of the examples.
        cache: token ids of the examples.
        ends: id that ends each feature; None if the feature has no end of sequence.
        parts: feature -> cache fields that form it.
        cut: joins the fields of an example and cuts them to lengths. A feature gets
            `min(ids of its parts + end, length)` tokens.
    """

    name: str
    cache: TokenCache
    ends: Ends = field(default_factory=lambda: {"inputs": 1, "targets": 1})
    parts: Parts = field(default_factory=lambda: PAIRS)
    cut: Cut = keep_last_turns

    def __len__(self) -> int:
        return len(self.cache)

    def get(self, index: int, lengths: Lengths) -> dict[str, Ids]:
        """Returns the ids of each feature of an example."""
        names = [part for parts in self.parts.values() for part in parts]
        fields = {name: self.cache.get(name, index) for name in names}
        return self.cut(fields, lengths, self.ends)

    def whole_lengths(self) -> dict[str, Int[np.ndarray, " examples"]]:
        """Returns the token counts of each feature of each example before it is cut."""
        return {
            name: np.sum([np.diff(self.cache.offsets[part]) for part in parts], axis=0)
            + (self.ends[name] is not None)
            for name, parts in self.parts.items()
        }

    def cut_lengths(self, lengths: Lengths) -> dict[str, Int[np.ndarray, " examples"]]:
        """Returns the token counts of each feature of each example after it is cut."""
        return {
            name: np.minimum(found, lengths[name])
            for name, found in self.whole_lengths().items()
        }
