"""Few-shot sets: reading, drawing, and errors in the published files."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxaug.core.errors import UserError
from jaxaug.curriculum import levels
from jaxaug_papers.shared import labelled
from jaxaug_papers.shared.labelled import Sentence, parse_line

WORDS = st.text(
    st.characters(exclude_characters="\t\r\n", exclude_categories=["Cs"]), min_size=1
).filter(str.strip)


@given(WORDS, WORDS)
def test_a_line_is_parsed(text, label):
    assert parse_line(f"{label}\t{text}", "here") == Sentence(text, label)


@pytest.fixture
def write(tmp_path):
    def write(**files):
        for name, text in files.items():
            (tmp_path / f"{name}.txt").write_bytes(text.encode())
        return tmp_path

    return write


@pytest.fixture(scope="module")
def huff(real_data):
    return labelled.load(real_data / "text/fewshot/huff")


def test_sentences_keep_their_spaces_and_separators(write):
    folder = write(train="6\ta b \n6\tb\u2028c\n0\t d\n")
    assert labelled.read(folder / "train.txt") == [
        Sentence("a b ", "6"),
        Sentence("b\u2028c", "6"),
        Sentence(" d", "0"),
    ]


def test_the_last_line_may_lack_its_line_feed(write):
    folder = write(train="6\ta")
    assert labelled.read(folder / "train.txt") == [Sentence("a", "6")]


@pytest.mark.parametrize(
    "text, problem",
    [
        ("", "train.txt: the file is empty"),
        ("6\ta\n\n", "train.txt: line 2: there is no tab: ''"),
        ("6 a\n", "train.txt: line 1: there is no tab: '6 a'"),
        ("6\ta\tb\n", "line 1: there is more than one tab"),
        ("\ta\n", "line 1: the label is empty"),
        ("6\t \n", "line 1: the sentence is empty"),
        ("6\ta\r\n6\tb\r\n", "line 1: the line holds a carriage return"),
        ("6\ta\n6\tb\ud800\n", "is not UTF-8"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, text, problem):
    (tmp_path / "train.txt").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(UserError) as error:
        labelled.read(tmp_path / "train.txt")
    assert problem in str(error.value)
    assert str(error.value).endswith(
        (
            "Correct the file, or get it again with `jaxaug data fetch fewshot`.",
            (
                "Write one sentence a line as `label<TAB>sentence`, lines ended by a "
                "line feed."
            ),
        )
    )


def test_a_data_set(write):
    folder = write(train="b\tx\na\ty\nb\tz\n", test="a\tx\nb\tw\nb\tx\n")
    found = labelled.load(folder)
    assert found.labels == ("b", "a")
    # x has two labels; the last label is used at the position of the first.
    assert found.test == (Sentence("x", "b"), Sentence("w", "b"))
    assert found.overlap == 1


def test_a_test_label_that_training_lacks(write):
    folder = write(train="b\tx\n", test="c\ty\n")
    with pytest.raises(UserError, match="label 'c' of 'y' is in test and not in"):
        labelled.load(folder)


def test_drawing_goes_through_labels_in_file_order():
    sentences = [Sentence(f"{label}{i}", label) for label in "ba" for i in range(9)]
    generator = random.Random(3)
    expected = [
        text
        for label in "ba"
        for text in generator.sample([f"{label}{i}" for i in range(9)], 4)
    ]
    drawn = labelled.few_shot(sentences, 4, seed=3)
    assert [sentence.text for sentence in drawn] == expected
    assert [sentence.label for sentence in drawn] == ["b"] * 4 + ["a"] * 4
    assert labelled.few_shot(sentences, None, seed=3) == sentences


def test_too_few_sentences():
    with pytest.raises(UserError, match="label 'a' has 1 sentences, 2 are asked for"):
        labelled.few_shot([Sentence("x", "a")], 2, 0)
    with pytest.raises(UserError, match="0 sentences a label; take 1 or more"):
        labelled.few_shot([Sentence("x", "a")], 0, 0)


@pytest.mark.parametrize("seed", range(5))
def test_few_shot_sets_equal_the_released_files(real_data, huff, seed):
    [path] = (real_data / "text/pcc").glob(f"aug_huff_train_s{seed}*.txt")
    texts = [sentence.text for sentence in labelled.few_shot(huff.train, 10, seed)]
    assert len(texts) == 410
    lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    blocks = [line.partition(" $ ")[0] for line in lines]
    in_order = [a for a, b in zip(blocks, [None, *blocks], strict=False) if a != b]
    assert texts == in_order
    # There are ten sentences per label, with labels in the order of the file.
    assert (
        tuple(labelled.by_label(labelled.few_shot(huff.train, 10, seed))) == huff.labels
    )


@pytest.mark.parametrize("seed, distinct", [(0, 410), (1, 409), (2, 410)])
def test_every_drawn_sentence_has_released_paraphrases(real_data, huff, seed, distinct):
    [path] = (real_data / "text/pcc").glob(f"aug_huff_train_s{seed}*.txt")
    found = {item.text: item for item in levels.released_huffpost(path)}
    texts = {sentence.text for sentence in labelled.few_shot(huff.train, 10, seed)}
    assert set(found) == texts and len(texts) == distinct
    numbers = {sum(map(len, item.levels[1:])) for item in found.values()}
    assert numbers == {20} if seed != 1 else (min(numbers), max(numbers)) == (2, 40)


def test_huffpost(huff):
    assert len(huff.train) == 28_700 and len(huff.labels) == 41
    assert huff.labels[:2] == ("6", "10") and huff.labels != tuple(sorted(huff.labels))
    assert {len(texts) for texts in labelled.by_label(huff.train).values()} == {700}
    assert len(huff.test) == 12_250
    assert sum(one.text != one.text.strip() for one in (*huff.train, *huff.test)) > 0


def test_huffpost_test_lines(real_data, huff):
    lines = labelled.read(real_data / "text/fewshot/huff/test.txt")
    assert len(lines) == 12_300
    known = {sentence.text for sentence in huff.train}
    assert sum(sentence.text in known for sentence in lines) == 95


def test_covid_q(real_data):
    found = labelled.load(real_data / "text/fewshot/covidclu")
    assert len(found.labels) == 87 and len(found.test) == 448
    assert {len(texts) for texts in labelled.by_label(found.train).values()} == {3}
    drawn = [set(labelled.few_shot(found.train, 3, seed)) for seed in (0, 1)]
    assert drawn[0] == drawn[1] == set(found.train)


def test_amazon(real_data):
    found = labelled.load(real_data / "text/fewshot/amzn")
    assert len(found.labels) == 318
    assert {len(texts) for texts in labelled.by_label(found.train).values()} == {5}
    assert len(labelled.few_shot(found.train, 3, 0)) == 954
    # For texts with two labels, the last label is used.
    assert len(found.test) == 1460
