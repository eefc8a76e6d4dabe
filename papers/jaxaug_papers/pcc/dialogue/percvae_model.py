"""PerCVAE as a T5X model: its loss, and decoding with a random z."""

import copy
from collections.abc import Mapping
from typing import Any

import flax
import jax
import jax.numpy as jnp
from flax.linen.partitioning import AxisMetadata
from jax.sharding import PartitionSpec
from jaxaug_base.clu_names import metrics as clu_metrics
from jaxtyping import Array, Float, Int
from t5x import losses, metrics, models

from jaxaug.core.errors import UserError

Batch = Mapping[str, Array]
ANNEALING, STEP = "annealing", "step"
"""The mutable collection with the number of updates, and its variable."""


class VariationalModel(models.EncoderDecoderModel):
    """Trains a `percvae.Network` on its evidence lower bound and the bag of words.

    The loss is summed over the batch. It has three terms: the cross entropy of the
    words, the divergence of the posterior from the prior, and the cross entropy of the
    words in any order (Zhao et al., 2017). The weight of the divergence rises from 0 to
    1 in training and is 1 in evaluation.

    The metrics include `kl` (nats per reply, unweighted), `kl_weight`, and `bow_loss`
    (per token). `loss` is the minimized value; `cross_ent_loss` covers only the words.

    A mutable collection counts the updates, because T5X does not pass the step to
    losses. Scores are likelihoods given the mean of the prior.
    """

    def __init__(
        self,
        *args: Any,
        full_kl_steps: int = 10000,
        kl_weight: float = 1.0,
        bow_weight: float = 1.0,
        **kwargs: Any,
    ):
        """Creates the model; the base class takes further arguments.

        Args:
            full_kl_steps: number of updates until the divergence has its full weight; 0
                uses the full weight from the start.

        Raises:
            UserError: `full_kl_steps` is negative.
        """
        super().__init__(*args, **kwargs)
        if full_kl_steps < 0:
            raise UserError(
                f"VariationalModel.full_kl_steps = {full_kl_steps}: give 0 or more."
            )
        self._full_kl_steps = full_kl_steps
        self._kl_weight = kl_weight
        self._bow_weight = bow_weight

    def get_initial_variables(
        self,
        rng: jax.Array,
        input_shapes: Mapping[str, tuple[int, ...]],
        input_types: Mapping[str, Any] | None = None,
    ) -> flax.core.FrozenDict:
        """Returns the variables of the base class, and the number of updates."""
        variables = super().get_initial_variables(rng, input_shapes, input_types)
        counter = {
            ANNEALING: {STEP: jnp.zeros((), jnp.int32)},
            f"{ANNEALING}_axes": {f"{STEP}_axes": AxisMetadata(PartitionSpec())},
        }
        return flax.core.freeze({**flax.core.unfreeze(variables), **counter})

    def loss_fn(
        self,
        params: Any,
        batch: Batch,
        dropout_rng: jax.Array | None,
        flax_mutables: Any = None,
    ) -> Any:
        """Returns loss and metrics, and the new number of updates if one is given.

        Without `dropout_rng`, z is the mean of the posterior, and the divergence has
        its full weight.
        """
        outcome = self.module.apply(
            {"params": params},
            batch["encoder_input_tokens"],
            batch["decoder_input_tokens"],
            batch["decoder_target_tokens"],
            enable_dropout=dropout_rng is not None,
            rngs=None if dropout_rng is None else _streams(dropout_rng),
            method=self.module.reconstruct,
        )
        steps = None
        if dropout_rng is not None and flax_mutables is not None:
            steps = flax_mutables[ANNEALING][STEP]
        loss, found = self._bound(batch, outcome, steps)
        if flax_mutables is None:
            return loss, found
        if steps is not None:
            flax_mutables = jax.tree.map(lambda count: count + 1, flax_mutables)
        return loss, (found, flax_mutables)

    def _bound(
        self, batch: Batch, outcome: Any, steps: Int[Array, ""] | None
    ) -> tuple[Float[Array, ""], metrics.MetricsMap]:
        factor, weights = losses.get_loss_normalizing_factor_and_weights(
            self._loss_normalizing_factor, batch
        )
        targets = batch["decoder_target_tokens"]
        words, z_loss, tokens = losses.compute_weighted_cross_entropy(
            outcome.logits,
            targets=targets,
            weights=weights,
            label_smoothing=self._label_smoothing,
            z_loss=self._z_loss,
            loss_normalizing_factor=factor,
        )
        shares = jax.nn.log_softmax(outcome.bag_logits)
        in_bag = jnp.take_along_axis(shares, targets, axis=1)
        bag = -jnp.sum(in_bag * batch["decoder_loss_weights"])
        real = jnp.any(targets > 0, axis=1)
        kl = jnp.sum(outcome.divergence * real)
        weight = jnp.asarray(self._kl_weight, jnp.float32)
        if steps is not None and self._full_kl_steps:
            weight *= jnp.minimum(steps / self._full_kl_steps, 1.0)
        rest = weight * kl + self._bow_weight * bag
        loss = words + rest / (1.0 if factor is None else factor)
        found = self._compute_metrics(
            logits=outcome.logits,
            targets=targets,
            mask=weights,
            loss=words,
            z_loss=z_loss,
        )
        average = clu_metrics.Average
        return loss, {
            **found,
            "loss": metrics.AveragePerStep(total=loss),
            "kl": average(total=kl, count=jnp.sum(real)),
            "kl_weight": average(total=weight, count=jnp.ones(())),
            "bow_loss": average(total=bag, count=jnp.maximum(tokens, 1)),
        }

    def eval_fn(self, params: Any, batch: Batch, flax_mutables: Any = None) -> Any:
        """Returns the loss and metrics without dropout."""
        del flax_mutables
        return self.loss_fn(params, batch, None)

    def score_batch(
        self,
        params: Any,
        batch: Batch,
        return_intermediates: bool = False,
        *,
        flax_mutables: Any = None,
    ) -> Any:
        """Returns the scores of the base class, given the mean of the prior."""
        del flax_mutables
        return super().score_batch(params, batch, return_intermediates)

    def predict_batch(
        self,
        params: Any,
        batch: Batch,
        rng: jax.Array | None = None,
        *,
        flax_mutables: Any = None,
    ) -> Array:
        """Returns the predictions of `predict_batch_with_aux`."""
        return self.predict_batch_with_aux(
            params, batch, rng, flax_mutables=flax_mutables
        )[0]

    def predict_batch_with_aux(
        self,
        params: Any,
        batch: Batch,
        rng: jax.Array | None = None,
        *args: Any,
        flax_mutables: Any = None,
        **kwargs: Any,
    ) -> tuple[Int[Array, "batch *num_decodes length"], Mapping[str, Array]]:
        """Predicts with one random z per row, or the mean if `rng` is None."""
        del flax_mutables
        drawing = copy.copy(self)
        drawing.module = _Drawing(self.module, rng)  # type: ignore[assignment]
        return models.EncoderDecoderModel.predict_batch_with_aux(
            drawing, params, batch, rng, *args, **kwargs
        )


class _Drawing:
    """A network whose encoder gets the random stream of z."""

    def __init__(self, module: Any, rng: jax.Array | None):
        self._module, self._rng = module, rng

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def apply(self, *args: Any, **kwargs: Any) -> Any:
        """Applies the network with the random stream of z."""
        if self._rng is not None:
            key = jax.random.fold_in(self._rng, 0)
            kwargs = {"rngs": {"latent": key}, **kwargs}
        return self._module.apply(*args, **kwargs)


def _streams(rng: jax.Array) -> dict[str, jax.Array]:
    dropout, latent = jax.random.split(rng)
    return {"dropout": dropout, "latent": latent}
