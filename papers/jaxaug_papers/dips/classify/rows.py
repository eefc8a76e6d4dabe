"""The rows of the table: methods that add paraphrases to the training data."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jaxaug.augment.plain import text
from jaxaug.augment.plain.text import PARAPHRASE, Step
from jaxaug.augment.schemes import sentences
from jaxaug.core import cache_folder
from jaxaug.core.errors import UserError
from jaxaug.core.shards import Shards
from jaxaug.core.text import is_copy
from jaxaug.models.endpoint.server import is_endpoint
from jaxaug.paraphrase.endpoint import Writer
from jaxaug_papers.dips.classify.examples import SAME, Example

NOTHING, COPIES = "nothing", "copies"
_WORDNET = "wordnet_dir"
# Sources per shard: one batch of a paraphraser with five outputs per source.
_SHARD_SIZE = 12
_SEED = 0

Outputs = Mapping[str, Sequence[str]]
"""Text -> paraphrases of it."""


@dataclass(frozen=True)
class Method:
    """A row of the table.

    Attributes:
        scheme: `nothing`, `copies`, or schemes of `jaxaug augment text` separated by
            commas. `copies` repeats the text itself, which shows the effect of more
            updates and higher counts alone.
        options: options of the schemes, in the form of `jaxaug augment text --option`.
        model: model of the scheme contextual, or of paraphrase instead of the config's
            model.
    """

    name: str
    scheme: str = NOTHING
    options: tuple[str, ...] = ()
    sampler: str = ""
    model: str = ""

    def steps(self, paraphraser: str, wordnet_dir: str) -> list[Step]:
        """Returns the chain of schemes of a method other than `nothing` and `copies`.

        Args:
            paraphraser: model of the scheme paraphrase.
            wordnet_dir: WordNet folder for schemes with synonyms; empty uses the
                built-in lexicon.

        Raises:
            UserError: a scheme or option is invalid, or the folder has no WordNet.
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
            return text.steps(
                names, [*options, *self.options], model, self.sampler or None
            )
        except UserError as error:
            raise UserError(f"method {self.name!r}: {error}") from None


def of_server(
    methods: Sequence[Method], paraphraser: str, requests: Sequence[str]
) -> tuple[Method, ...]:
    """Returns rows with one for the server, instead of one for each decoder."""
    own = Method(paraphraser, PARAPHRASE, tuple(requests))
    found = [m if m.model or m.scheme != PARAPHRASE else own for m in methods]
    return tuple(dict.fromkeys(found))


def writer_of(method: Method, paraphraser: str, num: int) -> Writer | None:
    """Returns the writer of a row by a model behind an endpoint, else None."""
    if method.scheme != PARAPHRASE or not is_endpoint(method.model or paraphraser):
        return None
    (step,) = method.steps(paraphraser, "")
    return step.job(_SEED, num).endpoint


def outputs_of(
    method: Method, texts: Sequence[str], num: int, paraphraser: str, wordnet_dir: str
) -> Outputs:
    """Returns `num` paraphrases of each text by a method; models' are cached."""
    if method.scheme == NOTHING:
        return {text: () for text in texts}
    if method.scheme == COPIES:
        return {text: (text,) * num for text in texts}
    steps = method.steps(paraphraser, wordnet_dir)
    shards = Shards(cache_folder.cache_dir() / "augment", _SHARD_SIZE)
    found = text.apply(steps, texts, num, _SEED, shards)
    return dict(zip(texts, found, strict=True))


def augmented(examples: Sequence[Example], outputs: Outputs) -> list[Example]:
    """Returns the examples, followed by new examples from paraphrases.

    A paraphrase of a sentence has its class. For pairs, the first sentence and its
    paraphrase are a new positive pair, independent of the label of the original pair.
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
    """Returns the fraction of paraphrases that are copies, or None without any."""
    pairs = [(text, one) for text, found in outputs.items() for one in found]
    same = sum(is_copy(one, text) for text, one in pairs)
    return same / len(pairs) if pairs else None
