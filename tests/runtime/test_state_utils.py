"""Assignment maps and set operations on state dictionaries."""

import pytest
from t5x import state_utils
from t5x.errors import UserError

SPEC = {"driver": "zarr", "kvstore": {"driver": "file"}, "metadata": {}, "dtype": "f4"}


def tree(**target):
    return {"target": target, "state": {"step": 1}}


def apply(checkpoint, new, rules, **options):
    found = state_utils.apply_assignment_map(checkpoint, new, rules, **options)
    return state_utils.flatten_state_dict(found)


def test_tensorstore_specs_are_leaves():
    nested = {"a": {"w": SPEC, "b": 1}, "e": {}}
    assert state_utils.flatten_state_dict(nested) == {"a/w": SPEC, "a/b": 1}
    kept = state_utils.flatten_state_dict(nested, keep_empty_nodes=True)
    assert set(kept) == {"a/w", "a/b", "e"}
    assert state_utils.tensorstore_leaf((), SPEC)
    assert not state_utils.tensorstore_leaf((), {"driver": 1, "kvstore": 2})


def test_get_name_tree():
    nested = {"a": {"w": 1, "b": 2}, "c": 3, "e": {}}
    assert state_utils.get_name_tree(nested) == {
        "a": {"w": "a/w", "b": "a/b"},
        "c": "c",
    }
    assert state_utils.get_name_tree(nested, keep_empty_nodes=True)["e"] == "e"


def test_intersect_and_merge():
    ours, other = {"a": {"x": 1, "y": 2}, "b": 3}, {"a": {"x": 10}, "c": SPEC}
    assert state_utils.intersect_state(ours, other) == {"a": {"x": 1}}
    merged = {"a": {"x": 1, "y": 2}, "b": 3, "c": SPEC}
    assert state_utils.merge_state(ours, other) == merged
    merged["a"]["x"] = 10
    assert state_utils.merge_state(ours, other, overwrite=True) == merged
    assert ours == {"a": {"x": 1, "y": 2}, "b": 3}


def test_renames_by_groups_and_copies_the_rest():
    checkpoint = tree(enc={"l0": 1, "l1": 2}, head=3, extra=4)
    new = tree(encoder={"l0": 0, "l1": 0}, head=0, fresh=0)
    found = apply(checkpoint, new, [(r"target/encoder/(.*)", r"target/enc/\1")])
    assert found == {
        "target/encoder/l0": 1,
        "target/encoder/l1": 2,
        "target/head": 3,
        "target/extra": 4,
        "state/step": 1,
    }


def test_first_rule_wins_and_none_removes():
    checkpoint = tree(a=1, b=2)
    found = apply(
        checkpoint, tree(a=0, b=0), [("target/a", None), ("target/[ab]", "target/a")]
    )
    assert found == {"target/b": 1, "state/step": 1}


def test_two_new_names_may_read_one_old_name():
    rules = [("target/(x|y)", "target/a")]
    found = apply(tree(a=5), tree(x=0, y=0), rules)
    assert found == {"target/x": 5, "target/y": 5, "state/step": 1}


def test_names_may_rotate():
    rules = [
        ("target/a", "target/b"),
        ("target/b", "target/c"),
        ("target/c", "target/a"),
    ]
    found = apply(tree(a=1, b=2, c=3), tree(a=0, b=0, c=0), rules)
    assert found == {"target/a": 2, "target/b": 3, "target/c": 1, "state/step": 1}


def test_a_rule_beats_an_entry_of_the_same_name():
    found = apply(tree(a=1, b=2), tree(a=0), [("target/a", "target/b")])
    assert found == {"target/a": 2, "state/step": 1}


def test_patterns_match_whole_names():
    with pytest.raises(UserError, match=r"Unused patterns .* \{'target', '/a'\}"):
        apply(tree(a=1), tree(a=0), [("target", "x"), ("/a", "y")])


def test_unused_rules_may_be_allowed():
    rules = [("target/none", "x")]
    with pytest.raises(UserError, match="must match the whole new name, such as"):
        apply(tree(a=1), tree(a=0), rules)
    found = apply(tree(a=1), tree(a=0), rules, require_all_rules_match=False)
    assert found == {"target/a": 1, "state/step": 1}


def test_missing_old_name_lists_known_names():
    with pytest.raises(
        UserError,
        match=r"Parameter 'target/zz' does not exist in restore checkpoint.*"
        r"for 'target/a' by rule 'target/a'.*\['state/step', 'target/a'\]",
    ):
        apply(tree(a=1), tree(a=0), [("target/a", "target/zz")])


def test_resuming_changes_nothing():
    checkpoint = tree(a=1)
    rules = [("target/none", "x")]
    found = state_utils.apply_assignment_map(
        checkpoint, tree(b=0), rules, is_resuming=True
    )
    assert found is checkpoint
