"""The files of a `TokenCache`: flat arrays of ids, one pair for each feature."""

import array
from collections.abc import Iterable, Sequence

import numpy as np
from etils import epath

from jaxaug.core import cache_folder, manifest
from jaxaug.core.files import is_remote
from jaxaug.feed.batches import TokenCache

FIELDS = ("inputs", "targets")
"""Features of an example, as SeqIO names them."""


def open_cache(folder: epath.Path) -> TokenCache:
    """The cache in a folder that `write` has filled and that was verified."""
    return TokenCache(
        folder.name,
        {field: open_array(folder / f"{field}.npy") for field in FIELDS},
        {field: open_array(folder / f"{field}_offsets.npy") for field in FIELDS},
    )


def write(examples: Iterable[Sequence[Sequence[int]]], folder: epath.Path) -> None:
    """Writes the arrays of a `TokenCache` and the list of its files.

    Args:
      examples: for each of them the ids of each of `FIELDS`.
      folder: to fill.
    """
    ids = [array.array("i") for _ in FIELDS]
    offsets = [array.array("q", [0]) for _ in FIELDS]
    for example in examples:
        for place, found in enumerate(example):
            ids[place].extend(found)
            offsets[place].append(len(ids[place]))
    for field, flat, ends in zip(FIELDS, ids, offsets, strict=True):
        save(folder / f"{field}.npy", np.frombuffer(flat, np.int32))
        save(folder / f"{field}_offsets.npy", np.frombuffer(ends, np.int64))
    manifest.write(folder, examples=len(offsets[0]) - 1)


def save(path: epath.Path, values: np.ndarray) -> None:
    """Writes an array as a `.npy` file."""
    with path.open("wb") as file:
        np.save(file, values)


def open_array(path: epath.Path) -> np.ndarray:
    """An array of a file: mapped into memory, or read where the file is remote."""
    with cache_folder.reading(path):
        if is_remote(path):
            with path.open("rb") as file:
                return np.load(file)
        return np.load(path, mmap_mode="r")
