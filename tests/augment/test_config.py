import json
import re
import shlex
from pathlib import Path

import pytest

from jaxaug import cli
from jaxaug.augment import config as configs
from jaxaug.augment.judge import filters
from jaxaug.augment.schemes import contextual, registry
from jaxaug.core import cache_folder
from jaxaug.core.errors import UserError
from jaxaug.data import minisgd
from jaxaug.paraphrase import generation, version

FOLDER = Path(__file__).parents[2] / "configs/augment"


def test_the_files():
    assert sorted(p.stem for p in FOLDER.glob("*.py")) == [
        "eda", "grammar", "grammar_tree", "pool_tree", "smollm2_tree",
    ]  # fmt: skip


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda p: p.stem)
def test_every_config_makes_its_jobs(path):
    config = configs.load(path)
    assert registry.made(config.scheme, config.seed, config.options)
    assert {*config.filters, *config.slot_filters} <= set(filters.FILTERS)
    assert configs.of(config.key(), "again").key() == config.key()


DOCUMENTED = {
    config: shlex.split(command)
    for command, config in re.findall(
        r"jaxaug (augment --config configs/augment/(\S+) [^`\n]*--out [^`\s]+)",
        (FOLDER.parents[1] / "docs" / "augment.md").read_text(encoding="utf-8"),
    )
}


@pytest.mark.parametrize("name", sorted(DOCUMENTED))
def test_commands_of_the_docs_resolve(name, tmp_path, monkeypatch, capsys):
    """The commands run on MiniSGD instead of SGD."""
    monkeypatch.chdir(FOLDER.parents[1])
    own = {"SGD": str(minisgd.materialise(cache_folder.cache_dir()))}
    words = [own.get(word, word) for word in DOCUMENTED[name]]
    words[words.index("--out") + 1] = str(tmp_path / "out")
    assert cli.main([*words, "--dry_run"]) == 0
    said = capsys.readouterr().out
    assert f"would write to {tmp_path}/out, a new folder:\n  v1/train/schema" in said
    models = re.findall(r"(?m)^  (\S+) +not here: `jaxaug models fetch (\S+)`$", said)
    assert all(first == second for first, second in models)
    assert not (tmp_path / "out").exists()


def test_text_behind_the_colon():
    config = configs.load(f"{FOLDER}/smollm2_tree.py:7")
    assert {s.num for s in generation.grid(config.options["grid"])} == {7}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing.py", "nothing.py: no such file. Name a Python file"),
        ("smollm2_tree", "no such file"),
        ("smollm2_tree.py:ten", "'ten' does not fit .* number of outputs"),
    ],
)
def test_wrong_files(name, message):
    with pytest.raises(UserError, match=message):
        configs.load(f"{FOLDER}/{name}")


def test_invalid_config_files(tmp_path):
    path = tmp_path / "x.py"
    path.write_text("a = 1\n")
    with pytest.raises(UserError, match=r"has no function get_config\(\)"):
        configs.load(str(path))
    path.write_text("def get_config(:\n")
    with pytest.raises(UserError, match="cannot be read: invalid syntax"):
        configs.load(str(path))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "the field 'scheme' is missing"),
        ({"scheme": "x", "metric": {}}, "no field 'metric'; did you mean 'metrics'"),
        ({"scheme": "x", "select": "trees"}, "select='trees': did you mean 'tree'"),
        ({"scheme": "x", "variants": 0}, "variants=0: give at least 1"),
        ({"scheme": "x", "splits": ("trian",)}, "splits: did you mean 'train'"),
        ({"scheme": "x", "splits": "train"}, "splits is a text; write a tuple"),
        ({"scheme": "x", "splits": ()}, "name one or more, each once"),
        ({"scheme": 7}, "here.py: scheme=7: expected a text"),
        ({"scheme": "x", "splits": 7},
         "here.py: splits=7: expected a tuple .each item"),
        ({"scheme": "x", "splits": (7,)}, r"splits=\(7,\): expected a tuple"),
        ({"scheme": "x", "variants": "5"}, "variants='5': expected a whole number"),
        ({"scheme": "x", "options": ("a",)}, "options=.*: expected a mapping"),
        ({"scheme": "x", "metrics": {"bleu": None}}, "metrics=.*: expected a mapping"),
        ({"scheme": "x", "report": {"bleu": {"path": 7}}}, "path=7: give a text"),
        ({"scheme": "x", "beside": {"EDA": 7}}, "beside=.*: expected a mapping"),
        ({"scheme": "x", "seed": -1}, "seed is -1: give a whole number from 0"),
        ({"scheme": "x", "names": 1}, "names=1: expected True or False"),
        ({"scheme": "x", "select": "tree", "tree": {"decimals": 0.5}},
         "here.py: tree: decimals=0.5: expected a whole number or a tuple"),
        ({"scheme": "x", "tree": {"levels": ("a",)}}, "set select='tree'"),
        ({"scheme": "x", "select": "tree", "metrics": {"jaccard": {}}},
         "the tree needs metric 'entailment'"),
        ({"scheme": "x", "select": "tree", "tree": {"level": ("a",)}},
         "tree: no field 'level'; did you mean 'levels'"),
    ],
)  # fmt: skip
def test_wrong_fields(fields, message):
    with pytest.raises(UserError, match=message):
        configs.of(fields, "here.py")


@pytest.mark.parametrize(
    ("scheme", "options", "message"),
    [
        ("sentences", {}, "'sentences' is not a scheme; did you mean"),
        ("sentence", {"method": "ede", "num": 1}, "'ede' is not a method on sentences"),
        ("sentence", {"method": "eda"}, "'sentence' cannot be made with .*num"),
        ("qcpg", {"width": 1}, "scheme 'qcpg' cannot be made with .*width"),
        ("sentence", {"method": "eda", "num": 1, "rate": 1}, "cannot be made .*rate"),
        ("sentence", {"method": "eda", "num": 1, "swap": "a"},
         "method 'eda': swap='a': expected a finite"),
        ("sentence", {"method": "eda", "num": "1"}, "num='1': expected a whole"),
        ("sentence", {"method": "eda", "num": 0}, "'eda': num=0: give at least 1"),
        ("qcpg", {"beams": 2.5}, "scheme 'qcpg': beams=2.5: expected a whole"),
        ("contextual", {"temperature": float("inf")}, "temperature=inf: expected"),
        ("paraphrase", {"grid": 7}, "'paraphrase': grid=7: expected a list"),
    ],
)  # fmt: skip
def test_schemes_and_options_that_are_not_there(scheme, options, message):
    with pytest.raises(UserError, match=message):
        registry.made(scheme, 0, options)


@pytest.mark.parametrize("value", ["None", "7", "[1]", "'scheme'", "{1: 2}"])
def test_configs_that_are_not_mappings(tmp_path, value):
    path = tmp_path / "x.py"
    path.write_text(f"def get_config():\n    return {value}\n")
    with pytest.raises(UserError, match="is no ConfigDict and no mapping of fields"):
        configs.load(str(path))


@pytest.mark.parametrize(
    ("scheme", "options"),
    [
        ("contextual", {"model": "{}"}),
        ("backtranslate", {"pivots": ["fr"], "models": {"fr": ("{}", "{}")}}),
    ],
)
def test_keys_of_schemes_hold_the_weights_of_their_models(tmp_path, scheme, options):
    """A copy of a model has the same key; other weights have another key."""

    def key(folder):
        named = json.loads(json.dumps(options).replace("{}", str(tmp_path / folder)))
        (job,) = registry.made(scheme, 0, named)
        return job.key

    for name, weights in (("a", "1"), ("b", "1"), ("c", "2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.gguf").write_text(weights)
    assert key("a") == key("b") != key("c")
    (tmp_path / "a" / "model.gguf").write_text("another")
    assert key("a") != key("b")
    assert key("b")["code"] == key("c")["code"]


def test_the_code_of_a_scheme_covers_its_imports(monkeypatch):
    found = [m.__name__ for m in registry._modules_of(contextual)]
    names = (
        "schemes.contextual",
        "schemes.sentences",
        "language.lexicon",
        "language.words",
    )
    assert {f"jaxaug.augment.{name}" for name in names} == {*found}
    monkeypatch.setattr(generation, "identity", lambda name: name)
    (job,) = registry.made("qcpg", 0, {"kind": "captions"})
    assert job.key["models"] == ["qcpg-captions"]
    monkeypatch.setattr(version, "of_outputs", lambda: "other")
    (changed,) = registry.made("qcpg", 0, {"kind": "captions"})
    assert changed.key["code"] == ["other", job.key["code"][1]]


def test_sentence_outputs_depend_on_text_and_seed_alone():
    def outputs(seed, texts):
        options = {"method": "eda", "num": 6}
        (job,) = registry.made("sentence", seed, options)
        return dict(zip(texts, job.run(texts), strict=True))

    texts = ["city where the event takes place", "date of the trip"]
    first = outputs(0, texts)
    assert outputs(0, texts[::-1]) == first and outputs(1, texts) != first
    assert len(set(first[texts[0]])) > 2
