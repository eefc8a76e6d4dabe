"""Paraphrasing tasks: an original schema description -> each of its rewordings.

`paraphrase_<folder>` exists for every variants folder of the data (`paraphrase_aug` for
the generated variants of MiniSGD, `paraphrase_sgdx` for SGD-X). It has descriptions of
slots and intents, matched by position. Descriptions of services are left out: no prompt
contains them, so the word vocabulary lacks their words. The splits are those with
schemas in the folder.

`paraphrase_quora` has Quora's duplicate questions, from `quora/` in `$JAXAUG_TEXT_DIR`,
`paraphrase_twitter` the paraphrases of Lan et al. (2017), from `twitter/` there, and
`paraphrase_rewordings` the corpus of `jaxaug.data.rewordings`, with its own splits.
`paraphrase_<stem>` exists for every file `<stem>.tsv` of `$JAXAUG_PARAPHRASES`
(separated as in `$PATH`). Its lines are an input, a tab, and a paraphrase. About one
input in twenty, chosen by its text, is in the validation split, with all connected
paraphrases. The test split has the published test pairs, or the pairs of
`<stem>.test.tsv`, if neither text is in the training pairs. `paraphrase_<name>_both`
trains on every pair in both directions. Such data needs a vocabulary with its words:
`jaxaug.feed.pair_words`, or `$JAXAUG_VOCABULARY`.

The metric `bleu` uses n-grams up to word pairs, as in the DiPS paper, over the whole
split.
"""

import functools
from collections.abc import Callable, Sequence

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.core.text import clean
from jaxaug.data import folders, wordings
from jaxaug.data import pairs as pairs_of_files
from jaxaug.data.pairs import Pairs
from jaxaug.feed import recipes, sets
from jaxaug.metrics.diversity import load_sacrebleu
from tasks import vocabulary

BOTH = "_both"
_ORDER = 2  # Maximum n-gram order of BLEU.


def register(data_dir: PathLike | None = None) -> None:
    """Adds `paraphrase_<name>`; reads only folder names.

    Raises:
        UserError: the data folder, a variants folder, or `$JAXAUG_PARAPHRASES` is
            wrong.
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
            of_split = functools.partial(_of_split, folder, variants)
            add(f"paraphrase_{name}", splits, of_split, metric_fns=[bleu])
    for name, source in pairs_of_files.named(generated).items():
        for suffix, both in (("", False), (BOTH, True)):
            of_split = functools.partial(source.of_split, both=both)
            add(
                f"paraphrase_{name}{suffix}", source.splits, of_split, metric_fns=[bleu]
            )


def add(
    name: str,
    splits: Sequence[str],
    pairs_of_split: Callable[[str], Pairs],
    ends_inputs: bool = True,
    ends_targets: bool = True,
    metric_fns: Sequence[Callable] = (),
) -> None:
    """Adds a task from one text to another.

    Args:
        pairs_of_split: returns (input, target) pairs of a split when it is first read.
        ends_inputs, ends_targets: whether the feature ends with the end of sequence.
    """

    def fields(split: str) -> list[sets.Fields]:
        found = pairs_of_split(split)
        return [{"inputs": before, "targets": after} for before, after in found]

    words = vocabulary.default_vocabulary()
    options = {
        "ends_inputs": ends_inputs,
        "ends_targets": ends_targets,
        "metric_fns": metric_fns,
    }
    sets.add(sets.TextTask(name, splits, words, fields, **options))


def bleu(targets: Sequence[str], predictions: Sequence[str]) -> dict[str, float]:
    """Computes corpus BLEU, 0 to 100, with n-grams up to 2: a SeqIO metric_fn."""
    scorer = load_sacrebleu().BLEU(max_ngram_order=_ORDER, lowercase=True)
    found = scorer.corpus_score(list(predictions), [list(targets)])
    return {"bleu": float(found.score)}


def _of_split(data_dir: PathLike, variants_dir: PathLike, split: str) -> Pairs:
    return pairs(data_dir, variants_dir, recipes.SPLITS[split])


def pairs(data_dir: PathLike, variants_dir: PathLike, split: str) -> Pairs:
    """Returns distinct (original, rewording) descriptions of a split, lower-cased.

    Pairs with two equal sides are left out, because they would teach copying.

    Raises:
        UserError: a schema is wrong, a variant has another number of services, slots,
            or intents than the original, or no rewording is left.
    """
    before, *others = wordings.descriptions(data_dir, variants_dir, split)
    found = dict.fromkeys(
        (clean(left, True), clean(right, True))
        for after in others
        for one, other in zip(before, after, strict=True)
        for left, right in zip(one[1:], other[1:], strict=True)
    )
    found = {pair: None for pair in found if pair[0] != pair[1]}
    if not found:
        raise UserError(
            f"{variants_dir}: its variants word no description of split {split!r} "
            "otherwise than the original schema. Name another variants folder."
        )
    return list(found)
