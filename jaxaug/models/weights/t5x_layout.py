"""Reads and writes T5X checkpoints of bare parameters, in both layouts.

Written checkpoints have no optimizer. To train from them, set
`RestoreCheckpointConfig.fallback_to_scratch = True` and
`assignment_map = [('state/param_states.*', None)]`, which initialize the optimizer.

`network.gin` next to the checkpoint defines NETWORK for a gin file of T5X:
`models.DecoderOnlyModel.module = %NETWORK`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import flax
import gin
import jax
import jax.numpy as jnp
import numpy as np
from etils import epath
from flax import linen as nn
from flax import serialization, traverse_util
from gin import config_parser
from jaxaug_base.files import absolute
from t5x import checkpoints, partitioning, train_state

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_text, write_bytes, write_text
from jaxaug.models.weights import families, keymap

GIN = "network.gin"
_SCANNED = ("scan_layers", "param_scan_axis")
_PLAIN = (type(None), bool, int, float, str, tuple, list)


class Stored(NamedTuple):
    """Model in a checkpoint: nested NumPy parameters and the step."""

    params: Mapping[str, Any]
    step: int


def read(path: PathLike, step: int | None = None) -> Stored:
    """Reads the parameters of a checkpoint of either layout.

    Args:
        path: model folder, `checkpoint_N` folder, or msgpack file.

    Raises:
        UserError: no checkpoint is complete, it is damaged, or numbers are not finite.
    """
    state = checkpoints.load_t5x_checkpoint(absolute(path), step)
    target = state.get("target")
    if not target:
        raise UserError(f"{path}: the checkpoint holds no parameters (`target`).")
    for name, array in traverse_util.flatten_dict(target, sep="/").items():
        keymap.check_finite(np.asarray(array), name, str(path))
    stored = state.get("state", {}).get("step", 0)
    return Stored(target, int(np.asarray(stored)))


def write(
    folder: PathLike,
    family: families.Family,
    module: nn.Module,
    params: Mapping[str, Any],
    *,
    step: int = 0,
    legacy: bool = False,
) -> epath.Path:
    """Writes `checkpoint_<step>` into a model folder, and `network.gin` next to it.

    Args:
        module: network, which defines the logical axes.
        legacy: whether to write one msgpack file, which also old T5X reads, instead of
            the layout of orbax.

    Raises:
        UserError: the checkpoint exists, or the file system refuses it.
    """
    root = absolute(folder)
    target = epath.Path(checkpoints.get_checkpoint_dir(root, step))
    if target.exists():
        raise UserError(f"{target} exists. Name another folder, or remove it.")
    if legacy:
        write_bytes(target / "checkpoint", msgpack(params, step))
    else:
        _write_orbax(root, {**family.variables(module), "params": params}, step)
    write_text(root / GIN, network_gin(module))
    return target


def _write_orbax(root: epath.Path, variables: Mapping[str, Any], step: int) -> None:
    state = train_state.InferenceState.create(variables)
    state = state.replace_step(jnp.asarray(step, jnp.int32))
    partitioner = partitioning.PjitPartitioner(num_partitions=1)
    manager = checkpoints.OrbaxCheckpointManagerInterface(root, state, partitioner)
    manager.save(state)
    manager.close()


def msgpack(params: Mapping[str, Any], step: int) -> bytes:
    """Returns the content of the file `checkpoint` of the legacy layout."""
    target = jax.tree.map(np.asarray, flax.core.unfreeze(dict(params)))
    state = {"step": np.int32(step), "param_states": {}}
    return serialization.msgpack_serialize(
        {"version": 3, "optimizer": {"target": target, "state": state}}
    )


def network_gin(module: nn.Module) -> str:
    """Returns gin text that defines NETWORK: the module with its configuration.

    A configuration that adds no field to its base is written as the base, which other
    gin files bind too. A default dtype is left out: it is the choice of those files.
    """
    config = module.config  # type: ignore[attr-defined]
    network, settings = _reference(type(module)), _reference(_plainest(type(config)))
    module_name = f"{_last(network[0])}.{network[1]}"
    config_name = f"{_last(settings[0])}.{settings[1]}"
    files = sorted({network[0], settings[0]})
    lines = [
        "from __gin__ import dynamic_registration",
        *map(_import, files),
        "",
        f"NETWORK = @{module_name}()",
        f"{module_name}.config = @{config_name}()",
        f"{config_name}:",
    ]
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.name != "dtype" or value != field.default:
            plain = value if isinstance(value, _PLAIN) else jnp.dtype(value).name
            lines.append(f"  {field.name} = {plain!r}")
    return "\n".join(lines) + "\n"


def _plainest(cls: type) -> type:
    """Returns the base of T5X if it has the same fields, else the class."""
    (base, *_) = cls.__bases__
    same = base.__module__.startswith("t5x.") and [
        one.name for one in dataclasses.fields(base)
    ] == [one.name for one in dataclasses.fields(cls)]  # type: ignore[arg-type]
    return base if same else cls


def read_gin(path: PathLike) -> tuple[families.Family, Any]:
    """Returns family and configuration in a `network.gin`, without running it.

    Raises:
        UserError: the file differs from the format of `network_gin`.
    """
    fix = "Name the published model that it started from with --like."
    try:
        bindings = _bindings(read_text(path, fix))
        for family in families.every():
            own = family.code.Config
            # A T5 may also have the plain configuration of its network.
            for cls in (own, *own.__bases__):
                module, name = _reference(cls)
                if values := bindings.get(f"{_last(module)}.{name}"):
                    return family, own(**_plain(values))
    except (AttributeError, SyntaxError, TypeError, ValueError) as error:
        raise UserError(f"{path}: {error}. {fix}") from error
    raise UserError(f"{path} defines the configuration of no known network. {fix}")


def _bindings(text: str) -> dict[str, dict[str, Any]]:
    """Returns class -> argument -> value."""
    bindings: dict[str, dict[str, Any]] = {}
    for statement in config_parser.ConfigParser(text, gin.config.ParserDelegate(True)):
        if isinstance(statement, config_parser.BindingStatement):
            values = bindings.setdefault(statement.selector, {})
            values[statement.arg_name] = statement.value
    return bindings


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a configuration."""
    for name, value in values.items():
        if not isinstance(value, _PLAIN):
            raise TypeError(f"{name} = {value!r} is not a plain value")
    # A scanned T5 is read as a plain T5, because its stacks are unstacked.
    values = {name: v for name, v in values.items() if name not in _SCANNED}
    return {**values, "dtype": jnp.dtype(values.get("dtype", "float32"))}


def _reference(cls: type) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__


def _import(module: str) -> str:
    package, _, name = module.rpartition(".")
    return f"from {package} import {name}" if package else f"import {name}"


def _last(name: str) -> str:
    return name.rpartition(".")[2]
