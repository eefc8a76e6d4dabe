"""Orders of frames: those of Python's own shuffle."""

import random

from jaxaug.formats.records import FrameRandom


def test_a_shuffle_is_that_of_python_draw_by_draw():
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
