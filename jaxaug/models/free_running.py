"""Training in which a decoder reads its own words now and then (Bengio et al., 2015).

The program of the DiPS paper tosses a coin for every batch: with probability `.9` the
decoder reads the target words (teacher forcing), else, at each step, the word that it
found most probable at the step before.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int
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
        """Logits [batch, length, vocab]; in training of what the coin chooses."""

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
        """Logits of a decoder that reads what it found most probable, with dropout."""
        module: Any = self.module
        sources = batch["encoder_input_tokens"]
        rows, length = batch["decoder_target_tokens"].shape
        encode_rng, decode_rng = jax.random.split(rng)
        encoded = module.apply(
            {"params": params},
            sources,
            enable_dropout=True,
            rngs={"dropout": encode_rng},
            method=module.encode,
        )
        cache, _ = self._compute_kv_cache(
            params, encoded, sources, jnp.zeros((rows, length), jnp.int32)
        )

        def step(
            carry: tuple[Any, Int[Array, " rows"]], index: Array
        ) -> tuple[Any, Float[Array, "rows vocab"]]:
            cache, token = carry
            logits, variables = module.apply(
                {"params": params, "cache": cache},
                encoded,
                sources,
                token[:, None],
                token[:, None],
                enable_dropout=True,
                decode=True,
                max_decode_length=length,
                mutable=["cache"],
                rngs={"dropout": jax.random.fold_in(decode_rng, index)},
                method=module.decode,
            )
            best = jnp.argmax(logits[:, 0], axis=-1).astype(jnp.int32)
            return (variables["cache"], best), logits[:, 0]

        start = jnp.zeros((rows,), jnp.int32)
        _, logits = lax.scan(step, (cache, start), jnp.arange(length))
        return jnp.moveaxis(logits, 0, 1)
