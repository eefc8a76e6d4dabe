"""A network whose linear maps have adapters: x W + scale (x A) B.

The network itself does not change. While it runs, calls of the adapted maps are
intercepted (`flax.linen.intercept_methods`), and the low-rank product is added to their
outputs. The gradient of the adapter therefore needs no gradient of the kernels.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import flax
import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import traverse_util
from jaxtyping import Array, Float
from t5x.on_cpu import features, products

from jaxaug.models.lora.layout import A, B, Layout

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
