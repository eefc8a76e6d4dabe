"""`jaxaug fewshot` from a config file to its tables, on toy data."""

import csv
from pathlib import Path

import numpy as np
import pytest

from jaxaug import cli
from jaxaug.core.errors import UserError
from jaxaug.curriculum import levels
from jaxaug.curriculum.levels import Levelled
from jaxaug_papers import pcc
from jaxaug_papers.pcc.fewshot import config as configs
from jaxaug_papers.pcc.fewshot import methods
from jaxaug_papers.shared import encoders
from jaxaug_papers.shared import labelled as data
from jaxaug_papers.shared.labelled import Sentence

CONFIG = """
def get_config():
    return {
        "dataset": "toy",
        "per_label": 3,
        "seeds": (0, 1),
        "encoder": "letters",
        "eval_every": 8,
        "out": "unused",
        "triplet": {"hidden": 8, "output": 4, "batch_size": 8},
        "methods": (
            {"name": "none", "steps_per_level": 4},
            {"name": "levels", "source": "levels", "path": "levels.jsonl",
             "schedule": "cyclic", "steps_per_level": 4},
            {"name": "other", "source": "levels", "path": "none.jsonl",
             "optional": True},
        ),
        "tables": (
            {"title": "Table 1", "rows": ("none", "levels", "other"),
             "reference": "none"},
        ),
    }
"""


def letters(texts):
    """Returns counts of letters, which distinguish the labels of the toy data."""
    return np.array([[text.count(c) for c in "abcdef"] for text in texts], np.float32)


@pytest.fixture
def world(tmp_path, monkeypatch):
    (tmp_path / "toy").mkdir()
    rng = np.random.default_rng(0)

    def sentence(label):
        return " ".join(rng.choice(list("abcdef"[2 * label : 2 * label + 3]), 6))

    for split, number in (("train", 6), ("test", 20)):
        lines = [f"{k}\t{sentence(k)}" for k in range(2) for _ in range(number)]
        (tmp_path / f"toy/{split}.txt").write_text("\n".join(lines))
    found = data.load(tmp_path / "toy")
    texts = {one.text: (one.text[2:], one.text[:-2]) for one in found.train}
    levels.write(
        tmp_path / "levels.jsonl",
        [Levelled(t, ((t,), (a,), (b,))) for t, (a, b) in texts.items()],
    )
    (tmp_path / "config.py").write_text(CONFIG)
    monkeypatch.setattr(encoders, "find", {"letters": letters}.__getitem__)
    return tmp_path


def command(world, *more):
    named = {"--config": "config.py", "--data_dir": ".", "--out": "out"}
    paths = [part for k, v in named.items() for part in (k, str(world / v))]
    return cli.main(["fewshot", *paths, *more])


def test_the_whole_command(world, capsys):
    pytest.importorskip("matplotlib")
    assert command(world) == 0
    shown = capsys.readouterr().out
    assert "toy: 2 labels, 6 few-shot sentences for each of 2 seeds" in shown
    assert "levels: 24 updates, 0 x4, 1 x4, 2 x4, 0 x4, 1 x4, 2 x4" in shown
    assert "nearest neighbour of raw encodings: " in shown
    assert "other: not run: method 'other': 0 files" in shown
    written = (world / "out/results.txt").read_text()
    assert written.startswith("Table 1\n") and written.rstrip() in shown
    with open(world / "out/results.csv") as file:
        rows = {row["method"]: row for row in csv.DictReader(file)}
    assert list(rows) == ["none", "levels"] and rows["levels"]["updates"] == "24"
    with open(world / "out/curves.csv") as file:
        curves = list(csv.DictReader(file))
    assert [row["updates"] for row in curves if row["seed"] == "0"] == [
        "8",
        "16",
        "24",
    ] * 2
    # The result is the last point of the curve, independent of earlier points.
    last = [
        r["accuracy"] for r in curves if (r["method"], r["updates"]) == ("levels", "24")
    ]
    assert last == [rows["levels"]["seed0"], rows["levels"]["seed1"]]
    assert 0.5 < float(rows["levels"]["mean"]) <= 1
    assert (world / "out/curves.png").exists()
    # The same command gives the same results.
    before = (world / "out/curves.csv").read_bytes()
    assert command(world) == 0
    assert (world / "out/curves.csv").read_bytes() == before


def test_a_dry_run_prints_the_schedules_and_writes_nothing(world, capsys):
    assert command(world, "--dry_run") == 0
    shown = capsys.readouterr().out
    assert "\nnone\ncurriculum: 1 stages, 24 steps\nlevel 0 |####" in shown
    assert "\nlevels\ncurriculum: 6 stages, 24 steps\nlevel 2 |" in shown
    assert "neighbour" not in shown
    assert not (world / "out").exists()


def test_the_few_shot_sentences_as_a_file(world, capsys):
    assert command(world, "--texts", str(world / "texts.txt")) == 0
    lines = (world / "texts.txt").read_text().removesuffix("\n").split("\n")
    train = data.load(world / "toy").train
    drawn = [data.few_shot(train, 3, seed) for seed in (0, 1)]
    assert lines == list(dict.fromkeys(s.text for one in drawn for s in one))
    assert f"{len(lines)} sentences of 2 seeds" in capsys.readouterr().out
    assert not (world / "out").exists()


def test_a_missing_source_that_is_not_optional_is_an_error(world, capsys):
    text = (world / "config.py").read_text().replace("levels.jsonl", "no.jsonl")
    (world / "config.py").write_text(text)
    assert command(world) == 1
    assert "method 'levels': 0 files" in capsys.readouterr().err


GOOD = {"dataset": "d", "out": "o", "methods": ({"name": "none"},), "tables": ()}
TABLE = {"title": "T", "rows": ("none",), "reference": "none"}


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"sedes": (0,)}, "config: no field 'sedes'; did you mean 'seeds'"),
        ({"methods": ({"nam": "a"},)}, "methods: no field 'nam'; did you mean 'name'"),
        ({"methods": ({},)}, "methods: the field 'name' is missing"),
        ({"methods": ({"name": "a"},) * 2}, "'a' is there twice. Rename one"),
        ({"triplet": {"margins": 1}}, "triplet: no field 'margins'"),
        ({"triplet": {"batch_size": 0}}, "batch_size=0: expected .* at least 1"),
        ({"triplet": {"dropout_rate": 1}}, "dropout_rate=1: expected .* from 0 to"),
        ({"triplet": {"learning_rate": 0}}, "learning_rate=0: expected .* above 0"),
        ({"tables": (TABLE | {"rows": ("non",)},)}, "table 'T': no method 'non'"),
        ({"tables": (TABLE | {"rows": ()},)}, "reference 'none' is no row of it"),
        ({"seeds": (1, 1)}, "name one or more, each once"),
        ({"eval_every": 0}, "eval_every=0: expected .* at least 1"),
        ({"norm": 0}, "norm=0: expected .* above 0"),
        ({"methods": 7}, "methods=7: expected a tuple of mappings"),
        ({"methods": ("none",)}, "methods: 'none': expected a mapping of fields"),
        ({"triplet": 7}, "triplet: 7: expected a mapping of fields"),
        (
            {"seeds": (2**63,)},
            r"seeds=\(9223372036854775808,\): .* \(at most 64 bits\)",
        ),
        ({"per_label": 0}, "per_label=0: expected .* at least 1 or None"),
    ],
)
def test_fields_that_are_wrong_are_named(fields, message):
    with pytest.raises(UserError, match=message):
        configs.of(GOOD | fields)


def test_wrong_options_of_a_scheme():
    method = methods.Method("EDA", "sentence", levels=({"method": "eda", "rate": 1},))
    with pytest.raises(UserError, match="scheme 'sentence' cannot be made with .*num"):
        methods.levelled(method, [Sentence("a bus", "x")], 0, "unused")


def test_a_text_for_the_config(tmp_path):
    file = tmp_path / "config.py"
    file.write_text(
        f"def get_config(seed):\n  return {GOOD} | {{'seeds': (int(seed),)}}"
    )
    assert configs.load(f"{file}:7").seeds == (7,)
    with pytest.raises(UserError, match="config.py: needs a text"):
        configs.load(str(file))
    file.write_text(f"def get_config(): return {GOOD}")
    with pytest.raises(UserError, match="config.py:7: takes no text behind a colon"):
        configs.load(f"{file}:7")


HOUSE = ("table2.py:amzn", "table2.py:covidclu", "table2.py:huff")
EQUALLY_LONG = (
    "amount.py", "bottom_k.py", "figure2.py", "order.py", "pcc_huffpost.py",
    "table4.py:amzn", "table4.py:covidclu", "table4.py:huff",
)  # fmt: skip
HOUSE += EQUALLY_LONG


def test_the_configs_of_the_house():
    folder = Path(pcc.folder()) / "configs/fewshot"
    names = {name.partition(":")[0] for name in HOUSE}
    assert sorted(names) == sorted(path.name for path in folder.glob("*.py"))
    for name in HOUSE:
        found = configs.load(str(folder / name))
        assert found.methods and {row for t in found.tables for row in t.rows} == {
            method.name for method in found.methods
        }
        # The command in the docstring of a file names the file.
        file = folder / name.partition(":")[0]
        assert f"--config configs/fewshot/{file.name}" in file.read_text()


def test_the_methods_of_a_table_at_equal_updates_are_equally_long():
    folder = Path(pcc.folder()) / "configs/fewshot"
    for name in EQUALLY_LONG:
        found = configs.load(str(folder / name))
        for table in found.tables:
            if table.title.endswith("once through the levels"):
                continue
            chosen = [method for method in found.methods if method.name in table.rows]
            lengths = {one.schedule_of(len(one.levels) or 5).steps for one in chosen}
            assert len(lengths) == 1, (table.title, lengths)


@pytest.mark.parametrize(
    "name, per_label, ends",
    [
        ("huff", 10, (200, 400, 600, 800, 1000, 1200)),
        ("covidclu", 3, (300, 500, 700, 850, 1000, 1200)),
        ("amzn", 2, (250, 450, 600, 800, 1000, 1200)),
    ],
)
def test_table_2_as_the_paper_trained_it(name, per_label, ends):
    file = Path(pcc.folder()) / "configs/fewshot/table2.py"
    found = configs.load(f"{file}:{name},DIR")
    assert found.per_label == per_label and found.seeds == (0, 1, 2, 3, 4)
    by_name = {method.name: method for method in found.methods}
    two_stages = (
        "token substitution",
        "pervasive dropout",
        "SwitchOut",
        "SwitchOut, a tenth of the words",
        "round-trip translation",
    )
    for row in two_stages:
        schedule = by_name[row].schedule_of(1)
        assert schedule.ends == (600, 1200)
        assert schedule.weights == ((1.0, 0.0), (0.2, 0.8))
    gradual = by_name["hard negatives, EDA gradual"]
    assert gradual.schedule_of(5).ends == ends
    assert by_name["hard negatives, EDA"].schedule_of(1).ends == (1200,)
    hard = {row for row, method in by_name.items() if method.candidates == 4}
    assert hard == {row for row in by_name if row.startswith("hard negatives")}
    assert by_name["PCC cyclic, own paraphrases"].schedule_of(5).ends == (
        *ends,
        *(1200 + end for end in ends),
    )
    for row in ("token substitution", "hard negatives, EDA"):
        assert by_name[row].levels[0]["wordnet_dir"] == "DIR"  # fmt: skip
