"""Maps the tensors of a published model to our parameters, in both directions.

A key map is a dict from the path of a flax leaf ("decoder/layers_0/mlp/wi/kernel") to
its `Weight`. The `Weight` names the tensor of the Hugging Face model and holds the pair
of functions that convert between them. Every conversion permutes elements, so a round
trip is bit-exact. A family builds its map from its config:

    def key_map(config: Config) -> dict[str, Weight]:
        return {
            "token_embedder/embedding": identity("wte.weight"),
            "decoder/layers_0/attention/query/kernel": part(
                "h.0.attn.c_attn.weight", 0, 3, conv_heads("", heads, dim), axis=1
            ),
        }

Linear layers of PyTorch store [out, in], Conv1D of GPT-2 stores [in, out], and flax
stores [in, out].
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from flax import traverse_util

from jaxaug.core.errors import UserError
from jaxaug.models.weights.safetensors_io import check_dtype

Shape = tuple[int, ...]
Transform = Callable[[np.ndarray], np.ndarray]

_LISTED = 12


class Weight(NamedTuple):
    """The Hugging Face side of one flax leaf.

    Attributes:
        to_flax: converts the tensor, or this leaf's part of it, to the layout of the
            leaf.
        part: index of this leaf among the `parts` equal parts of the tensor.
        parts: number of parts along `axis`; their leaves share the name.
        axis: axis of the tensor along which it is split.
        aliases: other names for the same tensor (tied weights). The first existing one
            is used if `name` is missing. All existing ones must hold the same values.
        otherwise: name of another tensor that is used if all of these are missing; its
            values need not be the same.
    """

    name: str
    to_flax: Transform
    to_hf: Transform
    part: int = 0
    parts: int = 1
    axis: int = 0
    aliases: tuple[str, ...] = ()
    otherwise: str = ""

    def stored_names(self, stored: Mapping[str, Any]) -> list[str]:
        """Returns the names of the tensor that are stored, in order of preference."""
        names = [name for name in (self.name, *self.aliases) if name in stored]
        return names or [name for name in (self.otherwise,) if name in stored]


KeyMap = Mapping[str, Weight]


def _same(tensor: np.ndarray) -> np.ndarray:
    return tensor


def identity(name: str, *aliases: str) -> Weight:
    """Returns a weight with the same layout on both sides, such as an embedding."""
    return Weight(name, _same, _same, aliases=aliases)


def transposed(name: str, *aliases: str) -> Weight:
    """Returns a weight [out, in] <-> [in, out]."""
    return Weight(name, np.transpose, np.transpose, aliases=aliases)


def heads_in(name: str, heads: int, head_dim: int) -> Weight:
    """Returns a Q, K, or V kernel [heads * head_dim, in] <-> [in, heads, head_dim]."""
    return Weight(
        name,
        lambda w: w.T.reshape(-1, heads, head_dim),
        lambda w: w.reshape(-1, heads * head_dim).T,
    )


def heads_out(name: str, heads: int, head_dim: int) -> Weight:
    """Returns an output kernel [out, heads * head_dim] <-> [heads, head_dim, out]."""
    return Weight(
        name,
        lambda w: w.T.reshape(heads, head_dim, -1),
        lambda w: w.reshape(heads * head_dim, -1).T,
    )


def _reshaped(name: str, ours: Shape, theirs: Shape) -> Weight:
    return Weight(name, lambda w: w.reshape(ours), lambda w: w.reshape(theirs))


def conv_heads_in(name: str, heads: int, head_dim: int) -> Weight:
    """Returns a Conv1D kernel [in, heads * head_dim] <-> [in, heads, head_dim]."""
    return _reshaped(name, (-1, heads, head_dim), (-1, heads * head_dim))


def conv_heads_out(name: str, heads: int, head_dim: int) -> Weight:
    """Returns a Conv1D kernel [heads * head_dim, out] <-> [heads, head_dim, out]."""
    return _reshaped(name, (heads, head_dim, -1), (heads * head_dim, -1))


def bias_heads(name: str, heads: int, head_dim: int) -> Weight:
    """Returns a bias [heads * head_dim] <-> [heads, head_dim]."""
    return _reshaped(name, (heads, head_dim), (heads * head_dim,))


def dense(path: str, name: str) -> dict[str, Weight]:
    """Returns the leaves `kernel` and `bias` of a linear layer of PyTorch."""
    return {
        f"{path}/kernel": transposed(f"{name}.weight"),
        f"{path}/bias": identity(f"{name}.bias"),
    }


def layer_norm(path: str, name: str) -> dict[str, Weight]:
    """Returns the leaves of a norm; early checkpoints call them `gamma` and `beta`."""
    return {
        f"{path}/scale": identity(f"{name}.weight", f"{name}.gamma"),
        f"{path}/bias": identity(f"{name}.bias", f"{name}.beta"),
    }


def attention(
    path: str, parts: Mapping[str, str], out: str, heads: int, head_dim: int
) -> dict[str, Weight]:
    """Returns the leaves of an attention whose linear layers have biases.

    Args:
        parts: name of a projection such as "query" -> name of its layer in PyTorch.
    """
    weights: dict[str, Weight] = {}
    for ours, theirs in parts.items():
        weights[f"{path}/{ours}/kernel"] = heads_in(f"{theirs}.weight", heads, head_dim)
        weights[f"{path}/{ours}/bias"] = bias_heads(f"{theirs}.bias", heads, head_dim)
    weights[f"{path}/out/kernel"] = heads_out(f"{out}.weight", heads, head_dim)
    return weights | {f"{path}/out/bias": identity(f"{out}.bias")}


def bert_layer(
    path: str, name: str, parts: Mapping[str, str], heads: int, head_dim: int
) -> dict[str, Weight]:
    """Returns the leaves of a post-norm block with the names of BERT (`attention`)."""
    out = f"{name}.attention.output"
    parts = {k: f"{name}.attention.self.{theirs}" for k, theirs in parts.items()}
    return {
        **attention(f"{path}/attention", parts, f"{out}.dense", heads, head_dim),
        **layer_norm(f"{path}/attention_norm", f"{out}.LayerNorm"),
        **dense(f"{path}/mlp/wi", f"{name}.intermediate.dense"),
        **dense(f"{path}/mlp/wo", f"{name}.output.dense"),
        **layer_norm(f"{path}/mlp_norm", f"{name}.output.LayerNorm"),
    }


def placed(weight: Weight, prefix: str, bare: bool) -> Weight:
    """Returns a tensor of an encoder as named in a model that may have a head.

    Args:
        bare: whether there is no head; then names with and without prefix are read.
    """
    names = (weight.name, *weight.aliases)
    prefixed = tuple(prefix + name for name in names)
    first, *others = (*names, *prefixed) if bare else prefixed
    return weight._replace(name=first, aliases=tuple(others))


def part(name: str, index: int, count: int, inner: Weight, axis: int = 0) -> Weight:
    """Returns one of `count` equal parts of a fused tensor, such as query in qkv.

    `inner` defines the layout of the part; its name is not used. The key map needs all
    parts.
    """
    return inner._replace(name=name, part=index, parts=count, axis=axis)


def params_from(
    tensors: Mapping[str, np.ndarray],
    key_map: KeyMap,
    ignored: Iterable[str] = (),
    *,
    shapes: Any,
    source: str,
    dtype: np.typing.DTypeLike | None = np.float32,
) -> dict[str, Any]:
    """Returns the parameters of a module from the tensors of a published model.

    Args:
        tensors: tensors by name; a mapping that reads on access saves memory.
        ignored: regular expressions of full names of tensors without parameters.
        shapes: tree of objects with `shape`, such as the collection `params` of
            `jax.eval_shape` of `init`, without its name.
        dtype: dtype of the parameters; None keeps the dtypes of the tensors.

    Raises:
        UserError: keys are missing or unexpected (the message lists them), a shape does
            not fit, tied tensors differ, or numbers are NaN or infinite.
    """
    expected = flat(shapes)
    _check_map(expected, key_map, source)
    _check_names(tensors, key_map, ignored, source)
    stored, found = "", {}
    tensor = np.empty(0)
    # Sorting by tensor reads a fused tensor only once.
    for path in sorted(key_map, key=lambda p: (key_map[p].name, p)):
        weight = key_map[path]
        if stored != weight.name:
            stored, tensor = weight.name, _read(tensors, weight, source)
        found[path] = _leaf(tensor, weight, expected[path].shape, path, source, dtype)
    return traverse_util.unflatten_dict(found, sep="/")


def tensors_from(params: Any, key_map: KeyMap) -> dict[str, np.ndarray]:
    """Returns the tensors of a published model; inverts `params_from`.

    Raises:
        UserError: the paths of `params` do not match the key map.
    """
    leaves = flat(params)
    _check_map(leaves, key_map, "parameters")
    parts: dict[str, list[tuple[int, np.ndarray]]] = {}
    for path, weight in key_map.items():
        tensor = weight.to_hf(np.asarray(leaves[path]))
        parts.setdefault(weight.name, []).append((weight.part, tensor))
    axes = {weight.name: weight.axis for weight in key_map.values()}
    found = {}
    for name, pieces in sorted(parts.items()):
        ordered = [p for _, p in sorted(pieces, key=lambda piece: piece[0])]
        tensor = (
            ordered[0] if len(ordered) == 1 else np.concatenate(ordered, axes[name])
        )
        found[name] = np.ascontiguousarray(tensor)
    return found


def listing(names: Iterable[str]) -> str:
    """Returns names for a message: the first dozen, and the number of the others."""
    names = sorted(names)
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def check_finite(array: np.ndarray, name: str, source: str) -> None:
    """Raises `UserError` unless an array has a supported dtype and finite numbers."""
    check_dtype(array, name, source)
    if wrong := array.size - np.count_nonzero(np.isfinite(array)):
        raise UserError(
            f"{source}: {name} has {wrong:,} of {array.size:,} numbers that are NaN or "
            "infinite. Get the file again; if that does not help, take another "
            "checkpoint: the training diverged."
        )


def _plain(tree: Any) -> Any:
    if isinstance(tree, Mapping):
        return {key: _plain(value) for key, value in tree.items()}
    return tree


def _check_map(expected: Mapping[str, Any], key_map: KeyMap, source: str) -> None:
    absent, surplus = set(expected) - set(key_map), set(key_map) - set(expected)
    if absent or surplus:
        raise UserError(
            f"{source}: the model and the key map of its family differ: "
            + "; ".join(
                f"{what}: {listing(paths)}"
                for what, paths in (
                    ("parameters without a key", absent),
                    ("keys without a parameter", surplus),
                )
                if paths
            )
            + ". Take the configuration that belongs to the weights."
        )


def _check_names(
    tensors: Mapping[str, Any], key_map: KeyMap, ignored: Iterable[str], source: str
) -> None:
    known = {
        name for weight in key_map.values() for name in (weight.name, *weight.aliases)
    }
    missing = {w.name for w in key_map.values() if not w.stored_names(tensors)}
    patterns = [re.compile(pattern) for pattern in ignored]
    left_over = {
        name
        for name in set(tensors) - known
        if not any(pattern.fullmatch(name) for pattern in patterns)
    }
    if missing or left_over:
        raise UserError(
            f"{source}: the weights do not fit the configuration: "
            + "; ".join(
                f"{len(names)} {what}: {listing(names)}"
                for what, names in (("missing", missing), ("left over", left_over))
                if names
            )
            + ". Use the config.json that was published with these weights, or the "
            "complete file."
        )


def _read(tensors: Mapping[str, np.ndarray], weight: Weight, source: str) -> np.ndarray:
    first, *others = weight.stored_names(tensors)
    tensor = tensors[first]
    check_finite(tensor, first, source)
    for other in others:
        again = tensors[other]
        if again.shape != tensor.shape or again.tobytes() != tensor.tobytes():
            raise UserError(
                f"{source}: {first} and {other} differ, but the configuration ties "
                "them. Set tie_word_embeddings in config.json to match the weights."
            )
    return tensor


def _leaf(
    tensor: np.ndarray,
    weight: Weight,
    shape: tuple[int, ...],
    path: str,
    source: str,
    dtype: np.typing.DTypeLike | None,
) -> np.ndarray:
    try:
        piece = tensor
        if weight.parts > 1:
            piece = np.split(tensor, weight.parts, weight.axis)[weight.part]
        leaf = weight.to_flax(piece)
        # A conversion can turn a wrong shape into the right one, so both sides are
        # checked.
        fits = leaf.shape == tuple(shape) and weight.to_hf(leaf).shape == piece.shape
    except (IndexError, ValueError):
        fits = False
    if not fits:
        raise UserError(
            f"{source}: {weight.name} has shape {list(tensor.shape)}, which does not "
            f"give the shape {list(shape)} of {path}. The file belongs to another "
            "configuration: use the config.json that was published with it."
        )
    return np.ascontiguousarray(leaf, dtype=dtype)


def flat(tree: Any) -> dict[str, Any]:
    """Returns nested parameters by path, such as `decoder/norm/scale`."""
    return traverse_util.flatten_dict(_plain(tree), sep="/")


def shape_difference(
    found: Any, expected: Any
) -> tuple[str, Shape | None, Shape | None] | None:
    """Returns the first path at which parameters differ, and both shapes or None."""
    have, want = (
        {path: tuple(leaf.shape) for path, leaf in flat(tree).items()}
        for tree in (found, expected)
    )
    for path in sorted(have.keys() | want.keys()):
        if have.get(path) != want.get(path):
            return path, have.get(path), want.get(path)
    return None
