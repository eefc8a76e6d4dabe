"""Trackers on the Hugging Face hub, with a stand-in for its client."""

import shutil
import sys

import huggingface_hub
import pytest
import yaml
from huggingface_hub import errors

from jaxaug.core.errors import UserError
from jaxaug.data.schema import Schema
from jaxaug.track.tracker import Tracker
from tests.metrics.test_statistics import model_folder

TALK = "USER: i need a ticket\nSYSTEM: where to?\nUSER: to oakland please"
WHERE = "Give OWNER/NAME, check the network, and log in with `hf auth login`."


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Returns a hub in a folder; its cache links to contents as the real client's."""
    blobs, snapshot = tmp_path / "hub/blobs", tmp_path / "hub/snapshots/abc"

    class Api:
        def __init__(self, token=None):
            self.said.append(token)

        def create_repo(self, repo_id, private, exist_ok):
            assert exist_ok
            self.said.append((repo_id, private))
            return f"https://huggingface.co/{repo_id}"

        def create_commit(self, repo_id, operations, commit_message):
            self.said.append(commit_message)
            for number, one in enumerate(operations):
                blob, link = blobs / str(number), snapshot / one.path_in_repo
                for path in (blob, link):
                    path.parent.mkdir(parents=True, exist_ok=True)
                with one.as_file() as content:
                    blob.write_bytes(content.read())
                link.symlink_to(blob)

    def download(repo_id, revision, token):
        Api.said.append((repo_id, revision, token))
        if not snapshot.is_dir():
            raise errors.LocalEntryNotFoundError("nothing there\nmore")
        return str(snapshot)

    Api.said = []  # calls, in their order
    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    Api.folder = snapshot
    return Api


def test_a_tracker_of_the_hub_is_the_one_that_was_saved(trained, hub):
    run, _ = trained
    tracker = Tracker.load(run)
    tracker.schema = Schema(tracker.schema.services[:2])
    address = tracker.push_to_hub("me/small", private=True, token="t")
    assert address == "https://huggingface.co/me/small"
    expected = tracker.predict(TALK).as_json()
    shutil.rmtree(run)  # Nothing is read from there.
    found = Tracker.from_pretrained("me/small", revision="v1", token="u")
    assert found.schema == tracker.schema
    assert found.identity == tracker.identity
    assert found.predict(TALK).as_json() == expected
    assert hub.said == [
        "t",
        ("me/small", True),
        "Upload checkpoint_0 of a tracker",
        ("me/small", "v1", "u"),
    ]
    # A folder is a local copy.
    assert Tracker.from_pretrained(hub.folder).schema == tracker.schema


def test_the_card_is_filled_from_the_run(trained, hub):
    run, _data = trained
    model_folder(run, 0.8)
    tracker = Tracker.load(run)
    tracker.push_to_hub("me/small", license="mit")
    _, head, text = (hub.folder / "README.md").read_text().split("---\n", 2)
    about = yaml.safe_load(head)
    assert (about["license"], about["library_name"]) == ("mit", "jaxaug")
    (result,) = about["model-index"][0]["results"]
    values = {one["type"]: one["value"] for one in result["metrics"]}
    rows = dict(
        line.strip("| ").split(" | ", 1)
        for line in text.splitlines()
        if line.startswith("| ")
    )
    value, interval = rows["mean v1-5"].split(" | ")
    low, high = map(float, interval.split(" to "))
    assert float(value) == pytest.approx(values["jga_v1_5"], abs=0.06)
    assert low < float(value) < high
    assert rows["SS"].split(" | ")[0] == f"{values['ss_jga']:.1f}"
    assert "resamples of the 30 dialogues" in text
    assert 'Tracker.from_pretrained("me/small")' in text
    assert text.rstrip().endswith("## License\n\nmit")
    assert "    python -m t5x.train --gin_file=config.gin\n" in text
    names = {path.relative_to(hub.folder).as_posix() for path in hub.folder.rglob("*")}
    assert "inference_eval/robustness/d3st-000007.json" in names
    for one in tracker.schema.services:
        assert f"`{one.name}`" in text


def test_a_card_without_results_and_license_says_so(trained, hub):
    Tracker.load(trained[0]).push_to_hub("me/small")
    text = (hub.folder / "README.md").read_text()
    assert (
        "The run has no robustness report. `jaxaug robustness RUN` makes one." in text
    )
    assert "No license is stated." in text and "model-index" not in text
    assert "license:" not in text


def test_paths_of_choices_are_cut_in_the_card(trained, hub):
    run, _ = trained
    (run / "choices.json").write_text('{"JAXAUG_DATA_DIR": "/home/me/data/sgd"}')
    Tracker.load(run).push_to_hub("me/small")
    text = (hub.folder / "README.md").read_text()
    assert "    JAXAUG_DATA_DIR=sgd python -m t5x.train" in text and "/home" not in text


def test_what_the_hub_refuses(trained, hub, monkeypatch):
    tracker = Tracker.load(trained[0])
    with pytest.raises(UserError) as caught:
        Tracker.from_pretrained("me/none")
    assert str(caught.value) == (
        "me/none cannot be downloaded from the Hugging Face hub: nothing there " + WHERE
    )

    def refuse(*_, **__):
        raise errors.LocalTokenNotFoundError("401 Unauthorized")

    monkeypatch.setattr(hub, "create_repo", refuse)
    with pytest.raises(UserError, match="uploaded to the Hugging Face hub: 401 Unauth"):
        tracker.push_to_hub("me/small")
    hub.folder.mkdir(parents=True)
    with pytest.raises(UserError, match="me/other on the Hugging Face hub has no conf"):
        Tracker.from_pretrained("me/other")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for call in (tracker.push_to_hub, Tracker.from_pretrained):
        with pytest.raises(UserError, match="comes with the extra 'hf'"):
            call("me/small")
    tracker._run = ""
    with pytest.raises(UserError, match="was not loaded from a run"):
        tracker.push_to_hub("me/small")
