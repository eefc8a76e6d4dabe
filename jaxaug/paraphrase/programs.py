"""Compiled programs that live as long as the model that they are of.

The cache of `jax.jit` holds on to its static arguments for ever, so that a model given
as one would stay in memory with all its parameters and its compiled programs.
"""

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.tree_util import Partial

from jaxaug.models.layers import int8


def of_model(
    static_argnums: Sequence[int] = (),
    donate_argnums: Sequence[int] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compiles a function of a model, once for each model.

    The function gets `model.bare`, which has no parameters, in place of the model. If the
    first argument after the model is a `Partial`, its numbers are traced: one program
    serves all samplers that differ in these only.

    Args:
      static_argnums: as of `jax.jit`, the model not counted.
      donate_argnums: likewise.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        programs: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

        @functools.wraps(function)
        def call(model: Any, *arguments: Any) -> Any:
            program = programs.get(model)
            if program is None:
                # Nothing in it leads to the model, which could never go otherwise.
                bare = int8.products()(functools.partial(_joined, function, model.bare))
                program = jax.jit(
                    bare,
                    static_argnums=tuple(static_argnums),
                    donate_argnums=tuple(donate_argnums),
                )
                programs[model] = program
            numbers: list[Any] = []
            if arguments and isinstance(arguments[0], Partial):
                numbers, shape = jax.tree.flatten(arguments[0])
                arguments = (shape, *arguments[1:])
            return program(*arguments, numbers)

        return call

    return decorate


def _joined(function: Callable[..., Any], bare: Any, *arguments: Any) -> Any:
    """Calls a function with its first argument as it was before `of_model` took it apart."""
    *others, numbers = arguments
    if others and isinstance(others[0], jax.tree_util.PyTreeDef):
        others[0] = jax.tree.unflatten(others[0], numbers)
    return function(bare, *others)
