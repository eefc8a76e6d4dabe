"""`jaxaug papers ab`: pairs, votes, and tests of hand-made files."""

import json

import pytest

from jaxaug.core.errors import UserError
from jaxaug_papers.ab import sheet as sheets
from jaxaug_papers.ab import votes as voting

FIRST = {f"in {i}": [f"first {i}"] for i in range(6)}
SECOND = {f"in {i}": [f"second {i}"] for i in range(5, -1, -1)}
QUESTIONS = ("Which is longer?", "Which is better?")


def made(num=200, seed=0, **changed):
    given = {"first": FIRST, "second": SECOND} | changed
    return sheets.make(**given, questions=QUESTIONS, num=num, seed=seed)


def voted(sheet, wins, voter="a", **changed):
    """Votes for the first file on the first `wins` pairs, for the second elsewhere."""
    choices = {
        (pair, question): "left" if left == (pair < wins[question]) else "right"
        for pair, left in enumerate(sheet.first_is_left)
        for question in range(len(wins))
    }
    about = {"questions": "x", "num": 200, "seed": 0, "digest": sheet.digest}
    given = {"kind": "person", "sheet": about, "choices": choices, "path": "v.json"}
    return voting.Votes(voter, **(given | changed))


@pytest.mark.parametrize(
    ("wins", "number", "p"),
    # Sums of binomial coefficients: 2 (1 + 10) / 1024, 2 (1 + 5) / 32.
    [(9, 10, 22 / 1024), (1, 10, 22 / 1024), (4, 5, 12 / 32), (5, 10, 1), (0, 0, 1)],
)
def test_binomial_by_hand(wins, number, p):
    assert voting.binomial(wins, number) == p


def test_binomial_of_the_papers_figures():
    """600 votes: 34 to 66 is significant, and 49 to 51 is not."""
    assert voting.binomial(204, 600) < 1e-4
    assert voting.binomial(294, 600) == pytest.approx(0.65341, abs=1e-5)


def test_pairs_have_both_outputs_and_half_of_the_sides():
    sheet = made()
    assert sorted(pair.input for pair in sheet.pairs) == sorted(FIRST)
    for pair, left in zip(sheet.pairs, sheet.first_is_left, strict=True):
        number = pair.input.removeprefix("in ")
        texts = [f"first {number}", f"second {number}"]
        assert [pair.left, pair.right] == (texts if left else texts[::-1])
    assert sum(sheet.first_is_left) == 3
    assert made() == sheet
    assert made(seed=1).pairs != sheet.pairs
    assert len(made(num=4).pairs) == 4


def test_equal_outputs_are_not_compared():
    sheet = made(second=SECOND | {"in 0": ["first 0"], "in 1": ["first 1", "other"]})
    assert sheet.left_out == 1
    shown = {pair.input: {pair.left, pair.right} for pair in sheet.pairs}
    assert "in 0" not in shown and shown["in 1"] == {"first 1", "other"}
    with pytest.raises(UserError, match="share 6 inputs, and none has two different"):
        made(second=FIRST)
    with pytest.raises(UserError, match="--num is 0, expected at least 1"):
        made(num=0)


def test_files_of_paraphrase_and_of_infer(tmp_path):
    file = tmp_path / "out.jsonl"
    file.write_text(
        '{"input": "a", "output": "b"}\n\n{"input": "a", "output": "c"}\n'
        '{"inputs": {"inputs_pretokenized": "d"}, "prediction": "e"}\n'
    )
    assert sheets.outputs(file) == {"a": ["b", "c"], "d": ["e"]}
    file.write_text('{"input": "a"}\n')
    with pytest.raises(UserError, match="line 1: no input or no output. Give JSON"):
        sheets.outputs(file)


def test_questions(tmp_path):
    assert len(sheets.questions_of("dialogue")) == 4
    file = tmp_path / "own.txt"
    file.write_text("Which?\n\nWhy?\n")
    assert sheets.questions_of(str(file)) == ("Which?", "Why?")
    file.write_text("Which?\nWhich?\n")
    with pytest.raises(UserError, match="2 questions, expected distinct ones"):
        sheets.questions_of(str(file))


def test_report():
    """Two voters; the second finds the second file better on all pairs but one."""
    sheet = made()
    found = [voted(sheet, (6, 3)), voted(sheet, (6, 1), "b", kind="language model")]
    voting.check(sheet, found)
    lines = voting.report(sheet, found, ("old", "new")).splitlines()
    assert lines[:3] == [
        "6 pairs; votes of a (person, 12), b (language model, 12)",
        "1. Which is longer?",
        "2. Which is better?",
    ]
    # Votes: 2 / 4096, doubled by Holm, and 2 (1 + 12 + 66 + 220 + 495) / 4096.
    # Pairs: 6 to 0 gives 2 / 64. In question 2, two pairs have no majority, and 1 to 3
    # gives 2 (1 + 4) / 16.
    assert [" ".join(line.split()) for line in lines[4:7]] == [
        "old new % none p Holm pairs p Holm agreement kappa",
        "1 12 0 100 : 0 0 0.0005 0.0010 6 : 0 0.0312 0.0625 100% NA",
        "2 4 8 33 : 67 0 0.3877 0.3877 1 : 3 0.6250 0.6250 67% 0.33",
    ]


def test_choices_of_none_are_counted_and_not_tested():
    sheet = made()
    one = voted(sheet, (6,))
    one = voted(sheet, (6,), choices=dict.fromkeys(one.choices, "none"))
    line = voting.report(sheet, [one], ("old", "new")).splitlines()[5]
    cells = "1 0 0 NA 6 1.0000 1.0000 0 : 0 1.0000 1.0000 NA NA"
    assert " ".join(line.split()) == cells


def test_kappa_by_hand():
    # They agree on 3 of 4; chance gives (2 * 1 + 1 * 2 + 1 * 1) / 16 = 5 / 16.
    pairs = [("a", "a"), ("a", "b"), ("b", "b"), ("none", "none")]
    assert voting.kappa(pairs) == pytest.approx((3 / 4 - 5 / 16) / (1 - 5 / 16))
    assert voting.kappa([("a", "a")]) is voting.kappa([]) is None


def test_votes_of_another_sheet_and_two_files_of_a_voter():
    sheet = made()
    with pytest.raises(UserError, match=f"make {sheet.digest}. Give the two files of"):
        voting.check(sheet, [voted(made(seed=1), (6,))])
    with pytest.raises(UserError, match="voter 'a' has 2 files"):
        voting.check(sheet, [voted(sheet, (6,)), voted(sheet, (5,))])
    beyond = voted(sheet, (6,), choices={(6, 0): "left"})
    with pytest.raises(UserError, match="question 0 of pair 6; the sheet has 2"):
        voting.check(sheet, [beyond])


VOTES = {
    "sheet": {"questions": "dialogue", "num": 2, "seed": 3, "digest": "abc"},
    "voter": "a, b",
    "kind": "person",
    "votes": [{"pair": 0, "question": 1, "choice": "left"}],
}
CSV = (
    '"questions","num","seed","digest","voter","kind","pair","question","choice"\n'
    '"dialogue","2","3","abc","a, b","person","0","1","left"\n'
)


def test_json_and_csv_give_the_same_votes(tmp_path):
    (tmp_path / "v.json").write_text(json.dumps(VOTES))
    (tmp_path / "v.csv").write_text(CSV)
    for name in ("v.json", "v.csv"):
        found = voting.read(tmp_path / name)
        assert (found.voter, found.kind) == ("a, b", "person")
        assert found.sheet == VOTES["sheet"] and found.choices == {(0, 1): "left"}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("v.json", "[]", "no votes of a sheet"),
        ("v.json", "{", "v.json: "),
        ("v.csv", "", r"no votes of a sheet \(KeyError: 'questions'\)"),
        ("v.csv", CSV + CSV[-56:], "question 1 of pair 0 has two votes"),
        ("v.csv", CSV.replace("left", "both"), "choice 'both', expected one of left"),
        ("v.csv", CSV + CSV[-56:].replace("a, b", "c"), "line 3: voter 'c', expected"),
        ("v.json", json.dumps(VOTES | {"votes": [{"pair": 0}]}), "no votes of a sheet"),
    ],
)
def test_files_without_votes(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=message):
        voting.read(tmp_path / name)
