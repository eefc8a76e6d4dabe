"""Operations on trees by name, such as the state dictionaries of checkpoints."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import flax.core
from absl import logging
from flax import traverse_util

from t5x.errors import UserError

_SPEC_KEYS = frozenset({"driver", "kvstore", "metadata"})


def tensorstore_leaf(_: Any, value: Mapping) -> bool:
    """Returns whether a node is a TensorStore spec, which represents an array."""
    return set(value) >= _SPEC_KEYS


def flatten_state_dict(
    state_dict: Mapping[str, Any], keep_empty_nodes: bool = False
) -> dict[str, Any]:
    """Returns the leaves (arrays and TensorStore specs) by '/'-joined name."""
    return traverse_util.flatten_dict(
        state_dict, is_leaf=tensorstore_leaf, keep_empty_nodes=keep_empty_nodes, sep="/"
    )


def flatten(tree: Any) -> dict[str, Any]:
    """Returns the leaves of a nested dictionary by '/'-joined path."""
    return traverse_util.flatten_dict(flax.core.unfreeze(tree), sep="/")


def unflatten(flat: Mapping[str, Any], like: Any = None) -> dict[str, Any]:
    """Inverts `flatten`; returns a FrozenDict if `like` is one."""
    return as_container(traverse_util.unflatten_dict(dict(flat), sep="/"), like)


def as_container(tree: Any, like: Any) -> Any:
    """Freezes or unfreezes `tree` like `like`, so that both are the same pytree."""
    if isinstance(like, flax.core.FrozenDict):
        return flax.core.freeze(tree)
    return flax.core.unfreeze(tree)


def get_name_tree(
    state_dict: Mapping[str, Any], keep_empty_nodes: bool = False
) -> dict[str, Any]:
    """Returns a tree like `state_dict` whose leaves are their own '/'-joined names."""
    flat = traverse_util.flatten_dict(state_dict, keep_empty_nodes=keep_empty_nodes)
    return traverse_util.unflatten_dict({path: "/".join(path) for path in flat})


def intersect_state(
    state_dict: Mapping[str, Any], intersect_state_dict: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the entries of `state_dict` that `intersect_state_dict` has too."""
    wanted = flatten_state_dict(intersect_state_dict)
    kept = {}
    for name, value in flatten_state_dict(state_dict).items():
        if name in wanted:
            kept[name] = value
        else:
            logging.warning("Not restoring %s: it is not in the checkpoint", name)
    return unflatten(kept)


def merge_state(
    state_dict: Mapping[str, Any],
    from_scratch_state: Mapping[str, Any],
    overwrite: bool = False,
) -> dict[str, Any]:
    """Adds the entries that only `from_scratch_state` has.

    With `overwrite`, common entries are taken from `from_scratch_state` as well.
    """
    merged = flatten_state_dict(state_dict)
    for name, value in flatten_state_dict(from_scratch_state).items():
        if overwrite or name not in merged:
            logging.warning("Initializing %s from scratch", name)
            merged[name] = value
    return unflatten(merged)


def _find_rule(
    name: str, assignment_map: Sequence[tuple[str, str | None]]
) -> tuple[str, str | None] | None:
    """Returns the pattern of the first matching rule, and the old name or None."""
    for pattern, replacement in assignment_map:
        match = re.fullmatch(pattern, name)
        if match:
            old = None if replacement is None else match.expand(replacement)
            return pattern, old
    return None


def apply_assignment_map(
    ckpt_optimizer_state: Mapping[str, Any],
    optimizer_state: Mapping[str, Any],
    assignment_map: Sequence[tuple[str, str | None]],
    require_all_rules_match: bool = True,
    *,
    is_resuming: bool = False,
) -> Mapping[str, Any]:
    """Renames the entries of a checkpoint to the names of the current model.

    Each rule is a (pattern, replacement) pair. The pattern matches a whole '/'-joined
    *new* name (`target/...`, `state/param_states/...`). The replacement expands to the
    old name, or is None to leave the entry out. The first matching rule wins. Entries
    that were read under a new name lose the old one. Two new names may read the same
    old one. All other entries keep their names.

    Args:
        require_all_rules_match: whether a rule without any match is an error.
        is_resuming: True returns the checkpoint unchanged, because a continued run is
            already renamed.

    Raises:
        UserError: an old name is not in the checkpoint, or a rule matches nothing.
    """
    if is_resuming:
        return ckpt_optimizer_state
    checkpoint = flatten_state_dict(ckpt_optimizer_state)
    renamed: dict[str, Any] = {}
    dropped: set[str] = set()
    read: set[str] = set()
    used: set[str] = set()
    for name in flatten_state_dict(optimizer_state):
        rule = _find_rule(name, assignment_map)
        if rule is None:
            if name not in checkpoint:
                logging.warning("Neither a rule nor the checkpoint has %s", name)
            continue
        pattern, old = rule
        used.add(pattern)
        if old is None:
            logging.info("Dropping %s (rule %s)", name, pattern)
            dropped.add(name)
            continue
        if old not in checkpoint:
            raise UserError(
                f"Parameter '{old}' does not exist in restore checkpoint. It is wanted "
                f"for '{name}' by rule '{pattern}'. "
                f"Must be one of: {sorted(checkpoint)}"
            )
        logging.info("Reading %s from %s (rule %s)", name, old, pattern)
        read.add(old)
        renamed[name] = checkpoint[old]

    unused = [pattern for pattern, _ in assignment_map if pattern not in used]
    if require_all_rules_match and unused:
        names = ", ".join(f"'{pattern}'" for pattern in unused)
        raise UserError(
            f"Unused patterns in `assignment_map`: {{{names}}}. A pattern must match "
            "the whole new name, such as 'target/decoder/.*'."
        )
    # A name that is read under another one and also wanted itself stays, so that rules
    # may swap names.
    wanted = set(flatten_state_dict(optimizer_state))
    for name, value in checkpoint.items():
        keeps_name = name in wanted or name not in read
        if keeps_name and name not in dropped and name not in renamed:
            renamed[name] = value
    return unflatten(renamed)
