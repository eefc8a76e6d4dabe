"""Contextual substitution: other words that a language model would write at a place.

The method is by Kobayashi (2018), here with published models. A masked language model
gives the probabilities of the word at a masked place at once. A causal model sees only
the left side. Its most probable next words and the synonyms of the lexicon are
proposed. One is drawn by p(whole text with the word) normalized over the proposals,
which is p(word | left side, right side) among them. A word that fits there may have
another meaning than the old one. The outputs are fluent noise and need a filter.
"""

import functools
import zlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxaug.augment.language import lexicon as lexicons
from jaxaug.augment.language.lexicon import STOP_WORDS
from jaxaug.augment.language.words import Word, edited
from jaxaug.augment.schemes.sentences import synonyms_at
from jaxaug.core.errors import UserError
from jaxaug.core.typed import Range, bounded
from jaxaug.models import programs
from jaxaug.models.scorers import encoder as encoders
from jaxaug.models.scorers.pairs import CausalPerplexity
from jaxaug.models.text import language
from jaxaug.models.text.language import LanguageModel
from jaxaug.models.tokenizers.hf import Encoded
from jaxaug.paraphrase.literals import keeping

Proposals = list[tuple[str, float]]
"""Words with their log probabilities, up to a constant."""


class Gap(NamedTuple):
    """A place of a text: its left and right side, and the synonyms of its word."""

    left: str
    right: str
    synonyms: tuple[str, ...]


@keeping
@bounded
def candidates(
    texts: Sequence[str],
    *,
    model: str = "smollm2",
    num: Annotated[int, Range(1)] = 1,
    rate: Annotated[float, Range(0, 1, above=True)] = 0.15,
    top: Annotated[int, Range(1)] = 20,
    temperature: Annotated[float, Range(0, above=True)] = 1.0,
    protected: Sequence[str] = (),
    seed: int = 0,
) -> list[list[str]]:
    """Returns `num` copies of each text with max(1, rate * words) words substituted.

    Stop words, numbers, placeholders, and protected texts stay. Words are substituted
    from left to right, each given the words before it.

    Args:
        texts: texts in English.
        model: a decoder-only model, or one with a head for masked words (BERT,
            RoBERTa); a name of `jaxaug models list` or a folder.
        num: number of drawn texts; some may be equal.
        rate: share of words to substitute.
        top: words that the model proposes for a place.
        temperature: above 0; below 1 prefers probable words.
        protected: parts of the texts that stay.
        seed: seed of all random draws, together with a text and its number.

    Returns:
        The drawn texts; the text itself if no word may be substituted. A text without
        words has none.

    Raises:
        UserError: an argument is out of range, or the model is not on this machine or
            is of neither kind.
    """
    drafts = [
        _Draft(text, np.random.default_rng([seed, zlib.crc32(text.encode()), i]), rate)
        for text in texts
        for i in range(num)
    ]
    for draft in drafts:
        edited(draft.text, draft.begin, protected)
    proposer = _proposer(model)
    while open_drafts := [draft for draft in drafts if draft.places]:
        found = proposer.propose([draft.gap() for draft in open_drafts], top)
        for draft, proposals in zip(open_drafts, found, strict=True):
            draft.fill(proposals, temperature)
    done = [edited(draft.text, draft.result, protected) for draft in drafts]
    return [done[i * num : (i + 1) * num] for i in range(len(texts))]


NAMES = ("model",)


def models(options: Mapping[str, Any]) -> list[str]:
    return [options["model"]]


def most(options: Mapping[str, Any]) -> int:
    return int(options["num"])


class _Draft:
    """A text during the substitution of words."""

    def __init__(self, text: str, rng: np.random.Generator, rate: float):
        self.text, self.places = text, list[int]()
        self._words, self._rng, self._rate = list[Word](), rng, rate

    def begin(self, words: list[Word]) -> list[Word]:
        """Chooses the places to substitute."""
        free = [
            place
            for place, word in enumerate(words)
            if not word.fixed and word.core and word.core.lower() not in STOP_WORDS
        ]
        count = min(len(free), max(1, int(self._rate * len(words))))
        chosen = self._rng.permutation(len(free))[:count].tolist()
        self.places = sorted(free[number] for number in chosen)
        self._words = list(words)
        return words

    def gap(self) -> Gap:
        """Returns the first remaining place."""
        place = self.places[0]
        word = self._words[place]
        before = [w.text for w in self._words[:place]] + [word.before]
        behind = [word.after] + [w.text for w in self._words[place + 1 :]]
        found = synonyms_at(self._words, place, lexicons.built_in())
        left = " ".join(before[:-1]) + (" " if place else "") + before[-1]
        return Gap(left, " ".join(behind).rstrip(), found)

    def fill(self, proposals: Proposals, temperature: float) -> None:
        """Draws a word for the first place and removes this place."""
        place = self.places.pop(0)
        old = self._words[place].core.lower()
        new = {word: score for word, score in proposals if word.lower() != old}
        if not new:
            return
        scores = np.array(list(new.values()), np.float64) / temperature
        weights = np.exp(scores - scores.max())
        chosen = self._rng.choice(len(new), p=weights / weights.sum())
        self._words[place] = self._words[place].put(list(new)[chosen])

    def result(self, words: list[Word]) -> list[Word]:
        """Returns the words with all substitutions so far."""
        del words
        return self._words


@functools.cache
def _proposer(name: str) -> "_Causal | _Masked":
    folder = encoders.folder_of(name)
    if language.is_language_model(folder):
        return _Causal(language.load(folder, name))
    encoder = encoders.load(folder)
    head = getattr(encoder.config, "head", None)
    if head != "masked_lm" or encoder.tokenizer.mask_id is None:
        raise UserError(
            f"{name}: its head is {head!r}; contextual substitution needs a causal "
            "language model such as smollm2, or a BertForMaskedLM or "
            "RobertaForMaskedLM with a mask token."
        )
    return _Masked(encoder)


class _Causal:
    """Words of a decoder-only model; see the module."""

    def __init__(self, model: LanguageModel):
        self._model = model
        self._perplexity = CausalPerplexity(model)
        self._words = _whole_words(model.vocabulary.texts(), " ")

    def propose(self, gaps: Sequence[Gap], top: int) -> list[Proposals]:
        """Returns `top` words of the model, then the synonyms; see `Proposals`."""
        best = self._perplexity.next_logits(
            [gap.left.rstrip() for gap in gaps],
            lambda logits: _best(logits, self._words, top),
        )
        options = [
            list(dict.fromkeys([*(word for word, _ in found), *gap.synonyms]))
            for found, gap in zip(best, gaps, strict=True)
        ]
        texts = [
            gap.left + word + gap.right
            for gap, words in zip(gaps, options, strict=True)
            for word in words
        ]
        counts = [len(t) for t in self._model.vocabulary.encode_batch(texts)]
        scores = iter(-np.log(self._perplexity(texts)) * counts)
        return [[(word, float(next(scores))) for word in words] for words in options]


class _Masked:
    """Words of a masked language model."""

    def __init__(self, encoder: encoders.Encoder):
        self._encoder = encoder
        backend, offset = encoder.tokenizer.backend, encoder.tokenizer.id_offset
        texts = [backend.id_to_token(i) or "" for i in range(backend.get_vocab_size())]
        # RoBERTa marks the beginning of a word, BERT its continuations.
        marks = "\u0120" if any(text.startswith("\u0120") for text in texts) else ""
        self._words = _whole_words([""] * offset + texts, marks)

    def propose(self, gaps: Sequence[Gap], top: int) -> list[Proposals]:
        """Returns `top` words of the model; synonyms are not used. See `Proposals`."""
        words = self._encoder.tokenizer
        (edges,) = self._encoder.encode([""])
        first, last = edges.tokens[0], edges.tokens[-1]
        encoded, places = [], []
        for gap in gaps:
            left = words.encode(gap.left.rstrip())
            tokens = [first, *left, words.mask_id or 0, *words.encode(gap.right), last]
            if len(tokens) > self._encoder.max_length:
                raise UserError(
                    f"{self._encoder.name}: a text of {len(tokens)} tokens; it reads "
                    f"{self._encoder.max_length} at most. Shorten it: {gap.left!r} ..."
                )
            encoded.append(Encoded(tokens, [0] * len(tokens)))
            places.append([len(left) + 1])
        numbers = np.asarray(places, np.int32)
        rows = self._encoder.run(_at_mask, encoded, numbers=numbers)
        return [_best(row, self._words, top) for row in rows]


@programs.of_model()
def _at_mask(
    encoder: encoders.Encoder, params: Any, tokens: Array, segments: Array, mask: Array,
    numbers: Array,
) -> Float[Array, "rows vocab"]:  # fmt: skip
    module: Any = encoder.module
    logits = module.apply(
        {"params": params}, tokens, segments, mask, method=module.masked_logits
    )
    return jax.nn.log_softmax(logits[jnp.arange(len(tokens)), numbers[:, 0]])


def _whole_words(texts: Sequence[str], mark: str) -> dict[int, str]:
    """Returns id -> word, of tokens that are lower-case words but not stop words."""
    # A tokenizer cuts `doesn't` in two.
    halves = {word.partition("'")[0] for word in STOP_WORDS}
    words = {
        number: text[len(mark) :]
        for number, text in enumerate(texts)
        if text.startswith(mark)
    }
    return {
        number: word
        for number, word in words.items()
        if len(word) > 2
        and word.isalpha()
        and word.islower()
        and word not in STOP_WORDS | halves
    }


def _best(
    logits: Float[np.ndarray, " vocab"], words: dict[int, str], top: int
) -> Proposals:
    ids = np.fromiter(words, np.int64)
    order = ids[np.argsort(-logits[ids], kind="stable")[:top]]
    return [(words[i], float(logits[i])) for i in order.tolist()]
