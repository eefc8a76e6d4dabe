"""The greedy choice of candidates that differ."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxaug.augment import tree
from jaxaug.augment.tree import Choice, Item, Spec
from jaxaug.core.errors import UserError

TEXTS = ["town of the inn", "towns of an inn", "where the lodge stands", "hotel city"]


def test_distances_of_words_and_frames() -> None:
    # Inflection and articles do not count.
    assert tree.distance("booked the rooms", "book a room") == 0
    # One of three words is shared; the frames are `of` and `of`.
    assert tree.distance("city of hotel", "city of inn") == pytest.approx(0.5)
    # No word and no part of the frame is shared.
    assert tree.distance("which city", "hotel") == 1


def test_each_choice_differs_from_those_before() -> None:
    choices = [Choice(text, 1.0, 0.8) for text in TEXTS[:3]]
    assert tree.taken(choices, 2) == [0, 2]
    # The second text comes last, because it repeats the first.
    assert tree.taken(choices, 9) == [0, 2, 1]


def test_fidelity_decides_between_equally_distant_texts() -> None:
    choices = [Choice("town of the inn", 0.9, 0.5), Choice("hotel city", 0.9, 0.8)]
    assert tree.taken(choices, 1) == [1]
    # A text with the words of the source is worth less than a different one.
    choices = [Choice("city of a hotel", 0.0, 1.0), Choice("town of an inn", 1.0, 0.6)]
    assert tree.taken(choices, 1) == [1]


def test_a_tree_walks_by_spread() -> None:
    spec = Spec(
        ("jaccard", "similarity"), ("max", "max"), ("similarity >= 0.6",), walk="spread"
    )
    items = [
        Item(text, 1, {"jaccard": 1.0, "similarity": value})
        for text, value in zip(TEXTS, (0.8, 0.8, 0.7, 0.5), strict=True)
    ]
    ranking = tree.rank(items, spec, 5)
    chosen = [item.text for item in ranking.selected]
    assert chosen[1] == "where the lodge stands" and set(chosen) == set(TEXTS[:3])
    assert [item.text for item, _ in ranking.dropped] == ["hotel city"]
    assert tree.rank(list(reversed(items)), spec, 5).selected == ranking.selected


def test_an_unknown_walk_is_refused() -> None:
    with pytest.raises(UserError, match="'spred' is not a walk.*spread"):
        Spec(walk="spred")


@given(
    st.lists(st.sampled_from([*TEXTS, "a", "7", ""]), max_size=7, unique=True),
    st.integers(1, 8),
)
def test_any_texts_are_taken_once(found, k) -> None:
    choices = [Choice(text, 0.5, 0.5) for text in found]
    order = tree.taken(choices, k)
    assert len(order) == len(set(order)) == min(k, len(found))


def test_the_preferred_of_nearly_equal_choices_is_taken() -> None:
    choices = [Choice("town of the inn", 0.93, 0.5), Choice("hotel city", 0.9, 0.5, 2)]
    assert tree.taken(choices, 2) == [1, 0]
    # A difference of more than 0.05 is not nearly equal.
    choices = [Choice("town of the inn", 0.96, 0.5), Choice("hotel city", 0.9, 0.5, 2)]
    assert tree.taken(choices, 1) == [0]


@pytest.mark.parametrize("walk", tree.WALKS)
def test_a_tree_prefers_the_fluent_candidate(walk: str) -> None:
    values = [{"jaccard": 0.9, "fluency": f} for f in (-2.0, 0.5, -1.0)]
    items = [Item(t, 1, v) for t, v in zip(TEXTS[1:], values, strict=True)]
    spec = Spec(
        ("jaccard",), ("max",), ("fluency >= -1.5",), walk=walk, prefer="fluency"
    )
    found = tree.rank(items, spec, 3)
    assert [item.text for item in found.selected] == [TEXTS[2], TEXTS[3]]
    assert found.dropped == ((items[0], ("fluency >= -1.5",)),)
    with pytest.raises(UserError, match="has no metric 'fluency'"):
        tree.rank([Item("a", 1, {"jaccard": 0.9})], spec, 1)
