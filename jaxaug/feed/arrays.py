"""Token caches: flat arrays of ids, in memory and as files, without TensorFlow."""

import array
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from etils import epath
from jaxtyping import Int

from jaxaug.core import cache_folder, manifest
from jaxaug.core.files import is_remote

FIELDS = ("inputs", "targets")
"""Fields of an example, as SeqIO names them."""


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
        fields: names of the fields.
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

    Args:
        examples: for each example, the ids of each of `fields`.
        folder: folder to fill.
        fields: names of the fields.
    """
    found = collected("", examples, fields)
    for field in fields:
        save(folder / f"{field}.npy", found.ids[field])
        save(folder / f"{field}_offsets.npy", found.offsets[field])
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
