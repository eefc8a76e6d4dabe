"""`jaxaug data check`: each rule with its place, and all problems at once."""

import json
import shutil

import pytest

from jaxaug.cli import main
from jaxaug.data import inspect_folder
from tests.support.damaged_sgd import CASES, DEV, TEST, TRAIN, V1, frame, put, swap


@pytest.fixture
def lines(sgd_tree):
    """Returns a data folder whose JSON has several lines, to test places."""
    for path in sgd_tree.rglob("*.json"):
        # A categorical slot has two wordings there.
        text = path.read_text().replace('"a picnic"', '"dontcare"')
        path.write_text(json.dumps(json.loads(text), indent=1))
    return sgd_tree


def _damage(root, name, change):
    path = root / name
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data, indent=1))
    return path


@pytest.mark.parametrize(
    ("name", "change", "at", "number", "rule", "words"),
    CASES,
    ids=[f"{index}-{case[4]}" for index, case in enumerate(CASES)],
)
def test_each_rule_with_its_place(lines, capsys, name, change, at, number, rule, words):
    path = _damage(lines, name, change)
    assert main(["data", "check", str(lines)]) == 1
    out = capsys.readouterr().out
    text = path.read_text()
    offset = -1
    for _ in range(number):
        offset = text.index(at, offset + 1)
    line = text.count("\n", 0, offset) + 1
    column = offset - text.rfind("\n", 0, offset)
    (found,) = [row for row in out.splitlines() if row.endswith(f"[{rule}]")]
    assert found.startswith(f"{path}:{line}:{column}: error: ")
    assert words in found
    # A removed name causes problems at its uses.
    assert (
        out.endswith("\n1 error\n") or "occurs twice" in words or "the name of" in words
    )


def test_order_of_services(lines, capsys):
    twins = json.loads((lines / TRAIN).read_text())
    twins.append(dict(twins[0], service_name="Trams_1"))
    (lines / TRAIN).write_text(json.dumps(twins))
    for variant in range(1, 6):
        _damage(
            lines,
            f"sgd_x/data/v{variant}/train/schema.json",
            lambda data: data.append(dict(data[0], service_name="Trams_11")),
        )
    assert main(["data", "check", str(lines)]) == 0
    _damage(lines, "sgd_x/data/v1/train/schema.json", swap)
    capsys.readouterr()
    assert main(["data", "check", str(lines)]) == 1
    assert (
        "v1/train/schema.json:3:3: error: service 'Trams_11': stands where the "
        "original has 'Trains_1', and is called like 'Trams_1'. Variants are matched "
        "by position: restore the order of the services. [variant does not match]"
    ) in capsys.readouterr().out


def test_files_that_are_missing_or_not_json(lines, capsys):
    (lines / "dev").rename(lines / "validation")
    shutil.rmtree(lines / "sgd_x/data/v5")
    (lines / "sgd_x/data/v5").mkdir()
    (lines / "sgd_x/data/v4/train/schema.json").unlink()
    (lines / "test/dialogues_001.json").rename(lines / "test/dialogues.json")
    (lines / "train/dialogues_001.json").write_text('[\n {"a": 1,\n  "a": 2}]')
    (lines / "train/dialogues_002.json").write_text('[\n {"a": 1')
    assert main(["data", "check", str(lines)]) == 1
    out = capsys.readouterr().out
    for words in (
        (
            f"{lines}/dev/schema.json: error: {lines}/validation is no split. Call it "
            "dev. [missing file]"
        ),
        (
            f"{lines}/test: error: data folder {lines} is incomplete: "
            f"{lines}/test/dialogues_001.json and all further dialogue files are "
            "missing. "
        ),
        (
            f"{lines}/test/dialogues.json: note: is not read: dialogues are in "
            "dialogues_*.json. Rename the file, such as to dialogues_001.json. [not "
            "read]"
        ),
        (
            f"{lines}/train/dialogues_001.json:3:3: error: invalid JSON: an object has "
            "the name 'a' 2 times (again at line 3, column 3). Correct the file"
        ),
        f"{lines}/train/dialogues_002.json:2:9: error: truncated JSON: ",
        (
            f"{lines}/sgd_x/data/v5/train/schema.json: error: is missing: v5 has no "
            "wording for train. Add the file, or remove the variant. [missing variant]"
        ),
        f"{lines}/sgd_x/data/v4/train/schema.json: note: is missing: v4 has no wording",
        "dev: missing\n",
    ):
        assert words in out


def test_a_split_that_is_missing(lines, capsys):
    shutil.rmtree(lines / "dev")
    assert main(["data", "check", str(lines)]) == 1
    out = capsys.readouterr().out
    assert "dev/schema.json" in out and "[missing file]" in out
    assert "dev: missing\n" in out and "test: " in out


def test_turns_of_a_dialogue_with_a_problem_are_counted(lines, capsys):
    main(["data", "check", str(lines)])
    whole = capsys.readouterr().out
    path = next((lines / "train").glob("dialogues_*.json"))
    dialogues = json.loads(path.read_text())
    dialogues[0]["turns"][0]["speaker"] = "BOT"
    path.write_text(json.dumps(dialogues))
    main(["data", "check", str(lines)])
    counts = [line for line in whole.splitlines() if line.startswith("train: ")]
    assert counts[0] in capsys.readouterr().out


def test_schema_that_cannot_be_read(lines, capsys):
    (lines / "train/schema.json").write_text("[")
    assert main(["data", "check", str(lines)]) == 1
    out = capsys.readouterr().out
    assert "train/schema.json:1:2: error: truncated JSON: Expecting value" in out
    assert "train: the schema cannot be read, dialogues were not\n" in out


def test_two_folders_of_one_name(lines, capsys):
    (lines / "variants" / "a-b").mkdir(parents=True)
    assert main(["data", "check", str(lines)]) == 1
    out = capsys.readouterr().out
    assert "a-b: its name becomes part of task names" in out
    assert "variants sgdx: v1, v2, v3, v4, v5 (train, dev, test)" in out


def test_all_problems_but_twenty_of_a_kind_are_printed(lines, capsys):
    def change(data):
        data[0]["turns"][0]["frames"][0]["state"]["slot_values"] = {
            f"slot{number}": ["x"] for number in range(33)
        }
        data[1]["turns"][0]["speaker"] = "BOT"

    _damage(lines, DEV, change)
    _damage(lines, TEST, put(1, "turns", []))
    assert main(["data", "check", str(lines)]) == 1
    out = capsys.readouterr().out
    assert out.count("[unknown slot]\n") == 21
    assert "... and 13 more [unknown slot]\n" in out
    assert out.count("[speaker]\n") == 1 and out.count("[wrong type]\n") == 1
    assert out.endswith("\n35 errors\n")


def test_notes_leave_the_status_alone(lines, capsys):
    def change(data):
        data[0]["turns"][1]["utterance"] = " "
        del data[0]["turns"][2]["frames"][0]["state"]

    _damage(lines, DEV, change)
    # A state that loses a slot is no error.
    _damage(lines, TEST, put(1, "turns", 2, "frames", 0, "state", "slot_values", {}))
    variant = lines / V1
    variant.write_text(variant.read_text().replace('"price_v1"', '"city"'))
    assert main(["data", "check", str(lines)]) == 0
    assert capsys.readouterr().out.endswith("""
train: 1 services, 2 dialogues, 6 turns
dev: 2 services, 2 dialogues, 5 turns
test: 2 services, 2 dialogues, 5 turns
variants sgdx: v1, v2, v3, v4, v5 (train, dev, test)
no errors, 3 notes
""")


@pytest.mark.parametrize(
    ("value", "formats"),
    [
        ("Bern | Main", "d3st, d3st2a, sdt, sdtids, sdtind"),
        ("Bern || Main", "t5dst"),
        ("None", "sdt, sdtids, sdtind, t5dst"),
        ("to 1=Bern", "d3st, d3st2a, sdt, sdtids"),
        ("Bern [state]", "sdt, sdtids"),
        ("Bern [intents]", "d3st, d3st2a"),
        ("Bern [Main] <x> {y} a\\b", ""),
    ],
)
def test_values_that_a_format_does_not_read_back_are_notes(
    lines, capsys, value, formats
):
    # The problem occurs in both turns and is reported once.
    _damage(lines, DEV, frame("state", "slot_values", "city", [value], turn=2))
    assert main(["data", "check", str(lines)]) == 0
    out = capsys.readouterr().out
    problem = (
        f"turn 2, frame 0: slot 'city' has the value {value!r}, which cannot be read "
        f"back from the text of {formats}. Reword the value, or use another format. "
        "[value not read back]\n"
    )
    assert out.count("[value not read back]") == bool(formats)
    assert (problem in out) == bool(formats)
    assert out.endswith(f"no errors{', 1 note' * bool(formats)}\n")


def test_clean_folder(lines, capsys, monkeypatch):
    shutil.rmtree(lines / "sgd_x")
    monkeypatch.setenv("JAXAUG_DATA_DIR", str(lines))
    assert main(["data", "check"]) == 0
    assert (
        capsys.readouterr().out
        == """\
train: 1 services, 2 dialogues, 6 turns
dev: 2 services, 2 dialogues, 5 turns
test: 2 services, 2 dialogues, 5 turns
no variants: schema sensitivity cannot be measured
no errors
"""
    )


def test_real_sgd_has_notes_alone(real_data, tmp_path):
    root = tmp_path / "sgd"
    root.mkdir()
    for name in ("dev", "test", "sgd_x"):
        (root / name).symlink_to(real_data / "sgd" / name)
    (root / "train").mkdir()
    (root / "train/schema.json").symlink_to(real_data / "sgd/train/schema.json")
    (root / "train/dialogues_001.json").symlink_to(
        real_data / "sgd/train/dialogues_001.json"
    )
    report = inspect_folder.inspect(root)
    assert report.errors == {}
    assert report.notes == {"no text": 2, "name of another": 4}
