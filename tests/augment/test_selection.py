"""The tree, its traversal, and `spread`: worked examples, and a reference program."""

import hashlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxaug.augment import selection
from jaxaug.augment.config import WALKS, Spec
from jaxaug.augment.selection import Choice, Item
from jaxaug.core.errors import UserError

PEGASUS_B = Spec(
    levels=("jaccard", "string_similarity"),
    decisions=("max", "min"),
    constraints=("jaccard <= 0.5", "entailment >= 0.58"),
)
LEVELS = ("jaccard", "entailment", "string_similarity")


def item(text, count=1, j=0.0, e=1.0, s=0.5):
    return Item(text, count, dict(zip(LEVELS, (j, e, s), strict=True)))


# The part of Figure 1 of Coca et al. (2023) that their text describes. Under J = 66 the
# node E = 0.77 comes first, because it is the greatest. Under it the leaf S = 77 comes
# first, because it is the least. The other values and the texts are ours.
FIGURE_1 = [
    item("a", 1, j=0.656, e=0.774, s=0.766), item("b", 1, j=0.664, e=0.766, s=0.83),
    item("c", 9, j=0.66, e=0.71, s=0.41), item("d", 9, j=0.66, e=0.68, s=0.35),
    item("e", 1, j=0.74, e=0.52, s=0.61), item("f", 1, j=0.0, e=0.98, s=0.91),
    item("g", 1, j=0.0, e=0.98, s=0.88), item("h", 1, j=0.0, e=0.31, s=0.12),
]  # fmt: skip


def test_figure_1():
    found = selection.build(FIGURE_1, Spec())
    top = list(found.at(1))
    assert [node.value for node in top] == [0.74, 0.66, 0.0]
    middle = top[1]
    assert [node.value for node in middle.children] == [0.77, 0.71, 0.68]
    assert [leaf.value for leaf in middle.children[0].children] == [0.77, 0.83]
    assert next(middle.leaves()).items[0].text == "a"


def test_readings_of_the_syntactic_paraphrase():
    def chosen(**fields):
        return [i.text for i in selection.rank(FIGURE_1, Spec(**fields), 5).selected]

    # The words of the source, with high entailment E and the least similar string.
    assert chosen() == ["g", "e", "a", "f", "b"]
    assert chosen(syntactic="string_similarity") == ["h", "e", "a", "g", "b"]
    assert chosen(syntactic=None) == ["e", "a", "g", "b", "f"]


# Levels of Jaccard distances, entailment, and string similarity, and a J = 0 subtree
# with the syntactic paraphrase. Texts and values are ours. The source is "Name of the
# city where the bus departs".
FIGURE = [
    item("Name of the city the bus departs from", 9, j=0.0, e=0.97, s=0.82),
    item("City name where the bus departs", 4, j=0.0, e=0.98, s=0.74),
    item("The bus departs from a city; its name", 2, j=0.0, e=0.91, s=0.34),
    item("City where the bus leaves", 6, j=0.5, e=0.96, s=0.55),
    item("City that the bus leaves from", 3, j=0.5, e=0.93, s=0.44),
    item("City in which buses begin", 7, j=0.5, e=0.62, s=0.31),
    item("Where the bus sets off", 5, j=0.67, e=0.88, s=0.36),
    item("Where the coach departs from", 8, j=0.71, e=0.86, s=0.41),
    item("Where the bus sets out", 5, j=0.67, e=0.87, s=0.42),
    item("Starting point of the coach", 9, j=1.0, e=0.71, s=0.22),
]


COARSE = Spec(decimals=1, syntactic="string_similarity")


def test_one_decimal_makes_wide_leaves():
    ranking = selection.rank(FIGURE, COARSE, 5)
    assert [one.text for one in ranking.selected] == [
        # The words of the source, and the least similar string.
        "The bus departs from a city; its name",
        # J 0.7, E 0.9, S 0.4: three candidates in one leaf, this one eight times.
        "Where the coach departs from",
        # J 0.5: E 1.0 (0.96 before rounding) before 0.9, though S is smaller there.
        "City where the bus leaves",
        # J 0.0: E 1.0 with S 0.7 before S 0.8, because S should be small.
        "City name where the bus departs",
        # Second round: the leaf of J 0.7 again, without pruned candidates; the seed
        # decides between the two that occur five times.
        "Where the bus sets out",
    ]
    fifth = {
        selection.rank(FIGURE, COARSE, 5, seed).selected[4].text for seed in range(9)
    }
    assert fifth == {"Where the bus sets out", "Where the bus sets off"}
    assert [(i.text, c) for i, c in ranking.dropped] == [
        ("Starting point of the coach", ("jaccard <= 0.75",))
    ]
    assert [(n.metric, n.value) for n in ranking.tree.at(1)] == [
        ("jaccard", 0.7),
        ("jaccard", 0.5),
        ("jaccard", 0.0),
    ]
    middle = list(ranking.tree.at(1))[1]
    assert [(n.value, [c.value for c in n.children]) for n in middle.children] == [
        (1.0, [0.6]),
        (0.9, [0.4]),
        (0.6, [0.3]),
    ]
    leaf = next(ranking.tree.leaves())
    assert [one.count for one in leaf.items] == [8, 5, 5]


def test_constraints_of_pegasus_b():
    ranking = selection.rank(FIGURE, PEGASUS_B, 9)
    assert {one.text: broken for one, broken in ranking.dropped} == {
        "Where the bus sets off": ("jaccard <= 0.5",),
        "Where the coach departs from": ("jaccard <= 0.5",),
        "Where the bus sets out": ("jaccard <= 0.5",),
        "Starting point of the coach": ("jaccard <= 0.5",),
    }
    assert len(ranking.selected) == 6
    # After the candidate of J = 0: the greatest J, then the least S, for any
    # entailment.
    assert ranking.selected[1].text == "City in which buses begin"
    assert selection.broken(item("x", j=0.6, e=0.57), PEGASUS_B) == (
        "jaccard <= 0.5",
        "entailment >= 0.58",
    )
    # At the bound, before rounding.
    assert selection.broken(item("x", j=0.5, e=0.58), PEGASUS_B) == ()
    assert selection.broken(item("x", j=0.7500001), Spec())


def naive(items, spec, k, seed):
    """Algorithms 1 and 3 word by word, on a list that shrinks."""

    def value(one, metric):
        decimals = spec.decimals
        if isinstance(decimals, tuple):
            decimals = decimals[spec.levels.index(metric)]
        return round(one.values[metric], decimals)

    def tie(one):
        return hashlib.blake2b(f"{seed}\n{one.text}".encode(), digest_size=16).digest()

    def walk(pool, levels):
        for level in levels:
            decide = min if spec.decisions[spec.levels.index(level)] == "min" else max
            best = decide(value(one, level) for one in pool)
            pool = [one for one in pool if value(one, level) == best]
        most = max(one.count for one in pool)
        return min((one for one in pool if one.count == most), key=tie)

    limits = [constraint.split(" <= ") for constraint in spec.constraints]
    left = [i for i in items if all(i.values[m] <= float(x) for m, x in limits)]
    chosen = []

    def take(one):
        chosen.append(one)
        left.remove(one)

    above = spec.levels[: spec.levels.index(spec.diversity) + 1]
    below = spec.levels[len(above) :]
    same = [one for one in left if value(one, spec.diversity) == 0]
    if spec.syntactic == "decisions" and same:
        path = walk(same, above)
        top = [tuple(value(one, v) for v in above) for one in same]
        first = tuple(value(path, v) for v in above)
        take(walk([i for i, t in zip(same, top, strict=True) if t == first], below))
    elif spec.syntactic and same:
        least = min(value(one, spec.syntactic) for one in same)
        take(walk([i for i in same if value(i, spec.syntactic) == least], spec.levels))
    paths = {tuple(value(one, level) for level in above) for one in left}
    signs = [
        -1 if spec.decisions[spec.levels.index(level)] == "max" else 1
        for level in above
    ]
    paths = sorted(paths, key=lambda p: [s * v for s, v in zip(signs, p, strict=True)])
    while left and len(chosen) < k:
        for path in paths:
            pool = [i for i in left if tuple(value(i, v) for v in above) == path]
            if pool and len(chosen) < k:
                take(walk(pool, below))
    return [one.text for one in chosen]


VALUES = st.sampled_from([0.0, 0.04, 0.06, 0.31, 0.34, 0.5, 0.66, 0.7, 0.74, 0.8, 1.0])
TABLES = st.lists(
    st.tuples(st.integers(1, 3), VALUES, VALUES, VALUES), max_size=25
).map(
    lambda rows: [
        item(f"candidate {i}", n, j, e, s) for i, (n, j, e, s) in enumerate(rows)
    ]
)
SPECS = st.builds(
    Spec,
    levels=st.permutations(LEVELS).map(tuple),
    decisions=st.tuples(*[st.sampled_from(["max", "min"])] * 3),
    constraints=st.sampled_from([(), ("jaccard <= 0.75",), ("jaccard <= 0.1",)]),
    decimals=st.one_of(st.integers(0, 2), st.tuples(*[st.integers(0, 2)] * 3)),
    diversity=st.sampled_from(LEVELS),
    syntactic=st.sampled_from([None, "decisions", "string_similarity"]),
)


@given(TABLES, SPECS, st.integers(1, 8), st.integers(0, 3))
def test_against_the_naive_program(items, spec, k, seed):
    ranking = selection.rank(items, spec, k, seed)
    assert [one.text for one in ranking.selected] == naive(items, spec, k, seed)


@given(TABLES, SPECS, st.integers(1, 30), st.randoms())
def test_properties(items, spec, k, random):
    ranking = selection.rank(items, spec, k)
    selected = [one.text for one in ranking.selected]
    kept = len(items) - len(ranking.dropped)
    # Each candidate occurs once, and k of them if there are enough.
    assert len(set(selected)) == len(selected) == min(k, kept)
    assert not any(selection.broken(one, spec) for one in ranking.selected)
    held = [one.text for leaf in ranking.tree.leaves() for one in leaf.items]
    assert sorted(held) == sorted(
        one.text for one in items if not selection.broken(one, spec)
    )
    # The result does not depend on the order of the candidates; a larger k extends it.
    shuffled = random.sample(items, len(items))
    assert selection.rank(shuffled, spec, k).selected == ranking.selected
    assert selection.rank(items, spec, k + 1).selected[:k] == ranking.selected


def test_ties_are_broken_by_the_seed_alone():
    twins = [item(text, j=0.5) for text in "abcdef"]
    orders = {
        tuple(one.text for one in selection.rank(twins, Spec(), 6, seed).selected)
        for seed in range(20)
    }
    assert len(orders) > 10
    # A count has precedence over the seed.
    twins[3] = item("d", 2, j=0.5)
    assert {
        selection.rank(twins, Spec(), 1, seed).selected[0].text for seed in range(9)
    } == {"d"}


def test_fewer_candidates_than_k():
    assert selection.rank([], Spec(), 5).selected == ()
    assert selection.rank([item("far", j=0.9)], Spec(), 5).selected == ()
    assert [i.text for i in selection.rank([item("one")], Spec(), 5).selected] == [
        "one"
    ]


def test_decision_functions_of_a_user():
    def nearest_to_half(values):
        return min(values, key=lambda value: abs(value - 0.5))

    spec = Spec(decisions=(nearest_to_half, "max", "min"), syntactic=None)
    items = [item(str(j), j=j) for j in (0.0, 0.2, 0.4, 0.7)]
    order = [one.text for one in selection.rank(items, spec, 4).selected]
    assert order == ["0.4", "0.7", "0.2", "0.0"]
    with pytest.raises(
        UserError, match=r"chose 2.0 out of \[0.0\]: it must return one"
    ):
        selection.build([item("a")], Spec(decisions=(lambda v: 2.0, "max", "min")))


def test_variants_are_sorted_from_the_most_similar():
    near, far = item("near", j=0.2, s=0.9), item("far", j=0.2, s=0.1)
    other = item("other", j=0.7)
    same = item("same", j=0.0)
    chosen = selection.most_similar_first([other, far, same, near], Spec())
    assert [one.text for one in chosen] == ["same", "near", "far", "other"]


def test_spec_names_its_metrics():
    spec = Spec(constraints=("bleurt > 0.2", "jaccard <= 0.75"))
    assert spec.metrics == (*LEVELS, "bleurt")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"levels": ()}, "name one metric or more"),
        ({"levels": ("a", "a")}, "each of them once"),
        ({"decisions": ("max",)}, "1 decisions for 3 levels"),
        (
            {"decisions": ("maks", "max", "min")},
            "'maks' is not a decision; known: max, min",
        ),
        ({"decimals": (1, 2)}, r"decimals \(1, 2\) for 3 levels"),
        ({"diversity": "bleu"}, "diversity metric 'bleu' is not a level"),
        ({"constraints": ("jaccard = 1",)}, "constraint 'jaccard = 1': write a metric"),
        ({"constraints": ("jaccard <= nan",)}, "constraint 'jaccard <= nan'"),
        ({"constraints": ("jaccard <= x",)}, "such as 'jaccard <= 0.75'"),
        ({"constraints": ("jaccard <= 75",)}, "jaccard is from 0 to 1, so all candid"),
        ({"constraints": ("bleurt > 1.2",)}, "bleurt is from -2 to 1.1, so all"),
        ({"constraints": ("similarity > -2",)}, "similarity is from -1 to 1"),
    ],
)
def test_bad_specs(fields, message):
    with pytest.raises(UserError, match=message):
        Spec(**fields)


def test_bad_candidates():
    with pytest.raises(UserError, match="metric 'entailment' of candidate 'x' is nan"):
        selection.rank([item("x", e=math.nan)], Spec(), 5)
    with pytest.raises(UserError, match="candidate 'x' has no metric 'entailment'"):
        selection.rank([Item("x", 1, {"jaccard": 0.0})], Spec(), 5)
    with pytest.raises(UserError, match="k=0 paraphrases: ask for at least 1"):
        selection.rank([], Spec(), 0)


TEXTS = ["town of the inn", "towns of an inn", "where the lodge stands", "hotel city"]


def test_distances_of_words_and_frames() -> None:
    # Inflection and articles do not count.
    assert selection.distance("booked the rooms", "book a room") == 0
    # One of three words is shared; the frames are `of` and `of`.
    assert selection.distance("city of hotel", "city of inn") == pytest.approx(0.5)
    # No word and no part of the frame is shared.
    assert selection.distance("which city", "hotel") == 1


def test_each_choice_differs_from_those_before() -> None:
    choices = [Choice(text, 1.0, 0.8) for text in TEXTS[:3]]
    assert selection.taken(choices, 2) == [0, 2]
    # The second text comes last, because it repeats the first.
    assert selection.taken(choices, 9) == [0, 2, 1]


def test_fidelity_decides_between_equally_distant_texts() -> None:
    choices = [Choice("town of the inn", 0.9, 0.5), Choice("hotel city", 0.9, 0.8)]
    assert selection.taken(choices, 1) == [1]
    # A text with the words of the source is worth less than a different one.
    choices = [Choice("city of a hotel", 0.0, 1.0), Choice("town of an inn", 1.0, 0.6)]
    assert selection.taken(choices, 1) == [1]


def test_a_tree_walks_by_spread() -> None:
    spec = Spec(
        ("jaccard", "similarity"), ("max", "max"), ("similarity >= 0.6",), walk="spread"
    )
    items = [
        Item(text, 1, {"jaccard": 1.0, "similarity": value})
        for text, value in zip(TEXTS, (0.8, 0.8, 0.7, 0.5), strict=True)
    ]
    ranking = selection.rank(items, spec, 5)
    chosen = [item.text for item in ranking.selected]
    assert chosen[1] == "where the lodge stands" and set(chosen) == set(TEXTS[:3])
    assert [item.text for item, _ in ranking.dropped] == ["hotel city"]
    assert selection.rank(list(reversed(items)), spec, 5).selected == ranking.selected


def test_an_unknown_walk_is_refused() -> None:
    with pytest.raises(UserError, match="'spred' is not a walk.*spread"):
        Spec(walk="spred")


@given(
    st.lists(st.sampled_from([*TEXTS, "a", "7", ""]), max_size=7, unique=True),
    st.integers(1, 8),
)
def test_any_texts_are_taken_once(found, k) -> None:
    choices = [Choice(text, 0.5, 0.5) for text in found]
    order = selection.taken(choices, k)
    assert len(order) == len(set(order)) == min(k, len(found))


def test_the_preferred_of_nearly_equal_choices_is_taken() -> None:
    choices = [Choice("town of the inn", 0.93, 0.5), Choice("hotel city", 0.9, 0.5, 2)]
    assert selection.taken(choices, 2) == [1, 0]
    # A difference of more than 0.05 is not nearly equal.
    choices = [Choice("town of the inn", 0.96, 0.5), Choice("hotel city", 0.9, 0.5, 2)]
    assert selection.taken(choices, 1) == [0]


@pytest.mark.parametrize("walk", WALKS)
def test_a_tree_prefers_the_fluent_candidate(walk: str) -> None:
    values = [{"jaccard": 0.9, "fluency": f} for f in (-2.0, 0.5, -1.0)]
    items = [Item(t, 1, v) for t, v in zip(TEXTS[1:], values, strict=True)]
    spec = Spec(
        ("jaccard",), ("max",), ("fluency >= -1.5",), walk=walk, prefer="fluency"
    )
    found = selection.rank(items, spec, 3)
    assert [item.text for item in found.selected] == [TEXTS[2], TEXTS[3]]
    assert found.dropped == ((items[0], ("fluency >= -1.5",)),)
    with pytest.raises(UserError, match="has no metric 'fluency'"):
        selection.rank([Item("a", 1, {"jaccard": 0.9})], spec, 1)
