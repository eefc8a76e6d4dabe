"""Fine-tunes adapters with the T5X programs: `configs/models/lora.gin`.

`lora` gives any model of `t5x.models` an adapter, and `AdapterStateInitializer` makes
its train states. Trainer, optimizer, and checkpoints see only the adapter as `params`.
The base is stored in the mutable collections of flax (`flax_mutables`). Every step
passes it through unchanged and computes no gradient for it. It is partitioned as in
full training, and read from its source at every start. A checkpoint holds its digest,
which is compared when the checkpoint is restored.
"""

import copy
import functools
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import flax
import flax.struct
import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import PRNGKeyArray
from t5x import train_state, utils

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.models import convert
from jaxaug.models.lora import layout
from jaxaug.models.lora.layout import (
    AdaptedNetwork,
    Layout,
    family_of,
    joined,
    layout_of,
)
from jaxaug.models.lora.settings import Settings
from jaxaug.models.weights import keymap

BASE, DIGEST = "base", "base_digest"
_SHAPE = (1, 8)
_NAMES = ("encoder_input_tokens", "decoder_input_tokens", "decoder_target_tokens")

Batch = Mapping[str, Any]


class Base:
    """The frozen parameters of a model, read from their source when needed."""

    def __init__(self, source: PathLike, shapes: Any, axes: Any):
        self.source, self.shapes, self.axes = source, shapes, axes

    def read(self) -> dict[str, Any]:
        """Returns the parameters as float32 NumPy arrays, or raises `UserError`."""
        with tempfile.TemporaryDirectory() as scratch:
            model, _, _ = convert.load(self.source, None, scratch)
        if differs := keymap.shape_difference(model.params, self.shapes):
            path, found, wanted = differs
            raise UserError(
                f"{self.source}: the base has {path} of shape {found}, but the model "
                f"of the gin files needs {wanted}. Name the base of this model."
            )
        return jax.tree.map(
            lambda leaf: np.asarray(leaf, np.float32), dict(model.params)
        )


class _Adapted:
    """Mixin that `lora` puts before the class of a model."""

    adapter: Layout
    base: Base

    def get_initial_variables(
        self,
        rng: PRNGKeyArray,
        input_shapes: Mapping[str, tuple[int, ...]],
        input_types: Mapping[str, Any] | None = None,
    ) -> flax.core.FrozenDict:
        """Returns the variables of the adapter, which do not depend on the inputs."""
        del input_shapes, input_types
        return flax.core.freeze(
            {"params": self.adapter.initial(rng), "params_axes": self.adapter.axes()}
        )

    def loss_fn(
        self, params: Any, batch: Batch, dropout_rng: Any, flax_mutables: Any
    ) -> Any:
        """See `t5x.models.BaseTransformerModel`; returns the base unchanged."""
        loss, metrics = super().loss_fn(  # type: ignore[misc]
            joined(flax_mutables[BASE], params), batch, dropout_rng
        )
        return loss, (metrics, flax_mutables)

    def eval_fn(self, params: Any, batch: Batch, flax_mutables: Any) -> Any:
        """Returns loss and metrics without dropout."""
        loss, (metrics, _) = self.loss_fn(params, batch, None, flax_mutables)
        return loss, metrics

    def predict_batch(
        self, params: Any, batch: Batch, rng: Any = None, *, flax_mutables: Any
    ) -> Any:
        """Returns the predictions of `predict_batch_with_aux`."""
        return self.predict_batch_with_aux(
            params, batch, rng, flax_mutables=flax_mutables
        )[0]

    def predict_batch_with_aux(
        self,
        params: Any,
        batch: Batch,
        rng: Any = None,
        *,
        flax_mutables: Any,
        **kwargs: Any,
    ) -> Any:
        """See the method of the adapted model."""
        both = joined(flax_mutables[BASE], params)
        return super().predict_batch_with_aux(  # type: ignore[misc]
            both, batch, rng, **kwargs
        )

    def score_batch(
        self, params: Any, batch: Batch, *, flax_mutables: Any, **kwargs: Any
    ) -> Any:
        """See `t5x.models.BaseTransformerModel`."""
        both = joined(flax_mutables[BASE], params)
        return super().score_batch(both, batch, **kwargs)  # type: ignore[misc]


def lora(model: Any, base: PathLike, adapter: Settings) -> Any:
    """Returns a copy of a model that trains an adapter.

    Training needs `AdapterStateInitializer`.

    Args:
        model: model of `t5x.models` or derived from it, with a network of a generative
            family.
        base: source of its weights: anything that `jaxaug convert --from` accepts.

    Raises:
        UserError: an invalid setting, unknown targets, or a network without published
            names.
    """
    module = model.module
    family = family_of(module)
    variables = jax.eval_shape(
        functools.partial(
            model.get_initial_variables, input_shapes=dict.fromkeys(_NAMES, _SHAPE)
        ),
        jax.random.PRNGKey(0),
    )
    adapted = copy.copy(model)
    adapted.__class__ = type(
        f"Adapted{type(model).__name__}", (_Adapted, type(model)), {}
    )
    adapted.adapter = layout_of(family, module.config, variables["params"], adapter)
    adapted.base = Base(base, variables["params"], variables["params_axes"])
    adapted.module = AdaptedNetwork(module, adapted.adapter)
    return adapted


class _WithBase:
    """Base of the train states of adapters.

    `owner` is the initializer, which knows the base. States that hold axes instead of
    arrays have an owner too.
    """

    owner: "AdapterStateInitializer"

    def state_dict(self) -> dict[str, Any]:
        """Returns the state without the base; only its digest is stored."""
        tree = super().state_dict()  # type: ignore[misc]
        mutables = tree.pop("flax_mutables", {})
        return {**tree, "flax_mutables": {DIGEST: mutables.get(DIGEST)}}

    def restore_state(self, state_dict: Mapping[str, Any]) -> Any:
        """Returns the state of a checkpoint, with the base read from its source."""
        found = state_dict["flax_mutables"][DIGEST]
        mutables = self.flax_mutables  # type: ignore[attr-defined]
        if isinstance(found, np.ndarray | jax.Array):
            mutables = self.owner.place_base(found)
        rest = {k: v for k, v in state_dict.items() if k != "flax_mutables"}
        restored = super().restore_state(rest)  # type: ignore[misc]
        return restored.replace_flax_mutables(mutables)

    def as_logical_axes(self) -> Any:
        """Returns axes without the base; `AdapterStateInitializer` partitions it."""
        axes = super().as_logical_axes()  # type: ignore[misc]
        mutables = flax.core.freeze({BASE: None, DIGEST: None})
        return axes.replace(owner=self.owner, flax_mutables=mutables)


class AdapterTrainState(_WithBase, train_state.FlaxOptimTrainState):
    """An adapter with its optimizer, and the base in `flax_mutables`."""

    owner: Any = flax.struct.field(pytree_node=False, default=None)


class AdapterInferenceState(_WithBase, train_state.InferenceState):
    """The inference counterpart of `AdapterTrainState`."""

    owner: Any = flax.struct.field(pytree_node=False, default=None)


class AdapterStateInitializer(utils.TrainStateInitializer):
    """Makes the train states of a model of `lora`; see the class in T5X."""

    def __init__(
        self,
        optimizer_def: Any,
        init_fn: Any,
        input_shapes: Mapping[str, Sequence[int]],
        partitioner: Any,
        **kwargs: Any,
    ):
        super().__init__(optimizer_def, init_fn, input_shapes, partitioner, **kwargs)
        model = getattr(init_fn, "__self__", None)
        if not isinstance(model, _Adapted):
            raise UserError(
                "AdapterStateInitializer is for models of finetune.lora, got a "
                f"{type(model).__name__}. Stack configs/runs/lora.gin last."
            )
        self._base = model.base
        self._placer = partitioner
        self._small_axes = self.train_state_axes
        frozen = train_state.InferenceState.create(
            {"params": self._base.shapes, "params_axes": self._base.axes}
        )
        axes = partitioner.get_mesh_axes(frozen).params
        self._frozen_axes = flax.core.freeze({BASE: axes, DIGEST: PartitionSpec()})
        kind = AdapterTrainState if optimizer_def else AdapterInferenceState
        mutables = {
            BASE: self._base.shapes,
            DIGEST: jax.ShapeDtypeStruct((16,), np.uint8),
        }
        self.global_train_state_shape = self._grown(
            kind, self.global_train_state_shape, mutables
        )
        self.train_state_axes = self._grown(kind, self._small_axes, self._frozen_axes)

    def _grown(self, kind: Any, state: Any, mutables: Any) -> Any:
        fields = {
            name: getattr(state, name)
            for name in type(state).__dataclass_fields__
            if name != "flax_mutables"
        }
        return kind(**fields, flax_mutables=flax.core.freeze(mutables), owner=self)

    def place_base(self, digest: Any = None) -> flax.core.FrozenDict:
        """Returns the base on the devices, and its digest.

        Args:
            digest: expected digest of the base as bytes, from a checkpoint; None skips
                the comparison.

        Raises:
            UserError: the base cannot be read, or its digest differs.
        """
        params = self._base.read()
        found = layout.digest(params)
        if digest is not None:
            wanted = bytes(np.asarray(jax.device_get(digest))).hex()
            layout.check_base(wanted, found, "the checkpoint", str(self._base.source))
        values = {BASE: params, DIGEST: np.frombuffer(bytes.fromhex(found), np.uint8)}
        return jax.tree.map(self._place, self._frozen_axes, flax.core.freeze(values))

    def _place(self, axes: PartitionSpec, value: np.ndarray) -> jax.Array:
        sharding = NamedSharding(self._placer.mesh, axes)
        # Every process holds the full array, and each device takes its part.
        return jax.make_array_from_callback(
            value.shape, sharding, lambda index: value[index]
        )

    def from_scratch(self, init_rng: PRNGKeyArray) -> Any:
        """Returns a fresh adapter on the base."""
        kind = type(self.global_train_state_shape)
        small = self._placer.partition(
            self._initialize_train_state,
            in_axis_resources=None,
            out_axis_resources=self._small_axes,
        )(init_rng)
        return self._grown(kind, small, self.place_base())

    def fallback_state_dict(self, init_rng: PRNGKeyArray) -> Mapping[str, Any]:
        """Returns the state of a fresh adapter; it is small enough to build at once."""
        return self.from_scratch(init_rng).state_dict()
