"""Public names of the optimizers, for gin files and user code.

Adafactor has its own module, `t5x.adafactor`. `amos` has no PyPI package and is not
supported.
"""
# ruff: noqa: F401

from collections.abc import Sequence

import optax
import optax.contrib

from t5x.optim.optax_wrapper import (
    OptaxStatePartitionRules,
    OptaxWrapper,
    wrap_optax_optimizer,
)
from t5x.optim.optimizer_base import (
    MultiOptimizer,
    Optimizer,
    OptimizerDef,
    OptimizerState,
)


def chain(transformations: Sequence[optax.GradientTransformation]) -> OptaxWrapper:
    """Wraps `optax.chain` of a sequence (gin has no variable arguments)."""
    return OptaxWrapper(optax.chain(*transformations))


adabelief = wrap_optax_optimizer(optax.adabelief)
adagrad = wrap_optax_optimizer(optax.adagrad)
adam = wrap_optax_optimizer(optax.adam)
adamw = wrap_optax_optimizer(optax.adamw)
dpsgd = wrap_optax_optimizer(optax.contrib.dpsgd)
fromage = wrap_optax_optimizer(optax.fromage)
lamb = wrap_optax_optimizer(optax.lamb)
lars = wrap_optax_optimizer(optax.lars)
lion = wrap_optax_optimizer(optax.lion)
noisy_sgd = wrap_optax_optimizer(optax.noisy_sgd)
radam = wrap_optax_optimizer(optax.radam)
rmsprop = wrap_optax_optimizer(optax.rmsprop)
sgd = wrap_optax_optimizer(optax.sgd)
yogi = wrap_optax_optimizer(optax.yogi)
