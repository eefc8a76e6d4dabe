"""Tasks that fine-tune a language model to paraphrase: prompt -> another wording.

`general_paraphraser` has Quora's duplicate questions, and the paraphrases of headlines
and persona traits that PCC's authors released. It reads `$JAXAUG_TEXT_DIR`, the folder
with `quora/` and `pcc/`. One input in fifty, chosen by its text, is for validation.

Their inputs are inside the prompt `plain` of `jaxaug.models.text.prompts`, and targets
start with a space. Together they give the same tokens as `jaxaug paraphrase --adapter`.

`rewording_paraphraser` has the corpus of `jaxaug.data.rewordings`, with its splits and
the prompts of `jaxaug.data.rewordings`.
"""

import zlib

from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.text import clean
from jaxaug.curriculum import levels
from jaxaug.data import folders, pairs, rewordings, wordings
from jaxaug.data.pairs import Pairs
from jaxaug.models.text import prompts
from tasks import paraphrase

_VALIDATION_SHARE = 50  # One input in this number is for validation.
# Number of levels used, of five released ones; the others keep less of the meaning.
_NEAREST = 3
# Passes over the corpus in an epoch, and rewordings of one example.
_PASSES, _TOGETHER = 4, 3


def register() -> None:
    """Adds the tasks; reads no file."""
    paraphrase.add(
        "general_paraphraser",
        ["train", "validation"],
        lambda split: prompted(general_pairs(split)),
        ends_inputs=False,
    )
    paraphrase.add(
        "rewording_paraphraser",
        ["train", "validation"],
        rewording_examples,
        ends_inputs=False,
        ends_targets=False,
    )


def prompted(plain: Pairs) -> Pairs:
    """Returns pairs as a language model reads them: (prompt with the input, output)."""
    prompt = prompts.find(prompts.PLAIN)
    assert isinstance(prompt, prompts.Prompt)
    return [
        (f"{prompt.before}{prompt.space}{left}{prompt.behind}", f" {right}")
        for left, right in plain
    ]


def rewording_examples(split: str) -> Pairs:
    """Returns (prompt, rewordings) examples of the corpus `jaxaug.data.rewordings`.

    A validation example has one rewording, so that its prompt equals one of inference.
    """
    if split == "validation":
        return rewordings.examples(rewordings.split(split), 1, 1)[::5]
    return rewordings.examples(rewordings.split(split), _PASSES, _TOGETHER)


def general_pairs(split: str) -> Pairs:
    """Returns (sentence, paraphrase) pairs of questions, headlines, and persona traits.

    Of the five released levels, the three nearest to the original are used.

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
            f"{folder}: has no aug_huff_train_s*.txt. Correct "
            f"${folders.TEXT_DIR_VARIABLE}."
        )
    found = levels.released_persona(folder / "persona_paraphrases.jsonl")
    for path in files:
        found.extend(levels.released_huffpost(path))
    return [
        (clean(item.text, False), clean(reworded, False))
        for item in found
        for level in item.levels[1 : 1 + _NEAREST]
        for reworded in level
        if reworded.strip()
    ]
