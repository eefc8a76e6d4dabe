"""Suites of published cases with graded wordings."""

import json

import pytest

from jaxaug.core.errors import UserError
from jaxaug.models.named import packages
from jaxaug.tools import cases as suites
from jaxaug.tools import measure
from jaxaug.tools.cases import texts_of

FUNCTION = {
    "name": "find.city",
    "description": "finds a city",
    "parameters": {
        "type": "dict",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "description": "its name"},
            "other": {"type": "string", "description": "no wording of it"},
        },
    },
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A package with two cases in each file, and wordings of two texts."""
    (tmp_path / "possible_answer").mkdir()
    for file in suites.SUITES["bfcl-live"].files:
        lines = [
            {"id": f"{file}{n}", "function": [FUNCTION],
             "question": [[{"role": "user", "content": "Oslo"}]]}
            for n in range(2)
        ]  # fmt: skip
        truth = [{"find.city": {"name": ["Oslo"], "other": [""]}}]
        answers = [{"id": one["id"], "ground_truth": truth} for one in lines]
        for path, items in ((file, lines), (f"possible_answer/{file}", answers)):
            (tmp_path / path).write_text("".join(json.dumps(i) + "\n" for i in items))
    known = {
        suites.digest(text): [f"{text} {grade}" for grade in suites.GRADES]
        for text in ("finds a city", "its name")
    }
    monkeypatch.setattr(suites, "wordings_of", lambda suite: known)
    monkeypatch.setattr(packages, "at_first_use", lambda name: tmp_path)
    return tmp_path


def test_each_grade_has_its_texts_and_the_same_cases(folder):
    sources, found = suites.read_suite("bfcl-live")
    assert list(found) == ["original", "control", *suites.GRADES]
    assert len(sources) == 4 and len({case.id for case in found["g3"]}) == 4
    for name, end in (("original", ""), ("control", ""), ("g1", " g1"), ("g5", " g5")):
        assert texts_of(found[name][0]) == {
            ("find_city", ""): f"finds a city{end}",
            ("find_city", "name"): f"its name{end}",
            ("find_city", "other"): "no wording of it",
        }
    for name, cases in found.items():
        assert [one.expected for one in cases] == [s.cases[0].expected for s in sources]
        assert len(suites.read_suite("bfcl-live", 3)[1][name]) == 3
    covered = measure.coverage(found)
    assert (covered.reworded["all"], covered.texts["all"]) == (2, 3)


def test_shipped_wordings():
    suite = suites.SUITES["bfcl-live"]
    found = suites.wordings_of(suite)
    assert len(found) > 600
    for key, texts in found.items():
        assert len(key) == 16 and len({" ".join(t.split()) for t in texts}) == 5


@pytest.mark.long
def test_every_text_of_bfcl_live_is_reworded():
    try:
        _, found = suites.read_suite("bfcl-live")
    except UserError as error:
        pytest.skip(str(error))
    assert len(found["original"]) == 274
    covered = measure.coverage(found)
    assert covered.reworded["all"] == covered.texts["all"]
