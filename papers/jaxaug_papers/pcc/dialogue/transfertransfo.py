"""TransferTransfo (Wolf et al., 2019): a GPT with speakers and two heads.

In addition to its position, every token has a type: persona, partner, or self. A second
head reads the end of a reply and scores how well it follows the prompt. It learns to
distinguish the reply from replies to other prompts ("distractors"). Both heads are
trained jointly; language modeling has twice the weight of the choice.

There are three differences from the paper:

- Types have a separate embedding table, and are absent without a prompt.
- Distractors are the replies of other examples in the batch.
- The second head reads the last input token of the reply, before the end of sequence.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxaug_base.clu_names import metrics as clu_metrics
from jaxtyping import Array, Bool, Float, Int
from t5x import losses, metrics, models

from jaxaug.core.errors import UserError
from jaxaug.models import causal, gpt2, layers
from jaxaug_papers.pcc.dialogue.speakers import SELF, token_types

Batch = Mapping[str, Array]
_HEADS = "heads"  # The collection where a call stores the scores of the choice.


@dataclasses.dataclass(frozen=True)
class Config(gpt2.Config):  # type: ignore[misc]
    """The options of `gpt2.Config`, markers of speakers, and the id of the end."""

    markers: tuple[tuple[int, int], ...] = ()
    separator: int = 1


class Told(NamedTuple):
    """Additional inputs of the stack.

    Attributes:
        types: types of the tokens; None means 0 everywhere.
        ends: position of the end of the reply in each row; None disables the choice.
            With a choice, each example has `choices` rows, and only its first row has
            logits.
        choices: number of candidates of each example; the correct ones come first.
    """

    types: Int[Array, "rows length"] | None
    ends: Int[Array, " rows"] | None = None
    choices: int = 1


class Stack(gpt2.Stack):
    """The blocks of GPT-2 with types of tokens and the second head."""

    config: Config

    def embed_told(self, told: Told) -> causal.Activations | None:
        config = self.config
        if told.types is None and not self.is_initializing():
            return None
        types = jnp.zeros((1, 1), jnp.int32) if told.types is None else told.types
        embedder = layers.Embed(
            SELF, config.emb_dim, dtype=config.dtype, name="type_embedder"
        )
        embedded = embedder(jnp.maximum(types - 1, 0))
        return jnp.where(types[..., None] > 0, embedded, 0)

    def read(
        self, x: causal.Activations, told: Told, mode: causal.Mode
    ) -> causal.Activations:
        if told.ends is None and not self.is_initializing():
            return x
        ends = jnp.zeros(x.shape[0], jnp.int32) if told.ends is None else told.ends
        hidden = x[jnp.arange(x.shape[0]), ends]
        hidden = nn.Dropout(self.config.dropout_rate)(
            hidden, deterministic=mode.deterministic
        )
        head = layers.linear(
            1, ("embed", "kv"), use_bias=True, output_dtype=jnp.float32, name="choice"
        )
        scores = head(hidden.astype(jnp.float32))[:, 0]
        if self.is_mutable_collection(_HEADS) and not self.is_initializing():
            self.put_variable(_HEADS, "scores", scores)
        return x[: x.shape[0] // told.choices]


class DecoderWrapper(gpt2.DecoderWrapper):
    """The module of `DoubleHeadsModel`; without prompts it equals GPT-2."""

    config: Config

    stack_cls: ClassVar[type[causal.Stack]] = Stack
    ignores_padding: ClassVar[bool] = True

    def __call__(
        self,
        decoder_input_tokens: causal.Tokens,
        decoder_target_tokens: causal.Tokens,
        *args: Any,
        prompt_lengths: Int[Array, " rows"] | None = None,
        ends: Int[Array, " rows"] | None = None,
        choices: int = 1,
        decode: bool = False,
        prefill_lengths: Int[Array, " rows"] | None = None,
        **kwargs: Any,
    ) -> causal.Logits:
        """Returns the logits; `causal.CausalLM` has the other arguments.

        Args:
            prompt_lengths: see `speakers.token_types`; the default is
                `prefill_lengths`. Without both, tokens have no type. Decoded tokens
                belong to the reply.
        """
        if prompt_lengths is None:
            prompt_lengths = prefill_lengths
        types = None
        if decode:
            types = jnp.full(decoder_input_tokens.shape, SELF, jnp.int32)
        elif prompt_lengths is not None:
            config = self.config
            types = token_types(
                decoder_input_tokens, prompt_lengths, config.markers, config.separator
            )
        return super().__call__(
            decoder_input_tokens,
            decoder_target_tokens,
            *args,
            decode=decode,
            prefill_lengths=prefill_lengths,
            told=Told(types, ends, choices),
            **kwargs,
        )


class Candidates(NamedTuple):
    """Prompts with several replies, [count, batch, ...]; the first reply is correct.

    Attributes:
        ends: input position of the last token of the reply.
        valid: whether the reply exists and differs from the correct one.
    """

    inputs: Int[Array, "count batch length"]
    targets: Int[Array, "count batch length"]
    prompt_lengths: Int[Array, "count batch"]
    ends: Int[Array, "count batch"]
    valid: Bool[Array, "count batch"]


def prompt_lengths_of(batch: Batch) -> Int[Array, " batch"]:
    """Returns the input position of the last token of each prompt.

    Raises:
        UserError: the batch does not mark the end of prompts, or is packed.
    """
    if "decoder_causal_attention" not in batch or "decoder_segment_ids" in batch:
        raise UserError(
            "TransferTransfo needs one example a row, whose prompt is told from the "
            "reply: give task_feature_lengths for both 'inputs' and 'targets', and "
            "pack = False."
        )
    return jnp.maximum(jnp.sum(batch["decoder_causal_attention"], axis=1) - 1, 0)


def candidates(batch: Batch, count: int) -> Candidates:
    """Returns each example with its reply and the replies of the next examples.

    Raises:
        UserError: for the reasons of `prompt_lengths_of`, or there are fewer examples
            than candidates.
    """
    targets = batch["decoder_target_tokens"]
    rows, length = targets.shape
    if count > rows:
        raise UserError(
            f"DoubleHeadsModel.num_candidates = {count}, but a (micro)batch has {rows} "
            "examples, from which the wrong replies come: give at most as many."
        )
    prompts = prompt_lengths_of(batch)
    sizes = jnp.sum(targets != 0, axis=1) - prompts
    columns = jnp.arange(length)
    prompt_here = columns < prompts[:, None]
    made = []
    for shift in range(count):
        other, start, size = (
            jnp.roll(one, -shift, axis=0) for one in (targets, prompts, sizes)
        )
        source = columns + (start - prompts)[:, None]
        reply = jnp.take_along_axis(other, jnp.clip(source, 0, length - 1), axis=1)
        reply = jnp.where(columns < (prompts + size)[:, None], reply, 0)
        tokens = jnp.where(prompt_here, targets, reply)
        ends = jnp.clip(prompts + size - 1, 0, length - 1)
        shifted = jnp.pad(tokens, ((0, 0), (1, 0)))[:, :-1]
        valid = (sizes > 0) & (size > 0)
        if shift:
            valid &= jnp.any(tokens != targets, axis=1)
        inputs = jnp.where(columns <= ends[:, None], shifted, 0)
        made.append((inputs, tokens, prompts, ends, valid))
    return Candidates(*(jnp.stack(part) for part in zip(*made, strict=True)))


class DoubleHeadsModel(models.DecoderOnlyModel):
    """Trains both heads; predicts and scores replies like `DecoderOnlyModel`.

    The metrics include `choice_loss` and `choice_accuracy`, the fraction of examples
    whose correct reply has the highest score. `loss` is the minimized value;
    `cross_ent_loss` covers only language modeling.
    """

    ignores_padding = True  # As in the base class, if the module ignores padding.

    def __init__(
        self,
        *args: Any,
        num_candidates: int = 2,
        language_weight: float = 2.0,
        choice_weight: float = 1.0,
        **kwargs: Any,
    ):
        """Creates the model; the base class takes further arguments.

        Args:
            num_candidates: number of candidate replies, including the correct one.
            choice_weight: weight of the mean loss of a choice, relative to the mean
                loss of a token.

        Raises:
            UserError: `num_candidates` is below 2.
        """
        super().__init__(*args, **kwargs)
        if num_candidates < 2:
            raise UserError(
                f"DoubleHeadsModel.num_candidates = {num_candidates}: give at least 2, "
                "the right reply and a wrong one."
            )
        self._num_candidates = num_candidates
        self._language_weight = language_weight
        self._choice_weight = choice_weight

    def _compute_logits(
        self,
        params: Any,
        batch: Batch,
        dropout_rng: jax.Array | None = None,
        mutable: Any = False,
        other_variables: Any = None,
    ) -> Any:
        return self.module.apply(
            {"params": params, **(other_variables or {})},
            batch["decoder_input_tokens"],
            batch["decoder_target_tokens"],
            prompt_lengths=prompt_lengths_of(batch),
            decode=False,
            enable_dropout=dropout_rng is not None,
            rngs=None if dropout_rng is None else {"dropout": dropout_rng},
            mutable=mutable,
        )

    def _both_heads(
        self, params: Any, batch: Batch, dropout_rng: jax.Array | None
    ) -> tuple[
        Float[Array, "batch length vocab"],
        Float[Array, "batch count"],
        Bool[Array, "batch count"],
    ]:
        """Returns the logits of the correct replies, all scores, and their validity."""
        count = self._num_candidates
        made = candidates(batch, count)
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), made)
        logits, variables = self.module.apply(
            {"params": params},
            flat.inputs,
            flat.targets,
            prompt_lengths=flat.prompt_lengths,
            ends=flat.ends,
            choices=count,
            decode=False,
            enable_dropout=dropout_rng is not None,
            rngs=None if dropout_rng is None else {"dropout": dropout_rng},
            mutable=[_HEADS],
        )
        scores = variables[_HEADS]["decoder"]["scores"].reshape(count, -1).T
        return logits, jnp.where(made.valid.T, scores, layers.MASKED), made.valid.T

    def loss_fn(
        self, params: Any, batch: Batch, dropout_rng: jax.Array | None
    ) -> tuple[Float[Array, ""], metrics.MetricsMap]:
        """Returns the weighted sum of both losses, and metrics."""
        factor, weights = losses.get_loss_normalizing_factor_and_weights(
            self._loss_normalizing_factor, batch
        )
        logits, scores, valid = self._both_heads(params, batch, dropout_rng)
        targets = batch["decoder_target_tokens"]
        language, z_loss, tokens = losses.compute_weighted_cross_entropy(
            logits,
            targets=targets,
            weights=weights,
            label_smoothing=self._label_smoothing,
            z_loss=self._z_loss,
            loss_normalizing_factor=factor,
        )
        asked = valid[:, 0] & jnp.any(valid[:, 1:], axis=1)
        each = -nn.log_softmax(scores)[:, 0]
        choice = jnp.sum(each * asked) / jnp.maximum(jnp.sum(asked), 1)
        found = self._compute_metrics(
            logits=logits, targets=targets, mask=weights, loss=language, z_loss=z_loss
        )
        # The choice loss is scaled like the token losses, which are summed and divided.
        in_tokens = choice * tokens / (1.0 if factor is None else factor)
        loss = self._language_weight * language + self._choice_weight * in_tokens
        average = clu_metrics.Average.from_model_output
        right = scores[:, 0] > jnp.max(scores[:, 1:], axis=1)
        return loss, {
            **found,
            "loss": metrics.AveragePerStep(total=loss),
            "choice_loss": average(each, mask=asked),
            "choice_accuracy": average(right.astype(np.float32), mask=asked),
        }
