"""Rows of a table: their texts, their order, and the pools of triplets."""

import dataclasses

import numpy as np
import pytest

from jaxaug.core.errors import UserError
from jaxaug.curriculum import levels
from jaxaug.curriculum.levels import Levelled
from jaxaug_papers.pcc.fewshot import methods
from jaxaug_papers.pcc.fewshot.methods import Method
from jaxaug_papers.pcc.fewshot.triplet import Settings
from jaxaug_papers.shared.labelled import Sentence

DRAWN = [
    Sentence("a ", "1"), Sentence("b", "1"), Sentence("c", "2"), Sentence("d", "2"),
]  # fmt: skip
RELEASED = """a  $ a1 $ 1 $ 0.9
a  $ a2 $ 0 $ 0.7
a  $ a3 $ 1 $ -0.2
b $ b1 $ 1 $ 0.4
c $ c1 $ 0 $ 0.6
d $ d1 $ 1 $ 0.6
"""


def released(**fields):
    return Method("PCC", "released", path="r_s{seed}*.txt", **fields)


@pytest.fixture
def data_dir(tmp_path):
    (tmp_path / "r_s3_b.txt").write_text(RELEASED)
    levels.write(tmp_path / "l.jsonl", [Levelled(s.text, ((), ())) for s in DRAWN])
    return tmp_path


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"source": "sentences"}, "source='sentences'; did you mean 'sentence'"),
        ({"schedule": "cycle"}, "method 'm': schedule='cycle'; did you mean 'cyclic'"),
        ({"keep": "some"}, "keep='some'"),
        ({"source": "released"}, "source 'released' needs path"),
        ({"path": "f"}, "source 'originals' has no use for path"),
        ({"source": "sentence"}, "source 'sentence' needs levels"),
        ({"places": (0, 4)}, "source 'originals' has no use for places"),
        (
            {"source": "released", "path": "f", "places": (4, 4)},
            r"places=\(4, 4\): give the first one and the one behind the last",
        ),
        ({"num": 2}, "source 'originals' has no use for num"),
        ({"source": "released", "path": "f", "num": 0}, "num=0: give 1 or more"),
        ({"schedule": "gradual"}, "the originals have no levels. Use the schedule"),
    ],
)
def test_fields_that_do_not_fit_are_named(fields, message):
    with pytest.raises(UserError, match=message):
        Method("m", **fields)


def test_a_schedule_without_cycles():
    with pytest.raises(UserError, match="schedule 'gradual' has no cycles"):
        released(schedule="gradual", cycles=2).schedule_of(5)


def test_augmentation_without_a_curriculum():
    assert Method("m").schedule_of(0).weights == ((1.0,),)
    found = released(steps_per_level=10).schedule_of(4)
    assert found.steps == 60 and found.weights == ((0.2, 0.2, 0.2, 0.2, 0.2),)
    assert released(steps_per_level=10, cycles=2).schedule_of(4).steps == 120


def test_settings_of_a_method():
    common = Settings(learning_rate=1.0)
    assert Method("m").settings(common) is common
    found = Method("m", candidates=4).settings(common)
    assert found == Settings(learning_rate=1.0, candidates=4)


@pytest.mark.parametrize("name", methods.SCHEDULES)
def test_every_schedule_is_one_of_the_levels(name):
    found = released(schedule=name, steps_per_level=12).schedule_of(5)
    assert found.levels == 5 and found.steps % 72 == 0


def test_originals(data_dir):
    found = methods.levelled(Method("none"), DRAWN, 3, data_dir)
    assert found == [Levelled(s.text, ((s.text,),)) for s in DRAWN]


@pytest.mark.parametrize(
    "keep, expected",
    [("all", {"a1", "a2", "a3"}), ("implied", {"a1", "a3"}), ("similar", {"a1", "a2"})],
)
def test_released_paraphrases(data_dir, keep, expected):
    found = methods.levelled(released(keep=keep), DRAWN, 3, data_dir)
    assert [item.text for item in found] == ["a ", "b", "c", "d"]
    assert {text for level in found[0].levels[1:] for text in level} == expected


@pytest.mark.parametrize(
    "places, expected",
    [((0, 2), {"a1", "a2"}), ((2, 3), {"a3"}), ((1, 9), {"a2", "a3"})],
)
def test_released_paraphrases_by_their_place_in_the_file(data_dir, places, expected):
    found = methods.levelled(released(places=places), DRAWN, 3, data_dir)
    assert {text for level in found[0].levels[1:] for text in level} == expected


def test_some_of_the_released_paraphrases_are_drawn(data_dir):
    def drawn(**fields):
        found = methods.levelled(released(**fields), DRAWN, 3, data_dir)
        return [text for level in found[0].levels[1:] for text in level]

    assert set(drawn(num=9)) == {"a1", "a2", "a3"}
    two = drawn(num=2)
    assert len(set(two)) == 2 and set(two) < {"a1", "a2", "a3"}
    assert drawn(num=2) == two
    assert drawn(num=1, places=(2, 3)) == ["a3"]


def test_a_sentence_without_paraphrases_is_named(data_dir):
    with pytest.raises(UserError, match="no paraphrases of 'e', which seed 3 draws"):
        methods.levelled(released(), [Sentence("e", "1")], 3, data_dir)


def test_a_missing_file_is_named(data_dir):
    with pytest.raises(UserError, match=r"'PCC': 0 files .*r_s4\*\.txt, expected one"):
        methods.levelled(released(), DRAWN, 4, data_dir)


@pytest.mark.parametrize("path", ["r_{name}.txt", "r_{.txt", "r_{}.txt"])
def test_other_braces_in_a_path(data_dir, path):
    with pytest.raises(UserError, match=r"'PCC': path is .* may hold \{seed\} alone"):
        methods.levelled(dataclasses.replace(released(), path=path), DRAWN, 4, data_dir)


def test_a_file_of_levels(data_dir):
    found = methods.levelled(Method("m", "levels", path="l.jsonl"), DRAWN, 0, data_dir)
    assert [item.text for item in found] == ["a ", "b", "c", "d"]


def test_words_by_level(data_dir):
    strong = {"method": "pervasive_dropout", "num": 3, "rate": 0.5}
    method = Method("m", "sentence", levels=(strong | {"rate": 0.0}, strong))
    text = "one two three four five six seven eight"
    [found] = methods.levelled(method, [Sentence(text, "1")], 0, data_dir)
    assert found.levels[:2] == ((text,), (text,) * 3)
    assert len(found.levels[2]) == 3 and text not in found.levels[2]
    [again] = methods.levelled(method, [Sentence(text, "1")], 0, data_dir)
    [other] = methods.levelled(method, [Sentence(text, "1")], 1, data_dir)
    assert again == found != other


def test_switch_out_draws_from_the_words_of_the_few_shot_sentences(data_dir):
    every = {"method": "switch_out", "num": 9, "rate": 1.0}
    method = Method("m", "sentence", levels=(every,))
    drawn = [Sentence("p q, r", "1"), Sentence("(s) t", "1")]
    first, _ = methods.levelled(method, drawn, 0, data_dir)
    words = {word.strip(",") for text in first.levels[1] for word in text.split()}
    assert words <= {"p", "q", "r", "s", "t"} and {"s", "t"} & words


def test_empty_pools_take_the_next_easier_level():
    found = [
        Levelled("a ", (("a ",), ("a1", "a2"), ())),
        Levelled("b", (("b",), (), ("b2",))),
        Levelled("c", (("c",), (), ())),
        Levelled("d", (("d",), ("d1",), ("d2",))),
    ]
    texts = ["a ", "b", "c", "d", "a1", "a2", "b2", "d1", "d2"]
    rows = {text: row for row, text in enumerate(texts)}
    pools = methods.pools([DRAWN], [found], rows)
    assert pools.counts.tolist() == [[[2, 3, 3], [2, 2, 2]]]
    named = [
        [[texts[i] for i in level[:n]] for level, n in zip(label, counts, strict=True)]
        for label, counts in zip(
            pools.items[0], np.asarray(pools.counts[0]), strict=True
        )
    ]
    assert named == [
        [["a ", "b"], ["a1", "a2", "b"], ["a1", "a2", "b2"]],
        [["c", "d"], ["c", "d1"], ["c", "d2"]],
    ]


@pytest.mark.parametrize(
    "drawn, message",
    [
        (DRAWN[:3], "label '2' has one sentence; a triplet needs two of a label"),
        (DRAWN[:2], "there is one label; a triplet needs two"),
    ],
)
def test_data_without_triplets(drawn, message):
    found = [Levelled(s.text, ((s.text,),)) for s in drawn]
    with pytest.raises(UserError, match=message):
        methods.pools([drawn], [found], {s.text: 0 for s in drawn})
