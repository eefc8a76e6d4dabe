"""Which tensor of a published model is which parameter of ours, in both directions.

A key map is a dict from the path of a flax leaf ("decoder/layers_0/mlp/wi/kernel") to
the `Weight` that names the tensor of the Hugging Face model and the pair of functions
that turn one into the other. Every transform is a permutation of elements, so that a
round trip is bit-exact. A family builds its map from its config:

    def key_map(config: Config) -> dict[str, Weight]:
        return {
            "token_embedder/embedding": identity("wte.weight"),
            "decoder/layers_0/attention/query/kernel": part(
                "h.0.attn.c_attn.weight", 0, 3, conv_heads("", heads, dim), axis=1
            ),
        }

Linear layers of PyTorch store [out, in], GPT-2's Conv1D [in, out], flax [in, out].
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from flax import traverse_util

from jaxaug.core.errors import UserError

Shape = tuple[int, ...]
Transform = Callable[[np.ndarray], np.ndarray]

_LISTED = 12


class Weight(NamedTuple):
    """The Hugging Face side of one flax leaf.

    Attributes:
        name: of the tensor.
        to_flax: the tensor, or this leaf's part of it, in the layout of the flax leaf.
        to_hf: the inverse.
        part: which of the `parts` equal parts of the tensor the leaf is.
        parts: of the tensor along `axis`; their leaves share the name.
        axis: of the tensor, along which it is cut.
        aliases: other names under which the same tensor may be stored (tied weights);
            the first that is there serves where `name` is missing, all that are there
            must hold the same values.
        otherwise: name of another tensor that serves where none of these is there, with
            no promise that it is the same where both are.
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
        """Those names of the tensor that are among the stored ones, the best first."""
        names = [name for name in (self.name, *self.aliases) if name in stored]
        return names or [name for name in (self.otherwise,) if name in stored]


KeyMap = Mapping[str, Weight]


def _same(tensor: np.ndarray) -> np.ndarray:
    return tensor


def identity(name: str, *aliases: str) -> Weight:
    """Same layout on both sides: embeddings, norms, flat biases, Conv1D kernels."""
    return Weight(name, _same, _same, aliases=aliases)


def transposed(name: str, *aliases: str) -> Weight:
    """[out, in] <-> [in, out]."""
    return Weight(name, np.transpose, np.transpose, aliases=aliases)


def heads_in(name: str, heads: int, head_dim: int) -> Weight:
    """[heads * head_dim, in] <-> [in, heads, head_dim]: query, key, value kernels."""
    return Weight(
        name,
        lambda w: w.T.reshape(-1, heads, head_dim),
        lambda w: w.reshape(-1, heads * head_dim).T,
    )


def heads_out(name: str, heads: int, head_dim: int) -> Weight:
    """[out, heads * head_dim] <-> [heads, head_dim, out]: output kernel."""
    return Weight(
        name,
        lambda w: w.T.reshape(heads, head_dim, -1),
        lambda w: w.reshape(heads * head_dim, -1).T,
    )


def _reshaped(name: str, ours: Shape, theirs: Shape) -> Weight:
    return Weight(name, lambda w: w.reshape(ours), lambda w: w.reshape(theirs))


def conv_heads_in(name: str, heads: int, head_dim: int) -> Weight:
    """[in, heads * head_dim] <-> [in, heads, head_dim], for Conv1D."""
    return _reshaped(name, (-1, heads, head_dim), (-1, heads * head_dim))


def conv_heads_out(name: str, heads: int, head_dim: int) -> Weight:
    """[heads * head_dim, out] <-> [heads, head_dim, out], for Conv1D."""
    return _reshaped(name, (heads, head_dim, -1), (heads * head_dim, -1))


def bias_heads(name: str, heads: int, head_dim: int) -> Weight:
    """[heads * head_dim] <-> [heads, head_dim]."""
    return _reshaped(name, (heads, head_dim), (heads * head_dim,))


def dense(path: str, name: str) -> dict[str, Weight]:
    """The leaves `kernel` and `bias` of a linear layer of PyTorch."""
    return {
        f"{path}/kernel": transposed(f"{name}.weight"),
        f"{path}/bias": identity(f"{name}.bias"),
    }


def layer_norm(path: str, name: str) -> dict[str, Weight]:
    """The leaves of a norm; its tensors are `gamma` and `beta` in early checkpoints."""
    return {
        f"{path}/scale": identity(f"{name}.weight", f"{name}.gamma"),
        f"{path}/bias": identity(f"{name}.bias", f"{name}.beta"),
    }


def attention(
    path: str, parts: Mapping[str, str], out: str, heads: int, head_dim: int
) -> dict[str, Weight]:
    """The leaves of an attention whose linear layers have biases.

    Args:
        path: of the module.
        parts: name of a projection such as "query" -> name of its layer in PyTorch.
        out: name of the output layer in PyTorch.
        heads: number of heads.
        head_dim: size of a head.
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
    """The leaves of a post-norm block under the names of BERT; see `attention`."""
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
    """A tensor of an encoder in a model that may have a head around the encoder.

    Args:
        weight: named as in the encoder alone.
        prefix: of its name in a model with a head.
        bare: whether there is no head; then names with and without prefix are read.
    """
    names = (weight.name, *weight.aliases)
    prefixed = tuple(prefix + name for name in names)
    first, *others = (*names, *prefixed) if bare else prefixed
    return weight._replace(name=first, aliases=tuple(others))


def part(name: str, index: int, count: int, inner: Weight, axis: int = 0) -> Weight:
    """One of `count` equal parts of a fused tensor, such as query in a fused qkv.

    `inner` says how the part alone is laid out; its name is not used. The key map needs
    all parts.
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
    """The parameters of a module from the tensors of a published model.

    Args:
        tensors: by name; a mapping that reads on access keeps memory low.
        key_map: of the family.
        ignored: regular expressions of names (matched whole) that carry no parameter.
        shapes: tree of anything with `shape`, as `jax.eval_shape` of `init` gives it
            (the collection `params`, without its name).
        source: file or folder, for messages.
        dtype: of the parameters; None keeps that of the tensors.

    Raises:
        UserError: a key is missing or left over (all are listed), a shape does not fit,
            tied tensors differ, or numbers are NaN or infinite.
    """
    expected = flat(shapes)
    _check_map(expected, key_map, source)
    _check_names(tensors, key_map, ignored, source)
    stored, found = "", {}
    tensor = np.empty(0)
    # Sorted by tensor, so that a fused one is read once.
    for path in sorted(key_map, key=lambda p: (key_map[p].name, p)):
        weight = key_map[path]
        if stored != weight.name:
            stored, tensor = weight.name, _read(tensors, weight, source)
        found[path] = _leaf(tensor, weight, expected[path].shape, path, source, dtype)
    return traverse_util.unflatten_dict(found, sep="/")


def tensors_from(params: Any, key_map: KeyMap) -> dict[str, np.ndarray]:
    """The tensors of a published model from the parameters of a module; the inverse.

    Args:
        params: nested dict of arrays.
        key_map: of the family.

    Raises:
        UserError: the paths of `params` are not those of the map.
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
    """Names in a message: the first dozen, and how many more there are."""
    names = sorted(names)
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def check_finite(array: np.ndarray, name: str, source: str) -> None:
    """Checks that an array of a model has numbers only.

    Args:
        array: of any type.
        name: of the array, for messages.
        source: file or folder that it is from, for messages.

    Raises:
        UserError: some are NaN or infinite.
    """
    # Integers, and types that are nothing but names of bytes, have neither.
    if array.dtype.kind not in "fV":
        return
    if wrong := array.size - np.count_nonzero(np.isfinite(array)):
        raise UserError(
            f"{source}: {name} has {wrong:,} of {array.size:,} numbers that are NaN or "
            "infinite. Get the file again; if it stays so, take another checkpoint: "
            "the training diverged."
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
            "whole file."
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
                "them. Set tie_word_embeddings in config.json to what the weights are."
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
        # A transform can turn a wrong shape into the right one: look at both sides.
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
    """Nested parameters by path, such as `decoder/norm/scale`."""
    return traverse_util.flatten_dict(_plain(tree), sep="/")


def shape_difference(
    found: Any, expected: Any
) -> tuple[str, Shape | None, Shape | None] | None:
    """The first path at which two nested parameters differ, with both shapes.

    A shape is None where there is no such parameter; the result is None where all agree.
    """
    have, want = (
        {path: tuple(leaf.shape) for path, leaf in flat(tree).items()}
        for tree in (found, expected)
    )
    for path in sorted(have.keys() | want.keys()):
        if have.get(path) != want.get(path):
            return path, have.get(path), want.get(path)
    return None
