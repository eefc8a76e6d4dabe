"""Installs and uses examples/house, the package of docs/extending.md."""

import dataclasses
import re
import shutil
import sys
import tomllib

import jax
import numpy as np
import pytest

from jaxaug.augment.judge import measures
from jaxaug.augment.schemes import sentences
from jaxaug.cli import VERBS, build_parser, main
from jaxaug.core import bundled, config_file, extensions
from jaxaug.core.errors import UserError
from jaxaug.data import fetch
from jaxaug.feed import parallel, recipes
from jaxaug.formats.t5dst import T5DSTOptions
from jaxaug.models.text import registry, run_config
from jaxaug.models.weights import families, hf_folder, t5x_layout
from jaxaug.paraphrase import samplers
from jaxaug_papers import minisgd
from tests.support import compiled
from tests.test_architecture import ROOT

HOUSE = ROOT / "examples/house"
TABLES = {
    "samplers": samplers.SAMPLERS, "schemes": sentences.METHODS,
    "formats": recipes.FORMATS, "metrics": measures.METRICS, "models": registry.MODELS,
    "verbs": VERBS, "datasets": fetch.DATA_SETS, "families": families.FAMILIES,
}  # fmt: skip
# Packages of this repository, if they are installed.
PAPERS = {
    "samplers": ["prior"],
    "verbs": ["classify", "fewshot", "invent", "papers"],
    "datasets": ["fewshot", "multiwoz22", "multiwoz24", "snips"],
}


def singular(group: str) -> str:
    return "family" if group == "families" else group[:-1]


def formatted(recipe):
    """Returns the examples of the first file."""
    job = parallel.FormatJob(recipe.corpus, recipe.corpus.files()[0], recipe.options)
    ((*examples,),) = parallel.format_file(job, lambda example: example)
    return examples


@pytest.fixture
def house(install):
    toml = (HOUSE / "pyproject.toml").read_text(encoding="utf-8")
    files = {path.stem: path.read_text(encoding="utf-8") for path in HOUSE.glob("*.py")}
    points = tomllib.loads(toml)["project"]["entry-points"]
    name = "jaxaug_house"
    install(name, points, files.pop(name), **files)


def test_the_page_quotes_the_package():
    page = (ROOT / "docs/extending.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(?:toml|python)\n(.*?)```", page, re.DOTALL)
    files = [path.read_text(encoding="utf-8") for path in HOUSE.glob("*.*")]
    assert len(blocks) > 2 and all(any(b in f for f in files) for b in blocks)


def test_a_wheel_of_the_package_has_its_modules():
    toml = tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))
    modules = toml["tool"]["setuptools"]["py-modules"]
    assert sorted(modules) == sorted(path.stem for path in HOUSE.glob("*.py"))


def test_there_is_a_group_for_each_table():
    assert tuple(TABLES) == extensions.GROUPS
    for group, table in TABLES.items():
        assert table.outside() == PAPERS.get(group, [])


def test_names_are_known_and_nothing_is_imported(house):
    names = ["min_p", "shout", "polite", "length_ratio", "house", "words"]
    names += ["rides", "nope"]
    for name, (group, table) in zip(names, TABLES.items(), strict=True):
        others = {name, *PAPERS.get(group, [])}
        assert name in table and {*[*table][len(table.data) :]} == others
        assert len(table) == len(list(table)) == len(table.data) + len(others)
    assert "jaxaug_house" not in sys.modules
    assert samplers.find("min_p").complete({}) == {"p": 0.1}
    assert "jaxaug_house" in sys.modules


def test_scheme_sampler_and_model_on_a_command_line(
    house, tiny_lm, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("HOUSE_MODEL", str(tiny_lm))
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "lines.txt").write_text("find me a hotel\n")
    call = ["augment", "text", "--scheme", "paraphrase,shout", "--model", "house"]
    call += ["--sampler", "min_p", "--in", str(tmp_path / "lines.txt"), "--option"]
    options = ["p=0.2", "rate=1", "prompt=plain", "max_length=8"]
    assert main([*call, *options, "--out", str(tmp_path / "out.txt")]) == 0
    loud = (tmp_path / "out.txt").read_text()
    assert loud == loud.upper() and loud.count("\n") == 1
    assert "1 of 1 outputs differ" in capsys.readouterr().out
    options[1] = "rate=0"
    assert main([*call, *options, "--out", str(tmp_path / "quiet.txt")]) == 0
    assert (tmp_path / "quiet.txt").read_text().upper() == loud
    assert main([*call, "p=x", "--out", str(tmp_path / "no.txt")]) == 1
    assert (
        "sampler 'min_p': option: p='x': expected a finite number"
        in capsys.readouterr().err
    )


def test_verb(house, capsys):
    assert main(["words", "find me a hotel"]) == 0
    assert capsys.readouterr().out == "4\n"
    with pytest.raises(SystemExit):
        main(["--help"])
    listed = capsys.readouterr().out
    assert re.search(r"^ +words +count the words of a text$", listed, re.MULTILINE)
    assert main(["completion", "bash"]) == 0
    assert "words" in capsys.readouterr().out
    assert "jaxaug_house" not in sys.modules


def test_data_set(house, tmp_path, monkeypatch, capsys):
    rides = HOUSE / "jaxaug_house_rides"
    shutil.copytree(rides, fetch.find("rides").url)
    out = tmp_path / "data/rides"
    assert main(["data", "fetch", "rides", "--out", str(out)]) == 0
    assert "one turn a dialogue\n6 files verified" in capsys.readouterr().out
    assert main(["data", "check", str(out)]) == 0
    assert "no errors" in capsys.readouterr().out
    table = recipes.table(out)
    assert [one.targets for one in formatted(table.recipes["d3st_sgd"]["train"])] == [
        f"[states] 0={city} [intents] [req_slots]" for city in ("oslo", "rome", "lima")
    ]
    monkeypatch.chdir(tmp_path)
    command = ["data", "convert", "rides", "--source", str(rides), "--out", "made"]
    assert main(command) == 0
    made = (tmp_path / "made/train/dialogues_001.json").read_bytes()
    assert made == (out / "train/dialogues_001.json").read_bytes()


def test_tasks_of_data_sets(house, install, caplog):
    seqio = pytest.importorskip("seqio")
    from tasks import others

    if "rides_lines" in seqio.TaskRegistry.names():  # `import tasks` has called it.
        seqio.TaskRegistry.remove("rides_lines")
    install("broken-one", {"jaxaug.datasets": {"broken": "broken_one:no"}}, "1 / 0")
    with caplog.at_level("WARNING", logger="absl"):
        others.register()
    assert (
        "its tasks are left out: dataset 'broken' of package broken-one" in caplog.text
    )
    assert seqio.TaskRegistry.get("rides_lines").splits == ("train",)
    seqio.TaskRegistry.remove("rides_lines")


def test_a_data_set_of_a_package_that_is_not_installed(monkeypatch):
    monkeypatch.setattr(extensions, "_points", lambda *_: {})
    with pytest.raises(UserError, match="'fewshot' comes with the package jaxaug-p"):
        fetch.find("fewshot")


def test_configs_of_packages(install, tmp_path, monkeypatch, caplog):
    place = tmp_path / "place"
    (place / "configs").mkdir(parents=True)
    (place / "configs/own.py").write_text("def get_config():\n    return {'a': 1}\n")
    points = {"a": "broken_one:gone", "own": "own_configs:folder"}
    source = f"def folder():\n    return {str(place)!r}\n"
    install("own-configs", {bundled.GROUP: points}, source)
    monkeypatch.chdir(tmp_path)
    with caplog.at_level("WARNING", logger="absl"):
        found, file = config_file.read("configs/own.py", "configs")
    assert found == {"a": 1} and file == str(place / "configs/own.py")
    assert "the configs of a are not found: broken_one:gone (t5x.gin_" in caplog.text


def test_verbs_of_ours_search_no_package(house, monkeypatch):
    monkeypatch.setattr(extensions, "_points", lambda *_: 1 / 0)
    assert build_parser(["data", "describe"]).parse_args(["doctor"])


def test_metric(house):
    metric = measures.find("length_ratio")
    found = measures.compute({"length_ratio": metric}, ["a b"], ["a b c"])
    assert found["length_ratio"].tolist() == [1.5]


def test_family(house, tmp_path):
    family = families.FAMILIES["nope"]
    sizes = {"vocab_size": 7, "emb_dim": 4, "num_layers": 1, "mlp_dim": 8}
    config = family.code.Config(**sizes, num_heads=2, head_dim=2)
    module = family.build(config)
    told = family.code.to_hf(config)
    shapes = family.variables(module)["params"]
    assert "position_embedder" not in shapes["decoder"]
    rng = np.random.default_rng(0)
    params = jax.tree.map(
        lambda leaf: rng.standard_normal(leaf.shape).astype("float32"), shapes
    )
    keys, card = family.key_map(config), hf_folder.Card("a", "b")
    hf_folder.write(tmp_path / "nope", params, keys, told, card, {})
    loaded = hf_folder.load(tmp_path / "nope")
    assert (loaded.family, loaded.config) == (family, config)
    jax.tree.map(np.testing.assert_array_equal, loaded.params, params)
    tokens = np.array([[3, 5, 2]])
    # Without positions, a repeated token always attends to the same: nothing changes.
    inputs = tokens * 0 + 3, tokens
    logits = compiled.apply(module, params, *inputs, enable_dropout=False)
    np.testing.assert_allclose(logits[:, 0], logits[:, 2], rtol=1e-4)
    # `convert` writes weights that it can read back, and that `--model` reads.
    gin = tmp_path / "network.gin"
    gin.write_text(t5x_layout.network_gin(module))
    assert t5x_layout.read_gin(gin) == (family, config)
    assert type(run_config.build(gin, "NETWORK")) is type(module)
    with pytest.raises(UserError, match="config.json: lacks vocab_size, hidden_size"):
        family.config({"model_type": "nope"})


def test_networks_of_other_packages_may_stand_in_a_config(install, tmp_path):
    install("net", {"jaxaug.networks": {"net": "net:Net"}}, "class Net: ...\nOther = 1")
    gin = tmp_path / "config.gin"
    gin.write_text("import net\nMODEL = @net.Net()\nOTHER = @net.Other()\n")
    assert type(run_config.build(gin, "MODEL")).__name__ == "Net"
    with pytest.raises(UserError, match="net.Other.* is not a network, model, or"):
        run_config.build(gin, "OTHER")


def test_format(house, tmp_path, monkeypatch, capsys):
    sizes = {"train_dialogues": 2, "dev_dialogues": 1, "test_dialogues": 1}
    root = minisgd.write(tmp_path / "data", **sizes)
    table = recipes.table(root)
    assert table.tasks_of("polite_eval")[0] == "polite_sgd"
    examples = {
        name: formatted(table.recipes[f"{name}_sgd"]["validation"])
        for name in ("d3st", "polite")
    }
    for plain, polite in zip(examples["d3st"], examples["polite"], strict=True):
        assert polite.inputs == f"please {plain.inputs}"
        parsed = [
            f.parse(plain.targets, plain.key)
            for f in map(recipes.FORMATS.get, examples)
        ]
        assert parsed[0] == parsed[1] and parsed[0].malformed == 0
    assert main(["tasks", "polite_*", "--data_dir", str(root)]) == 0
    line = re.search(r"^polite_sgd .*", capsys.readouterr().out, re.MULTILINE)[0]
    assert "  POLITE, options as 1a): original schemas, train in" in line
    # A format outside our families counts as it declares.
    other = dataclasses.make_dataclass("Other", [], bases=(T5DSTOptions,), frozen=True)
    other.family, other.per_slot = "other", False
    monkeypatch.setitem(recipes.FORMATS.data, "other", other())
    assert main(["tasks", "[do]*_sgd", "--data_dir", str(root)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    counts = {row[0]: row[1:4] for row in rows if len(row) > 4}
    assert counts["other_sgd"] == counts["d3st_sgd"]


@pytest.mark.parametrize("group", extensions.GROUPS)
def test_missing_imports_are_named_at_first_use(install, group):
    install("broken-one", {f"jaxaug.{group}": {"broken": "broken_one:no"}}, "1 / 0")
    table = TABLES[group]
    assert "broken" in table
    for name in table.data:
        assert table[name] is table.data[name]
    message = (
        f"{singular(group)} 'broken' of package broken-one: broken_one:no cannot be "
        "imported (ZeroDivisionError: division by zero). Mend the package, or "
        "uninstall it."
    )
    with pytest.raises(UserError, match=re.escape(message)):
        table["broken"]


def test_the_sets_of_a_broken_format_are_left_out(install, sgd_tree):
    install("broken-one", {"jaxaug.formats": {"broken": "broken_one:no"}})
    table = recipes.table(sgd_tree)
    assert "d3st_sgd" in table.recipes and "broken_sgd" not in table.recipes
    with pytest.raises(UserError, match="format 'broken' of package broken-one: "):
        table.tasks_of("broken_sgd")


@pytest.mark.parametrize(
    ("group", "name"),
    [(group, next(iter(table.data))) for group, table in TABLES.items()]
    + [("models", "smollm2"), ("schemes", "contextual")],
)
def test_a_name_that_is_ours_is_refused(install, group, name):
    install("thief", {f"jaxaug.{group}": {name: "thief:f"}})
    message = f"of package thief: jaxaug has a {singular(group)} of that name. Uni"
    with pytest.raises(UserError, match=message):
        TABLES[group][name]


def test_a_name_that_two_packages_have_is_refused(install):
    for name in ("one", "two"):
        install(name, {"jaxaug.schemes": {"same": f"{name}:f", f"my_{name}": "re:sub"}})
    with pytest.raises(UserError, match="of package (one|two): package (one|two) re"):
        sentences.METHODS["same"]
    assert sentences.METHODS["my_one"] is re.sub


@pytest.mark.parametrize(
    ("group", "name", "value", "message"),
    [
        ("schemes", "x", "math:pi", "math:pi is 3.14159.*, expected a function. Mend"),
        ("schemes", "a.b", "re:sub", "names have letters, digits, _ and - only."),
        ("models", "x", "math:pi", "expected a function"),
        ("families", "x", "math:pi", "but must be a Family called 'x'"),
        ("metrics", "x", "math:pi", "expected a function"),
        ("datasets", "x", "re:sub", "expected a jaxaug.data.datasets.DataSet"),
        ("samplers", "x", "re:sub", "takes pattern: its options are keywords with"),
        ("formats", "x", "math:pi", "lacks family, version, per_slot, order, seed, a"),
        ("formats", "x", "jaxaug.formats:D3STOptions", "is no dataclass: expected a"),
        ("formats", "a_b", "jaxaug_own:o", "is called 'a_b': names of formats have"),
    ],
)
def test_invalid_entries_are_refused(install, group, name, value, message):
    source = "from jaxaug.formats.d3st import D3STOptions\no = D3STOptions()\n"
    install("jaxaug-own", {f"jaxaug.{group}": {name: value}}, source)
    where = f"{singular(group)} '{name}' of package jaxaug-own: "
    with pytest.raises(UserError, match=f"{where}.*{message}"):
        TABLES[group][name]


def test_the_code_of_other_packages_counts(install):
    source = "def f(text, rng):\n    return text\n"
    install("first", {"jaxaug.schemes": {"f": "first:f"}}, source)
    install("second", {"jaxaug.schemes": {"g": "second:f"}}, source + "# changed\n")
    digests = {extensions.code_of(sentences.METHODS[name]) for name in "fg"}
    assert len(digests) == 2 and "" not in digests
    assert extensions.code_of(sentences.METHODS["eda"]) == ""
    install("third", {"jaxaug.samplers": {"s": "third:s"}}, "def s(*, p=0.5): ...\n")
    assert samplers.find("s").code and not samplers.find("beam").code
    assert sentences.METHODS["f"]("a", np.random.default_rng(0)) == "a"
