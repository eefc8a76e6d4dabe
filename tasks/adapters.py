"""Tasks that fine-tune a language model to paraphrase: prompt -> another wording.

`schema_paraphraser` has the pairs among the wordings that SGD and SGD-X have for every
service, intent and slot of the train and dev splits, without the services of the test
split and the texts that those share; its validation split has the pairs of the services
left out. `schema_paraphraser_all` has all services. They read `$JAXAUG_DATA_DIR`, where
`sgd_x/data` must be.

`general_paraphraser` has Quora's duplicate questions and the paraphrases that PCC's
authors released for headlines and persona traits, from `$JAXAUG_TEXT_DIR`, the folder
with `quora/` and `pcc/`. One input in fifty, chosen by its text, is for validation.

Inputs stand in the prompt `plain` of `jaxaug.models.text.prompts` and targets begin with
a space: together they are the tokens that `jaxaug paraphrase --adapter` sees.
"""

import functools
import zlib
from collections.abc import Callable

import seqio
from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.core.text import clean
from jaxaug.curriculum import levels
from jaxaug.data import folders, pairs, wordings
from jaxaug.data.pairs import Pairs
from jaxaug.models.text import prompts
from tasks import vocabulary
from tasks.cached_task import CachedTask
from tasks.paraphrase import pairs_dataset

_OTHERS, _HELD_OUT = ("train", "dev"), ("test",)
_VALIDATION_SHARE = 50  # one input in so many
_NEAREST = 3  # of the five levels of what was released; the others say less of it


def register(data_dir: PathLike | None = None) -> None:
    """Adds the tasks to SeqIO's registry; reads no file."""
    for name, keep_test in (
        ("schema_paraphraser", False),
        ("schema_paraphraser_all", True),
    ):
        _add(name, functools.partial(schema_pairs, data_dir, keep_test))
    _add("general_paraphraser", general_pairs)


def _add(name: str, pairs_of_split: Callable[[str], Pairs]) -> None:
    words = vocabulary.default_vocabulary()
    task = CachedTask(
        name,
        source=seqio.FunctionDataSource(
            functools.partial(
                pairs_dataset, lambda split: prompted(pairs_of_split(split))
            ),
            splits=["train", "validation"],
        ),
        output_features={
            "inputs": seqio.Feature(words, add_eos=False),
            "targets": seqio.Feature(words, add_eos=True),
        },
        preprocessors=[
            seqio.preprocessors.tokenize,
            seqio.CacheDatasetPlaceholder(),
            seqio.preprocessors.append_eos,
        ],
    )
    seqio.TaskRegistry.add_provider(task.name, task)


def prompted(plain: Pairs) -> Pairs:
    """Pairs as a language model reads them: (prompt with the input, output)."""
    prompt = prompts.find(prompts.PLAIN)
    assert isinstance(prompt, prompts.Prompt)
    return [
        (f"{prompt.before}{prompt.space}{left}{prompt.behind}", f" {right}")
        for left, right in plain
    ]


def schema_pairs(data_dir: PathLike | None, keep_test: bool, split: str) -> Pairs:
    """(wording, another wording) of descriptions.

    Args:
      data_dir: as of `folders.resolve_data_dir`.
      keep_test: whether the train split has the services of the test split, too.
      split: train, or validation: the services of the test split.

    Raises:
      UserError: the data folder has no variants of SGD-X, or they are wrong.
    """
    folder = folders.resolve_data_dir(data_dir)
    held_out = wordings.read(folder, _HELD_OUT)
    if split == "validation":
        return wordings.pairs(held_out)
    if keep_test:
        return wordings.pairs(wordings.read(folder, (*_OTHERS, *_HELD_OUT)))
    return wordings.pairs(wordings.without(wordings.read(folder, _OTHERS), held_out))


def general_pairs(split: str) -> Pairs:
    """(sentence, paraphrase) of questions, headlines and persona traits.

    Of what was released, the three levels nearest to the original count (of five).

    Raises:
      UserError: `$JAXAUG_TEXT_DIR` is not set, or a file is missing or wrong.
    """
    folder = folders.text_dir("general_paraphraser")
    wanted = split == "validation"
    fix = f"Correct ${folders.TEXT_DIR_VARIABLE}."
    quora = [
        (clean(left, False), clean(right, False))
        for left, right in pairs.of_two_files(folder / pairs.QUORA, "train", fix)
    ]
    found = dict.fromkeys([*quora, *_released(folder / "pcc")])
    return [
        pair
        for pair in found
        if wordings.plain(pair[0]) != wordings.plain(pair[1])
        and (zlib.crc32(pair[0].encode()) % _VALIDATION_SHARE == 0) == wanted
    ]


def _released(folder: epath.Path) -> Pairs:
    files = sorted(folder.glob("aug_huff_train_s*.txt"))
    if not files:
        raise UserError(
            f"{folder}: has no aug_huff_train_s*.txt. Correct ${folders.TEXT_DIR_VARIABLE}."
        )
    found = levels.released_persona(folder / "persona_paraphrases.jsonl")
    for path in files:
        found.extend(levels.released_huffpost(path))
    return [
        (clean(item.text, False), clean(paraphrase, False))
        for item in found
        for level in item.levels[1 : 1 + _NEAREST]
        for paraphrase in level
        if paraphrase.strip()
    ]
