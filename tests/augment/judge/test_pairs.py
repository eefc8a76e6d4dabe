"""`jaxaug augment judge`, complete, with the rules alone."""

import importlib.util
import json

import pytest

from jaxaug import cli
from jaxaug.augment.judge import features, measures, pairs, verdicts
from jaxaug.augment.judge.features import Pair
from jaxaug.core.errors import UserError
from jaxaug.models.named import packages

HEADER = "kind\toriginal\tcandidate\n"
ROWS = [
    ("slot", "type of car", "vehicle type", True, []),
    ("slot", "pick up date", "pick up the date", False, ["trivial"]),
    ("slot", "type of car", "car of the type", False, ["heads"]),
    ("slot", "type of car", "Type of car", False, ["copy"]),
    ("intent", "find a hotel", "search for a hotel", True, []),
    (
        "service",
        "find and book 2 rooms",
        "book rooms",
        False,
        ["lost_value", "missing"],
    ),
    ("slot", "is it furnished", "is it not furnished", False, ["changed_negation"]),
    ("slot", "type of caf\u00e9", "kind of caf\u00e9", True, []),
]


@pytest.fixture
def judged(tmp_path):
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
    status, found = judged((HEADER + "\n".join(rows)).encode(), "--similarity", "none")
    assert status == 0
    for row, one in zip(ROWS, found, strict=True):
        assert list(one) == [*pairs.HEADER, "keep", "reasons", "metrics"]
        assert (one["kind"], one["original"], one["candidate"]) == row[:3]
        assert (one["keep"], one["reasons"][: len(row[4])]) == row[3:]
        assert one["keep"] == (one["reasons"] == [])
        assert set(one["metrics"]) == {*verdicts.LEVELS["words"], "score"}
    assert capsys.readouterr().out.startswith(
        "judged by rules: 3 of 8 candidates kept (1 dropped as trivial); wrote "
    )


def test_lines_of_windows_and_a_mark(judged):
    text = "\ufeff" + HEADER + "slot\ttype of car\tcar type\n"
    _, found = judged(text.replace("\n", "\r\n").encode(), "--similarity", "none")
    assert [one["candidate"] for one in found] == ["car type"]


def test_the_default_similarity_is_fetched(judged, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv(packages.OFFLINE_VARIABLE, "1")
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "empty"))
    assert judged(HEADER.encode()) == (1, [])
    assert "models fetch minilm" in (said := capsys.readouterr().err)
    assert "--similarity none" in said
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert judged(HEADER.encode()) == (0, [])  # As an installation without JAX.


def test_nothing_to_judge(judged):
    assert judged(HEADER.encode(), "--similarity", "none") == (0, [])


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
    assert judged(text, "--similarity", "none") == (1, [])
    assert f"pairs.tsv: {message}" in capsys.readouterr().err


def test_wrong_files(tmp_path, capsys):
    path = str(tmp_path / "pairs.tsv")
    command = ["augment", "judge", "--in", path, "--out"]
    assert cli.main([*command, str(tmp_path / "out")]) == 1
    assert f"{path}: no such file. Write a UTF-8 file" in capsys.readouterr().err
    assert cli.main([*command, path]) == 1
    assert f"--out {path}: is the input." in capsys.readouterr().err


def test_the_source_of_candidates_counts(judged):
    """Candidates of a model are judged more strictly than candidates of the grammar."""
    text = HEADER + "slot\tdate of the visit\tday on which the visit is held\n"
    found = [
        judged(text.encode(), "--similarity", "none", "--source", source)[1][0][
            "metrics"
        ]
        for source in verdicts.SOURCES
    ]
    assert found[0].pop("score") > found[1].pop("score")
    sound = found[1].pop("sound")
    assert sound >= verdicts.SOUND
    assert {name: found[1].pop(name) for name in features.FORM} == {
        "long": 1.3863, "lost": 1, "gained": 2, "strange": 5,
    }  # fmt: skip
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("models", "source", "message"),
    [
        (("", "smollm2"), "model", "no judge was fitted with a language model and"),
        (("minilm", "smollm2"), "grammar", "no judge of the grammar's candidates was"),
        (("", ""), "eda", "source 'eda'; "),
    ],
)
def test_judges_that_were_not_fitted(models, source, message):
    with pytest.raises(UserError, match=message):
        verdicts.judge(*models, source=source)


def test_reasons_are_those_that_count_most():
    pair = Pair("service", "book doctor visits", "visit a doctor without a book")
    (verdict,) = verdicts.judge().verdicts([pair])
    assert verdict.reasons[0] == "changed_negation"
    assert "heads" in verdict.reasons
    assert verdict.metrics["score"] > 0


def test_coefficients_are_written_as_they_are_read():
    known = {
        level: {source: verdicts.coefficients(level, source) for source in sources}
        for level, sources in json.loads(measures.COEFFICIENTS.read_text()).items()
    }
    assert verdicts.written(known) == measures.COEFFICIENTS.read_text()
    assert {*known} == {*verdicts.LEVELS}
    with pytest.raises(UserError, match="no judge was fitted for level 'model' and"):
        verdicts.coefficients(verdicts.MODEL, verdicts.GRAMMAR)


def test_labelled_candidates(real_data):
    """The judge must drop and keep these shares, on the pairs that fitted it."""
    path = real_data / "judged.tsv"
    if not path.exists():
        pytest.skip(f"{path} is not there: it is not a part of the repository")
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
    found = verdicts.judge().verdicts([Pair(*row[1:]) for row in rows])
    kept = {
        label: [v.keep for v, row in zip(found, rows, strict=True) if row[0] == label]
        for label in ("faithful", "trivial", "changed", "broken")
    }
    bad = kept["changed"] + kept["broken"]
    assert sum(bad) <= 0.2 * len(bad)
    assert sum(kept["faithful"]) >= 0.7 * len(kept["faithful"])
    assert not any(kept["trivial"])
