"""MiniSGD on disk: layout, reproducible bytes, and the archive in jaxaug."""

import ast
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from jaxaug import cli
from jaxaug.core.errors import UserError
from jaxaug.data import minisgd as shipped
from jaxaug.data.schema import read_schema
from jaxaug.data.sgd import read_dialogues, read_schema_of
from jaxaug.feed import vocabulary
from jaxaug.formats.d3st import D3STFormatter, D3STOptions
from jaxaug.formats.t5dst import T5DSTFormatter, T5DSTOptions
from jaxaug_papers import minisgd
from jaxaug_papers.minisgd import archive, simulator
from jaxaug_papers.minisgd.world import VARIANTS

CONFIGS = pathlib.Path(__file__).parents[3] / "configs"
SPLITS = ("train", "dev", "test")
SETS = ("aug", "eda", "tree")
SIZES = {"train": 150, "dev": 40, "test": 60}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    sizes = {f"{split}_dialogues": size for split, size in SIZES.items()}
    return minisgd.write(tmp_path_factory.mktemp("minisgd") / "world", **sizes)


def contents(folder):
    folder = pathlib.Path(folder)
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_layout(world):
    schemas = [f"{split}/schema.json" for split in SPLITS]
    expected = [
        "minisgd.json",
        *schemas,
        *(f"train/dialogues_00{number}.json" for number in (1, 2)),
        *(f"{split}/dialogues_001.json" for split in ("dev", "test")),
        *(f"sgd_x/data/{v}/{schema}" for v in VARIANTS for schema in schemas),
        *(f"variants/{name}/{v}/train/schema.json" for name in SETS for v in VARIANTS),
    ]
    assert sorted(contents(world)) == sorted(expected)


def test_same_seed_same_bytes_also_in_another_process(world, tmp_path):
    script = (
        "import sys; from jaxaug_papers import minisgd; minisgd.write(sys.argv[1], "
        "train_dialogues=150, dev_dialogues=40, test_dialogues=60)"
    )
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    command = [sys.executable, "-c", script, str(tmp_path / "again")]
    subprocess.run(command, check=True, env=environment)
    assert contents(tmp_path / "again") == contents(world)


def test_seed_changes_dialogues_not_schemas(world, tmp_path):
    sizes = {f"{split}_dialogues": size for split, size in SIZES.items()}
    other = contents(minisgd.write(tmp_path / "other", seed=1, **sizes))
    for name, data in contents(world).items():
        assert (other[name] == data) == name.endswith("schema.json"), name


def test_scale_streams_any_number_of_dialogues(tmp_path):
    folder = minisgd.write(
        tmp_path / "big", train_dialogues=300, dev_dialogues=1, test_dialogues=1
    )
    files = sorted((pathlib.Path(folder) / "train").glob("dialogues_*.json"))
    sizes = [len(json.loads(file.read_text())) for file in files]
    assert sizes == [128, 128, 44]
    found = list(read_dialogues(folder, "train"))
    assert len({dialogue.dialogue_id for dialogue in found}) == 300
    # The first dialogues do not depend on the number of dialogues.
    assert json.loads(files[0].read_text())[5] == simulator.dialogue("train", 5, seed=0)


def test_the_reader_accepts_everything(world):
    for split, size in SIZES.items():
        for variant in (None, *VARIANTS):
            assert len(list(read_dialogues(world, split, variant))) == size
    for variant, name in itertools.product(VARIANTS, SETS):
        aug = read_dialogues(world, "train", variant, world / "variants" / name)
        schema = read_schema(
            world / "variants" / name / variant / "train" / "schema.json"
        )
        names = {service.name for service in schema.services}
        used = {service for dialogue in aug for service in dialogue.services}
        assert used == names


def test_the_check_finds_no_problem(world, capsys):
    """Values of spans and states are in the text and in the schema."""
    assert cli.main(["data", "check", str(world)]) == 0
    assert "no errors" in capsys.readouterr().out.splitlines()[-1]


def test_the_siblings_have_the_same_lengths():
    for names in (("d3st_aug", "d3st", "d3st_cyclic"), ("t5dst_aug", "t5dst")):
        assert len({lengths_of(name) for name in names}) == 1


def lengths_of(name):
    text = (CONFIGS / f"{name}.gin").read_text()
    (lengths,) = re.findall(r"^TASK_FEATURE_LENGTHS = (.*)$", text, re.MULTILINE)
    return lengths


@pytest.mark.parametrize("name", ["d3st_aug", "t5dst_aug", "runs/robustness"])
def test_no_example_is_truncated(world, tmp_path_factory, name):
    """Examples fit into the lengths of the configs; each dialogue has one schema."""
    limits = ast.literal_eval(lengths_of(name))
    words = vocabulary.train_words(world, tmp_path_factory.getbasetemp() / "words")
    encode = vocabulary.load(words).encode
    form = (
        (T5DSTFormatter, T5DSTOptions) if "t5" in name else (D3STFormatter, D3STOptions)
    )
    truncated = examples = 0
    for split in SPLITS:
        sets = [(variant, None) for variant in (None, *VARIANTS)]
        if split == "train":
            folders = [world / "variants" / folder for folder in SETS]
            sets += itertools.product(VARIANTS, folders)
        for number, (variant, folder) in enumerate(sets):
            dialogues = list(read_dialogues(world, split, variant, folder))
            schema = read_schema_of(world, split, variant, folder)
            formatter = form[0](schema, form[1]())
            for dialogue in dialogues[number :: len(sets)]:
                for example in formatter.dialogue(dialogue):
                    examples += 1
                    for feature, limit in limits.items():
                        ids = encode(getattr(example, feature))
                        truncated += len(ids) + 1 > limit
    assert examples > 500
    assert truncated == 0


def test_write_refuses_an_existing_folder_and_empty_splits(tmp_path):
    (tmp_path / "there").mkdir()
    with pytest.raises(UserError, match="there exists: MiniSGD is written into a new"):
        minisgd.write(tmp_path / "there")
    with pytest.raises(UserError, match=r"dev_dialogues is 0: give at least 1"):
        minisgd.write(tmp_path / "new", dev_dialogues=0)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def fail(split, index, seed):
        if index == 7:
            raise OSError("No space left on device")
        return simulator.dialogue(split, index, seed)

    monkeypatch.setattr(minisgd, "dialogue", fail)
    with pytest.raises(OSError, match="No space left"):
        minisgd.write(tmp_path / "out")
    assert not [*tmp_path.iterdir()]


def test_jaxaug_ships_the_output_of_this_package():
    """The archive is current; if not, run `python -m jaxaug_papers.minisgd.archive`."""
    made = archive.contents()
    for folder in ("world", "example"):
        of_it = {
            name.removeprefix(f"{folder}/"): data
            for name, data in made.items()
            if name.startswith(f"{folder}/")
        }
        assert shipped.unpacked(folder) == of_it
    assert archive.packed({"a": b"1"}) == archive.packed({"a": b"1"})
