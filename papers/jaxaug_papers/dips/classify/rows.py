"""The rows of a table of augmentation: what is added to the training data."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jaxaug.augment.plain import chain
from jaxaug.augment.plain.chain import PARAPHRASE, Step
from jaxaug.augment.schemes import sentences
from jaxaug.core import cache_folder
from jaxaug.core.errors import UserError
from jaxaug.core.shards import Shards
from jaxaug.core.text import is_copy
from jaxaug_papers.dips.classify.examples import SAME, Example

NOTHING, COPIES = "nothing", "copies"
_WORDNET = "wordnet_dir"
# Sources of a shard: what a paraphraser decodes together at five outputs each.
_SHARD_SIZE = 12

Outputs = Mapping[str, Sequence[str]]
"""Text -> paraphrases of it."""


@dataclass(frozen=True)
class Method:
    """A row.

    Attributes:
        name: of the row.
        scheme: `nothing`; `copies`, the text itself as often as others have
            paraphrases, which shows what more updates and counts do by themselves; or
            schemes of `jaxaug augment text` with commas between them.
        options: of the schemes, as `jaxaug augment text --option` takes them.
        sampler: of the scheme paraphrase.
        model: of the scheme contextual; of paraphrase in the place of the config's.
    """

    name: str
    scheme: str = NOTHING
    options: tuple[str, ...] = ()
    sampler: str = ""
    model: str = ""

    def steps(self, paraphraser: str, wordnet_dir: str) -> list[Step]:
        """Returns the chain of a method that has one.

        Args:
            paraphraser: model of the scheme paraphrase.
            wordnet_dir: for schemes that look synonyms up; empty is the built-in
                lexicon.

        Raises:
            UserError: a scheme or option is wrong, or WordNet is not in that folder.
        """
        names = [name.strip() for name in self.scheme.split(",")]
        options = [
            f"{name}.{_WORDNET}={wordnet_dir}"
            for name in names
            if wordnet_dir and name in sentences.METHODS
            if _WORDNET in inspect.signature(sentences.METHODS[name]).parameters
        ]
        model = self.model or (paraphraser if PARAPHRASE in names else None)
        try:
            return chain.steps(
                names, [*options, *self.options], model, self.sampler or None
            )
        except UserError as error:
            raise UserError(f"method {self.name!r}: {error}") from None


def outputs_of(
    method: Method,
    texts: Sequence[str],
    num: int,
    paraphraser: str,
    wordnet_dir: str,
) -> Outputs:
    """Returns the paraphrases of texts by a method, `num` of each.

    Those of models are kept in the cache folder, so that a run that was stopped goes on.

    Raises:
        UserError: a model or WordNet is not on this machine, or an option is wrong.
    """
    if method.scheme == NOTHING:
        return {text: () for text in texts}
    if method.scheme == COPIES:
        return {text: (text,) * num for text in texts}
    steps = method.steps(paraphraser, wordnet_dir)
    shards = Shards(cache_folder.cache_dir() / "augment", _SHARD_SIZE)
    found = chain.apply(steps, texts, num, 0, shards)
    return dict(zip(texts, found, strict=True))


def augmented(examples: Sequence[Example], outputs: Outputs) -> list[Example]:
    """Returns the examples and what paraphrases make of them.

    A paraphrase has the class of its sentence. A sentence with its paraphrase is a pair
    that means the same, whatever the label of the pair that the sentence is first of.

    Args:
        examples: to train on.
        outputs: of some of their first texts.
    """
    added = []
    for example in examples:
        text = example.texts[0]
        for output in outputs.get(text, ()):
            if len(example.texts) == 1:
                added.append(Example((output,), example.label))
            else:
                added.append(Example((text, output), SAME))
    return [*examples, *added]


def copied(outputs: Outputs) -> float | None:
    """Returns the share of paraphrases that are copies, case and white space aside.

    Returns None if there are no paraphrases.
    """
    pairs = [(text, one) for text, found in outputs.items() for one in found]
    same = sum(is_copy(one, text) for text, one in pairs)
    return same / len(pairs) if pairs else None
