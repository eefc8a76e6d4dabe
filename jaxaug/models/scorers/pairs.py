"""Scores of pairs of texts: similarity, entailment, mutual implication, and BLEURT.

Also the perplexity of texts under a causal language model.
"""

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxaug.core.buckets import Batch, in_batches
from jaxaug.core.errors import UserError
from jaxaug.core.files import read_json
from jaxaug.models import bert, programs
from jaxaug.models.scorers.encoder import SENTENCE_CONFIG, Encoder
from jaxaug.models.scorers.store import Store, Texts, remembered
from jaxaug.models.text.language import LanguageModel

Pairs = Sequence[tuple[str, str]]
Read = TypeVar("Read")

TEMPLATES = (
    "{}",
    "This example has the same meaning as {}",
    "This text is about {}",
    "This example implies that {}",
)
_POOLING = "1_Pooling/config.json"
# Files of sentence-transformers: the parts of a model, and its preprocessing.
_MODULES, _TEXTS = "modules.json", "config_sentence_transformers.json"
_FIX = "Get the model again."
_PARTS = ("Transformer", "Pooling", "Normalize")


class Similarity:
    """Cosine of pooled embeddings (Reimers and Gurevych 2019), from -1 to 1."""

    def __init__(
        self, encoder: Encoder, store: Store | None = None, pooling: str | None = None
    ):
        """Checks that the model is supported.

        Args:
            pooling: "mean" or "cls"; None means the choice in `1_Pooling/config.json`
                of the model, by default "mean".

        Raises:
            UserError: an unknown pooling, or an unsupported part or preprocessing.
        """
        self._encoder, self._store = encoder, store
        _check_sentences(encoder)
        self._pooling = pooling or _pooling(encoder)
        if self._pooling not in ("mean", "cls"):
            raise UserError(f"pooling {self._pooling!r}: use 'mean' or 'cls'.")

    def embed(self, texts: Sequence[str]) -> Float[np.ndarray, "texts emb"]:
        """Returns embeddings of unit length."""
        return remembered(
            self._store,
            f"embedding {self._pooling} {_identity(self._encoder)}",
            [(text,) for text in texts],
            self._compute,
        )

    def __call__(self, pairs: Pairs) -> Float[np.ndarray, " pairs"]:
        """Returns the similarity of the two texts of each pair."""
        first, second = (self.embed([pair[i] for pair in pairs]) for i in (0, 1))
        return np.sum(first * second, axis=1)

    def _compute(self, items: Sequence[Texts]) -> Float[np.ndarray, "n emb"]:
        encoded = self._encoder.encode([text for (text,) in items])
        return self._encoder.run(_pooled, encoded, self._pooling == "mean")


@programs.of_model(static_argnums=(0,))
def _pooled(
    encoder: Encoder, mean: bool, params: Any, tokens: Array, segments: Array,
    mask: Array, numbers: Array,
) -> Array:  # fmt: skip
    del numbers
    hidden: Any = encoder.module.apply({"params": params}, tokens, segments, mask)
    pooled = bert.mean_pool(hidden, mask) if mean else bert.cls_pool(hidden)
    norm = jnp.linalg.norm(pooled, axis=-1, keepdims=True)
    return pooled / jnp.maximum(norm, 1e-12)


class Entailment:
    """Probability that the second text follows from the first, from 0 to 1.

    It is the mean over hypothesis templates, which surround the second text.

    There are two conventions. With `neutral`, all labels of the classifier share the
    probability: 0.58 means that entailment is likelier than all other labels together.
    Without it, the softmax covers only entailment and contradiction, as in zero-shot
    classification. Then 0.58 means that entailment is 1.4 times as likely as
    contradiction, however likely neutral is, and unrelated texts score about 0.5. Coca
    et al. (2023) take their template from zero-shot classification.
    """

    def __init__(
        self,
        encoder: Encoder,
        store: Store | None = None,
        templates: Sequence[str] = TEMPLATES,
        neutral: bool = True,
    ):
        """Checks labels and templates.

        Args:
            encoder: encoder with a classifier that has the label entailment.
            templates: texts that contain `{}`.
            neutral: whether labels other than entailment and contradiction count.

        Raises:
            UserError: the label entailment is missing, contradiction is missing and
                `neutral` is false, or a template lacks its `{}`.
        """
        self._encoder, self._store = encoder, store
        self._templates = tuple(templates)
        self.label = _place_of(encoder, "entailment")
        self._other = None if neutral else _place_of(encoder, "contradiction")
        for template in self._templates:
            if "{}" not in template:
                raise UserError(f"template {template!r}: write {{}} for the text.")
        if not self._templates:
            raise UserError("no template: give at least one, such as '{}'.")

    def probabilities(self, pairs: Pairs) -> Float[np.ndarray, "pairs labels"]:
        """Returns label probabilities of (premise, hypothesis), without templates."""
        return remembered(
            self._store,
            f"labels {_identity(self._encoder)}",
            [tuple(pair) for pair in pairs],
            lambda items: _classify(self._encoder, items, softmax=True),
        )

    def __call__(self, pairs: Pairs) -> Float[np.ndarray, " pairs"]:
        """Returns the mean probability of entailment of each (premise, text)."""
        hypotheses = [
            (premise, template.replace("{}", text))
            for template in self._templates
            for premise, text in pairs
        ]
        of_label = self.probabilities(hypotheses)
        found = of_label[:, self.label]
        if self._other is not None:
            # This is the softmax over two of the logits; 0.5 if both round to 0.
            both = found + of_label[:, self._other]
            middle = np.full_like(found, 0.5)
            found = np.divide(found, both, out=middle, where=both > 0)
        return np.mean(found.reshape(len(self._templates), len(pairs)), axis=0)


class MutualImplication:
    """Entailment in both directions (Nighojkar and Licato 2021)."""

    def __init__(self, encoder: Encoder, store: Store | None = None):
        """See `Entailment`; there are no templates."""
        self._entailment = Entailment(encoder, store, ("{}",))

    def directions(self, pairs: Pairs) -> Float[np.ndarray, "pairs 2"]:
        """Returns the probability of entailment in both directions, forward first."""
        return self._both(pairs)[:, :, self._entailment.label].T

    def __call__(self, pairs: Pairs) -> Float[np.ndarray, " pairs"]:
        """Returns the smaller probability of the two directions."""
        return np.min(self.directions(pairs), axis=1)

    def holds(self, pairs: Pairs) -> Bool[np.ndarray, " pairs"]:
        """Returns whether entailment is the most probable label in both directions."""
        best = np.argmax(self._both(pairs), axis=-1)
        return np.all(best == self._entailment.label, axis=0)

    def _both(self, pairs: Pairs) -> Float[np.ndarray, "2 pairs labels"]:
        back = [(second, first) for first, second in pairs]
        found = self._entailment.probabilities([*pairs, *back])
        return found.reshape(2, len(pairs), -1)


class Bleurt:
    """BLEURT (Sellam et al. 2020): how well a candidate conveys a reference.

    The model reads [CLS] reference [SEP] candidate [SEP], with segments 0 and 1. If
    both are too long, the end of the longer one is cut off. The score is the raw output
    of the model, on the scale of the checkpoint, and is not bounded. The originals of
    2020 score around -2 to 1, and BLEURT-20 around 0 to 1.
    """

    def __init__(self, encoder: Encoder, store: Store | None = None):
        """Takes an encoder with a classifier of one output; refuses others.

        Raises:
            UserError: the classifier has another number of outputs.
        """
        self._encoder, self._store = encoder, store
        labels = getattr(encoder.config, "labels", ())
        if len(labels) != 1:
            raise UserError(
                f"{encoder.name} has {len(labels)} outputs, but BLEURT has one. Take "
                "bleurt-base-128 or bleurt-20."
            )

    def __call__(self, pairs: Pairs) -> Float[np.ndarray, " pairs"]:
        """Returns the score of each (reference, candidate)."""
        return remembered(
            self._store,
            f"outputs {_identity(self._encoder)}",
            [tuple(pair) for pair in pairs],
            lambda items: _classify(self._encoder, items, softmax=False),
        )[:, 0]


def _identity(encoder: Encoder) -> str:
    return json.dumps([encoder.identity, encoder.max_length])


def _pooling(encoder: Encoder) -> str:
    path = encoder.folder / _POOLING if encoder.folder else None
    if path is None or not path.exists():
        return "mean"
    config = read_json(path, _FIX)
    known = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
    # Several modes would be concatenated. The latest versions have one field.
    modes = [
        key for key, on in config.items() if key.startswith("pooling_mode_") and on
    ]
    if len(modes) == 1 and modes[0] in known:
        return known[modes[0]]
    if not modes and config.get("pooling_mode") in known.values():
        return config["pooling_mode"]
    raise UserError(
        f"{path}: pools by something other than the mean or the first token. Name one "
        "of them ('mean', 'cls')."
    )


def _check_sentences(encoder: Encoder) -> None:
    """Checks that sentence-transformers would only pool and normalize."""
    if encoder.folder is None:
        return
    modules, texts, lower = (
        read_json(encoder.folder / name, _FIX)
        if (encoder.folder / name).exists()
        else None
        for name in (_MODULES, _TEXTS, SENTENCE_CONFIG)
    )
    kinds = [str(module.get("type", "")).rpartition(".")[2] for module in modules or ()]
    if others := [kind for kind in kinds if kind not in _PARTS]:
        raise UserError(
            f"{encoder.folder / _MODULES}: has the part {', '.join(others)}, but only "
            f"{', '.join(_PARTS)} are supported. Take a model without it."
        )
    if name := (texts or {}).get("default_prompt_name"):
        raise UserError(
            f"{encoder.folder / _TEXTS}: default_prompt_name is {name!r}, but texts "
            "are read without a prompt. Set it to null, or take a model without one."
        )
    if (lower or {}).get("do_lower_case"):
        raise UserError(
            f"{encoder.folder / SENTENCE_CONFIG}: do_lower_case is true, but texts are "
            "read as they are. Take a model whose tokenizer lower-cases by itself."
        )


def _place_of(encoder: Encoder, label: str) -> int:
    labels = [name.lower() for name in getattr(encoder.config, "labels", ())]
    if labels.count(label) != 1:
        raise UserError(
            f"{encoder.name}: none of its labels {labels} is {label!r}. Take a model "
            "of natural language inference, such as deberta-nli or bart-large-mnli."
        )
    return labels.index(label)


@programs.of_model(static_argnums=(0,))
def _classes(
    encoder: Encoder, softmax: bool, params: Any, tokens: Array, segments: Array,
    mask: Array, numbers: Array,
) -> Array:  # fmt: skip
    del numbers
    module: Any = encoder.module
    takes_segments = hasattr(encoder.config, "num_segments")
    arguments = (tokens, segments, mask) if takes_segments else (tokens,)
    logits = module.apply({"params": params}, *arguments, method=module.classify)
    return jax.nn.softmax(logits) if softmax else logits


def _classify(
    encoder: Encoder, items: Sequence[Texts], softmax: bool
) -> Float[np.ndarray, "n labels"]:
    encoded = encoder.encode([(item[0], item[1]) for item in items])
    return encoder.run(_classes, encoded, softmax)


class CausalPerplexity:
    """exp of the mean of -log p(token | tokens before it), of a decoder-only model.

    The first token follows the model's beginning-of-text token (`bos_token_id`). The
    end of the text does not count.
    """

    def __init__(self, model: LanguageModel, batch_size: int = 16):
        """`batch_size` texts are computed together."""
        self._model, self._batch_size = model, batch_size

    def __call__(self, texts: Sequence[str]) -> Float[np.ndarray, " texts"]:
        """Returns the perplexity of each text, which must have tokens.

        Raises:
            UserError: a text has no tokens.
        """
        distinct = list(dict.fromkeys(texts))
        sequences = self._model.vocabulary.encode_batch(distinct)
        for text, tokens in zip(distinct, sequences, strict=True):
            if not tokens:
                raise UserError(
                    f"text {text!r} has no tokens, so no perplexity: leave it out."
                )
        each = zip(distinct, self._log_probabilities(sequences), strict=True)
        found = {text: np.exp(-np.mean(own)) for text, own in each}
        return np.array([found[text] for text in texts], np.float32)

    def continued(
        self, inputs: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]]
    ) -> list[float]:
        """Returns the log probability of each output behind its input, in nats.

        Args:
            inputs: token ids, without the token that begins a text.
            outputs: one or more token ids of each output.
        """
        whole = [[*one, *other] for one, other in zip(inputs, outputs, strict=True)]
        each = self._log_probabilities(whole)
        pairs = zip(each, outputs, strict=True)
        return [float(np.sum(own[-len(output) :])) for own, output in pairs]

    def _log_probabilities(
        self, sequences: Sequence[Sequence[int]]
    ) -> list[Float[np.ndarray, " tokens"]]:
        found = in_batches(
            sequences,
            self._batch_size,
            lambda rows, _: _of_tokens(self._model, self._params, rows),
            name=self._model.label,
        )
        return [one[: len(own)] for one, own in zip(found, sequences, strict=True)]

    def next_logits(
        self, texts: Sequence[str], read: Callable[[Float[np.ndarray, " vocab"]], Read]
    ) -> list[Read]:
        """Returns what `read` takes from the logits of the token after each text."""

        def compute(rows: Int[np.ndarray, "rows length"], batch: Batch) -> list[Read]:
            logits = np.asarray(_of_last(self._model, self._params, rows))
            return [read(one) for one in logits[: len(batch.indices)]]

        # The value of the last token is not read, only its position.
        sequences = [[*own, 1] for own in self._model.vocabulary.encode_batch([*texts])]
        return in_batches(sequences, 2 * self._batch_size, compute)

    @functools.cached_property
    def _params(self) -> Any:
        return jax.device_put(self._model.params)


def _logits(
    model: LanguageModel, params: Any, tokens: Int[Array, "rows length"]
) -> Float[Array, "rows length vocab"]:
    before = jnp.pad(tokens[:, :-1], ((0, 0), (1, 0)))
    return model.module.apply(  # type: ignore[return-value]
        {"params": params}, before, tokens, enable_dropout=False
    )


@programs.of_model()
def _of_tokens(
    model: LanguageModel, params: Any, tokens: Int[Array, "rows length"]
) -> Float[Array, "rows length"]:
    log_probs = jax.nn.log_softmax(_logits(model, params, tokens))
    return jnp.take_along_axis(log_probs, tokens[..., None], axis=-1)[..., 0]


@programs.of_model()
def _of_last(
    model: LanguageModel, params: Any, tokens: Int[Array, "rows length"]
) -> Float[Array, "rows vocab"]:
    last = jnp.sum(tokens != 0, axis=1) - 1
    return _logits(model, params, tokens)[jnp.arange(len(tokens)), last]
