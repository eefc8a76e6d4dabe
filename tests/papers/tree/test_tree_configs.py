"""The grids of Coca et al. (2023), and the commands for the rows of its tables."""

import re
import shlex
from pathlib import Path

import pytest

from jaxaug import cli
from jaxaug.augment import config as configs
from jaxaug.augment.config import Spec
from jaxaug.augment.judge import filters
from jaxaug.augment.schemes import registry
from jaxaug.core import cache_folder
from jaxaug.core.errors import UserError
from jaxaug.data import minisgd
from jaxaug.paraphrase import generation

ROOT = Path(__file__).parents[3]
PAPER = ROOT / "papers/jaxaug_papers/tree"
FOLDER = PAPER / "configs/augment"
TEXTS = {"kst": "some/folder"}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda p: p.stem)
def test_every_config_makes_its_jobs(path):
    config = configs.load(f"{path}:{TEXTS[path.stem]}" if path.stem in TEXTS else path)
    assert bool(registry.made(config.scheme, config.seed, config.options)) == (
        not config.is_given
    )
    assert {*config.filters, *config.slot_filters} <= set(filters.FILTERS)
    assert configs.of(config.key(), "again").key() == config.key()


DOCUMENTED = {
    config: shlex.split(command)
    for command, config in re.findall(
        r"jaxaug (augment --config configs/augment/(\S+) [^`\n]*--out [^`\s]+)",
        (PAPER / "README.md").read_text(encoding="utf-8"),
    )
}


@pytest.mark.parametrize("name", sorted(DOCUMENTED))
def test_commands_of_the_docs_resolve(name, tmp_path, monkeypatch, capsys):
    """The commands run on MiniSGD instead of SGD."""
    monkeypatch.chdir(ROOT)
    own = {"SGD": str(minisgd.materialise(cache_folder.cache_dir()))}
    words = [own.get(word, word) for word in DOCUMENTED[name]]
    words[words.index("--out") + 1] = str(tmp_path / "out")
    assert cli.main([*words, "--dry_run"]) == 0
    said = capsys.readouterr().out
    assert f"would write to {tmp_path}/out, a new folder:\n  v1/train/schema" in said
    models = re.findall(r"(?m)^  (\S+) +not here: `jaxaug models fetch (\S+)`$", said)
    assert all(first == second for first, second in models)
    assert not (tmp_path / "out").exists()


def test_rows_of_the_papers_tables_have_a_command():
    rows = {"backtranslate.py", "backtranslate.py:5", "eda.py", "oracle.py", "qcpg.py"}
    rows |= {f"pegasus_tree.py{tree}" for tree in ("", ":b", ":bleurt")}
    assert rows <= DOCUMENTED.keys()


def test_the_papers_trees():
    bart = configs.load(FOLDER / "pegasus_tree.py")
    assert bart.spec.constraints == ("jaccard <= 0.75",)
    outputs = sum(setting.num for setting in generation.grid(bart.options["grid"]))
    assert outputs == 500
    assert {*bart.filters, *bart.slot_filters} == set(filters.FILTERS)
    assert bart.spec == Spec()
    b = configs.load(f"{FOLDER}/pegasus_tree.py:b")
    assert b.spec == Spec(
        levels=("jaccard", "string_similarity"),
        decisions=("max", "min"),
        constraints=("jaccard <= 0.5", "entailment >= 0.58"),
    )


def test_text_behind_the_colon():
    config = configs.load(f"{FOLDER}/backtranslate.py:5")
    assert config.variants == 5 and config.options["pivots"] == 5


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("oracle.py:x", "takes no text behind a colon. Takes no text"),
        (
            "pegasus_tree.py:c",
            "'c' does not fit .* text behind the colon is bart, b or bleurt",
        ),
        ("kst.py", "needs a text. Write the folder of the variants behind a colon"),
    ],
)
def test_wrong_files(name, message):
    with pytest.raises(UserError, match=message):
        configs.load(f"{FOLDER}/{name}")
