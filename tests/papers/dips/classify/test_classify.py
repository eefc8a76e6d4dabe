"""`jaxaug classify` from a config file to its tables, on toy data."""

import csv
import json

import numpy as np
import pytest

from jaxaug import cli
from jaxaug.core.errors import UserError
from jaxaug_papers.dips.classify import config as configs
from jaxaug_papers.dips.classify import rows, tables
from jaxaug_papers.dips.classify.examples import Example
from jaxaug_papers.dips.classify.rows import Method
from jaxaug_papers.dips.classify.tables import Cell

CONFIG = """
def get_config():
    return {
        "dataset": "toy",
        "reader": "lines",
        "classifiers": ("LogReg",),
        "train_size": 40,
        "validation_size": 8,
        "shares": (1.0, 0.25),
        "seeds": (0, 1),
        "num": 2,
        "num_sources": 6,
        "wordnet_dir": "no/such/folder",
        "methods": (
            {"name": "NoAug"},
            {"name": "Copies", "scheme": "copies"},
            {
                "name": "Dropout",
                "scheme": "pervasive_dropout",
                "options": ("rate=0.3",),
            },
            {"name": "SynRep", "scheme": "token_substitution"},
            {"name": "ContAug", "scheme": "contextual", "model": "no/such/model"},
        ),
        "out": "unused",
    }
"""


@pytest.fixture
def world(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    (tmp_path / "toy").mkdir()
    for split, number in (("train", 60), ("test", 20)):
        labels = "ab" * (number // 2)
        lines = [
            f"{k}\t{' '.join(rng.choice([f'{k}{i}' for i in range(4)], 5))}"
            for k in labels
        ]
        (tmp_path / f"toy/{split}.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "config.py").write_text(CONFIG)
    return tmp_path


def command(world, *more):
    named = {"--config": "config.py", "--data_dir": ".", "--out": "out"}
    paths = [part for k, v in named.items() for part in (k, str(world / v))]
    return cli.main(["classify", *paths, *more])


def test_the_whole_command(world, capsys):
    assert command(world) == 0
    shown = capsys.readouterr().out
    assert "toy: 2 classes, 40 examples to train on, 8 to validate with" in shown
    assert "SynRep: not run: method 'SynRep': no WordNet in no/such/folder" in shown
    assert "ContAug: not run: " in shown and "no/such/model" in shown
    text = (world / "out/results.txt").read_text()
    assert text.rstrip() in shown
    copies = next(line for line in text.splitlines() if line.startswith("Copies:"))
    assert copies.endswith(", 100% of which equal their text")
    content = json.loads((world / "out/results.json").read_text())
    assert set(content["missing"]) == {"SynRep", "ContAug"}
    cells = {(c["share"], c["method"]): c for c in content["cells"]}
    assert list(cells) == [
        (share, name)
        for share in (1.0, 0.25)
        for name in ("NoAug", "Copies", "Dropout")
    ]
    # Two outputs of six sources per seed are added to 40 or 10 examples.
    assert [cells[1.0, "NoAug"]["examples"], cells[1.0, "Dropout"]["examples"]] == [
        40,
        52,
    ]
    assert cells[0.25, "Copies"]["examples"] == 22
    assert cells[1.0, "NoAug"]["accuracy"] == [1.0, 1.0]
    with open(world / "out/results.csv") as file:
        found = list(csv.DictReader(file))
    assert [float(row["seed1"]) for row in found] == [
        cell["accuracy"][1] for cell in content["cells"]
    ]
    assert (world / "out/results.png").exists()


def test_changes_by_the_command_line(world, capsys):
    assert command(world, "--num_sources", "3") == 0
    content = json.loads((world / "out/results.json").read_text())
    assert content["config"]["num_sources"] == 3
    assert content["cells"][1]["examples"] == 46
    assert command(world, "--only", "Drop*", "--shares", "0.25") == 0
    content = json.loads((world / "out/results.json").read_text())
    assert [(c["share"], c["method"]) for c in content["cells"]] == [
        (0.25, "NoAug"),
        (0.25, "Dropout"),
    ]
    assert command(world, "--classifiers", "LogRec") == 1
    assert "classifiers: 'LogRec': did you mean 'LogReg'" in capsys.readouterr().err
    assert command(world, "--only", "Dropuot") == 1
    assert "--only Dropuot: no such row; " in capsys.readouterr().err
    assert command(world, "--num_sources", "0") == 1
    assert (
        "num_sources=0: expected a whole number of at least 1"
        in capsys.readouterr().err
    )


def test_classifiers_of_pairs_read_no_sentences(world, capsys):
    text = CONFIG.replace('"LogReg"', '"SiameseLSTM"')
    (world / "config.py").write_text(text)
    assert command(world) == 1
    assert (
        "classifier 'SiameseLSTM' reads 2 texts, the examples of reader 'lines' have "
        "1. Use LogReg, LSTM."
    ) in capsys.readouterr().err


def test_paraphrases_have_the_class_of_their_sentence():
    given = [Example(("x",), "a"), Example(("y",), "b")]
    found = rows.augmented(given, {"x": ["x1", "x2"]})
    assert found == [*given, Example(("x1",), "a"), Example(("x2",), "a")]


def test_copies_are_counted():
    assert rows.copied({"Why ?": ["why?", "how?"], "a": []}) == 0.5
    assert rows.copied({"a": ()}) is None


def test_paraphrases_of_a_pair_are_pairs_that_mean_the_same():
    given = [Example(("x", "y"), "0")]
    assert rows.augmented(given, {"x": ["x1"]}) == [*given, Example(("x", "x1"), "1")]


def test_paraphrases_take_the_model_of_the_config():
    method = Method("SBS", "paraphrase", ("max_length=9",), sampler="beam")
    (step,) = method.steps("mini", "")
    assert step.options["model"] == "mini" and step.options["max_length"] == 9
    with pytest.raises(
        UserError, match="method 'X': --option .* has no option 'widht'"
    ):
        Method("X", "paraphrase", ("widht=9",), sampler="beam").steps("mini", "")


def test_tables_of_known_figures():
    cells = [
        Cell(0.1, "LogReg", "NoAug", 10, np.arange(100) < np.array([[50], [60]])),
        Cell(0.1, "LogReg", "Ours", 30, np.arange(100) < np.array([[60], [71]])),
    ]
    lines = tables.text_table(cells, 0.1, {"ContAug": "why"}).splitlines()
    assert lines[0] == "10% of the data"
    assert lines[2].split() == ["NoAug", "10", "55.0", "±", "7.1"]
    # Differences .10 and .11: variances 2.5e-5 and 4.2e-4, t of 82 degrees 1.989.
    assert lines[3].split()[2:] == ["65.5", "±", "7.8", "[+6.3,", "+14.7]", "*"]
    assert lines[4].split() == ["ContAug", "not", "run"]
    assert tables.table_5(cells, "toy").splitlines()[2].split() == ["Ours", "65.5"]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"shares": (0.0,)}, "shares=.*above 0, at most 1"),
        ({"classifiers": ("LogRec",)}, "classifiers: 'LogRec': .*'LogReg'"),
        (
            {"methods": ({"name": "a"}, {"name": "a"})},
            r"methods=\['a', 'a'\]: name one",
        ),
        ({"lstm": {"hiden": 3}}, "lstm: no field 'hiden'"),
        ({"lstm": {"dropout_rate": 1.0}}, "dropout_rate=1.0: expected .* from 0"),
        ({"num": 0}, "num=0: expected .* at least 1"),
    ],
)
def test_wrong_configs(change, message):
    fields = {
        "dataset": "d",
        "reader": "lines",
        "out": "o",
        "methods": ({"name": "a"},),
    }
    with pytest.raises(UserError, match=message):
        configs.of(fields | change)


@pytest.mark.parametrize("name", ["table5.py:snips", "table5.py:trec", "msrp.py"])
def test_the_configs_of_the_house(name):
    config = configs.load(f"configs/classify/{name}")
    assert config.methods[0] == Method("NoAug") and len(config.seeds) == 5
    for method in config.methods[2:]:
        if method.scheme != "token_substitution":  # WordNet may not be there.
            method.steps("smollm2", "")
