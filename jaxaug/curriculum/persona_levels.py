"""Rewordings of persona traits by level, for every compared method.

`pcc` reads a file of paraphrases by level, from `jaxaug levels` or released by PCC's
authors. `eda` generates them on request: level c changes a share of 0.1 c of the words,
as in the curriculum of Wei et al. (2021) (CDA). `rt` translates into French and back
with the Marian models of the catalogue. It has one level, and its file is kept in the
cache folder.
"""

import hashlib
import os
import random
import zlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from absl import logging
from etils import epath

from jaxaug.core import cache_folder, json_reader
from jaxaug.core.errors import UserError
from jaxaug.core.files import MAX_BYTES, PathLike, check_ordinary, reach, reached
from jaxaug.core.suggestion import one_of
from jaxaug.curriculum import levels
from jaxaug.curriculum.difficulty import LEVELS
from jaxaug.data import personachat

LEVELS_VARIABLE = "JAXAUG_PERSONACHAT_LEVELS"
PIVOT = "fr"  # The language of round-trip translation.
PER_LEVEL = 4  # Paraphrases of a trait at each level (PCC: 20 in 5 levels).
_STRENGTH = 0.1  # Strength of all EDA operations per level.
_RT_VERSION = 1  # Part of the file name: increase it when the models change.
_OPERATIONS = ("replace", "insert", "swap", "delete")

Table = Mapping[str, levels.Levelled]
"""Maps a trait to its rewordings."""


def read(path: PathLike) -> Table:
    """Reads the traits of a file of `levels.write`, or of the file that PCC released.

    Raises:
        UserError: the file does not exist or has neither format.
    """
    released = "trait" in _first_record(path)
    found = (levels.released_persona if released else levels.read)(path)
    return {item.text: item for item in found}


def count(path: PathLike) -> int:
    """Returns the number of levels beyond the originals; reads only the first line."""
    record = _first_record(path)
    return LEVELS if "trait" in record else len(record["levels"])


def _first_record(path: PathLike) -> dict:
    check_ordinary(path, _fix(), MAX_BYTES)
    try:
        with reached(path, _fix()), epath.Path(path).open("rb") as file:
            line = file.readline()
    except OSError:
        raise UserError(f"{path}: no such file. {_fix()}") from None
    try:
        record = json_reader.decoded(line)
    except ValueError:
        record = None
    if not isinstance(record, dict) or (
        "trait" not in record
        and not (isinstance(record.get("levels"), list) and record["levels"])
    ):
        raise UserError(
            f"{path}: line 1 is no JSON object with levels; expected a file of `jaxaug "
            f"levels` or the one that PCC's authors released. {_fix()}"
        )
    return record


def _fix() -> str:
    return (
        f"Name the paraphrases of the training traits by level with ${LEVELS_VARIABLE}."
    )


def levels_file() -> epath.Path | None:
    """Returns `$JAXAUG_PERSONACHAT_LEVELS`, the file of the method `pcc`, or None if
    unset.
    """
    named = os.environ.get(LEVELS_VARIABLE)
    return reach(named, _fix()) if named else None


def number_of_levels(method: str) -> int:
    """Returns a method's levels beyond the originals; 5 for `pcc` without a file."""
    if method == "rt":
        return 1
    path = levels_file()
    return count(path) if method == "pcc" and path is not None else LEVELS


def table(method: str, traits: Sequence[str]) -> Table:
    """Returns the rewordings of traits by one of `METHODS`; logs traits without any.

    Raises:
        UserError: the method is unknown, or something it needs is missing.
    """
    if method not in METHODS:
        raise UserError(
            f"Persona-Chat has no method {method!r}; {one_of(method, METHODS)}"
        )
    found = METHODS[method](tuple(traits))
    bare = [
        trait
        for trait in traits
        if trait not in found or not any(found[trait].levels[1:])
    ]
    logging.log(
        logging.WARNING if bare else logging.INFO,
        "method %r: %d of %d traits have no rewording and stay as they are%s",
        method,
        len(bare),
        len(traits),
        f" (first: {bare[0]!r})" if bare else "",
    )
    return found


def _pcc(traits: Sequence[str]) -> Table:
    del traits
    path = levels_file()
    if path is None:
        raise UserError(f"${LEVELS_VARIABLE} is not set. {_fix()}")
    return read(path)


def _eda(traits: Sequence[str]) -> Table:
    """Draws rewordings per trait, so that they depend on the trait only."""
    from jaxaug.augment.schemes import sentences

    eda = sentences.METHODS["eda"]
    found = {}
    for trait in traits:
        rng = np.random.default_rng(zlib.crc32(trait.encode()))
        made: list[tuple[str, ...]] = [(trait,)]
        for level in range(1, LEVELS + 1):
            rates = dict.fromkeys(_OPERATIONS, _STRENGTH * level)
            texts = [eda(trait, rng, **rates) for _ in range(PER_LEVEL)]
            made.append(_others(trait, texts))
        found[trait] = levels.Levelled(trait, tuple(made))
    return found


def _others(trait: str, texts: Sequence[str]) -> tuple[str, ...]:
    """Returns the distinct texts that are not empty and differ from the trait."""
    return tuple(text for text in dict.fromkeys(texts) if text and text != trait)


def _rt(traits: Sequence[str]) -> Table:
    digest = hashlib.blake2b(
        repr((_RT_VERSION, PIVOT, PER_LEVEL, sorted(traits))).encode(), digest_size=12
    )
    name = f"personachat-rt-{digest.hexdigest()}.jsonl"
    path = cache_folder.cache_dir() / "levels" / name
    if not path.exists():
        levels.write(path, round_trips(traits))
    return read(path)


def round_trips(
    traits: Sequence[str], models: Mapping[str, tuple[str, str]] | None = None
) -> list[levels.Levelled]:
    """Returns traits with their round-trip translations via `PIVOT` as level 1.

    Args:
        traits: traits in English.
        models: see `jaxaug.augment.schemes.backtranslate.candidates`.

    Raises:
        UserError: a model is not on this machine.
    """
    from jaxaug.augment.schemes import backtranslate

    found = backtranslate.candidates(
        traits, pivots=(PIVOT,), num=PER_LEVEL, beams=PER_LEVEL, models=models
    )
    return [
        levels.Levelled(trait, ((trait,), _others(trait, texts)))
        for trait, texts in zip(traits, found, strict=True)
    ]


METHODS: Mapping[str, Callable[[Sequence[str]], Table]] = {
    "pcc": _pcc,
    "eda": _eda,
    "rt": _rt,
}


def reworded(
    found: Table, dialogue: personachat.Dialogue, turn: int, level: int, seed: int
) -> tuple[str, ...]:
    """Returns the traits of a dialogue's persona at one level, drawn anew per turn.

    A trait without paraphrases at the level takes one of the next easier level that has
    any, or the original itself (`Levelled.at`). The choice depends on the arguments
    only.
    """
    chosen = []
    for index, trait in enumerate(dialogue.persona):
        if trait not in found:
            chosen.append(trait)
            continue
        key = f"{seed}|{level}|{turn}|{index}|{dialogue.dialogue_id}"
        chosen.append(random.Random(key).choice(found[trait].at(level)))
    return tuple(chosen)
