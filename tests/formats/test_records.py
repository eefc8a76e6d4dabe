"""Orders of frames equal Python's own shuffle."""

import random

import pytest

from jaxaug.formats.records import FrameRandom, letter, read_option


def test_a_shuffle_equals_python_draw_by_draw():
    ours, theirs = FrameRandom(), random.Random()
    for frame in range(300):
        ours.start(3, "1_00000", 2, frame, 1)
        theirs.seed(f"3|1|2|{frame}|1_00000")
        for size in (frame % 40, 0, 1, 3):
            mine, other = list(range(size)), list(range(size))
            ours.shuffle(mine)
            theirs.shuffle(other)
            assert mine == other
        assert ours.random() == theirs.random()


@pytest.mark.parametrize("number", [1, 26, 27, 702, 703, 18_278, 18_279])
def test_the_letters_of_every_option_are_read(number):
    options = [f"value {place}" for place in range(number)]
    for place in {0, 1, 25, 26, 701, 702, 18_277, 18_278, number - 1} & {
        *range(number)
    }:
        assert read_option(letter(place), options) == f"value {place}"
        assert read_option(letter(place).upper(), options) == f"value {place}"
    # A single letter without option is an error; more letters are an unlisted value.
    assert read_option("zzzz", options) == "zzzz"
    assert read_option("z", options[:25]) is None
