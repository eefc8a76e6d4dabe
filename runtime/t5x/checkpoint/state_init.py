"""Initial train states, new or from checkpoints, and the manager that saves them."""

import functools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import flax
import jax
from absl import logging
from etils import epath
from flax import traverse_util
from jax import numpy as jnp
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun
from jax.sharding import PartitionSpec

from t5x import checks
from t5x import train_state as train_state_lib
from t5x.checkpoint.folders import all_steps, get_checkpoint_dir, refuse_tensorflow
from t5x.checkpoint.orbax import OrbaxCheckpointManagerInterface
from t5x.checkpoint.restore import Deferred, flatten, parameter_infos
from t5x.checkpoint.settings import RestoreCheckpointConfig, SaveCheckpointConfig
from t5x.errors import UserError
from t5x.partition.partitioner import BasePartitioner, to_shardings

PyTree = Any


InitFnCallable = Callable[..., Mapping[str, Any]]
"""Returns initial variables {'params': ..., 'params_axes': ..., ...}.

It is a bound method of a model, such as `get_initial_variables`, called by keyword with
`rng`, `input_shapes` (feature -> global batch shape), and `input_types` (feature ->
dtype; float32 if None).
"""


def get_first_valid_restore_config_and_paths(
    restore_cfgs: Sequence[RestoreCheckpointConfig],
) -> tuple[RestoreCheckpointConfig | None, Sequence[str]]:
    """Returns the first configuration that finds checkpoints, and their paths.

    A configuration with mode 'specific' is used as it is. Modes 'latest' and 'all'
    search their folders; the first folder with a checkpoint wins.

    Raises:
        UserError: a folder does not exist, or has TensorFlow checkpoints.
    """
    for cfg in restore_cfgs:
        paths = [cfg.path] if isinstance(cfg.path, (str, os.PathLike)) else cfg.path
        for path in paths:
            checks.no_pattern("RestoreCheckpointConfig.path", os.fspath(path))
        if cfg.mode == "specific":
            return cfg, [os.fspath(path) for path in paths]
        for folder in paths:
            if not epath.Path(folder).is_dir():
                raise UserError(
                    "Checkpoint path(s) must be valid directories when using restore "
                    f"mode 'all' or 'latest': {folder} is none. For one checkpoint "
                    "use RestoreCheckpointConfig.mode = 'specific'."
                )
            found = [get_checkpoint_dir(folder, step) for step in all_steps(folder)]
            if found:
                return cfg, found[-1:] if cfg.mode == "latest" else found
            refuse_tensorflow(folder)
            logging.info("No checkpoints found in %s.", folder)
    return None, []


def get_fallback_state(
    restore_cfg: RestoreCheckpointConfig | None,
    init_fn: Callable[[jax.Array], Mapping[str, Any]],
    init_rng: jax.Array | None,
) -> Mapping[str, Any] | None:
    """Returns the initial state dict for `fallback_to_scratch`, or None without it."""
    if restore_cfg is None or not restore_cfg.fallback_to_scratch:
        return None
    if not restore_cfg.state_transformation_fns:
        raise UserError(
            "`state_transformation_fns` must be provided with `fallback_to_scratch`: "
            "set RestoreCheckpointConfig.assignment_map, for example [('target/"
            "decoder/logits_dense/kernel', None)]."
        )
    if init_rng is None:
        raise UserError(
            "An `init_rng` must be provided with `fallback_to_scratch`: set the random "
            "seed (train.random_seed, evaluate.fallback_init_rng or "
            "infer.fallback_init_rng)."
        )
    return init_fn(init_rng)


def _initial_state(
    optimizer_def: Any,
    init_fn: InitFnCallable,
    input_shapes: Mapping[str, Sequence[int]],
    input_types: Mapping[str, Any] | None,
    rng: jax.Array,
) -> Any:
    variables = flax.core.freeze(
        init_fn(rng=rng, input_shapes=input_shapes, input_types=input_types)
    )
    if optimizer_def:
        return train_state_lib.FlaxOptimTrainState.create(optimizer_def, variables)
    return train_state_lib.InferenceState.create(variables)


def train_state_shape(
    optimizer_def: Any,
    init_fn: InitFnCallable,
    input_shapes: Mapping[str, Sequence[int]],
    input_types: Mapping[str, Any] | None = None,
) -> Any:
    """Returns a train state with a ShapeDtypeStruct per array; computes nothing."""
    make = functools.partial(
        _initial_state, optimizer_def, init_fn, input_shapes, input_types
    )
    return jax.eval_shape(make, jax.random.PRNGKey(0))


class TrainStateInitializer:
    """Creates partitioned train states without an unpartitioned copy.

    Attributes:
        global_train_state_shape: train state with a ShapeDtypeStruct per array.
        train_state_axes: train state with a PartitionSpec (or None) per array.
    """

    def __init__(
        self,
        optimizer_def: Any,
        init_fn: InitFnCallable,
        input_shapes: Mapping[str, Sequence[int]],
        partitioner: BasePartitioner,
        input_types: Mapping[str, Any] | None = None,
    ):
        """Derives shapes and partitioning; initializes nothing yet.

        Args:
            init_fn: bound method of the model, such as get_initial_variables.
            input_shapes: feature -> global batch shape.
            input_types: feature -> dtype; float32 by default.
        """
        self._partitioner = partitioner
        self._initialize_train_state = functools.partial(
            _initial_state, optimizer_def, init_fn, input_shapes, input_types
        )
        self.global_train_state_shape = train_state_shape(
            optimizer_def, init_fn, input_shapes, input_types
        )
        self.train_state_axes = partitioner.get_mesh_axes(self.global_train_state_shape)
        model = getattr(init_fn, "__self__", None)
        module = getattr(model, "module", None)
        if getattr(module, "scan_layers", False) and hasattr(
            module, "spmd_annotations"
        ):
            # XLA needs the specs of scanned parameters inside the scan.
            model.module = module.clone(  # type: ignore[union-attr]
                parent=None, spmd_annotations=self.train_state_axes.params
            )

    def from_scratch(self, init_rng: jax.Array) -> Any:
        """Returns a train state that is initialized in place on the mesh."""
        logging.info("Initializing parameters from scratch.")
        return self._computed(
            self._initialize_train_state, self.train_state_axes, init_rng
        )

    def _computed(
        self, function: Callable[[jax.Array], Any], axes: PyTree, rng: jax.Array
    ) -> Any:
        """Returns `function(rng)`, partitioned by `axes`."""
        if jax.default_backend() == "gpu" and jax.device_count() == 1:
            shardings = to_shardings(axes, self._partitioner.mesh)
            return jax.device_put(evaluate_op_by_op(function, rng), shardings)
        return self._partitioner.partition(
            function, in_axis_resources=None, out_axis_resources=axes
        )(rng)

    def fallback_state_dict(self, init_rng: jax.Array) -> Mapping[str, Any]:
        """Returns the state dict of `from_scratch` with deferred values."""
        shapes = self.global_train_state_shape
        infos = flatten(parameter_infos(shapes, self._partitioner))

        def make(names: Sequence[str]) -> Mapping[str, jax.Array]:
            def chosen(rng: jax.Array) -> dict[str, jax.Array]:
                values = flatten(self._initialize_train_state(rng).state_dict())
                return {name: values[name] for name in names}

            axes = {name: infos[name].axes for name in names}
            return self._computed(chosen, axes, init_rng)

        return jax.tree.map(lambda shape: Deferred(make), shapes.state_dict())

    def from_checkpoints(
        self,
        restore_cfgs: Sequence[RestoreCheckpointConfig],
        ds_iter: Any = None,
        init_rng: jax.Array | None = None,
    ) -> Iterator[tuple[Any, str]]:
        """Yields (train state, path) of each checkpoint of the first valid config."""
        cfg, paths = get_first_valid_restore_config_and_paths(restore_cfgs)
        for path in paths:
            state, _ = create_checkpoint_manager_and_restore(
                self,
                self._partitioner,
                cfg,
                path,
                init_rng,
                model_dir=path,
                ds_iter=ds_iter,
            )
            yield state, path

    def from_checkpoint(
        self,
        ckpt_cfgs: Sequence[RestoreCheckpointConfig],
        *,
        ds_iter: Any = None,
        init_rng: jax.Array | None = None,
    ) -> Any:
        """Restores the one checkpoint of the configurations; None if there is none."""
        found = list(self.from_checkpoints(ckpt_cfgs, ds_iter, init_rng))
        if len(found) > 1:
            raise UserError(
                f"Expected at most 1 checkpoint but got {len(found)} for config(s): "
                f"{[path for _, path in found]}. Use mode 'latest' or 'specific'."
            )
        return found[0][0] if found else None

    def from_checkpoint_or_scratch(
        self,
        ckpt_cfgs: Sequence[RestoreCheckpointConfig],
        *,
        init_rng: jax.Array,
        ds_iter: Any = None,
    ) -> Any:
        """Restores one checkpoint, or initializes if there is none."""
        state = self.from_checkpoint(ckpt_cfgs, ds_iter=ds_iter, init_rng=init_rng)
        return self.from_scratch(init_rng) if state is None else state


def restore(
    checkpoint_manager: Any,
    paths: Sequence[str],
    restore_cfg: RestoreCheckpointConfig | None,
    fallback_state: Mapping[str, Any] | None = None,
) -> Any:
    """Restores checkpoints of either layout through an orbax manager.

    Returns:
        One train state for one path, a list for none or several; None without
            configuration.
    """
    if restore_cfg is None or paths is None:
        return None
    states = []
    for path in paths:
        logging.info("Initializing parameters from checkpoint %s.", path)
        fns = restore_cfg.state_transformation_fns
        state = checkpoint_manager.restore(
            path=path, state_transformation_fns=fns, fallback_state=fallback_state
        )
        states.append(state)
    return states[0] if len(states) == 1 else states


def create_orbax_checkpoint_manager(
    *,
    save_cfg: SaveCheckpointConfig | None = None,
    restore_cfg: RestoreCheckpointConfig | None = None,
    train_state: Any,
    partitioner: BasePartitioner,
    ds_iter: Any = None,
    model_dir: str | None = None,
) -> Any:
    """Creates the orbax manager that the configurations describe.

    The deletion rule comes from `save_cfg.checkpointer_cls`, so SaveBestCheckpointer
    works with orbax as well.
    """
    classes = [c.checkpoint_manager_cls for c in (save_cfg, restore_cfg) if c]
    if len(classes) == 2 and classes[0] is not classes[1]:
        raise UserError(
            "Must provide matching configurations of `checkpoint_manager_cls` in "
            f"`save_cfg` and `restore_cfg`, got {classes[0]} and {classes[1]}."
        )
    manager_cls = classes[0] if classes else OrbaxCheckpointManagerInterface
    save_dataset = bool(save_cfg and save_cfg.save_dataset)
    restore_dataset = bool(restore_cfg and restore_cfg.restore_dataset)
    settings: dict[str, Any] = {}
    if save_cfg is not None:
        settings = {
            "save_dtype": save_cfg.dtype,
            "keep": save_cfg.keep,
            "period": save_cfg.period,
        }
        # Other settings are passed only if they are used, so that simpler managers fit.
        for name in ("checkpoint_steps", "keep_dataset_checkpoints"):
            if value := getattr(save_cfg, name):
                settings[name] = value
        checkpointer = save_cfg.checkpointer_cls(
            train_state=train_state, partitioner=partitioner, checkpoints_dir=model_dir
        )
        rule = getattr(checkpointer, "retention", None)
        if rule is not None and rule.metric_name is not None:
            settings |= {
                "metric_name_to_monitor": rule.metric_name,
                "metric_mode": rule.metric_mode,
                "keep_checkpoints_without_metrics": rule.keep_without_metrics,
                "force_keep_period": rule.force_keep_period,
            }
    manager = manager_cls(
        directory=model_dir,
        train_state=train_state,
        partitioner=partitioner,
        dataset_iterator=ds_iter if save_dataset or restore_dataset else None,
        restore_dtype=restore_cfg.dtype if restore_cfg else None,
        **settings,
    )
    # A fine-tuning run saves its data position but must not restore the position of the
    # pretraining.
    manager.restore_dataset = restore_dataset
    return manager


class LegacyCheckpointManager:
    """The manager of this name in T5X, on the orbax manager; `save` waits."""

    def __init__(
        self, *, train_state_shape: Any, model_dir: str | None = None, **settings: Any
    ):
        """Creates the manager; see `create_orbax_checkpoint_manager`."""
        self._manager = create_orbax_checkpoint_manager(
            train_state=train_state_shape, model_dir=model_dir or "", **settings
        )

    def save(self, train_state: Any, state_transformation_fns: Sequence = ()) -> None:
        """Saves a train state."""
        self._manager.save(train_state, state_transformation_fns)
        self._manager.wait_until_finished()

    def restore(
        self,
        paths: Sequence[str],
        restore_cfg: RestoreCheckpointConfig | None = None,
        fallback_state: Mapping[str, Any] | None = None,
    ) -> Any:
        """Restores checkpoints of either layout; see `restore`."""
        return restore(self._manager, paths, restore_cfg, fallback_state)


def create_checkpoint_manager_and_restore(
    train_state_initializer: TrainStateInitializer,
    partitioner: BasePartitioner,
    restore_checkpoint_cfg: RestoreCheckpointConfig | None,
    restore_path: str | None,
    fallback_init_rng: jax.Array | None,
    save_checkpoint_cfg: SaveCheckpointConfig | None = None,
    model_dir: str | None = None,
    ds_iter: Any = None,
    use_orbax: bool = True,
) -> tuple[Any, Any]:
    """Creates the manager for saving and restores the initial state.

    Without configuration or path nothing is restored. `model_dir` is the restored path
    by default. `use_orbax` has no effect; code for T5X passes it.

    Returns:
        (train state or None, manager).
    """
    if model_dir is None and restore_checkpoint_cfg is not None:
        path = restore_checkpoint_cfg.path
        model_dir = os.fspath(path) if isinstance(path, (str, os.PathLike)) else path[0]
    shape = train_state_initializer.global_train_state_shape
    paths = [restore_path] if restore_path else []
    fallback = None
    if paths:
        fallback = get_fallback_state(
            restore_checkpoint_cfg,
            train_state_initializer.fallback_state_dict,
            fallback_init_rng,
        )
    manager = create_orbax_checkpoint_manager(
        save_cfg=save_checkpoint_cfg,
        restore_cfg=restore_checkpoint_cfg,
        train_state=shape,
        partitioner=partitioner,
        ds_iter=ds_iter,
        model_dir=model_dir,
    )
    state = restore(manager, paths, restore_checkpoint_cfg, fallback)
    return (state if paths else None), manager


def evaluate_op_by_op(function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns `jax.jit(function)(*arguments)`, up to rounding.

    Operations of the same kind and shape share a compiled program, so the time does not
    grow with the number of layers. XLA compiles the initialization of T5 base for a GPU
    in 100 s; this takes 5 s. All results are on one device, each in its own buffer, so
    a step can donate them.
    """
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
    jaxpr = closed.jaxpr
    needed = set(_variables(jaxpr.outvars))
    kept = []
    for equation in reversed(jaxpr.eqns):
        if needed.intersection(equation.outvars):
            kept.append(equation)
            needed.update(_variables(equation.invars))
    reduced = ClosedJaxpr(jaxpr.replace(eqns=kept[::-1]), closed.consts)
    given = jax.tree.leaves(arguments)
    taken, results = {id(array) for array in given}, []
    for result in map(jnp.asarray, jaxpr_as_fun(reduced)(*given)):
        results.append(jnp.copy(result) if id(result) in taken else result)
        taken.add(id(result))
    return jax.tree.unflatten(jax.tree.structure(shapes), results)


def _variables(atoms: Any) -> list[Any]:
    return [atom for atom in atoms if not isinstance(atom, Literal)]


def _lines(train_state: Any, partitioner: BasePartitioner) -> Iterator[str]:
    arrays = flatten(train_state.state_dict())
    names = flatten(partitioner.get_logical_axes(train_state).state_dict())
    specs = flatten(partitioner.get_mesh_axes(train_state).state_dict())

    def line(name: str) -> str:
        array, axes, spec = arrays[name], names.get(name), specs.get(name)
        short = name.split("/", 1)[1]
        if array is None:
            return f"Variable    {short:<80} None"
        shape = tuple(array.shape)
        text = str(shape)
        axes = tuple(axes) if isinstance(axes, (tuple, PartitionSpec)) else ()
        if axes and len(axes) == len(shape):
            pairs = zip(axes, shape, strict=True)
            text = "(" + ", ".join(f"{axis}={n}" for axis, n in pairs) + ")"
        where = tuple(spec) if isinstance(spec, PartitionSpec) else None
        size = math.prod(shape)
        return (
            f"Variable {short:<80} size {size:<12} shape {text:<40} "
            f"partition spec {where}"
        )

    present = [n for n, a in arrays.items() if a is not traverse_util.empty_node]
    parameters = [n for n in present if n.startswith("target/")]
    total = sum(math.prod(arrays[n].shape) for n in parameters if arrays[n] is not None)
    yield from map(line, parameters)
    yield f"Total number of parameters: {total}"
    yield ""
    yield from (line(n) for n in present if n.startswith("state/"))


def log_model_info(
    log_file: str | None, full_train_state: Any, partitioner: BasePartitioner
) -> None:
    """Logs name, size, shape, and partitioning of every parameter and slot.

    Process 0 also writes them to `log_file`, if one is given.
    """
    if jax.process_index() != 0:
        return
    lines = list(_lines(full_train_state, partitioner))
    for line in lines:
        logging.info("%s", line)
    if log_file is not None:
        path = epath.Path(log_file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
