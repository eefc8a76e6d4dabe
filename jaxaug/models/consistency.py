"""Training that pulls the answers under several wordings of a schema together.

`consistent` changes a model of T5X, and `token_feed.get_dataset.wordings` provides the
batches: `configs/runs/consistency.gin` sets both. The loss of a position is

    cross entropy + weight * divergence

for each of the wordings. The divergence compares the distributions of the next token
after the same part of the answer. It is computed where all wordings have the same
target; examples that exist in one wording only have no divergence.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree
from t5x import losses
from t5x import metrics as metrics_lib

from jaxaug.core.errors import UserError
from jaxaug.core.typed import Range, bounded

Batch = Mapping[str, Array]
Term = Literal["symmetric", "mean"]
LogProbs = Float[Array, "groups wordings length vocab"]


@bounded
def consistent(
    model: Any,
    weight: Annotated[float, Range(0)] = 1.0,
    wordings: Annotated[int, Range(2)] = 2,
    term: Term = "symmetric",
) -> Any:
    """Returns a copy of a model whose training loss has a divergence between wordings.

    Evaluation, prediction, and scores do not change. All logits of a batch
    exist at once, so `loss_chunk` of the model has no effect in training.

    Args:
        wordings: number of consecutive rows of a batch with the same examples.
        term: "symmetric" is the mean Kullback-Leibler divergence to the other wordings,
            as between two dropout masks in R-Drop (Liang et al., 2021, equation 2).
            "mean" distills the mean distribution of all wordings into each of them; no
            gradient flows through the mean.

    Raises:
        UserError: an argument is out of range.
    """
    changed = copy.copy(model)
    changed.__class__ = type(
        f"Consistent{type(model).__name__}", (_Consistent, type(model)), {}
    )
    changed.weight, changed.wordings = weight, wordings
    changed.divergence = _TERMS[term]
    changed.noted = []
    return changed


class _Consistent:
    """Mixin that `consistent` puts before the class of a model."""

    weight: float
    wordings: int
    divergence: Callable[[LogProbs], Float[Array, "groups length"]]
    noted: list[Float[Array, "batch length vocab"]]

    def _compute_logits(
        self, params: PyTree, batch: Batch, dropout_rng: Any = None, **kwargs: Any
    ) -> Any:
        """Notes the logits of a training step for `loss_fn`."""
        logits = super()._compute_logits(  # type: ignore[misc]
            params, batch, dropout_rng, **kwargs
        )
        self.noted.append(logits)
        return logits

    def loss_fn(
        self, params: PyTree, batch: Batch, dropout_rng: Any, *rest: Any, **kwargs: Any
    ) -> Any:
        """See `t5x.models.BaseTransformerModel`; evaluation has no divergence."""
        self.noted.clear()
        loss, aux = super().loss_fn(  # type: ignore[misc]
            params, batch, dropout_rng, *rest, **kwargs
        )
        (logits,) = self.noted
        self.noted.clear()
        if dropout_rng is None:
            return loss, aux
        factor, weights = losses.get_loss_normalizing_factor_and_weights(
            self._loss_normalizing_factor,  # type: ignore[attr-defined]
            batch,
        )
        assert weights is not None, "every training batch has decoder_loss_weights"
        found = self._divergence(logits, batch["decoder_target_tokens"], weights)
        term = self.weight * (found if factor is None else found / factor)
        metric = {"consistency_loss": metrics_lib.AveragePerStep(total=term)}
        if isinstance(aux, tuple):  # Models with adapters return their base too.
            return loss + term, ({**aux[0], **metric}, *aux[1:])
        return loss + term, {**aux, **metric}

    def _divergence(
        self,
        logits: Float[Array, "batch length vocab"],
        targets: Int[Array, "batch length"],
        weights: Float[Array, "batch length"],
    ) -> Float[Array, ""]:
        rows, length = targets.shape
        if rows % self.wordings:
            raise UserError(
                f"{rows} rows of a step for {self.wordings} wordings: BATCH_SIZE "
                "divided by microbatches has to be a multiple of WORDINGS."
            )
        # Targets of a decoder-only model follow inputs of different lengths.
        order = jnp.argsort(weights == 0, axis=1, stable=True)
        shape = rows // self.wordings, self.wordings, length

        def grouped(x: Array) -> Array:
            return jnp.take_along_axis(x, order, axis=1).reshape(shape)

        weights, targets = grouped(weights), grouped(targets)
        in_order = jnp.take_along_axis(logits, order[..., None], axis=1)
        log_probs = jax.nn.log_softmax(in_order.astype(jnp.float32))
        of_position = self.divergence(log_probs.reshape(*shape, -1))
        are_equal = jnp.all(targets == targets[:, :1], axis=1)
        return jnp.sum(of_position * jnp.min(weights, axis=1) * are_equal)


def symmetric(log_probs: LogProbs) -> Float[Array, "groups length"]:
    """Sums over the wordings the mean KL divergence to each other wording."""
    wordings = log_probs.shape[1]
    others = jnp.sum(log_probs, axis=1, keepdims=True) - log_probs
    difference = log_probs - others / (wordings - 1)
    return jnp.sum(jnp.exp(log_probs) * difference, axis=(1, 3))


def from_mean(log_probs: LogProbs) -> Float[Array, "groups length"]:
    """Sums over the wordings the KL divergence from the fixed mean distribution."""
    mean = jax.nn.logsumexp(log_probs, axis=1, keepdims=True)
    mean = jax.lax.stop_gradient(mean - jnp.log(log_probs.shape[1]))
    return jnp.sum(jnp.exp(mean) * (mean - log_probs), axis=(1, 3))


_TERMS = dict(zip(get_args(Term), (symmetric, from_mean), strict=True))
