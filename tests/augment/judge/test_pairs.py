"""`jaxaug augment judge`, complete."""

import json

import pytest

from jaxaug import cli
from jaxaug.augment.judge import verdicts
from jaxaug.augment.judge.features import Pair
from jaxaug.models.named import catalogue

HEADER = "kind\toriginal\tcandidate\n"
ROWS = [
    ("slot", "type of car", "vehicle type", True, []),
    ("slot", "pick up date", "pick up the date", False, ["trivial"]),
    ("slot", "type of car", "car of the type", True, []),
    ("slot", "type of car", "Type of car", False, ["copy"]),
    ("intent", "find a hotel", "search for a hotel", True, []),
    ("service", "find and book 2 rooms", "book rooms", False, ["lost_value"]),
    ("slot", "is it furnished", "is it not furnished", False, ["changed_negation"]),
    ("slot", "type of caf\u00e9", "kind of caf\u00e9", True, []),
]  # fmt: skip


@pytest.fixture
def judged(tmp_path, judge_network):
    """Runs the command on a text; returns its lines."""

    def run(text, *options):
        (tmp_path / "pairs.tsv").write_bytes(text)
        out = tmp_path / "judged.jsonl"
        command = ["augment", "judge", "--in", str(tmp_path / "pairs.tsv")]
        status = cli.main([*command, "--out", str(out), *options])
        lines = out.read_text("utf-8").splitlines() if out.exists() else []
        return status, [json.loads(line) for line in lines]

    return run


def test_verdicts_in_order(judged, capsys):
    rows = ["\t".join(row[:3]) for row in ROWS]
    status, found = judged((HEADER + "\n".join(rows)).encode(), "--least", "0")
    assert status == 0
    for row, one in zip(ROWS, found, strict=True):
        assert list(one) == [*verdicts.HEADER, "keep", "reasons", "faithful"]
        assert (one["kind"], one["original"], one["candidate"]) == row[:3]
        assert (one["keep"], one["reasons"]) == row[3:]
        assert one["faithful"] == verdicts.faithful([Pair(*row[:3])])[0]
    assert capsys.readouterr().out.startswith(
        "4 of 8 candidates kept (1 dropped as trivial); wrote "
    )


def test_lines_of_windows_and_a_mark(judged):
    text = "\ufeff" + HEADER + "slot\ttype of car\tcar type\n"
    _, found = judged(text.replace("\n", "\r\n").encode())
    assert [one["candidate"] for one in found] == ["car type"]


def test_nothing_to_judge(judged, capsys):
    assert judged(HEADER.encode()) == (0, [])
    assert judged(HEADER.encode(), "--least", "2")[0] == 1
    assert (
        "--least is 2.0: give a finite number from 0 to 1." in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            b"",
            "line 1 is '', expected the header 'kind\\toriginal\\tcandidate'. Write a",
        ),
        (b"slot\ta\tb\n", "line 1 is 'slot\\ta\\tb', expected the header"),
        (b"slot\ta\n", "line 3: 2 columns, expected 3. Write a UTF-8 file with"),
        (b"slot\ta\tb\tc\n", "line 3: 4 columns, expected 3."),
        (b"\n", "line 3: 1 columns, expected 3."),
        (b"slot\ta\t \n", "line 3: the candidate is empty. Leave the line out."),
        (b"slot\t\tb\n", "line 3: the original is empty. Leave the line out."),
        (b"slots\ta\tb\n", "line 3: kind 'slots'; "),
        (b"slot\ta\t\xff\n", "line 3: byte 0xff at offset 40 is not UTF-8. Write a"),
    ],
)
def test_wrong_input(judged, capsys, text, message):
    if message.startswith("line 3"):
        text = HEADER.encode() + b"slot\ta\tb\n" + text
    assert judged(text) == (1, [])
    assert f"pairs.tsv: {message}" in capsys.readouterr().err


def test_wrong_files(tmp_path, capsys):
    path = str(tmp_path / "pairs.tsv")
    command = ["augment", "judge", "--in", path, "--out"]
    assert cli.main([*command, str(tmp_path / "out")]) == 1
    assert f"{path}: no such file. Write a UTF-8 file" in capsys.readouterr().err
    assert cli.main([*command, path]) == 1
    assert f"--out {path}: is the input." in capsys.readouterr().err


def test_labelled_candidates(real_data):
    """The judge must drop and keep these shares; it was not fitted to these pairs."""
    path = real_data / "judged.tsv"
    if not path.exists() or not catalogue.find("minilm").on_disk:
        pytest.skip(f"{path} or minilm is not there")
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
    found = verdicts.verdicts([Pair(*row[1:]) for row in rows])
    kept = {
        label: [v.keep for v, row in zip(found, rows, strict=True) if row[0] == label]
        for label in ("faithful", "trivial", "changed", "broken")
    }
    bad = kept["changed"] + kept["broken"]
    assert sum(bad) <= 0.3 * len(bad)
    assert sum(kept["faithful"]) >= 0.7 * len(kept["faithful"])
