"""Adapters: their layout, merging them, and networks with them.

The layout names the pairs of matrices and the linear maps that they change.

The matrices have the names of the published model's linear maps, which other libraries
use: one pair (A, B) per tensor of that model. GPT-2 stores query, key, and value in one
tensor. Our three maps therefore share one A, and each has a third of B.
"""

import dataclasses
import functools
import hashlib
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import flax
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax import traverse_util
from flax.linen.partitioning import AxisMetadata
from jaxtyping import Array, Float, PRNGKeyArray
from t5x.examples.t5 import network
from t5x.on_cpu import features, products

from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import suggestion
from jaxaug.models.lora.settings import ALL_LINEAR, Settings
from jaxaug.models.weights import families, keymap

A, B = "lora_a", "lora_b"
_KERNEL = "/kernel"
# Only kernels of the blocks: the output layer may be computed from its factors, and
# adapters change neither it nor a classifier.
_IN_A_BLOCK = re.compile(r"(^|/)layers_\d+/")


@dataclasses.dataclass(frozen=True)
class Place:
    """One pair of matrices.

    Attributes:
        name: name of the linear map in the published model, without ".weight".
        inputs: rows of A.
        outputs: columns of B.
        modules: paths of our linear maps, in the order in which they share B equally.
    """

    name: str
    inputs: int
    outputs: int
    modules: tuple[str, ...]

    @property
    def path(self) -> tuple[str, ...]:
        """Path of the pair in the parameters of the adapter."""
        return tuple(self.name.split("."))


@dataclasses.dataclass(frozen=True)
class Layout:
    """All pairs of an adapter of a network."""

    settings: Settings
    family: families.Family
    places: tuple[Place, ...]

    @property
    def fan_in_fan_out(self) -> bool:
        """True if the published tensors are [in, out], as in Conv1D."""
        return self.family.transposed

    def shapes(self) -> dict[tuple[str, ...], tuple[int, int]]:
        """Returns path of a matrix -> its shape."""
        rank = self.settings.rank
        return {
            (*place.path, part): shape
            for place in self.places
            for part, shape in ((A, (place.inputs, rank)), (B, (rank, place.outputs)))
        }

    def initial(self, rng: PRNGKeyArray) -> dict[str, Any]:
        """Returns initial matrices: A is uniform as in `peft`, and B is zero."""
        flat = {}
        for index, (path, shape) in enumerate(self.shapes().items()):
            if path[-1] == B:
                flat[path] = jnp.zeros(shape, jnp.float32)
                continue
            key = jax.random.fold_in(rng, index)
            bound = 1 / math.sqrt(shape[0])
            flat[path] = jax.random.uniform(key, shape, jnp.float32, -bound, bound)
        return traverse_util.unflatten_dict(flat)

    def axes(self) -> dict[str, Any]:
        """Returns logical axes of the matrices, for partitioners and optimizers."""
        flat = {
            (*path[:-1], f"{path[-1]}_axes"): AxisMetadata(
                ("embed", "kv") if path[-1] == A else ("kv", "embed")
            )
            for path in self.shapes()
        }
        return traverse_util.unflatten_dict(flat)


def family_of(module: Any) -> families.Family:
    """Returns the family of a network whose layers are not scanned, or `UserError`."""
    config = getattr(module, "config", None)
    if not getattr(module, "scan_layers", False):
        for family in families.every():
            # A T5 may also have the plain configuration of its network.
            own = family.code.Config
            if type(config) in (own, network.T5Config if family.name == "t5" else own):
                return family
    raise UserError(
        f"{type(module).__name__} takes no adapter: it belongs to no published family, "
        "or its layers are scanned. Take a model of configs/models or t5x/examples/t5."
    )


def layout_of(
    family: families.Family, config: Any, params: Any, settings: Settings
) -> Layout:
    """Returns the pairs of an adapter with these settings.

    Args:
        params: parameters of the network, or their shapes.
        settings: settings of the adapter; if targets is None, the family's defaults
            apply.

    Raises:
        UserError: the family takes no adapters, or the network has no such targets.
    """
    if not family.adapted:
        known = ", ".join(one.name for one in families.every() if one.adapted)
        raise UserError(
            f"a {family.name} takes no adapter; the families that do are {known}."
        )
    if settings.targets is None:
        settings = dataclasses.replace(settings, targets=family.adapted)
    linear = _linear_maps(family.key_map(config), params)
    chosen = tuple(place for place in linear if settings.takes(place.name))
    _check_targets(settings, [place.name for place in linear], chosen)
    return Layout(settings, family, chosen)


def _linear_maps(key_map: keymap.KeyMap, params: Any) -> list[Place]:
    shapes = {path: leaf.shape for path, leaf in keymap.flat(params).items()}
    parts: dict[str, list[tuple[int, str]]] = {}
    for path, weight in key_map.items():
        if path.endswith(_KERNEL) and _IN_A_BLOCK.search(path):
            parts.setdefault(weight.name, []).append((weight.part, path))
    places = []
    for tensor, found in parts.items():
        paths = [path for _, path in sorted(found)]
        # The contracted axes come first; an output map contracts heads and their width.
        inputs, outputs = _sizes(paths[0], shapes[paths[0]])
        places.append(
            Place(
                tensor.removesuffix(".weight"),
                inputs,
                outputs * len(paths),
                tuple(path.removesuffix(_KERNEL) for path in paths),
            )
        )
    return sorted(places, key=lambda place: place.name)


def _sizes(path: str, shape: tuple[int, ...]) -> tuple[int, int]:
    contracted = 2 if len(shape) == 3 and path.endswith(f"/out{_KERNEL}") else 1
    return math.prod(shape[:contracted]), math.prod(shape[contracted:])


def _check_targets(
    settings: Settings, known: list[str], chosen: tuple[Place, ...]
) -> None:
    names = sorted({name.rpartition(".")[2] for name in known})
    targets = settings.targets
    if isinstance(targets, str):
        unknown = [] if chosen else [targets]
    else:
        taken = [place.name for place in chosen]
        unknown = [
            target
            for target in targets or ()
            if not any(n == target or n.endswith(f".{target}") for n in taken)
        ]
    if unknown:
        raise UserError(
            f"targets of the adapter: the network has no linear map "
            f"{', '.join(map(repr, unknown))}; {suggestion(unknown[0], names)} "
            f"{ALL_LINEAR!r} takes all of {', '.join(names)}."
        )


def check(layout: Layout, adapter: Any, source: str) -> None:
    """Raises `UserError` unless the names and shapes of matrices match a layout."""
    found = traverse_util.flatten_dict(flax.core.unfreeze(adapter))
    wanted = layout.shapes()
    for what, paths in (
        ("lacks", wanted.keys() - found.keys()),
        ("additionally has", found.keys() - wanted.keys()),
    ):
        if paths:
            raise UserError(
                f"{source}: the adapter {what} {len(paths)} matrices: "
                f"{keymap.listing('.'.join(path) for path in paths)}. Use the "
                "settings (targets) that it was trained with, or the complete file."
            )
    for path, shape in wanted.items():
        name, have = ".".join(path), tuple(found[path].shape)
        if have == shape:
            continue
        rank = have[-1] if path[-1] == A else have[0]
        if len(have) == 2 and rank != layout.settings.rank:
            raise UserError(
                f"{source}: {name} has rank {rank}, but the settings say "
                f"{layout.settings.rank}. Give the rank that it was trained with."
            )
        raise UserError(
            f"{source}: {name} has shape {list(have)}, but the base model needs "
            f"{list(shape)}. The adapter belongs to another base."
        )


def merge(
    params: Mapping[str, Any], adapter: Any, layout: Layout, sign: int = 1
) -> dict[str, Any]:
    """Returns parameters of a plain network that is equivalent to the adapted one.

    Args:
        params: NumPy parameters of the base, which do not change.
        sign: 1 merges the adapter; -1 removes it.

    Returns:
        Nested parameters in the dtypes of the base; arrays without an adapter are not
        copied.
    """
    flat = dict(keymap.flat(params))
    pairs = traverse_util.flatten_dict(flax.core.unfreeze(adapter))
    for place in layout.places:
        a, b = (np.asarray(pairs[(*place.path, part)], np.float32) for part in (A, B))
        product = sign * layout.settings.scale * (a @ b)
        for path, part in zip(
            place.modules, np.split(product, len(place.modules), axis=1), strict=True
        ):
            kernel = np.asarray(flat[f"{path}/kernel"])
            changed = kernel.astype(np.float32) + part.reshape(kernel.shape)
            flat[f"{path}/kernel"] = changed.astype(kernel.dtype)
    return traverse_util.unflatten_dict(flat, sep="/")


_BYTES = 16


def digest(params: Mapping[str, Any]) -> str:
    """Returns a digest of the values of a base, independent of format and dtype.

    bfloat16 values and the same values in float32 have the same digest. Other sizes,
    names, or values change it. Reads about 1 GB/s.
    """
    found = hashlib.blake2b(digest_size=_BYTES)
    for path, array in sorted(keymap.flat(params).items()):
        values = np.ascontiguousarray(array, np.float32)
        found.update(f"{path} {values.shape}\n".encode())
        found.update(values.data)
    return found.hexdigest()


def check_base(wanted: str, found: str, adapter: str, base: str) -> None:
    """Raises `UserError` unless an adapter was trained on a base; compares digests."""
    if wanted != found:
        raise UserError(
            f"{adapter} was trained on another base: its digest is {wanted}, but "
            f"{base} has {found}. Name the base that it was trained on."
        )


# Name of the adapter in the parameters of the base.
ADAPTER = "adapter"


def joined(base: Mapping[str, Any], adapter: Any) -> dict[str, Any]:
    """Returns the parameters of an `AdaptedNetwork`."""
    return {**base, ADAPTER: adapter}


class AdaptedNetwork:
    """A module with the interface of the flax module, which takes `joined` parameters.

    Attributes are passed on to the module; `apply` adds the adapter. Dropout of the
    adapter is active if the call has a random stream "dropout".
    """

    def __init__(self, module: nn.Module, layout: Layout):
        self.module = module
        self.layout = layout
        self._parts = {
            tuple(path.split("/")): (place, number)
            for place in layout.places
            for number, path in enumerate(place.modules)
        }

    def __getattr__(self, name: str) -> Any:
        # Copies look up attributes before `module` is set.
        if name == "module":
            raise AttributeError(name)
        return getattr(self.module, name)

    def apply(self, variables: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Applies the module with the adapter; see `flax.linen.Module.apply`."""
        params = dict(variables["params"])
        adapter = traverse_util.flatten_dict(flax.core.unfreeze(params.pop(ADAPTER)))
        with nn.intercept_methods(functools.partial(self._intercept, adapter)):
            return self.module.apply({**variables, "params": params}, *args, **kwargs)

    def _intercept(
        self,
        adapter: Mapping[tuple[str, ...], Any],
        call: Callable[..., Any],
        args: Any,
        kwargs: Any,
        context: nn.module.InterceptorContext,
    ) -> Any:
        outputs = call(*args, **kwargs)
        if context.method_name != "__call__":
            return outputs
        found = self._parts.get(context.module.path)
        if found is None:
            return outputs
        place, number = found
        width = place.outputs // len(place.modules)
        b = adapter[(*place.path, B)][:, number * width : (number + 1) * width]
        return outputs + self._product(
            context.module, args[0], adapter[(*place.path, A)], b, outputs
        )

    def _product(
        self,
        module: Any,
        inputs: Float[Array, "..."],
        a: Float[Array, "inputs rank"],
        b: Float[Array, "rank outputs"],
        outputs: Float[Array, "..."],
    ) -> Float[Array, "..."]:
        settings = self.layout.settings
        # Inputs and outputs may have separate axes for heads and their width.
        rows = _leading(inputs.shape, a.shape[0])
        x = jnp.asarray(inputs, module.dtype).reshape(*rows, a.shape[0])
        if settings.dropout and module.has_rng("dropout"):
            # Draws 16 bits a number: on a CPU, drawing 32 takes a tenth of the step.
            bits = jax.random.bits(module.make_rng("dropout"), x.shape, jnp.uint16)
            kept = bits >= min(round(settings.dropout * 2**16), 2**16 - 1)
            x = jnp.where(kept, x / (1 - settings.dropout), 0).astype(x.dtype)
        product = functools.partial(_product, dtype=x.dtype)
        return product(product(x, a) * settings.scale, b).reshape(outputs.shape)


def _product(
    x: Float[Array, "... size"], matrix: Float[Array, "size width"], dtype: Any
) -> Float[Array, "... width"]:
    if features.is_used():
        return products.contract(x, jnp.asarray(matrix), dtype=dtype)
    return x @ jnp.asarray(matrix, dtype)


def _leading(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Returns the leading axes: the others hold `size` numbers in total."""
    rows, product = list(shape), 1
    while product < size:
        product *= rows.pop()
    return tuple(rows)
