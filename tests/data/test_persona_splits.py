"""Splits without shared personas: groups, shares, and seeds."""

import itertools

import pytest

from jaxaug.core.errors import UserError
from jaxaug.data import personachat


def personas(count, traits=3):
    """`traits` dialogues for each of `count` personas."""
    return {
        f"{number:03}": (f"i am {number % count}.", f"only {number}.")
        for number in range(count * traits)
    }


def test_dialogues_that_are_linked_however_indirectly_stay_together():
    chain = {"a": ["1", "2"], "b": ["3"], "c": ["3", "2"], "d": [], "e": ["4"]}
    for seed in range(20):
        split = personachat.by_persona(chain, seed)
        assert split.groups == 3
        assert any({"a", "b", "c"} <= set(ids) for ids in split.members.values())
        assert all(split.members.values())
        assert sorted(itertools.chain(*split.members.values())) == [*"abcde"]


def test_splits_share_no_trait_and_have_their_shares():
    given = personas(50)
    split = personachat.by_persona(given, seed=3)
    traits = {
        name: {trait for one in ids for trait in given[one]}
        for name, ids in split.members.items()
    }
    for one, other in itertools.combinations(traits.values(), 2):
        assert not one & other
    assert {name: len(ids) for name, ids in split.members.items()} == {
        "train": 120,
        "validation": 15,
        "test": 15,
    }
    assert [*split.members["train"]] == sorted(split.members["train"])


def test_seed_and_digest():
    given = personas(20)
    first = personachat.by_persona(given, 0)
    # The result must not depend on the order of dialogues.
    assert first == personachat.by_persona(dict(given), 0)
    assert first.digest == personachat.by_persona(given, 0).digest
    others = {personachat.by_persona(given, seed).digest for seed in range(5)}
    assert len(others) == 5
    even = personachat.by_persona(given, 0, {"train": 1, "test": 1})
    assert [len(ids) for ids in even.members.values()] == [30, 30]


def test_too_few_personas():
    one = {name: ["i am one."] for name in "abcd"}
    with pytest.raises(
        UserError, match="4 dialogues have 1 personas that share no tra"
    ):
        personachat.by_persona(one)


def test_real_dialogues(real_data):
    folder = real_data / "text" / "personachat"
    split = personachat.split_by_persona(folder, seed=0)
    assert split.groups == 95
    sizes = {name: len(ids) for name, ids in split.members.items()}
    assert sum(sizes.values()) == 1000
    assert sizes["train"] == pytest.approx(800, abs=30)
    assert min(sizes.values()) > 80
    path = personachat.find_file(folder, "valid", "self", "original")
    persona_of = {
        one.dialogue_id: set(one.persona)
        for one in personachat.read_file(path, "valid")
    }
    train, test = (
        set().union(*(persona_of[one] for one in split.members[name]))
        for name in ("train", "test")
    )
    assert not train & test
    assert len(train | test) > 500
