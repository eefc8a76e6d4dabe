"""`jaxaug data sample`: the selection, its reproduction, and the copied files."""

import json

import pytest

from jaxaug.cli import main
from jaxaug.core.errors import UserError
from jaxaug.data import folders, sample, sgd
from jaxaug_papers import minisgd


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample") / "data"
    minisgd.write(folder, train_dialogues=40, dev_dialogues=6, test_dialogues=12)
    return folder


def frames(folder, split):
    """Returns the services of the frames with a state of each dialogue."""
    return {
        d.dialogue_id: [f.service for t in d.turns for f in t.frames if f.state]
        for d in sgd.read_dialogues(folder, split)
    }


def test_few_frames_of_every_service(data, tmp_path):
    out = tmp_path / "with blank"
    chosen = sample.choose(data, "train", 60, seed=0)
    found = sample.write(data, out, {"train": chosen})
    before, after = frames(data, "train"), frames(out, "train")
    assert after == {name: before[name] for name in chosen}
    assert len(after) < len(before)
    count = sum(map(len, after.values()))
    # With one dialogue less, there would be too few frames.
    assert 60 <= count < 60 + max(map(len, after.values()))
    services = {service for each in after.values() for service in each}
    assert services == {service for each in before.values() for service in each}
    assert found["train"] == (len(chosen), count, len(services))
    # Other splits are copied whole, with all wordings.
    assert frames(out, "test") == frames(data, "test")
    assert [path.name for path in folders.variant_folders(out).values()] == [
        path.name for path in folders.variant_folders(data).values()
    ]
    path = "sgd_x/data/v3/test/schema.json"
    assert (out / path).read_bytes() == (data / path).read_bytes()


def test_the_seed_decides_and_a_list_gives_the_same(data, tmp_path, capsys):
    first, other = (sample.choose(data, "train", 60, seed) for seed in (0, 1))
    assert first != other
    words = ["data", "sample", str(data), "--out"]
    assert main([*words, str(tmp_path / "a"), "--frames", "train=60", "dev=9"]) == 0
    told = capsys.readouterr().out
    assert f"train: {len(first)} dialogues" in told
    listed = tmp_path / "a" / sample.LIST
    assert json.loads(listed.read_text())["dialogues"]["train"] == first
    assert main([*words, str(tmp_path / "b"), "--list", str(listed)]) == 0
    assert capsys.readouterr().out == told.replace(f"{tmp_path}/a", f"{tmp_path}/b")
    for path in (tmp_path / "a").rglob("*.json"):
        copy = tmp_path / "b" / path.relative_to(tmp_path / "a")
        assert copy.read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--frames", "train=0"], "--frames train=0: write SPLIT=N"),
        (["--frames", "tran=5"], "--frames tran=5: write SPLIT=N"),
        ([], "nothing to choose: give --frames SPLIT=N, or --list FILE."),
        (["--list", "LIST"], "is no list of dialogues by split."),
    ],
)
def test_wrong_words(data, tmp_path, capsys, words, message):
    (tmp_path / "list").write_text('{"dialogues": ["a"]}')
    words = [str(tmp_path / "list") if word == "LIST" else word for word in words]
    assert main(["data", "sample", str(data), "--out", str(tmp_path / "o"), *words]) > 0
    assert message in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


def test_nothing_is_overwritten_and_nothing_is_missing(data, tmp_path):
    with pytest.raises(UserError, match="exists. Name a new folder"):
        sample.write(data, tmp_path, {})
    with pytest.raises(UserError, match="train has no dialogue 'none'"):
        sample.write(data, tmp_path / "o", {"train": ["none"]})
    assert not (tmp_path / "o").exists()
