"""The families of published models: which code reads which config.json."""

import dataclasses
import importlib
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, Literal

import flax.errors
import jax
import jax.numpy as jnp
from flax import linen as nn

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.models.weights.keymap import KeyMap

Kind = Literal["encoder_decoder", "decoder_only", "encoder"]

# What layers raise whose sizes do not fit together.
_MISMATCH = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)

# Token arrays that a call needs: inputs; inputs and targets; those of both sides.
_ARGUMENTS: Mapping[Kind, int] = {"encoder": 1, "decoder_only": 2, "encoder_decoder": 3}


@dataclasses.dataclass(frozen=True)
class Family:
    """One file of `jaxaug.models`.

    The file defines `Config` with `from_hf`, the network, `key_map(config)`, `IGNORED`
    and `to_hf(config)`.

    Attributes:
      name: for tables and messages.
      file: the module of Python.
      kind: which interface of T5X its network has.
      types: values of `model_type` in config.json.
      network: name of the network's class in the file.
    """

    name: str
    file: str
    kind: Kind
    types: tuple[str, ...]
    network: str = "NETWORK"

    @property
    def code(self) -> ModuleType:
        """The imported file."""
        return importlib.import_module(self.file)

    def config(self, hf_config: Mapping[str, Any]) -> Any:
        """The configuration of a config.json; raises `UserError` if it is refused."""
        return self.code.Config.from_hf(hf_config)

    def build(self, config: Any) -> nn.Module:
        """The network."""
        return getattr(self.code, self.network)(config)

    def network_of(self, config: Any, source: PathLike) -> tuple[nn.Module, Any]:
        """The network, and the shapes of its parameters.

        Args:
            config: of this family.
            source: file that it is from, for messages.

        Raises:
            UserError: there is no such network.
        """
        try:
            module = self.build(config)
            return module, self.variables(module)["params"]
        except UserError as error:
            raise UserError(f"{source}: {error}") from error
        except (*_MISMATCH, flax.errors.FlaxError) as error:
            reason = str(error).partition("\n")[0]
            raise UserError(
                f"{source}: describes a network that cannot be built "
                f"({type(error).__name__}: {reason}). Use the file that was published "
                "with the weights."
            ) from error

    def key_map(self, config: Any) -> KeyMap:
        """Flax path -> published tensor."""
        return self.code.key_map(config)

    @property
    def ignored(self) -> Iterable[str]:
        """Regular expressions of tensors that carry no parameter."""
        return self.code.IGNORED

    def variables(self, module: nn.Module) -> Mapping[str, Any]:
        """Shapes of what `init` gives: `params` and `params_axes`; nothing is computed."""
        tokens = jnp.ones((1, 2), jnp.int32)
        arguments = [tokens] * _ARGUMENTS[self.kind]
        keys = jax.random.split(jax.random.PRNGKey(0))
        rngs = {"params": keys[0], "dropout": keys[1]}
        return jax.eval_shape(lambda: module.init(rngs, *arguments))


_BART = ("bart", "pegasus", "marian")
_BERT = ("bert", "roberta", "xlm-roberta", "rembert", "bleurt")
_LLAMA = ("llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3_text")
_CAUSAL = "DecoderWrapper"

FAMILIES = (
    Family("t5", "jaxaug.models.t5_weights", "encoder_decoder", ("t5", "mt5")),
    Family("bart", "jaxaug.models.bart", "encoder_decoder", _BART),
    Family("gpt2", "jaxaug.models.gpt2", "decoder_only", ("gpt2",), _CAUSAL),
    Family("llama", "jaxaug.models.llama", "decoder_only", _LLAMA, _CAUSAL),
    Family("bert", "jaxaug.models.bert", "encoder", _BERT),
    Family("deberta", "jaxaug.models.deberta", "encoder", ("deberta-v2",)),
)


def of_config(hf_config: Mapping[str, Any], source: str) -> Family:
    """The family of a config.json.

    Raises:
      UserError: no family reads that `model_type`.
    """
    kind = hf_config.get("model_type")
    for family in FAMILIES:
        if kind in family.types:
            return family
    known = ", ".join(name for family in FAMILIES for name in family.types)
    raise UserError(
        f"{source}: model_type is {kind!r}; the families here read {known}. Take a "
        "model of one of them."
    )
