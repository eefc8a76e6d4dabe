"""Training in which a decoder sometimes reads its own outputs (Bengio et al., 2015).

The program of the DiPS paper decides for every batch at random. With probability `.9`
the decoder reads the target words (teacher forcing). Otherwise it reads the most
probable word of the previous step.
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
    """An encoder-decoder that reads its own outputs in some training batches."""

    ignores_padding = True  # As in the base class, if the module ignores padding.

    def __init__(self, *args: Any, teacher_forcing: float = 1.0, **kwargs: Any):
        """Creates the model; the base class takes further arguments.

        Args:
            teacher_forcing: probability that the decoder reads the target words of a
                batch; 1 by default.

        Raises:
            UserError: `teacher_forcing` is not in [0, 1].
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
        """Returns logits [batch, length, vocab]; training picks a mode at random."""

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
        """Returns the logits of a decoder that reads its most probable words."""

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
        """Decodes with a user-defined choice of words; gradients flow through it.

        Args:
            choose: function (position, logits [rows, vocab], state) -> (words [rows],
                next state, output of the step [rows, ...]).
            rng: key of dropout; None disables dropout.
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
