"""Language models that paraphrase by a few-shot prompt.

The model continues the prompt; its output ends with the first line break. To the decode
functions all that ends an output (every token with a line break, every special token)
is one token, EOS: its probability is the sum of theirs, so that log probabilities are
those of the output as it is cut, and rows, beams and sets of candidates end there.
"""

import dataclasses
import functools
import re
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int
from t5x import models

from jaxaug.core.errors import UserError
from jaxaug.core.text import clean
from jaxaug.decode.refill import Begun
from jaxaug.models.named import identities
from jaxaug.models.text import prompts
from jaxaug.models.tokenizers import hf
from jaxaug.models.weights import hf_folder

# As in the decode functions: finite, so that sums stay numbers.
_REMOVED = -1.0e7
_LIST_MARK = re.compile(r"^(?:[-*•]|\(?\d{1,2}[.)])\s+")
_QUOTES = {'"': '"', "'": "'", "“": "”", "`": "`"}


@dataclasses.dataclass(frozen=True, eq=False)
class LanguageModel:
    """A decoder-only model with its parameters, tokenizer and prompt.

    Equal to itself alone, so that it can be a static argument of compiled programs.

    Attributes:
      label: name and version, for the records of a run.
      module: see `jaxaug.models.causal.CausalLM`; its config has `id_offset` 1.
      params: of the module.
      vocabulary: with `id_offset` 1.
      prompt: around each input.
      published: see `jaxaug.models.text.registry.published_identity`.
      trained_prompt: whether the model was trained with that prompt, so that it is
        what it reads unless another is asked for.
    """

    label: str
    module: nn.Module
    params: Mapping[str, Any]
    vocabulary: hf.Tokenizer
    prompt: prompts.Prompt
    published: str = ""
    trained_prompt: bool = False

    @functools.cached_property
    def identity(self) -> str:
        """What stands for the model in keys, whatever it is called; not the prompt."""
        return self.published or identities.of_parameters(
            self.module, self.params, self.vocabulary
        )

    @functools.cached_property
    def before(self) -> list[int]:
        """Tokens of the prompt before the input."""
        return self.vocabulary.encode(self.prompt.before)

    @functools.cached_property
    def behind(self) -> list[int]:
        """Tokens of the prompt behind the input."""
        return self.vocabulary.encode(self.prompt.behind)

    @property
    def shared(self) -> int:
        """Tokens that every input has from the prompt."""
        return len(self.before) + len(self.behind)

    def prompted(self, prompt: str) -> "LanguageModel":
        """The same model with another prompt; see `prompts.find`."""
        return dataclasses.replace(self, prompt=prompts.find(prompt))

    def encode(self, text: str) -> list[int]:
        """Tokens of the prompt with an input in it.

        The three parts are encoded by themselves, so that the input can be told from
        the prompt.
        """
        text = self.prompt.space + clean(text, False)
        return [*self.before, *self.vocabulary.encode(text), *self.behind]

    def decode(self, tokens: list[int]) -> str:
        """Text of an output up to its first line break, cleaned.

        White space becomes single spaces; a mark of a list, or quotes around it all,
        are removed.
        """
        first = self.vocabulary.decode(tokens).strip().partition("\n")[0]
        text = _LIST_MARK.sub("", clean(first, False))
        if len(text) > 1 and _QUOTES.get(text[0]) == text[-1]:
            text = text[1:-1].strip()
        return text

    @functools.cached_property
    def ends(self) -> Bool[np.ndarray, " vocab"]:
        """Which ids end an output."""
        size = self.module.config.vocab_size + 1  # type: ignore[attr-defined]
        # Rows beyond the tokenizer's have no text.
        ends = np.ones(size, np.bool_)
        texts = self.vocabulary.texts()[:size]
        ends[: len(texts)] = ["\n" in text or "\r" in text for text in texts]
        ends[[token for token in self.vocabulary.specials if token < size]] = True
        ends[0] = False  # Free, and already impossible.
        return ends

    def end_together(
        self, logits: Float[Array, "*rows vocab"]
    ) -> Float[Array, "*rows vocab"]:
        """Logits with all ends as one: EOS."""
        ends = self.ends
        together = jax.nn.logsumexp(jnp.where(ends, logits, -jnp.inf), axis=-1)
        logits = jnp.where(ends, _REMOVED, logits)
        return logits.at[..., self.vocabulary.eos_id].set(together)

    @functools.cached_property
    def bare(self) -> "LanguageModel":
        """The same model without parameters, for compiled programs to hold on to."""
        return dataclasses.replace(self, params={})


class LineModel(models.DecoderOnlyModel):
    """Writes one line: see `LanguageModel.end_together`."""

    def __init__(self, model: LanguageModel, decode_fn: Any):
        super().__init__(
            model.module, model.vocabulary, optimizer_def=None, decode_fn=decode_fn
        )
        self._end_together = model.end_together

    def _compute_logits_from_slice(self, *args: Any, **kwargs: Any) -> Any:
        """See the base class."""
        logits, cache = super()._compute_logits_from_slice(*args, **kwargs)
        return self._end_together(logits), cache

    def begin(
        self, params: Any, prompts: Int[Array, "rows length"], max_length: int
    ) -> Begun:
        """See `Begun`; of the tokens, BOS and the prompt come first."""
        lengths = jnp.sum(prompts != 0, axis=1, keepdims=True)
        inputs = jnp.pad(prompts, ((0, 0), (1, max_length)))
        given = (jnp.arange(inputs.shape[1]) <= lengths).astype(jnp.int32)
        cache, index = self._compute_kv_cache(params, inputs, given)
        return Begun(inputs, cache, index, ())

    def step(
        self, params: Any, memory: tuple[()], state: Any
    ) -> tuple[Float[Array, "rows vocab"], Any]:
        """Logits of the next token and the cache, of a `DecodingState`."""
        del memory
        return self._compute_logits_from_slice(
            state, params, max_decode_length=state.sequences.shape[1]
        )


def is_language_model(folder: epath.Path) -> bool:
    """Whether `load` reads that folder."""
    if (folder / hf_folder.CONFIG).exists():
        return hf_folder.read_config(folder)[0].kind == "decoder_only"
    return any(folder.glob("*.gguf"))


def load(folder: epath.Path, label: str, prompt: str = "schema") -> LanguageModel:
    """A published decoder-only model, from its folder or the GGUF file in there.

    Raises:
      UserError: files are missing or wrong, or the tokenizer names no EOS.
    """
    if (folder / hf_folder.CONFIG).exists():
        published = hf_folder.load(folder)
    else:
        from jaxaug.models.weights import gguf

        published = gguf.load(min(folder.glob("*.gguf")))
    words = hf.load(folder, id_offset=1)
    if words.eos_id is None:
        raise UserError(
            f"{words.path}: names no token that ends a text (eos_token). Take the "
            "tokenizer_config.json that was published with the model."
        )
    config = dataclasses.replace(published.config, id_offset=1)
    return LanguageModel(
        label,
        published.family.build(config),
        published.params,
        words,
        prompts.find(prompt),
    )
