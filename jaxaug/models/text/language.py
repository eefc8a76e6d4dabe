"""Language models that paraphrase with a few-shot prompt.

The model continues the prompt; its output ends with the first line break. Every token
with a line break, every special token, and every `eos_token_id` of the model ends an
output. Decode functions see all of them as one token, EOS, whose probability is their
sum. Log probabilities therefore belong to the output as it is cut, and rows, beams, and
sets of candidates end there.
"""

import abc
import dataclasses
import functools
from collections.abc import Iterable, Mapping
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int
from t5x import models
from t5x.feed.vocabularies import check_rows

from jaxaug.core.errors import UserError
from jaxaug.core.files import read_json, shown
from jaxaug.core.text import clean, unmarked
from jaxaug.decode.refill import Begun, with_index
from jaxaug.models.named import identities
from jaxaug.models.text import chat_template, prompts
from jaxaug.models.tokenizers import hf
from jaxaug.models.weights import hf_config, hf_folder

# Finite as in the decode functions, so that sums stay finite.
_REMOVED = -1.0e7


def listed(folder: epath.Path, vocab_size: int, id_offset: int) -> tuple[int, ...]:
    """Returns ids at which `generate` of transformers ends a model's output.

    They are the `eos_token_id` of generation_config.json, a number or a list. If that
    file is missing or names none, config.json counts. -1 means no id.

    Args:
        id_offset: difference between our ids and the published ones.

    Raises:
        UserError: a value is not an id of the model.
    """
    for path in (folder / hf_config.GENERATION, folder / hf_folder.CONFIG):
        config = read_json(path, hf_folder.FIX) if path.exists() else {}
        value = config.get("eos_token_id") if isinstance(config, dict) else None
        if value is None:
            continue
        ids = value if isinstance(value, list) else [value]
        for number in ids:
            if type(number) is not int or not -1 <= number < vocab_size:
                raise UserError(
                    f"{path}: eos_token_id is {shown(value)}, but the model has ids "
                    f"from 0 to {vocab_size - 1}. Take the files of one model."
                )
        return tuple(number + id_offset for number in ids if number >= 0)
    return ()


def together(
    logits: Float[Array, "*rows vocab"], ends: Iterable[int], eos_id: int
) -> Float[Array, "*rows vocab"]:
    """Returns logits in which all ending tokens are merged into EOS.

    Args:
        ends: ids that end an output; EOS always does.
        eos_id: id that gets the probability of all ends; the others become impossible.
    """
    every = {*map(int, ends), eos_id}
    if len(every) == 1:
        return logits
    is_end = np.isin(np.arange(logits.shape[-1]), list(every))
    total = jax.nn.logsumexp(jnp.where(is_end, logits, -jnp.inf), axis=-1)
    return jnp.where(is_end, _REMOVED, logits).at[..., eos_id].set(total)


# Key of the prefix in the parameters, next to the network.
_PREFIX = "prefix"


class Loaded(abc.ABC):
    """Base of the models for text: a network with parameters and vocabularies.

    A model compares equal only to itself, so it can be a static argument of compiled
    programs.
    """

    module: nn.Module
    params: Mapping[str, Any]
    published: str = ""
    shared = 0
    """Number of prompt tokens that every input contains."""

    @property
    @abc.abstractmethod
    def vocabularies(self) -> tuple[Any, ...]:
        """The vocabularies of inputs and outputs."""

    @functools.cached_property
    def identity(self) -> str:
        """Digest of the model for keys, independent of its name and prompt."""
        return self.published or identities.of_parameters(
            self.module, self.params, *self.vocabularies
        )

    @functools.cached_property
    def bare(self) -> Self:
        """The same model without parameters, for compiled programs to refer to."""
        return dataclasses.replace(self, params={})  # type: ignore[type-var]


@dataclasses.dataclass(frozen=True, eq=False)
class LanguageModel(Loaded):
    """A decoder-only model with its parameters, tokenizer, and prompt.

    Attributes:
        module: see `jaxaug.models.causal.CausalLM`; its config has `id_offset` 1.
        vocabulary: tokenizer with `id_offset` 1.
        trained_prompt: whether the model was trained with `prompt`, which is then its
            default.
        is_chat: whether the prompt is a chat, whose text contains special tokens.
    """

    label: str
    module: nn.Module
    params: Mapping[str, Any]
    vocabulary: hf.Tokenizer
    prompt: prompts.Prompt
    listed: tuple[int, ...] = ()
    published: str = ""
    trained_prompt: bool = False
    is_chat: bool = False
    folder: epath.Path | None = None

    @property
    def vocabularies(self) -> tuple[Any, ...]:
        return (self.vocabulary,)

    @property
    def output_vocabulary(self) -> hf.Tokenizer:
        """Vocabulary of outputs, the same as for inputs."""
        return self.vocabulary

    @functools.cached_property
    def before(self) -> list[int]:
        """Tokens of the prompt before the input."""
        if not self.is_chat:
            return self.vocabulary.encode(self.prompt.before)
        # The module reads the first token as BOS; see `with_prompt`.
        return self.vocabulary.encode_marked(self.prompt.before)[1:]

    @functools.cached_property
    def behind(self) -> list[int]:
        """Tokens of the prompt after the input."""
        if self.is_chat:
            return self.vocabulary.encode_marked(self.prompt.behind)
        return self.vocabulary.encode(self.prompt.behind)

    @property
    def shared(self) -> int:  # type: ignore[override]
        """See `Loaded.shared`."""
        return len(self.before) + len(self.behind)

    def prompted(self, prompt: str) -> "LanguageModel":
        """Returns the same model with another prompt; see `prompts.find`."""
        return self.with_prompt(prompts.find(prompt))

    def with_prompt(self, prompt: prompts.Prompt | prompts.Chat) -> "LanguageModel":
        """Returns the same model with another prompt, which may use its chat template.

        Raises:
            UserError: the model has no chat template, or an invalid one.
        """
        if not isinstance(prompt, prompts.Chat):
            return dataclasses.replace(self, prompt=prompt, is_chat=False)
        if self.folder is None:
            raise UserError(
                f"{self.label} has no chat template, because it is not a published "
                f"model. Leave {prompts.CHAT} out of the prompt's name."
            )
        rendered = chat_template.load(self.folder).around(prompt.message)
        module, first = self.module, self.vocabulary.encode_marked(rendered.before)[:1]
        if first:
            # Templates write the first token themselves; it replaces the model's BOS.
            config = dataclasses.replace(
                module.config,  # type: ignore[attr-defined]
                bos_token_id=first[0] - self.vocabulary.id_offset,
            )
            module = module.clone(config=config)
        return dataclasses.replace(self, prompt=rendered, is_chat=True, module=module)

    def encode(self, text: str) -> list[int]:
        """Returns the tokens of the prompt with an input; three separate parts."""
        text = self.prompt.space + clean(text, False)
        return [*self.before, *self.vocabulary.encode(text), *self.behind]

    def decode(self, tokens: list[int]) -> str:
        """Returns the cleaned text of an output up to its first line break.

        White space becomes single spaces. A bullet or enclosing quotes are removed.
        """
        first = self.vocabulary.decode(tokens).strip().partition("\n")[0]
        return unmarked(clean(first, False))

    @functools.cached_property
    def ends(self) -> Bool[np.ndarray, " vocab"]:
        """Mask of the ids that end an output."""
        size = self.module.config.vocab_size + 1  # type: ignore[attr-defined]
        # Rows beyond the vocabulary of the tokenizer have no text.
        ends = np.ones(size, np.bool_)
        texts = self.vocabulary.texts()[:size]
        ends[: len(texts)] = ["\n" in text or "\r" in text for text in texts]
        special = {*self.vocabulary.specials, *self.listed}
        ends[[token for token in special if token < size]] = True
        ends[0] = False  # Reserved for T5X, and already impossible.
        return ends

    def end_together(
        self, logits: Float[Array, "*rows vocab"]
    ) -> Float[Array, "*rows vocab"]:
        """Returns logits in which all ends are merged into EOS."""
        assert self.vocabulary.eos_id is not None
        ends = np.flatnonzero(self.ends)
        return together(logits, ends, self.vocabulary.eos_id)


class LineModel(models.DecoderOnlyModel):
    """Writes one line; see `LanguageModel.end_together`.

    The common beginning of all prompts passes through the network once (`prefix`). With
    the parameters of `with_prefix`, a prompt costs only its own tokens.
    """

    def __init__(self, model: LanguageModel, decode_fn: Any, max_length: int = 0):
        """Takes a model; `max_length` columns after the prompts are for outputs."""
        super().__init__(
            model.module, model.vocabulary, optimizer_def=None, decode_fn=decode_fn
        )
        self._end_together = model.end_together
        self._before = model.before
        self._max_length = max_length

    def _compute_logits_from_slice(self, *args: Any, **kwargs: Any) -> Any:
        """See the base class."""
        logits, cache = super()._compute_logits_from_slice(*args, **kwargs)
        return self._end_together(logits), cache

    def prefix(self, params: Any) -> Any:
        """Returns the cache [1, ...] of BOS and the tokens before the input."""
        # The base class omits the last token.
        tokens = jnp.array([[0, *self._before, 1]], jnp.int32)
        cache, _ = super()._compute_kv_cache(params, tokens, jnp.ones_like(tokens))
        return jax.tree.map(lambda leaf: leaf[..., : tokens.shape[1] - 1], cache)

    def _compute_kv_cache(
        self,
        params: Any,
        inputs: Int[Array, "rows length"],
        causal_attention_mask: Int[Array, "rows length"],
    ) -> tuple[Any, Int[Array, " rows"]]:
        """See the base class; nothing in the prefix is computed again."""
        known = params.get(_PREFIX)
        if known is None:
            return super()._compute_kv_cache(params, inputs, causal_attention_mask)
        rows, length = inputs.shape
        first, last = 1 + len(self._before), length - self._max_length
        tokens = inputs[:, first:last]
        _, variables = self.module.apply(
            {"params": params, "cache": grown(known, first, rows, length)},
            tokens,
            tokens,
            enable_dropout=False,
            decode=True,
            mutable=["cache"],
        )
        # The columns after a prompt are padding, which the steps overwrite.
        lengths = jnp.sum(inputs[:, 1:] != 0, axis=-1)
        return with_index(variables["cache"], lengths), lengths

    def begin(self, params: Any, prompts: Int[Array, "rows length"]) -> Begun:
        """See `Begun`; BOS and the prompt are the first tokens."""
        lengths = jnp.sum(prompts != 0, axis=1, keepdims=True)
        inputs = jnp.pad(prompts, ((0, 0), (1, self._max_length)))
        given = (jnp.arange(inputs.shape[1]) <= lengths).astype(jnp.int32)
        cache, index = self._compute_kv_cache(params, inputs, given)
        return Begun(inputs, cache, index, ())

    def step(
        self, params: Any, memory: tuple[()], state: Any
    ) -> tuple[Float[Array, "rows vocab"], Any]:
        """Returns the logits of the next token and the cache of a `DecodingState`."""
        del memory
        return self._compute_logits_from_slice(
            state, params, max_decode_length=state.sequences.shape[1]
        )


def with_prefix(params: Mapping[str, Any], prefix: Any) -> dict[str, Any]:
    """Returns parameters with a cached prompt beginning (`LineModel.prefix`)."""
    return {**params, _PREFIX: prefix}


def prefix_of(params: Mapping[str, Any]) -> Any:
    """Returns the prefix in the parameters, or None."""
    return params.get(_PREFIX)


def grown(prefix: Any, known: int, rows: int, length: int) -> Any:
    """Returns a cache [rows, length] whose first `known` columns are the prefix."""

    def leaf(x: Array) -> Array:
        if x.ndim == 1:  # An index.
            return jnp.int32(known)
        wider = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, length - known)])
        return jnp.broadcast_to(wider, (rows, *wider.shape[1:]))

    return jax.tree.map(leaf, prefix)


def is_language_model(folder: epath.Path) -> bool:
    """Returns whether `load` supports a folder."""
    if (folder / hf_folder.CONFIG).exists():
        return hf_folder.read_config(folder)[0].kind == "decoder_only"
    return any(folder.glob("*.gguf"))


def load(
    folder: epath.Path, label: str, prompt: str = "schema", weights: bool = True
) -> LanguageModel:
    """Loads a published decoder-only model from its folder or the GGUF file in it.

    Args:
        weights: whether to read the parameters; if not, they are empty.

    Raises:
        UserError: files are missing or wrong, or the tokenizer names no EOS.
    """
    if (folder / hf_folder.CONFIG).exists():
        published = hf_folder.load(folder, weights=weights)
    else:
        from jaxaug.models.weights import gguf

        published = gguf.load(min(folder.glob("*.gguf")), weights)
    words = hf.load(folder, id_offset=1)
    if words.eos_id is None:
        raise UserError(
            f"{words.path} names no token that ends a text (eos_token). Take the "
            "tokenizer_config.json that was published with the model."
        )
    config = dataclasses.replace(published.config, id_offset=1)
    hf_config.check_rows(config, ["bos_token_id"])
    model = LanguageModel(
        label,
        published.family.build(config),
        published.params,
        words,
        prompts.parse(prompts.PROMPTS[prompts.PLAIN], prompts.PLAIN),
        listed(folder, config.vocab_size, 1),
        folder=folder,
    )
    check_rows(model, folder)
    return model.prompted(prompt)
