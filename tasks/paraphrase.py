"""Paraphrasing tasks: an original schema description -> each of its rewordings.

`paraphrase_<folder>` for every variants folder of the data (`paraphrase_aug` for the
generated variants of MiniSGD, `paraphrase_sgdx` for SGD-X): descriptions of slots and
intents, matched by position. Those of services are left out: they are no part of any
prompt, so the word vocabulary lacks their words. Splits are those for which the folder
has schemas.

`paraphrase_<stem>` for every file `<stem>.tsv` of `$JAXAUG_PARAPHRASES` (separated as in
`$PATH`): lines of an input, a tab and a paraphrase of it. About one input in twenty,
chosen by its text, makes the validation split, with all of its paraphrases. Such data
need a vocabulary that has their words: `$JAXAUG_VOCABULARY`.
"""

import functools
import re
import zlib
from collections.abc import Callable, Iterator, Sequence

import seqio
import tensorflow as tf
from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_text
from jaxaug.core.text import clean
from jaxaug.data import folders
from jaxaug.data.schema import Schema, read_schema
from jaxaug.feed import recipes
from tasks import vocabulary
from tasks.cached_task import CachedTask

PARAPHRASES_VARIABLE = "JAXAUG_PARAPHRASES"
_VALIDATION_SHARE = 20  # one input in so many
_FIX = f"Correct the file, or ${PARAPHRASES_VARIABLE}."

Pairs = list[tuple[str, str]]


def register(data_dir: PathLike | None = None) -> None:
    """Adds `paraphrase_<name>` to SeqIO's registry; reads names of folders only.

    Raises:
      UserError: the data folder, a variants folder or `$JAXAUG_PARAPHRASES` is wrong.
    """
    folder = folders.resolve_data_dir(data_dir)
    generated = folders.variant_folders(folder)
    for name, variants in generated.items():
        present = {
            found
            for variant in folders.variant_names(variants)
            for found in folders.variant_splits(variants, variant)
        }
        splits = [name for name, split in recipes.SPLITS.items() if split in present]
        if splits:
            add(
                f"paraphrase_{name}",
                splits,
                functools.partial(_of_split, folder, variants),
            )
    taken = set(generated)
    for path in _files_of_variable():
        name = path.stem
        if not re.fullmatch(r"\w+", name) or name in taken:
            raise UserError(
                f"{path}: {name!r} becomes part of a task name, must be of letters, "
                "digits and underscores, and no other file or variants folder may have it. "
                "Rename the file."
            )
        taken.add(name)
        add(
            f"paraphrase_{name}",
            ["train", "validation"],
            functools.partial(of_file, path),
        )


def add(
    name: str, splits: Sequence[str], pairs_of_split: Callable[[str], Pairs]
) -> None:
    """Registers a task from one text to another.

    Args:
      name: of the task.
      splits: names of its splits in SeqIO.
      pairs_of_split: gives (input, target) of a split when it is first read.
    """
    words = vocabulary.default_vocabulary()
    task = CachedTask(
        name,
        source=seqio.FunctionDataSource(
            functools.partial(pairs_dataset, pairs_of_split), splits=splits
        ),
        output_features={
            "inputs": seqio.Feature(words, add_eos=True),
            "targets": seqio.Feature(words, add_eos=True),
        },
        preprocessors=[
            seqio.preprocessors.tokenize,
            seqio.CacheDatasetPlaceholder(),
            seqio.preprocessors.append_eos,
        ],
    )
    seqio.TaskRegistry.add_provider(task.name, task)


def _files_of_variable() -> list[epath.Path]:
    paths = folders.paths_of_variable(PARAPHRASES_VARIABLE)
    for path in paths:
        if not path.is_file():
            raise UserError(
                f"{path} (of ${PARAPHRASES_VARIABLE}): no such file. {_FIX}"
            )
    return paths


def pairs_of_file(path: PathLike) -> Pairs:
    """(input, paraphrase) of a file of two columns, each pair once, lower-cased.

    Raises:
      UserError: a line has another number of columns, or an empty one.
    """
    found: dict[tuple[str, str], None] = {}
    for number, line in enumerate(read_text(path, _FIX).splitlines(), 1):
        columns = [clean(column, True) for column in line.split("\t")]
        if len(columns) != 2 or not all(columns):
            raise UserError(
                f"{path}: line {number} has {len(columns)} columns, of which "
                f"{columns.count('')} are empty; expected an input, a tab and a "
                f"paraphrase. {_FIX}"
            )
        if columns[0] != columns[1]:
            found[columns[0], columns[1]] = None
    return list(found)


def of_file(path: epath.Path, split: str) -> Pairs:
    """The pairs of one of the splits `train` and `validation` of a file.

    Raises:
      UserError: the file is wrong, or has no pair for that split.
    """
    wanted = split == "validation"
    chosen = [
        pair
        for pair in pairs_of_file(path)
        if (zlib.crc32(pair[0].encode()) % _VALIDATION_SHARE == 0) == wanted
    ]
    if not chosen:
        raise UserError(
            f"{path}: holds no pair for the {split} split, which has about one input "
            f"in {_VALIDATION_SHARE}{'' if wanted else ' left out'}. Add more inputs."
        )
    return chosen


def _of_split(data_dir: PathLike, variants_dir: PathLike, split: str) -> Pairs:
    return pairs(data_dir, variants_dir, recipes.SPLITS[split])


def pairs(data_dir: PathLike, variants_dir: PathLike, split: str) -> Pairs:
    """(original, rewording) descriptions of a split, each pair once, lower-cased.

    Pairs whose two sides are the same are left out: they would teach to copy.

    Raises:
      UserError: a schema is wrong, a variant has another number of services, slots
        or intents than the original, or no rewording is left.
    """
    original = read_schema(folders.schema_path(data_dir, split))
    found: dict[tuple[str, str], None] = {}
    for variant in folders.variant_names(variants_dir):
        if split not in folders.variant_splits(variants_dir, variant):
            continue
        path = folders.variant_schema_path(variants_dir, variant, split)
        for pair in _matched(original, read_schema(path), path):
            if pair[0] != pair[1]:
                found[pair] = None
    if not found:
        raise UserError(
            f"{variants_dir}: its variants word no description of split {split!r} "
            "otherwise than the original schema. Name another variants folder."
        )
    return list(found)


def _matched(
    original: Schema, variant: Schema, path: epath.Path
) -> Iterator[tuple[str, str]]:
    before, after = _descriptions(original), _descriptions(variant)
    if [len(part) for part in before] != [len(part) for part in after]:
        raise UserError(
            f"{path}: services, slots or intents differ in number from those of the "
            "original schema; variants are matched by position. Correct the variant."
        )
    for left, right in zip(before, after, strict=True):
        yield from zip(left, right, strict=True)


def _descriptions(schema: Schema) -> list[list[str]]:
    """Service by service: descriptions of its slots, then of its intents."""
    return [
        [clean(item.description, True) for item in part]
        for service in schema.services
        for part in (service.slots, service.intents)
    ]


def pairs_dataset(
    pairs_of_split: Callable[[str], Pairs],
    split: str,
    shuffle_files: bool = False,
    seed: int | None = None,
) -> tf.data.Dataset:
    """The pairs of a split as features `inputs` and `targets`, for a SeqIO source."""
    del shuffle_files, seed  # One list; SeqIO shuffles its examples.
    inputs, targets = zip(*pairs_of_split(split), strict=True)
    return tf.data.Dataset.from_tensor_slices(
        {"inputs": list(inputs), "targets": list(targets)}
    )
