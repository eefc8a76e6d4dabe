import json
import textwrap
from pathlib import Path

import pytest

from jaxaug.core.errors import UserError
from jaxaug.data import sgd
from jaxaug.data.variants import write_variant

_ACTIONS = [("INFORM", "city_v4", "Oslo"), ("INFORM_INTENT", "intent", "FindTrain_v4")]
_FRAME = {
    "actions": [{"act": act, "canonical_values": [value], "slot": slot,
     "values": [value]} for act, slot, value in _ACTIONS],
    "service": "Trains_14",
    "slots": [{"exclusive_end": 15, "slot": "city_v4", "start": 11}],
    "state": {"active_intent": "FindTrain_v4", "requested_slots": [],
     "slot_values": {"city_v4": ["Oslo"]}},
}  # fmt: skip


def test_text_of_a_frame(sgd_tree, tmp_path):
    files = write_variant(sgd_tree, "train", "v4", tmp_path / "out")
    folder = tmp_path / "out/v4/train"
    assert [Path(path) for path in files] == [
        folder / "dialogues_001.json",
        folder / "dialogues_002.json",
        folder / "schema.json",
    ]
    text = files[0].read_text()
    assert text.startswith('[\n  {\n    "dialogue_id": "1_00000",\n    "services": [\n')
    assert textwrap.indent(json.dumps(_FRAME, indent=2), " " * 10) in text
    assert text.endswith("\n  }\n]")
    source = sgd_tree / "sgd_x/data/v4/train/schema.json"
    assert files[-1].read_bytes() == source.read_bytes()


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_result_is_a_data_folder(sgd_tree, tmp_path, split):
    """The written folder, read with the variant's schema, gives the same records."""
    write_variant(sgd_tree, split, "v2", tmp_path)
    written = list(sgd.read_dialogues(tmp_path / "v2", split))
    renamed = list(sgd.read_dialogues(sgd_tree, split, "v2"))
    assert written == renamed
    assert len(written) == 2


def test_unknown_keys_survive(sgd_tree, tmp_path, edit_json):
    source = sgd_tree / "train/dialogues_001.json"
    edit_json(source, lambda data: data[0].update(split="x", extra={"city": [1]}))
    files = write_variant(sgd_tree, "train", "v1", tmp_path)
    data = json.loads(files[0].read_text())
    assert data[0]["split"] == "x"
    assert data[0]["extra"] == {"city": [1]}


def test_writes_into_the_variants_folder(sgd_tree):
    out = sgd_tree / "sgd_x/data"
    before = (out / "v1/dev/schema.json").read_bytes()
    for _ in range(2):  # the second time over the files of the first
        write_variant(sgd_tree, "dev", "v1", out)
    assert sorted(path.name for path in (out / "v1/dev").iterdir()) == [
        "dialogues_001.json",
        "schema.json",
    ]
    assert (out / "v1/dev/schema.json").read_bytes() == before


def test_foreign_dialogue_files_are_refused(sgd_tree, tmp_path):
    stale = tmp_path / "v1/dev/dialogues_777.json"
    stale.parent.mkdir(parents=True)
    stale.write_text("mine")
    with pytest.raises(UserError) as error:
        write_variant(sgd_tree, "dev", "v1", tmp_path)
    assert f"{stale}: is of unknown origin" in str(error.value)
    assert stale.read_text() == "mine"
    assert list(stale.parent.iterdir()) == [stale]


def test_foreign_files_are_not_overwritten(sgd_tree, tmp_path):
    for name in ("dialogues_001.json", "schema.json"):
        path = tmp_path / name / "v1/dev" / name
        path.parent.mkdir(parents=True)
        path.write_text("mine")
        message = f"{path}: exists with other content, and files are never overwritten"
        with pytest.raises(UserError, match=message):
            write_variant(sgd_tree, "dev", "v1", tmp_path / name)
        assert path.read_text() == "mine"


def test_originals_are_not_overwritten(sgd_tree):
    nested = sgd_tree.parent / "v1"
    sgd_tree.rename(nested)
    with pytest.raises(UserError, match="the original dialogues, which would be over"):
        write_variant(nested, "dev", "v1", nested.parent)


def test_nothing_half_written(sgd_tree, tmp_path, edit_json):
    """If the second file is invalid, readers reject the folder, which has no schema."""
    edit_json(sgd_tree / "train/dialogues_002.json", lambda data: data.append(1))
    with pytest.raises(UserError, match=r"dialogues_002\.json: dialogue #1"):
        write_variant(sgd_tree, "train", "v1", tmp_path / "out")
    folder = tmp_path / "out/v1/train"
    assert [path.name for path in folder.iterdir()] == ["dialogues_001.json"]
    with pytest.raises(UserError, match=r"incomplete: .*schema\.json is missing"):
        sgd.read_dialogues(tmp_path / "out/v1", "train")


@pytest.mark.slow
def test_real_dev(real_data, tmp_path):
    files = write_variant(real_data / "sgd", "dev", "v5", tmp_path)
    assert len(files) == 18
    names = {s.name for s in sgd.read_schema_of(tmp_path / "v5", "dev").services}
    dialogues = list(sgd.read_dialogues(tmp_path / "v5", "dev"))
    assert len(dialogues) == 2098
    assert {s for d in dialogues for s in d.services} == names
