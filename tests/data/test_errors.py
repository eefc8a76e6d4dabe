"""Bad data folders through the command line: one line, status 1, nothing written.

The messages themselves are tested where they come from: `test_folders`, `test_schema`,
and `test_sgd_errors`.
"""

import json
import shutil

import pytest

from jaxaug.cli import main

_DIALOGUES = "dev/dialogues_001.json"


def _cut(root):
    content = (root / _DIALOGUES).read_bytes()
    (root / _DIALOGUES).write_bytes(content[: len(content) // 2])


def _pop_service(root):
    path = root / "sgd_x/data/v1/dev/schema.json"
    path.write_text(json.dumps(json.loads(path.read_text())[:-1]))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (shutil.rmtree, "data folder {root} does not exist: {root}/train/schema.json"),
        (lambda root: (root / "train/schema.json").unlink(), "{root} is incomplete: "),
        (
            lambda root: (root / _DIALOGUES).unlink(),
            "{root}/dev/dialogues_001.json and",
        ),
        (_cut, "{root}/dev/dialogues_001.json: truncated JSON: "),
    ],
)
def test_describe(sgd_tree, capsys, spoil, message):
    spoil(sgd_tree)
    assert main(["data", "describe", "--data_dir", str(sgd_tree)]) == 1
    _check(capsys, message, sgd_tree)


@pytest.mark.parametrize(
    ("variant", "spoil", "message"),
    [
        (
            "v9",
            lambda root: None,
            "unknown variant 'v9': {root}/sgd_x/data has v1, v2,",
        ),
        ("v1", lambda root: shutil.rmtree(root / "sgd_x"), "no schema variants in "),
        (
            "v1",
            _pop_service,
            "v1/dev/schema.json: 1 services, but the original has 2. ",
        ),
    ],
)
def test_variants(sgd_tree, tmp_path, capsys, variant, spoil, message):
    spoil(sgd_tree)
    out = tmp_path / "out"
    command = ["data", "variants", "--split", "dev", "--variant", variant]
    assert main([*command, "--data_dir", str(sgd_tree), "--out", str(out)]) == 1
    assert not out.exists()
    _check(capsys, message, sgd_tree)


def _check(capsys, message, root):
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("jaxaug: error: ")
    assert captured.err.count("\n") == 1
    assert message.replace("{root}", str(root)) in captured.err
