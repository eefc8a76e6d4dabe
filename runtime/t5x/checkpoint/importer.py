"""Import of Mesh TensorFlow checkpoints of T5 and T5 v1.1 (`model.ckpt-N`).

TensorFlow is imported only when such a checkpoint is opened.
"""

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from flax import traverse_util

from t5x.checkpoint.lazy_array import LazyArray
from t5x.checkpoint.sources import Requests, StoredArray, corrupt
from t5x.distributed import place
from t5x.errors import UserError

Rule = Callable[..., tuple[str | None, Any]]


class CheckpointTranslator:
    """Rules that rename the variables of a checkpoint."""

    def __init__(self) -> None:
        self.rules: list[tuple[re.Pattern[str], Rule]] = []

    def add(self, pattern: str) -> Callable[[Rule], Rule]:
        """Returns a decorator: `fn(opts, name, value, *groups)` handles matching names.

        The decorated function returns (new name, new value); a new name of None drops
        the variable.

        Args:
            pattern: regular expression for the whole name.
        """

        def register(fn: Rule) -> Rule:
            self.rules.append((re.compile(pattern), fn))
            return fn

        return register

    def apply(self, flatdict: Mapping[str, Any], **opts: Any) -> dict[str, Any]:
        """Renames every entry by the first rule that matches.

        Raises:
            UserError: no rule matches an entry.
        """
        translated: dict[str, Any] = {}
        unmatched = []
        for name, value in flatdict.items():
            for pattern, fn in self.rules:
                match = pattern.fullmatch(name)
                if match:
                    new_name, new_value = fn(opts, name, value, *match.groups())
                    if new_name is not None:
                        translated[new_name] = new_value
                    break
            else:
                unmatched.append(name)
        if unmatched:
            raise UserError(
                f"Variables that are not of a T5 model: {sorted(unmatched)[:10]}. "
                f"Give a translator with rules for them, or use a T5 checkpoint."
            )
        return translated


t5_importer = CheckpointTranslator()

_SLOT = r"(|_slot_vc|_slot_vr|_slot_v)"
_SLOT_NAMES = {"_slot_vc": "v_col", "_slot_vr": "v_row", "_slot_v": "v"}
_STACK = r"(encoder|decoder|transformer)"
_PROJECTIONS = {"q": "query", "k": "key", "v": "value", "o": "out"}
_NORMS = {
    "encoder": ("pre_attention_layer_norm", "pre_mlp_layer_norm"),
    "decoder": (
        "pre_self_attention_layer_norm",
        "pre_cross_attention_layer_norm",
        "pre_mlp_layer_norm",
    ),
    # Decoder-only models call their single stack `transformer`.
    "transformer": ("pre_self_attention_layer_norm", "pre_mlp_layer_norm"),
}


def _side(stack: str) -> str:
    return "decoder" if stack == "transformer" else stack


@t5_importer.add("global_step")
def _step(opts: Any, name: str, value: Any) -> tuple[str, Any]:
    return "state/step", value.astype(np.int32)


def _attention(stack: str, block: str, kind: str, p: str) -> str:
    if stack == "encoder":
        module = "attention"
    else:
        own = kind == "SelfAttention"
        module = "self_attention" if own else "encoder_decoder_attention"
    return f"{_side(stack)}/layers_{int(block)}/{module}/{_PROJECTIONS[p]}/kernel"


def _bias(stack: str, block: str, bias_per_layer: bool) -> str:
    layer = f"layers_{int(block)}/" if bias_per_layer else ""
    return f"{_side(stack)}/{layer}relpos_bias/rel_embedding"


_BLOCK = rf"{_STACK}/block_(\d+)"
# Pattern of a variable -> name of its parameter, from the groups of the pattern.
_PARAMETERS: dict[str, Callable[..., str]] = {
    rf"(?:{_STACK}|shared)/embedding": lambda stack: (
        f"{f'{_side(stack)}/' if stack else ''}token_embedder/embedding"
    ),
    rf"{_BLOCK}/layer_\d+/(SelfAttention|EncDecAttention)/([qkvo])": _attention,
    rf"{_BLOCK}/layer_\d+/DenseReluDense/(wi(?:_\d+)?|wo)/kernel": (
        lambda stack, block, matrix: (
            f"{_side(stack)}/layers_{int(block)}/mlp/{matrix}/kernel"
        )
    ),
    rf"{_BLOCK}/layer_(\d+)/(?:layer|rms)_norm/scale": lambda stack, block, layer: (
        f"{_side(stack)}/layers_{int(block)}/{_NORMS[stack][int(layer)]}/scale"
    ),
    rf"{_STACK}/(?:final_layer|rms)_norm/scale": lambda stack: (
        f"{_side(stack)}/{_side(stack)}_norm/scale"
    ),
    r"(?:decoder|transformer)/logits/kernel": lambda: "decoder/logits_dense/kernel",
}


def _add(pattern: str, parameter_of: Callable[..., str], *options: str) -> None:
    """Adds a rule for a parameter and its slots; `options` are passed by name."""

    @t5_importer.add(pattern + _SLOT)
    def rule(opts: Any, name: str, value: Any, *groups: Any) -> tuple[str, Any]:
        *parts, slot = groups
        parameter = parameter_of(*parts, **{n: opts.get(n, False) for n in options})
        if slot:
            return f"state/param_states/{parameter}/{_SLOT_NAMES[slot]}", value
        return f"target/{parameter}", value


for _pattern, _parameter_of in _PARAMETERS.items():
    _add(_pattern, _parameter_of)
_add(
    rf"{_BLOCK}/layer_000/SelfAttention/relative_attention_bias",
    _bias,
    "bias_per_layer",
)


def load_tf_ckpt(path: str) -> dict[str, LazyArray]:
    """Returns the variables of a TensorFlow checkpoint by name, without their values.

    Raises:
        UserError: TensorFlow is not installed, or cannot read the file.
    """
    try:
        import tensorflow as tf
    except ImportError as e:
        raise UserError(
            f"Reading the TensorFlow checkpoint {path} needs TensorFlow: "
            "pip install tensorflow."
        ) from e
    try:
        reader = tf.train.load_checkpoint(path)
        shapes = reader.get_variable_to_shape_map()
        dtypes = reader.get_variable_to_dtype_map()
    except (tf.errors.OpError, ValueError) as e:
        raise corrupt(path, e) from e
    return {
        name: LazyArray(
            shape,
            dtypes[name].as_numpy_dtype,
            functools.partial(reader.get_tensor, name),
        )
        for name, shape in shapes.items()
    }


class TensorFlowSource:
    """A Mesh TensorFlow T5 checkpoint with T5X names (see CheckpointSource)."""

    def __init__(
        self,
        path: str,
        target: Mapping[str, Any],
        strict: bool = True,
        translator: CheckpointTranslator | None = None,
    ):
        """Opens and translates the checkpoint.

        Args:
            path: prefix `model.ckpt-N`, or a folder.
            target: state dict to fill; determines the required slots.
            strict: whether to refuse variables that `target` lacks.
            translator: renaming rules; the T5 rules by default.

        Raises:
            UserError: a variable is unreadable, has no rule, or (strict) is not in
                `target`.
        """
        variables = load_tf_ckpt(path)
        blocks = {
            match.group(1)
            for name in variables
            if (match := re.search(r"block_(\d+)/.*/relative_attention_bias", name))
        }
        # The bias table is shared if only the first block has one.
        per_layer = bool(blocks - {"000"})
        rules = translator or t5_importer
        flat = rules.apply(variables, bias_per_layer=per_layer)
        wanted = traverse_util.flatten_dict(target, sep="/")
        extra = sorted(set(flat) - set(wanted))
        if strict and extra:
            raise UserError(
                f"{path} has {len(extra)} variables that the model lacks: {extra[:5]}. "
                "Use the model file that it was trained with, or "
                "RestoreCheckpointConfig.strict = False."
            )
        for name, leaf in wanted.items():
            # Adafactor in TensorFlow stores no placeholders for unused slots.
            unused_slot = name.startswith("state/param_states/") and name not in flat
            if unused_slot and tuple(np.shape(leaf)) == (1,):
                flat[name] = LazyArray(
                    (1,), np.float32, lambda: np.zeros(1, np.float32)
                )
        self._values = flat
        stored = {n: StoredArray(n, x.shape, x.dtype, self) for n, x in flat.items()}
        self.tree = traverse_util.unflatten_dict(stored, sep="/")

    def read(self, requests: Requests) -> dict[str, Any]:
        """See CheckpointSource."""
        out = {}
        for key, (stored, sharding) in requests.items():
            value = self._values[stored.name].get()
            out[key] = value if sharding is None else place(value, sharding)
        return out


def restore_from_t5_checkpoint(
    state_dict: Mapping[str, Any],
    path: str,
    lazy_parameters: bool = False,
    strict: bool = True,
    translator: CheckpointTranslator | None = None,
) -> Mapping[str, Any]:
    """Returns a state dict with the values of a Mesh TensorFlow T5 checkpoint.

    Args:
        state_dict: names and shapes to fill.
        path: prefix `model.ckpt-N`, or a folder.
        lazy_parameters: whether to return LazyArray leaves.
        strict: whether to refuse variables that `state_dict` lacks.
        translator: renaming rules; the T5 rules by default.

    Raises:
        UserError: a variable is missing, superfluous, or has another shape.
    """
    source = TensorFlowSource(path, state_dict, strict, translator)
    found = traverse_util.flatten_dict(source.tree, sep="/")
    out = {}
    for name, leaf in traverse_util.flatten_dict(state_dict, sep="/").items():
        if name not in found or found[name].shape != tuple(np.shape(leaf)):
            shape = found[name].shape if name in found else "nothing"
            raise UserError(
                f"Variable {name} of shape {tuple(np.shape(leaf))} needed, {path} has "
                f"{shape}. Use the model file that it was trained with."
            )
        out[name] = found[name]
    tree = traverse_util.unflatten_dict(out, sep="/")
    return tree if lazy_parameters else jax.tree.map(lambda x: x.get(), tree)
