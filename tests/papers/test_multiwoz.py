"""MultiWOZ 2.2: from its public layout to ours."""

import dataclasses
import io
import json
import tarfile

import pytest

from jaxaug.cli import main
from jaxaug.core.errors import UserError
from jaxaug.data import dialogue, fetch, sgd
from jaxaug_papers import multiwoz
from tests.support import small_multiwoz


@pytest.fixture
def public(tmp_path):
    return small_multiwoz.write(tmp_path / "MultiWOZ_2.2")


def _states(dialogue):
    """Returns turn -> service -> values of user turns."""
    return {
        index: {frame.service: dict(frame.state.slot_values) for frame in turn.frames}
        for index, turn in enumerate(dialogue.turns)
        if turn.speaker == "USER"
    }


def test_every_turn_has_a_frame_of_every_service(public, tmp_path):
    report = multiwoz.convert(public, tmp_path / "out")
    both, hotel = sgd.read_dialogues(tmp_path / "out", "train")
    name = {"hotel-name": ("acorn", "the acorn")}
    taxi = {"taxi-destination": ("acorn",), "taxi-leaveat": ("8pm", "20:00")}
    assert _states(both) == {
        0: {"hotel": name, "taxi": {}, "police": {}},
        2: {"hotel": name, "taxi": taxi, "police": {}},
    }
    assert _states(hotel) == {
        0: {"hotel": {"hotel-area": ("north",)}, "taxi": {}, "police": {}}
    }
    assert both.services == ("hotel", "taxi") and hotel.services == ("hotel",)
    # Real spans stay; the copied value is removed from the spans.
    assert [frame.slots for frame in both.turns[0].frames] == [
        (dialogue.Span("hotel-name", 4, 9),),
        (),
        (),
    ]
    assert [frame.service for frame in both.turns[1].frames] == ["hotel"]
    # A dialogue about no service is kept, because its turns are scored too.
    (*_, nothing) = sgd.read_dialogues(tmp_path / "out", "test")
    assert _states(nothing) == {0: {"hotel": {}, "taxi": {}, "police": {}}}
    assert str(report).splitlines() == [
        "train: 2 dialogues, 3 turns of the user",
        "dev: 1 dialogues, 1 turns of the user",
        "test: 2 dialogues, 3 turns of the user",
        ("a value copied from a slot is no span: 2 (first: A.json turn 2: "
         f"{small_multiwoz.COPIED})"),
        ("an intent that the schema lacks becomes NONE: 1 (first: E.json turn 0: "
         "find_police)"),
        "a dialogue about no service is given all: 1 (first: E.json: [])",
    ]  # fmt: skip


def test_frames_of_the_dialogue_alone(public, tmp_path):
    multiwoz.convert(public, tmp_path / "out", mentioned_only=True)
    both, hotel = sgd.read_dialogues(tmp_path / "out", "train")
    assert [[*services] for services in _states(both).values()] == [
        ["hotel", "taxi"]
    ] * 2
    assert [[*services] for services in _states(hotel).values()] == [["hotel"]]


def test_the_quick_reader_and_the_check_take_it(public, tmp_path, capsys):
    out = tmp_path / "out"
    command = ["data", "convert", "multiwoz22", "--source", str(public)]
    assert main([*command, "--out", str(out)]) == 0
    assert f"written: {out}." in capsys.readouterr().out
    for split in ("train", "dev", "test"):
        schema = sgd.read_schema_of(out, split)
        quick = list(dialogue.read(out / split / "dialogues_001.json", schema))
        assert quick == list(sgd.read_dialogues(out, split))
    assert main(["data", "check", str(out)]) == 0
    assert "no errors" in capsys.readouterr().out.splitlines()[-1]
    assert main([*command, "--out", str(public)]) == 1
    assert "is the folder that is read" in capsys.readouterr().err


def test_a_frame_of_another_service_must_be_empty(public, tmp_path):
    multiwoz.convert(public, tmp_path / "out")
    path = tmp_path / "out/train/dialogues_001.json"
    data = json.loads(path.read_text())
    idle = data[1]["turns"][0]["frames"][1]
    for change in (
        {"active_intent": "book_taxi"},
        {"slot_values": {"taxi-leaveat": ["8"]}},
    ):
        state = idle["state"] | change
        data[1]["turns"][0]["frames"][1] = idle | {"state": state}
        path.write_text(json.dumps(data))
        schema = sgd.read_schema_of(tmp_path / "out", "train")
        with pytest.raises(UserError, match="expected one of the dialogue's serv"):
            list(sgd.read_dialogue_file(path, schema))


def test_the_public_folder_itself_is_an_error_with_the_command(public, capsys):
    assert main(["data", "describe", "--data_dir", str(public)]) == 1
    fix = f"`jaxaug data convert multiwoz22 --source {public} --out data/multiwoz22`"
    assert fix in capsys.readouterr().err


def test_invalid_multiwoz_folders(public, tmp_path):
    with pytest.raises(UserError, match=r"x/schema.json.*data fetch multiwoz22"):
        multiwoz.convert(tmp_path / "x", tmp_path / "out")
    path = public / "dev/dialogues_001.json"
    path.write_text('[{"dialogue_id": "X"}]')
    with pytest.raises(
        UserError, match=r"dialogues_001.json: is not in the layout .*turns"
    ):
        multiwoz.convert(public, tmp_path / "out")
    path.unlink()
    with pytest.raises(UserError, match=r"dev: has no dialogues_\*.json"):
        multiwoz.convert(public, tmp_path / "out")


def test_fetch_verifies_and_converts(public, tmp_path, capsys):
    """A local archive replaces the server's archive, which tests cannot reach."""
    real = fetch.DATA_SETS["multiwoz22"]
    blobs = {}
    with tarfile.open(tmp_path / real.archive, "w:gz") as archive:
        for path in sorted(public.rglob("*.json")):
            name = f"data/MultiWOZ_2.2/{path.relative_to(public).as_posix()}"
            blobs[name] = "100644", fetch.git_id("blob", path.read_bytes())
            archive.add(path, f"multiwoz-1/{name}", filter=_plain)
        licence = tarfile.TarInfo("multiwoz-1/LICENSE")
        licence.size = 3
        archive.addfile(licence, io.BytesIO(b"MIT"))
    folder = "data/MultiWOZ_2.2"
    with pytest.raises(UserError, match=f"folder {folder}/ has git tree id"):
        fetch.fetch(real, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    trees = {folder: fetch.git_tree_id(blobs, folder)}
    files = fetch.fetch(dataclasses.replace(real, trees=trees), tmp_path / "out")
    names = {path.relative_to(tmp_path / "out").as_posix() for path in files}
    assert names == {
        "LICENSE",
        *(f"{split}/schema.json" for split in ("train", "dev", "test")),
        *(f"{split}/dialogues_001.json" for split in ("train", "dev", "test")),
    }
    assert "train: 2 dialogues, 3 turns of the user" in capsys.readouterr().out
    assert len(list(sgd.read_dialogues(tmp_path / "out", "test"))) == 2


def _plain(member):
    member.mode = 0o644
    return member
