"""Training in which a decoder reads its own words now and then (Bengio et al., 2015).

The program of the DiPS paper tosses a coin for every batch: with probability `.9` the
decoder reads the target words (teacher forcing), else, at each step, the word that it
found most probable at the step before.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, Shaped
from t5x import models

from jaxaug.core.errors import UserError


class FreeRunningModel(models.EncoderDecoderModel):
    """An encoder-decoder whose decoder runs free in a share of the training batches.

    Evaluation, scores and predictions are those of the base class.
    """

    ignores_padding = True  # As the base class, if the module does.

    def __init__(self, *args: Any, teacher_forcing: float = 1.0, **kwargs: Any):
        """As the base class.

        Args:
            teacher_forcing: probability that a batch is trained on the target words.

        Raises:
            UserError: it is no probability.
        """
        super().__init__(*args, **kwargs)
        if not 0.0 <= teacher_forcing <= 1.0:
            raise UserError(
                f"{type(self).__name__}.teacher_forcing = {teacher_forcing}: give a "
                "probability, 0 to 1."
            )
        self._teacher_forcing = teacher_forcing

    def _compute_logits(
        self,
        params: Mapping[str, Any],
        batch: Mapping[str, Array],
        dropout_rng: Array | None = None,
        **kwargs: Any,
    ) -> Any:
        """Returns the logits [batch, length, vocab]; in training of what the coin chooses."""

        def forced(rng: Array | None) -> Any:
            return super(FreeRunningModel, self)._compute_logits(
                params, batch, rng, **kwargs
            )

        if dropout_rng is None or self._teacher_forcing == 1.0:
            return forced(dropout_rng)
        coin, rng = jax.random.split(dropout_rng)
        return lax.cond(
            jax.random.bernoulli(coin, self._teacher_forcing),
            forced,
            lambda rng: self._free(params, batch, rng),
            rng,
        )

    def _free(
        self, params: Mapping[str, Any], batch: Mapping[str, Array], rng: Array
    ) -> Float[Array, "batch length vocab"]:
        """Returns the logits of a decoder that reads what it found most probable, with dropout."""

        def best(index: Array, logits: Array, state: None) -> Any:
            del index
            return jnp.argmax(logits, axis=-1), state, logits

        length = batch["decoder_target_tokens"].shape[1]
        sources = batch["encoder_input_tokens"]
        return self._word_by_word(params, sources, length, best, None, rng)

    def _word_by_word(
        self,
        params: Mapping[str, Any],
        sources: Int[Array, "rows source"],
        length: int,
        choose: Callable[[Array, Array, Any], tuple[Array, Any, Array]],
        state: Any,
        rng: Array | None = None,
    ) -> Shaped[Array, "rows length ..."]:
        """Decodes with words of one's own choice, so that gradients go through.

        Args:
            params: of the module.
            sources: inputs of the encoder.
            length: number of words.
            choose: (number of the word, its logits [rows, vocab], state) -> words
                [rows], the next state, and what is to be returned of the step [rows,
                ...].
            state: of `choose`, before the first word.
            rng: of dropout; None is without.
        """
        module: Any = self.module
        rows, dropping = sources.shape[0], rng is not None

        def rngs(number: int | Array) -> dict[str, Array] | None:
            if rng is None:
                return None
            return {"dropout": jax.random.fold_in(rng, number)}

        encoded = module.apply(
            {"params": params},
            sources,
            enable_dropout=dropping,
            rngs=rngs(length),
            method=module.encode,
        )
        cache, _ = self._compute_kv_cache(
            params, encoded, sources, jnp.zeros((rows, length), jnp.int32)
        )

        def step(carry: tuple[Any, Array, Any], index: Array) -> Any:
            cache, token, state = carry
            logits, variables = module.apply(
                {"params": params, "cache": cache},
                encoded,
                sources,
                token[:, None],
                token[:, None],
                enable_dropout=dropping,
                decode=True,
                max_decode_length=length,
                mutable=["cache"],
                rngs=rngs(index),
                method=module.decode,
            )
            token, state, found = choose(index, logits[:, 0], state)
            return (variables["cache"], token.astype(jnp.int32), state), found

        start = jnp.zeros((rows,), jnp.int32)
        _, found = lax.scan(step, (cache, start, state), jnp.arange(length))
        return jnp.moveaxis(found, 0, 1)
