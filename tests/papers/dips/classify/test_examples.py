"""Splits of a seed, their shares, and notes about the data."""

from collections import Counter

import pytest

from jaxaug.core.errors import UserError
from jaxaug_papers.dips.classify import examples
from jaxaug_papers.dips.classify.examples import Example


def world(counts):
    return [
        Example((f"{label} {i}",), label)
        for label, n in counts.items()
        for i in range(n)
    ]


def test_every_beginning_has_all_classes_in_their_shares():
    drawn = examples.draw(world({"a": 60, "b": 30, "c": 10}), 3, 80, 20)
    assert len({*drawn.train, *drawn.validation}) == 100
    for share in (0.1, 0.5):
        part = examples.share_of(drawn.train, share)
        assert part == drawn.train[: len(part)] and len(part) == 80 * share
        counts = Counter(example.label for example in part)
        for label, whole in (("a", 0.6), ("b", 0.3), ("c", 0.1)):
            assert abs(counts[label] - whole * len(part)) <= 1
    # Even the smallest share has one example per class.
    least = examples.share_of(drawn.train, 0.001)
    assert sorted(example.label for example in least) == ["a", "b", "c"]


def test_draws_depend_on_the_seed_alone():
    data = world({"a": 20, "b": 20})
    first = examples.draw(data, 0, None, 4)
    assert first == examples.draw(data, 0, None, 4)
    assert first != examples.draw(data, 1, None, 4)
    assert len(first.train) == 36


@pytest.mark.parametrize("train, validation", [(3, 8), (1, 2), (None, 10), (5, 0)])
def test_too_few_examples(train, validation):
    with pytest.raises(UserError, match="there are 10 examples of 2 classes"):
        examples.draw(world({"a": 5, "b": 5}), 0, train, validation)


def test_more_sources_extend_the_list_of_fewer():
    data = world({"a": 20, "b": 20})
    draws = [examples.draw(data, seed, 20, 5) for seed in (0, 1)]
    few, many = (examples.sources(draws, (1.0, 0.1), most) for most in (3, 7))
    assert many[: len(few)] == few
    assert {*few} == {e.texts[0] for one in draws for e in one.train[:3]}
    # There are at most the texts of the largest share.
    assert len(examples.sources(draws[:1], (0.1, 0.25), None)) == 5


@pytest.fixture
def folder(tmp_path):
    def write(train, test):
        for name, lines in (("train", train), ("test", test)):
            text = "".join(f"{line}\n" for line in lines)
            (tmp_path / f"{name}.txt").write_text(text)
        return tmp_path

    return write


def test_overlapping_spans_are_counted_and_left_out(folder):
    train = ["a\tone two", "a\tthree", "b\tfour", "b\tONE  two", "c\tfive"]
    found = examples.read("lines", folder(train, ["a\tOne two", "b\tsix"]))
    assert [example.texts[0] for example in found.train] == ["three", "four", "five"]
    assert found.notes == (
        (
            "warning: 1 of 2 test examples stand in train too (case aside); 2 of 5 "
            "training examples are left out for it."
        ),
        (
            "warning: 3 of 3 classes have one training example, so none to validate "
            "with: a, b, c."
        ),
    )


def test_pairs(folder):
    place = folder(["label\tfirst\tsecond", "1\ta\tb", "0\tc\td"], [])
    (place / "test.txt").unlink()
    (place / "test.tsv").write_text("label\tfirst\tsecond\n1\ta\tb2\n")
    found = examples.read("pairs", place)
    assert found.train == (Example(("a", "b"), "1"), Example(("c", "d"), "0"))
    assert found.test == (Example(("a", "b2"), "1"),) and found.notes[0].endswith(
        "0, 1."
    )


def test_a_reader_that_is_not_there():
    with pytest.raises(UserError, match="reader 'snip': .*'snips'"):
        examples.read("snip", "nowhere")
