"""The descriptions of SGD and SGD-X as sets of texts with the same meaning.

SGD-X (CC BY-SA 4.0) has five more descriptions of every service, intent, and slot of
SGD.
"""

import itertools
from collections.abc import Iterable
from typing import NamedTuple

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.core.text import clean
from jaxaug.data import folders
from jaxaug.data.schema import read_schema

Pairs = list[tuple[str, str]]


class Wordings(NamedTuple):
    """The distinct descriptions of a service, intent, or slot, the original first.

    `service` is the name of its service in the original schema.
    """

    service: str
    texts: tuple[str, ...]


def read(data_dir: PathLike, splits: Iterable[str]) -> list[Wordings]:
    """Returns the wordings of all services, intents, and slots of some splits.

    A service that occurs in several splits is read once.

    Args:
        data_dir: folder in the layout of SGD, with `sgd_x/data`.
        splits: names of splits, such as "train" and "dev".

    Raises:
        UserError: a schema is missing or invalid, or a variant does not have the
            services, slots, and intents of the original.
    """
    variants_dir = folders.variant_folders(data_dir)["sgdx"]
    if not variants_dir.is_dir():
        raise UserError(
            f"{data_dir}: has no sgd_x/data. Name a folder with the variants of SGD-X "
            "(`jaxaug data fetch sgd` gets one)."
        )
    found: dict[str, list[Wordings]] = {}
    for split in splits:
        names = read_schema(folders.schema_path(data_dir, split)).services
        rows = descriptions(data_dir, variants_dir, split)
        for service, *texts in zip(names, *rows, strict=True):
            cleaned = [[clean(one, False) for one in of_schema] for of_schema in texts]
            same = zip(*cleaned, strict=True)
            worded = [Wordings(service.name, tuple(dict.fromkeys(one))) for one in same]
            found.setdefault(service.name, worded)
    return [wordings for service in found.values() for wordings in service]


def descriptions(
    data_dir: PathLike, variants_dir: PathLike, split: str
) -> list[list[list[str]]]:
    """Returns the descriptions in the original schema of a split and in its variants.

    Returns:
        A list of schemas, the original first, of services, of descriptions. The
        description of the service comes first, then its slots, then its intents.

    Raises:
        UserError: for the reasons of `read`.
    """
    paths = [folders.schema_path(data_dir, split)]
    for variant in folders.variant_names(variants_dir):
        if split in folders.variant_splits(variants_dir, variant):
            path = folders.variant_schema_path(variants_dir, variant, split)
            paths.append(path)
    schemas = [read_schema(path).services for path in paths]
    sizes = [[(len(s.slots), len(s.intents)) for s in one] for one in schemas]
    for path, size in zip(paths, sizes, strict=True):
        if size != sizes[0]:
            raise UserError(
                f"{path}: services, slots or intents differ in number from those of "
                "the original schema; variants are matched by position. Correct the "
                "variant."
            )
    return [
        [
            [
                service.description,
                *(x.description for x in service.slots + service.intents),
            ]
            for service in one
        ]
        for one in schemas
    ]


def pairs(found: Iterable[Wordings]) -> Pairs:
    """Returns all ordered pairs of wordings with the same meaning, each once.

    Wordings that differ only in case, white space, or the final period are not paired.
    """
    unique: dict[tuple[str, str], None] = {}
    for wordings in found:
        for left, right in itertools.permutations(wordings.texts, 2):
            if plain(left) != plain(right):
                unique[left, right] = None
    return list(unique)


def plain(text: str) -> str:
    """Returns a text without case, repeated white space, and the final period."""
    return " ".join(text.casefold().split()).rstrip(" .")
