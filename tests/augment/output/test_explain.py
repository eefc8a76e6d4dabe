"""The tree of one description as text and as a drawing."""

import sys

import pytest

from jaxaug.augment import explaining, selection
from jaxaug.augment.config import Spec
from jaxaug.augment.selection import Item
from jaxaug.core.errors import UserError

SPEC = Spec(
    levels=("jaccard", "similarity"),
    decisions=("max", "max"),
    decimals=1,
    syntactic=None,
)
TITLE = "train/0/slot/2: Cost of the ticket in $ or $$"


def ranking(more=0):
    values = [
        ("How much $ the ticket is", 3, 0.5, 0.81),
        ("What the ticket costs", 7, 0.5, 0.79),
        ("Ticket cost <b>", 2, 0.0, 0.93),
        ("Fee", 1, 1.0, 0.4),
    ]
    values += [(f"Ticket {i}", 1, 0.3, i / more) for i in range(more)]
    items = [
        Item(text, count, {"jaccard": j, "similarity": s})
        for text, count, j, s in values
    ]
    return selection.rank(items, SPEC, 2)


def test_text():
    assert explaining.as_text(ranking(), TITLE).splitlines() == [
        TITLE,
        "3 candidates meet the constraints, 2 selected, 1 dropped",
        "jaccard 0.5",
        "  similarity 0.8",
        "    [1] What the ticket costs x7",
        "    How much $ the ticket is x3",
        "jaccard 0",
        "  similarity 0.9",
        "    [2] Ticket cost <b> x2",
        "dropped (jaccard <= 0.75): Fee x1",
    ]


def test_text_of_many_leaves():
    # 11 leaves at J 0.3; the second selected candidate is one of them.
    lines = explaining.as_text(ranking(40), TITLE, max_leaves=3).splitlines()
    assert lines[-2] == "... and 10 leaves more, without a selected candidate"
    assert sum("similarity" in line for line in lines) == 3
    assert [line for line in lines if "[2]" in line] == ["    [2] Ticket 39 x1"]
    whole = explaining.as_text(ranking(40), TITLE)
    assert sum("Ticket" in line and "[" not in line for line in whole.splitlines()) > 30


def test_no_candidates():
    nothing = selection.rank([], SPEC, 2)
    assert explaining.as_text(nothing, TITLE).splitlines() == [
        TITLE,
        "0 candidates meet the constraints, 0 selected, 0 dropped",
    ]


def test_drawings(tmp_path):
    for more in (0, 40):
        explaining.draw(tmp_path / "out" / f"{more}.svg", ranking(more), TITLE, 8)
        explaining.draw(tmp_path / "out" / f"{more}.png", ranking(more), TITLE, 8)
    explaining.draw(tmp_path / "empty.png", selection.rank([], SPEC, 2), TITLE)
    text = (tmp_path / "out" / "0.svg").read_text()
    for part in (
        "train/0/slot/2: Cost of the ticket in $ or $$",
        "jaccard 0.5",
        "similarity 0.8",
        "[1] What the ticket costs x7",
        "and 1 more",
        "[2] Ticket cost &lt;b&gt; x2",
        "3 candidates, 2 selected, 1 dropped",
    ):
        assert part in text, part
    assert "leaves not shown" in (tmp_path / "out" / "40.svg").read_text()
    assert (tmp_path / "out" / "0.png").read_bytes().startswith(b"\x89PNG")
    # The same tree gives the same file.
    explaining.draw(tmp_path / "again.svg", ranking(), TITLE, 8)
    assert (tmp_path / "again.svg").read_text() == text
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "0.png",
        "0.svg",
        "40.png",
        "40.svg",
    ]


def test_errors_of_drawings(tmp_path, monkeypatch):
    with pytest.raises(UserError, match="name a file that ends in .png or .svg"):
        explaining.draw(tmp_path / "tree.pdf", ranking(), TITLE)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(
        UserError,
        match=r"is not installed. It comes with the extra 'report': run `make install",
    ):
        explaining.draw(tmp_path / "tree.png", ranking(), TITLE)
