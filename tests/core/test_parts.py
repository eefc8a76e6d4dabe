"""Notes of finished parts: which parts belong to the same work."""

import pytest

from jaxaug.core import parts
from jaxaug.core.errors import UserError
from jaxaug.core.parts import Part

WORK = {"inputs": "a", "seed": 0}


@pytest.mark.parametrize(
    "text", ["0/2", "3/2", "1", "1/", "-1/2", "1/0", "a/b", "1/2/3"]
)
def test_invalid_parts(text):
    with pytest.raises(
        UserError, match=rf"^--shard {text}: give K/N with K from 1 to N"
    ):
        parts.parse(text)


def test_every_block_has_one_owner():
    assert parts.parse("3/16") == Part(3, 16)
    owners = [[n for n in range(1, 4) if Part(n, 3).owns(b)] for b in range(7)]
    assert owners == [[1], [2], [3], [1], [2], [3], [1]]


def test_parts_of_several_folders(tmp_path):
    parts.finish(tmp_path / "a", Part(2, 3), WORK, ["y", "x"])
    parts.finish(tmp_path / "b", Part(3, 3), WORK, [])
    parts.finish(tmp_path / "b", Part(1, 3), WORK, ["z"])
    a, b = tmp_path / "a", tmp_path / "b"
    assert parts.complete([a, str(b)], WORK) == [
        (b, Part(1, 3), ["z"]),
        (a, Part(2, 3), ["x", "y"]),
        (b, Part(3, 3), []),
    ]
    with pytest.raises(
        UserError, match=r"of 3 parts 2 are missing: 1, 3\. .* --shard 1/3, or name"
    ):
        parts.complete([a], WORK)
    with pytest.raises(
        UserError, match=r"2-of-3.json: is a part of other work \(seed d"
    ):
        parts.complete([a], {**WORK, "seed": 1})
    parts.finish(b, Part(2, 3), WORK, [])
    with pytest.raises(UserError, match=rf"part 2 lies in {a}, too"):
        parts.complete([a, b], WORK)
    parts.finish(a, Part(1, 2), WORK, [])
    with pytest.raises(UserError, match="one of 3 parts, .*1-of-2.json one of 2"):
        parts.complete([a], WORK)
    (b / "2-of-3.json").write_text("[1]")
    with pytest.raises(UserError, match="is no note of a finished part. Remove it and"):
        parts.complete([b], WORK)


def test_nothing_to_merge(tmp_path):
    with pytest.raises(UserError, match="no part is complete in .* --shard 1/N"):
        parts.complete([tmp_path], WORK)
    with pytest.raises(UserError, match=f"^--merge {tmp_path}/no: no such folder"):
        parts.complete([tmp_path / "no"], WORK)
