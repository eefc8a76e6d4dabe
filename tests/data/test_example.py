"""`jaxaug init`: a valid example data folder for the other commands."""

import re

import pytest

from jaxaug.cli import main
from jaxaug.core.errors import UserError
from jaxaug.data import example, folders, sgd
from jaxaug.feed import recipes


def test_the_example_is_in_order(tmp_path, capsys):
    folder = tmp_path / "mine"
    assert main(["init", str(folder)]) == 0
    assert capsys.readouterr().out == (
        f"wrote 2 services and 20 dialogues to {folder}; {folder}/README.md explains "
        "every field\n"
    )
    assert main(["data", "check", str(folder)]) == 0
    assert capsys.readouterr().out.endswith("no errors\n")
    counts = {
        split: len(list(sgd.read_dialogues(folder, split))) for split in folders.SPLITS
    }
    assert counts == {"train": 12, "dev": 4, "test": 4}
    both = [d for d in sgd.read_dialogues(folder, "train") if len(d.services) == 2]
    assert len(both) == 3
    assert recipes.table(folder).mixtures["d3st_eval"] == ("d3st_sgd",)


def test_every_field_is_explained(tmp_path):
    folder = example.write(tmp_path / "mine")
    text = (folder / "README.md").read_text()
    names = set()
    for file in ("schema.json", "dialogues_001.json"):
        names |= set(re.findall(r'"(\w+)":', (folder / "train" / file).read_text()))
    schema = sgd.read_schema_of(folder, "train")
    slots = {slot.name for service in schema.services for slot in service.slots}
    # The README describes actions as optional.
    rest = names - slots - {"act", "values", "canonical_values", "method", "parameters"}
    assert {name for name in rest if name not in text} == set()
    assert "service_results" in rest
    assert f"jaxaug data check {folder}\n" in text


def test_an_empty_folder_will_do_and_no_other(tmp_path):
    (tmp_path / "empty").mkdir()
    one, two = example.write(tmp_path / "empty"), example.write(tmp_path / "new")
    for split in folders.SPLITS:
        for file in ("schema.json", "dialogues_001.json"):
            name = f"{split}/{file}"
            assert (one / name).read_bytes() == (two / name).read_bytes()
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "x").write_text("mine")
    for path in (kept, kept / "x"):
        with pytest.raises(UserError) as error:
            example.write(path)
        assert str(error.value) == (
            f"{path} is not empty, and files are never overwritten. Name a new folder."
        )
    assert [path.name for path in kept.iterdir()] == ["x"]
