"""Paraphrasing tasks: an original schema description -> each of its rewordings.

`paraphrase_<folder>` for every variants folder of the data (`paraphrase_aug` for the
generated variants of MiniSGD, `paraphrase_sgdx` for SGD-X): descriptions of slots and
intents, matched by position. Those of services are left out: they are no part of any
prompt, so the word vocabulary lacks their words. Splits are those for which the folder
has schemas.

`paraphrase_quora`: Quora's duplicate questions, of `quora/` in `$JAXAUG_TEXT_DIR`;
`paraphrase_<stem>` for every file `<stem>.tsv` of `$JAXAUG_PARAPHRASES` (separated as in
`$PATH`): lines of an input, a tab and a paraphrase of it. About one input in twenty,
chosen by its text, makes the validation split, with all of its paraphrases and theirs.
The test split has Quora's test pairs, or those of `<stem>.test.tsv`, of which neither
text is in the training pairs. `paraphrase_<name>_both` trains on every pair both ways
round. Such data need a vocabulary that has their words: `jaxaug.feed.pair_words`, or
`$JAXAUG_VOCABULARY`.

`bleu` of an evaluation: up to pairs of words as the DiPS paper has it, of the whole split.
"""

import functools
from collections.abc import Callable, Iterator, Sequence

import seqio
import tensorflow as tf
from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.core.text import clean
from jaxaug.data import folders
from jaxaug.data import pairs as pairs_of_files
from jaxaug.data.pairs import Pairs
from jaxaug.data.schema import Schema, read_schema
from jaxaug.feed import recipes
from jaxaug.metrics.diversity import load_sacrebleu
from tasks import vocabulary
from tasks.cached_task import CachedTask

BOTH = "_both"
_ORDER = 2  # longest n-grams of BLEU


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
    for name, source in pairs_of_files.named(generated).items():
        for suffix, both in (("", False), (BOTH, True)):
            add(
                f"paraphrase_{name}{suffix}",
                source.splits,
                functools.partial(source.of_split, both=both),
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
        metric_fns=[bleu],
    )
    seqio.TaskRegistry.add_provider(task.name, task)


def bleu(targets: Sequence[str], predictions: Sequence[str]) -> dict[str, float]:
    """The SeqIO metric_fn: BLEU of the corpus, 0 to 100, n-grams up to 2."""
    scorer = load_sacrebleu().BLEU(max_ngram_order=_ORDER, lowercase=True)
    found = scorer.corpus_score(list(predictions), [list(targets)])
    return {"bleu": float(found.score)}


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
