"""Interface of models, the base class of all transformers, and their metrics."""

import abc
import importlib
import numbers
import sys
from collections.abc import Callable, Mapping
from typing import Any, cast

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxaug_base.clu_names import metrics as clu_metrics
from jaxtyping import Array, Bool, Float, Int

from t5x import checks, losses, output_product
from t5x import metrics as metrics_lib
from t5x.errors import UserError
from t5x.metrics import MetricsMap
from t5x.output_product import OutputProduct

DecodeFnCallable = Callable[
    ...,
    tuple[Int[Array, "batch num_decodes length"], Float[Array, "batch num_decodes"]],
]
"""A decode function such as `t5x.decoding.beam_search`.

Models call it by keyword with:

- inputs [batch, length]: tokens to force; 0 is a free position.
- cache: arrays with a leading batch dimension. The function repeats each row
  num_decodes times (exceptions: see `decoding.cache_map`).
- tokens_to_logits: a `decode_state.TokensToLogits` of batch * num_decodes rows.
- eos_id: token that ends a sequence.
- num_decodes: sequences per row.
- decode_rng: key for sampling; passed if the caller has one.
- cache_offset: axes before the batch in the cache (1 for scanned layers).
- all entries of `decoder_params`.

It returns sequences and scores in ascending order of score: the best one is last.
"""


class LazyAttribute:
    """Class attribute that is imported on first access."""

    def __init__(self, path: str):
        self.path = path
        self._module, _, self._name = path.partition(":")

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return getattr(importlib.import_module(self._module), self._name)


class ModelType(abc.ABCMeta):
    """Metaclass of models: leaves lazy attributes out of `dir`.

    gin reads every attribute that `dir` lists when a file first names a model. Lazy
    attributes would import seqio and TensorFlow.
    """

    def __dir__(cls) -> list[str]:
        names = super().__dir__()
        found = (pair for c in cls.__mro__ for pair in vars(c).items())
        lazy = {k for k, v in found if isinstance(v, LazyAttribute)}
        return [name for name in names if name not in lazy]


def compute_weighted_accuracy(
    logits: Float[Array, "batch length vocab"],
    targets: Int[Array, "batch length"],
    weights: Float[Array, "batch length"] | None = None,
) -> Float[Array, ""]:
    """Returns the weighted number (not share) of correctly predicted positions."""
    if logits.ndim != targets.ndim + 1:
        raise ValueError(
            f"logits of shape {logits.shape} need targets with one axis less, but "
            f"targets have shape {targets.shape}"
        )
    correct = _hits(logits, targets)
    return jnp.sum(correct if weights is None else correct * weights)


def _hits(
    logits: Float[Array, "batch length vocab"], targets: Int[Array, "batch length"]
) -> Bool[Array, "batch length"]:
    """Marks positions whose best token is the target; False if its logit is NaN."""
    # argmax treats NaN as the largest number.
    of_target = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return (jnp.argmax(logits, axis=-1) == targets) & ~jnp.isnan(of_target)


def compute_metrics(
    logits: Float[Array, "batch length vocab"],
    targets: Int[Array, "batch length"],
    weights: Float[Array, "batch length"] | None,
    loss: Float[Array, ""],
    weight_sum: Float[Array, ""],
    additional_metrics: Mapping[str, clu_metrics.Metric],
) -> MetricsMap:
    """Returns sums of loss, accuracy, weights, examples, and tokens, and extras."""
    sums: dict[str, metrics_lib.Scalar] = {
        "loss": loss,
        "accuracy": compute_weighted_accuracy(logits, targets, weights),
        "weight_sum": weight_sum,
        "num_examples": targets.shape[0],
        "num_tokens": targets.size,
    }
    return {**metrics_lib.create_metrics_dict(sums), **additional_metrics}


def count_packed_examples(segment_ids: Int[Array, "batch length"]) -> Int[Array, ""]:
    """Counts the examples in packed rows: runs of equal ids that are not 0."""
    segment_ids = segment_ids.astype(jnp.int32)
    starts = jnp.diff(segment_ids, axis=1, prepend=0) != 0
    return jnp.sum(starts & (segment_ids != 0))


def compute_base_metrics(
    logits: Float[Array, "batch length vocab"] | None,
    targets: Int[Array, "batch length"],
    mask: Float[Array, "batch length"] | None,
    loss: Float[Array, ""],
    z_loss: Float[Array, ""] | None = None,
    segment_ids: Mapping[str, Array] | None = None,
    correct: Bool[Array, "batch length"] | None = None,
) -> MetricsMap:
    """Returns the metrics of a training or evaluation step.

    Args:
        mask: weights of the positions; None means 1 everywhere.
        segment_ids: for each feature, ids of packed examples (or a mask), 0 for
            padding.
        correct: whether the best token is the target; None computes it from the logits.
    """
    if correct is None:
        assert logits is not None, "accuracy needs the logits or the hits"
        correct = _hits(logits, targets)
    num_examples = jnp.asarray(targets.shape[0])
    num_tokens = jnp.asarray(targets.size)
    num_devices = jax.device_count()
    weighted_tokens = num_tokens if mask is None else jnp.sum(mask)
    per_step = metrics_lib.AveragePerStep
    rate = metrics_lib.TimeRate
    average = clu_metrics.Average
    metrics: dict[str, clu_metrics.Metric] = {
        "accuracy": clu_metrics.Accuracy(
            **vars(clu_metrics.Average.from_model_output(correct, mask=mask))
        ),
        "loss": per_step(total=loss),
        "loss_per_nonpadding_target_token": average(total=loss, count=weighted_tokens),
        "loss_per_all_target_tokens": average(total=loss, count=num_tokens),
        "timing/seconds": metrics_lib.Time(),
        "timing/seqs": metrics_lib.Sum(num_examples),
        "timing/steps_per_second": metrics_lib.StepsPerTime(),
        "timing/seqs_per_second": rate(numerator=num_examples),
        "timing/seqs_per_second_per_core": rate(numerator=num_examples / num_devices),
        "timing/target_tokens_per_second": rate(numerator=num_tokens),
        "timing/target_tokens_per_second_per_core": rate(
            numerator=num_tokens / num_devices
        ),
        "non_padding_fraction/loss_weights": average(
            total=weighted_tokens, count=num_tokens
        ),
    }
    if z_loss is not None:
        metrics |= {
            "z_loss": per_step(total=z_loss),
            "z_loss_per_all_target_tokens": average(total=z_loss, count=num_tokens),
            "cross_ent_loss": per_step(total=loss - z_loss),
            "cross_ent_loss_per_all_target_tokens": average(
                total=loss - z_loss, count=num_tokens
            ),
        }
    if segment_ids is not None:
        metrics |= _packing_metrics(segment_ids)
    return metrics


def _packing_metrics(segment_ids: Mapping[str, Array]) -> MetricsMap:
    metrics: MetricsMap = {}
    all_tokens = jnp.asarray(0)
    all_positions = jnp.asarray(0)
    for feature, ids in segment_ids.items():
        if ids is None or ids.shape[1] == 0:
            continue
        tokens = jnp.sum(ids != 0)
        positions = jnp.asarray(ids.size)
        metrics[f"effective_batch_size/{feature}"] = metrics_lib.AveragePerStep(
            total=count_packed_examples(ids)
        )
        metrics[f"non_padding_fraction/{feature}"] = clu_metrics.Average(
            total=tokens, count=positions
        )
        all_tokens += tokens
        all_positions += positions
    metrics["non_padding_fraction/overall"] = clu_metrics.Average(
        total=all_tokens, count=all_positions
    )
    return metrics


PyTree = Any
Batch = Mapping[str, Array]
LossNormalizingFactor = float | int | str | losses.SpecialLossNormalizingFactor | None


class BaseModel(metaclass=ModelType):
    """Interface of a model.

    Implementations may add arguments to these methods if the arguments have defaults.

    Attributes:
        FEATURE_CONVERTER_CLS: seqio feature converter that makes the model's batches.
        optimizer_def: optimizer of the training programs, or None.
    """

    FEATURE_CONVERTER_CLS: Any

    def __init__(self, optimizer_def: Any):
        self.optimizer_def = optimizer_def

    @abc.abstractmethod
    def loss_fn(
        self, params: PyTree, batch: Batch, dropout_rng: jax.Array | None
    ) -> tuple[Float[Array, ""], MetricsMap]:
        """Returns the loss of a batch and its metrics."""

    def eval_fn(
        self, params: PyTree, batch: Batch
    ) -> tuple[Float[Array, ""], MetricsMap]:
        """Returns loss and metrics without dropout."""
        return self.loss_fn(params=params, batch=batch, dropout_rng=None)

    def predict_batch(
        self, params: PyTree, batch: Batch, rng: jax.Array | None = None
    ) -> Array:
        """Returns the predictions of `predict_batch_with_aux`."""
        return self.predict_batch_with_aux(params=params, batch=batch, rng=rng)[0]

    @abc.abstractmethod
    def predict_batch_with_aux(
        self, params: PyTree, batch: Batch, rng: jax.Array | None = None
    ) -> tuple[Array, Mapping[str, Array]]:
        """Returns predictions, and a mapping of additional results for each example."""

    @abc.abstractmethod
    def score_batch(
        self, params: PyTree, batch: Batch, return_intermediates: bool = False
    ) -> Any:
        """Returns the log likelihood of each example's target, natural log, [batch]."""

    @abc.abstractmethod
    def get_initial_variables(
        self,
        rng: jax.Array,
        input_shapes: Mapping[str, tuple[int, ...]],
        input_types: Mapping[str, Any] | None = None,
    ) -> Mapping[str, PyTree]:
        """Returns initial flax variables (`params`, `params_axes`, ...)."""


def tells_product(compute_logits: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a `_compute_logits` that returns the module's output unchanged.

    The method must accept `mutable`. The loss may then be computed from the factors of
    the logits that the module reports. An overriding method is unmarked.
    """
    compute_logits.tells_product = True  # type: ignore[attr-defined]
    return compute_logits


class BaseTransformerModel(BaseModel):
    """Cross-entropy training and scoring of a module that returns logits.

    Subclasses implement `_compute_logits`, `predict_batch_with_aux`, and
    `get_initial_variables`.
    """

    def __init__(
        self,
        module: nn.Module,
        input_vocabulary: Any,
        output_vocabulary: Any,
        optimizer_def: Any,
        decode_fn: DecodeFnCallable | None = None,
        label_smoothing: float = 0.0,
        z_loss: float = 0.0,
        loss_normalizing_factor: LossNormalizingFactor = None,
        loss_chunk: int | None = None,
        feature_converter_cls: Callable[..., Any] | None = None,
    ):
        """Initializes the model.

        Args:
            input_vocabulary: seqio vocabulary, or any object with its attributes.
            output_vocabulary: likewise; its `eos_id` ends a sequence.
            loss_chunk: number of positions per row whose logits exist at the same time,
                if the module reports the factors of its logits (`t5x.output_product`).
                None splits only logits that need much memory; 0 never splits.

        Raises:
            UserError: a negative `loss_chunk` or `z_loss`, a `label_smoothing` of 1 or
                more, or a `loss_normalizing_factor` that is not positive.
        """
        super().__init__(optimizer_def=optimizer_def)
        owner = type(self).__name__
        if loss_chunk is not None:
            checks.whole_number(f"{owner}.loss_chunk", loss_chunk, least=0)
        if feature_converter_cls is not None:
            self.FEATURE_CONVERTER_CLS = feature_converter_cls
        self._loss_chunk = loss_chunk
        self.module = module
        self._input_vocabulary = input_vocabulary
        self._output_vocabulary = output_vocabulary
        self._decode_fn = decode_fn
        checks.number(f"{owner}.label_smoothing", label_smoothing, below=1)
        checks.number(f"{owner}.z_loss", z_loss)
        if isinstance(loss_normalizing_factor, numbers.Real):
            factor = f"{owner}.loss_normalizing_factor"
            checks.number(factor, loss_normalizing_factor, sys.float_info.min)
        self._label_smoothing = label_smoothing
        self._z_loss = z_loss
        self._loss_normalizing_factor = loss_normalizing_factor

    @property
    def input_vocabulary(self) -> Any:
        return self._input_vocabulary

    @property
    def output_vocabulary(self) -> Any:
        return self._output_vocabulary

    @property
    def decode_fn(self) -> DecodeFnCallable | None:
        return self._decode_fn

    def _required_decode_fn(self) -> DecodeFnCallable:
        if self._decode_fn is None:
            raise UserError(
                f"{type(self).__name__}.decode_fn is None: prediction needs one, such "
                f"as decoding.beam_search"
            )
        return self._decode_fn

    @abc.abstractmethod
    def _compute_logits(
        self, params: PyTree, batch: Batch, dropout_rng: jax.Array | None = None
    ) -> Float[Array, "batch length vocab"]:
        """Returns the logits of the target tokens (teacher forcing)."""

    def loss_fn(
        self, params: PyTree, batch: Batch, dropout_rng: jax.Array | None
    ) -> tuple[Float[Array, ""], MetricsMap]:
        """Returns the loss of a batch and its metrics; see `BaseModel`.

        Sums cross entropy and z-loss; divides by the normalizing factor, if any.
        """
        factor, weights = losses.get_loss_normalizing_factor_and_weights(
            self._loss_normalizing_factor, batch
        )
        logits, product = self._logits_and_product(params, batch, dropout_rng)
        if product is not None:
            # The logits are unused from here on, so the compiled step does not compute
            # them.
            return self._chunked_loss(product, batch, factor, weights)
        loss, z_loss, _ = losses.compute_weighted_cross_entropy(
            logits,
            targets=batch["decoder_target_tokens"],
            weights=weights,
            label_smoothing=self._label_smoothing,
            z_loss=self._z_loss,
            loss_normalizing_factor=factor,
        )
        metrics = self._compute_metrics(
            logits=logits,
            targets=batch["decoder_target_tokens"],
            mask=weights,
            loss=loss,
            z_loss=z_loss,
            segment_ids=_segment_ids(batch),
        )
        return loss, metrics

    def _logits_and_product(
        self, params: PyTree, batch: Batch, dropout_rng: jax.Array | None
    ) -> tuple[Float[Array, "batch length vocab"], OutputProduct | None]:
        """Returns the logits, and their factors if the loss is computed from them."""
        kind = type(self)
        # A subclass may change logits or metrics, which the factors do not reflect.
        ours = getattr(kind._compute_logits, "tells_product", False)
        if (
            not ours
            or self._loss_chunk == 0
            or kind._compute_metrics is not BaseTransformerModel._compute_metrics
        ):
            return self._compute_logits(params, batch, dropout_rng), None
        logits, variables = cast(Any, self._compute_logits)(
            params, batch, dropout_rng, mutable=[output_product.COLLECTION]
        )
        product = output_product.told(variables, logits)
        if product is not None and self._loss_chunk is None:
            batch_size, length, vocab = logits.shape
            chunk = losses.positions_of_chunk(batch_size, length, vocab)
            if chunk == length:
                product = None
        return logits, product

    def _chunked_loss(
        self,
        product: OutputProduct,
        batch: Batch,
        factor: float | Float[Array, ""] | None,
        weights: Float[Array, "batch length"] | None,
    ) -> tuple[Float[Array, ""], MetricsMap]:
        targets = batch["decoder_target_tokens"]
        result = losses.chunked_cross_entropy(
            product,
            targets,
            weights,
            label_smoothing=self._label_smoothing,
            z_loss=self._z_loss,
            loss_normalizing_factor=factor,
            chunk=self._loss_chunk,
        )
        return result.loss, compute_base_metrics(
            logits=None,
            targets=targets,
            mask=weights,
            loss=result.loss,
            z_loss=result.z_loss,
            segment_ids=_segment_ids(batch),
            correct=result.correct,
        )

    def _compute_metrics(
        self,
        logits: Float[Array, "batch length vocab"],
        targets: Int[Array, "batch length"],
        mask: Float[Array, "batch length"] | None,
        loss: Float[Array, ""],
        z_loss: Float[Array, ""] | None = None,
        segment_ids: Mapping[str, Array] | None = None,
    ) -> MetricsMap:
        return compute_base_metrics(
            logits=logits,
            targets=targets,
            mask=mask,
            loss=loss,
            z_loss=z_loss,
            segment_ids=segment_ids,
        )

    def score_batch(
        self, params: PyTree, batch: Batch, return_intermediates: bool = False
    ) -> Any:
        """Returns each target's log likelihood: the weighted sum over its tokens.

        The z-loss is left out, since it only regularizes training.

        Returns:
            Scores [batch]. With `return_intermediates` also the collection
                `intermediates`, whose `decoder` holds `target_tokens`, `loss_weights`,
                and `token_scores`, each as a tuple of one array [batch, length].
        """
        weights = batch["decoder_loss_weights"]
        targets = batch["decoder_target_tokens"]
        if not return_intermediates:
            logits = self._compute_logits(params=params, batch=batch)
            return _token_scores(logits, targets, weights).sum(-1)
        logits, variables = cast(Any, self._compute_logits)(
            params=params, batch=batch, mutable=["intermediates"]
        )
        token_scores = _token_scores(logits, targets, weights)
        intermediates = dict(variables.get("intermediates", {}))
        intermediates["decoder"] = {
            **intermediates.get("decoder", {}),
            "target_tokens": (targets,),
            "loss_weights": (weights,),
            "token_scores": (token_scores,),
        }
        return token_scores.sum(-1), intermediates

    def _decoder_params(
        self, decoder_params: Mapping[str, Any] | None, rng: jax.Array | None
    ) -> dict[str, Any]:
        """Returns a copy of `decoder_params` with `decode_rng` and `eos_id`."""
        filled = dict(decoder_params or {})
        if rng is not None:
            if filled.get("decode_rng") is not None:
                raise ValueError(
                    f"Got RNG both from the `rng` argument ({rng}) and "
                    f"`decoder_params['decode_rng']` ({filled['decode_rng']}). Please "
                    "specify one or the other."
                )
            filled["decode_rng"] = rng
        filled.setdefault(
            "eos_id", getattr(self.output_vocabulary, "eos_id", None) or 1
        )
        return filled

    @property
    def _cache_offset(self) -> int:
        """Number of cache axes before the batch dimension."""
        return 1 if getattr(self.module, "scan_layers", False) else 0


def placeholders(
    input_shapes: Mapping[str, tuple[int, ...]],
    input_types: Mapping[str, Any] | None,
    **default_types: Any,
) -> dict[str, Any]:
    """Returns arrays of ones for initialization, one per name; None without a shape."""
    types = input_types or {}
    return {
        name: (
            jnp.ones(input_shapes[name], types.get(name, default_type))
            if name in input_shapes
            else None
        )
        for name, default_type in default_types.items()
    }


def _segment_ids(batch: Batch) -> dict[str, Array]:
    suffix = "_segment_ids"
    packed = {
        name.removesuffix(suffix): ids
        for name, ids in batch.items()
        if name.endswith(suffix)
    }
    return packed or {
        name: batch[name] != 0
        for name in ("encoder_input_tokens", "decoder_target_tokens")
        if name in batch
    }


def _token_scores(
    logits: Float[Array, "batch length vocab"],
    targets: Int[Array, "batch length"],
    weights: Float[Array, "batch length"],
) -> Float[Array, "batch length"]:
    log_probs = jax.nn.log_softmax(logits)
    picked = jnp.take_along_axis(
        log_probs, targets[..., None].astype(jnp.int32), axis=-1
    )
    return picked[..., 0] * weights


def get_input_vocabulary(model: BaseTransformerModel) -> Any:
    return model.input_vocabulary


def get_output_vocabulary(model: BaseTransformerModel) -> Any:
    return model.output_vocabulary
