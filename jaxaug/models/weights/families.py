"""Families of published models, and the code that reads their config.json.

Other packages add families through the entry points `jaxaug.families`
(docs/extending.md).
"""

import contextlib
import dataclasses
import importlib
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, Literal

import flax.errors
import jax
import jax.numpy as jnp
from flax import linen as nn

from jaxaug.core import extensions
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, shortened, shown
from jaxaug.models.weights.keymap import KeyMap

Kind = Literal["encoder_decoder", "decoder_only", "encoder"]

# Errors that layers raise if their sizes are incompatible.
_MISMATCH = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)

# Number of token arrays in a call: inputs, inputs and targets, or the arrays of
# both sides.
_ARGUMENTS: Mapping[Kind, int] = {"encoder": 1, "decoder_only": 2, "encoder_decoder": 3}


@contextlib.contextmanager
def buildable(source: PathLike, fix: str) -> Iterator[None]:
    """Converts errors of layers with incompatible sizes to a `UserError`."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{source}: {error}") from error
    except (*_MISMATCH, flax.errors.FlaxError) as error:
        reason = shortened(str(error).partition("\n")[0])
        raise UserError(
            f"{source} describes a network that cannot be built "
            f"({type(error).__name__}: {reason}). {fix}"
        ) from error


@dataclasses.dataclass(frozen=True)
class Family:
    """A family of models: a module that is imported on first use.

    The module defines `Config` with `from_hf`, `NETWORK`, `key_map(config)`, `IGNORED`,
    and `to_hf(config)`.

    Attributes:
        adapted: endings of the tensors that an adapter changes by default; a family
            without them takes no adapter.
        transposed: whether the published linear maps are [in, out], as in Conv1D.
        bars_padding: whether decoding can exclude the padding.
    """

    name: str
    file: str
    kind: Kind
    types: tuple[str, ...]
    adapted: tuple[str, ...] = ()
    transposed: bool = False
    bars_padding: bool = False

    @property
    def code(self) -> ModuleType:
        """The imported module."""
        return importlib.import_module(self.file)

    def config(self, hf_config: Mapping[str, Any]) -> Any:
        """Returns the configuration of a config.json, or raises `UserError`."""
        return self.code.Config.from_hf(hf_config)

    def build(self, config: Any) -> nn.Module:
        """Returns the network of a configuration."""
        return self.code.NETWORK(config)

    def network_of(self, config: Any, source: PathLike) -> tuple[nn.Module, Any]:
        """Returns the network of a configuration, and the shapes of its parameters.

        Raises:
            UserError: the network cannot be built.
        """
        with buildable(source, "Use the file that was published with the weights."):
            module = self.build(config)
            return module, self.variables(module)["params"]

    def key_map(self, config: Any) -> KeyMap:
        """Returns flax path -> published tensor."""
        return self.code.key_map(config)

    @property
    def ignored(self) -> Iterable[str]:
        """Regular expressions of tensors that contain no parameters."""
        return self.code.IGNORED

    def variables(self, module: nn.Module) -> Mapping[str, Any]:
        """Returns the shapes of `params` and `params_axes`; nothing is computed."""
        tokens = jnp.ones((1, 2), jnp.int32)
        arguments = [tokens] * _ARGUMENTS[self.kind]
        keys = jax.random.split(jax.random.PRNGKey(0))
        rngs = {"params": keys[0], "dropout": keys[1]}
        return jax.eval_shape(lambda: module.init(rngs, *arguments))


_BART = ("bart", "pegasus", "marian")
_BERT = ("bert", "roberta", "xlm-roberta", "rembert", "bleurt")
_LLAMA = ("llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3_text")
_QUERY_VALUE = ("q_proj", "v_proj")
_OURS = (
    Family(
        "t5", "jaxaug.models.t5_weights", "encoder_decoder", ("t5", "mt5"), ("q", "v"),
    ),
    Family(
        "bart", "jaxaug.models.bart", "encoder_decoder", _BART, _QUERY_VALUE,
        bars_padding=True,
    ),
    Family(
        "gpt2", "jaxaug.models.gpt2", "decoder_only", ("gpt2",), ("c_attn",),
        transposed=True,
    ),
    Family("llama", "jaxaug.models.llama", "decoder_only", _LLAMA, _QUERY_VALUE),
    Family("bert", "jaxaug.models.bert", "encoder", _BERT, ("query", "value")),
    Family("deberta", "jaxaug.models.deberta", "encoder", ("deberta-v2",)),
)  # fmt: skip


def _made(name: str, found: Any) -> Family:
    if not isinstance(found, Family) or found.name != name:
        raise TypeError(f"is {shown(found)}, but must be a Family called {name!r}")
    return found


FAMILIES = extensions.Table({own.name: own for own in _OURS}, "families", made=_made)
"""Name -> family."""


def every() -> Iterator[Family]:
    """Yields our families, then those that other packages add, imported last."""
    yield from _OURS
    for name in FAMILIES.outside():
        yield FAMILIES[name]


def of_config(hf_config: Mapping[str, Any], source: str) -> Family:
    """Returns the family of a config.json; raises `UserError` if no family reads it."""
    kind = hf_config.get("model_type")
    for family in every():
        if kind in family.types:
            return family
    known = ", ".join(name for family in every() for name in family.types)
    raise UserError(
        f"{source}: model_type is {kind!r}, but must be one of {known}. Take a model "
        "of these types."
    )
