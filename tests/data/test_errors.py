"""Bad data folders through the command line: one line, status 1, nothing written."""

import json
import shutil

import pytest

from jaxaug.cli import main

_FETCH = "Get it with `jaxaug data fetch sgd --out "
_CORRECT = (
    "Correct the file, or get it again (`jaxaug data fetch sgd` for SGD and SGD-X)."
)


def _remove_folder(root):
    shutil.rmtree(root)


def _remove_schema(root):
    (root / "train/schema.json").unlink()


def _remove_dialogues(root):
    for path in (root / "dev").glob("dialogues_*.json"):
        path.unlink()


def _write(name, content):
    return lambda root: (root / name).write_bytes(content)


def _cut(name):
    def cut(root):
        content = (root / name).read_bytes()
        (root / name).write_bytes(content[: len(content) // 2])

    return cut


def _edit(name, change):
    def edit(root):
        data = json.loads((root / name).read_text())
        change(data)
        (root / name).write_text(json.dumps(data))

    return edit


def _frame(data):
    return data[0]["turns"][0]["frames"][0]


_DIALOGUES = "dev/dialogues_001.json"
_HERE = f"{{root}}/{_DIALOGUES}: dialogue '3_00000', turn 0, frame 0: "


@pytest.mark.parametrize(
    ("spoil", "fragments"),
    [
        (
            _remove_folder,
            [
                "data folder {root} does not exist: {root}/train/schema.json is missing",
                _FETCH,
            ],
        ),
        (
            _remove_schema,
            [
                "data folder {root} is incomplete: {root}/train/schema.json is missing",
                _FETCH,
            ],
        ),
        (
            _remove_dialogues,
            [
                (
                    "data folder {root} is incomplete: {root}/dev/dialogues_001.json and "
                    "all further dialogue files are missing. "
                ),
                _FETCH,
            ],
        ),
        (
            _write(_DIALOGUES, b"[{'a': 1}]"),
            [
                (
                    f"{{root}}/{_DIALOGUES}: invalid JSON: Expecting property name enclosed "
                    "in double quotes at line 1, column 3. "
                ),
                _CORRECT,
            ],
        ),
        (
            _cut(_DIALOGUES),
            [f"{{root}}/{_DIALOGUES}: truncated JSON: ", _CORRECT],
        ),
        (
            _cut("train/schema.json"),
            ["{root}/train/schema.json: truncated JSON: ", _CORRECT],
        ),
        (_write(_DIALOGUES, b""), [f"{{root}}/{_DIALOGUES}: the file is empty. "]),
        (
            _write(_DIALOGUES, '["Zürich"]'.encode("latin-1")),
            [
                f"{{root}}/{_DIALOGUES}: line 1: byte 0xfc at offset 3 is not UTF-8. ",
                _CORRECT,
            ],
        ),
        (
            _edit(_DIALOGUES, lambda data: _frame(data).update(service="Trans_1")),
            [
                (
                    f"{_HERE}field 'service': expected a service of the split's schema "
                    "(did you mean 'Trains_1'?), got 'Trans_1'. "
                ),
                _CORRECT,
            ],
        ),
        (
            _edit(
                "test/schema.json",
                lambda data: data[0]["slots"].append(data[0]["slots"][0]),
            ),
            [
                (
                    "{root}/test/schema.json: service 'Parks_1': slot 'park' occurs twice, "
                    "expected distinct names. Rename or remove one of the two."
                )
            ],
        ),
        (
            _edit(
                _DIALOGUES,
                lambda data: _frame(data)["state"].update(slot_values=["city"]),
            ),
            [
                (
                    f"{_HERE}field 'state.slot_values': expected an object from slots to "
                    "lists of values, got ['city']. "
                ),
                _CORRECT,
            ],
        ),
        (
            _edit(
                _DIALOGUES,
                lambda data: _frame(data)["state"]["slot_values"].update(city="Bern"),
            ),
            [
                (
                    f"{_HERE}field 'state.slot_values.city': expected a non-empty list of "
                    "strings, got 'Bern'. "
                ),
                _CORRECT,
            ],
        ),
    ],
)
def test_describe(sgd_tree, capsys, spoil, fragments):
    spoil(sgd_tree)
    assert main(["data", "describe", "--data_dir", str(sgd_tree)]) == 1
    _check(
        capsys, [fragment.replace("{root}", str(sgd_tree)) for fragment in fragments]
    )


@pytest.mark.parametrize(
    ("variant", "spoil", "fragments"),
    [
        (
            "v9",
            lambda root: None,
            [
                (
                    "unknown variant 'v9': {root}/sgd_x/data has v1, v2, v3, v4, v5. "
                    "Choose one of them."
                )
            ],
        ),
        (
            "v1",
            lambda root: shutil.rmtree(root / "sgd_x"),
            [
                (
                    "no schema variants in {root}/sgd_x/data: {root}/sgd_x/data/v1/dev/"
                    "schema.json is missing. `jaxaug data fetch sgd` gets those of SGD-X."
                )
            ],
        ),
        (
            "v1",
            _edit("sgd_x/data/v1/dev/schema.json", lambda data: data.pop()),
            [
                (
                    "{root}/sgd_x/data/v1/dev/schema.json: 1 services, but the original "
                    "has 2. "
                ),
                "in the same order: restore the missing ones or remove the surplus.",
            ],
        ),
    ],
)
def test_variants(sgd_tree, tmp_path, capsys, variant, spoil, fragments):
    spoil(sgd_tree)
    out = tmp_path / "out"
    command = ["data", "variants", "--split", "dev", "--variant", variant]
    assert main([*command, "--data_dir", str(sgd_tree), "--out", str(out)]) == 1
    assert not out.exists()
    _check(
        capsys, [fragment.replace("{root}", str(sgd_tree)) for fragment in fragments]
    )


def _check(capsys, fragments):
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("jaxaug: error: ")
    assert captured.err.count("\n") == 1
    for fragment in fragments:
        assert fragment in captured.err
