"""Compiled programs with the lifetime of their model.

The cache of `jax.jit` keeps its static arguments forever. A model passed as a static
argument would stay in memory with all its parameters and compiled programs.
"""

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.tree_util import Partial

from jaxaug.models.layers import int8


def of_model(
    static_argnums: Sequence[int] = (), donate_argnums: Sequence[int] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns a decorator that compiles a function of a model, once for each model.

    The function receives `model.bare`, which has no parameters, instead of the model.
    If the first argument after the model is a `Partial`, its numbers are traced. One
    program then serves all samplers that differ only in these numbers.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        programs: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

        @functools.wraps(function)
        def call(model: Any, *arguments: Any) -> Any:
            program = programs.get(model)
            if program is None:
                # The program holds no reference to the model, which could otherwise
                # never be freed.
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
    """Calls a function with its first argument restored as before `of_model`."""
    *others, numbers = arguments
    if others and isinstance(others[0], jax.tree_util.PyTreeDef):
        others[0] = jax.tree.unflatten(others[0], numbers)
    return function(bare, *others)
