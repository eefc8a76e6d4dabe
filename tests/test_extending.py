"""docs/extending.md: the package on the page is built, installed and used."""

import dataclasses
import functools
import re
import sys
import tomllib

import numpy as np
import pytest

from jaxaug.augment.judge import measures
from jaxaug.augment.schemes import sentences
from jaxaug.cli import main
from jaxaug.core import extensions
from jaxaug.core.errors import UserError
from jaxaug.data import minisgd
from jaxaug.feed import parallel, recipes
from jaxaug.formats.t5dst import T5DSTOptions
from jaxaug.models.text import registry
from jaxaug.paraphrase import samplers
from tests.support import extension
from tests.test_architecture import ROOT

TABLES = {
    "samplers": samplers.SAMPLERS,
    "schemes": sentences.METHODS,
    "formats": recipes.FORMATS,
    "metrics": measures.METRICS,
    "models": registry.MODELS,
}


@pytest.fixture
def install(tmp_path, monkeypatch):
    """`install(name, {group: {entry: value}}, source)`: as pip leaves a package behind."""
    return functools.partial(extension.install, tmp_path, monkeypatch)


@pytest.fixture
def house(install):
    page = (ROOT / "docs/extending.md").read_text(encoding="utf-8")
    (toml,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (source,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    install("jaxaug_house", tomllib.loads(toml)["project"]["entry-points"], source)


def test_there_is_a_group_for_each_table():
    assert tuple(TABLES) == extensions.GROUPS
    for table in TABLES.values():
        assert table.outside() == []


def test_names_are_known_and_nothing_is_imported(house):
    names = ["min_p", "shout", "polite", "length_ratio", "house"]
    for name, table in zip(names, TABLES.values(), strict=True):
        assert name in table and list(table)[-1] == name
        assert len(table) == len(list(table)) == len(table.data) + 1
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


def test_metric(house):
    metric = measures.find("length_ratio")
    found = measures.compute({"length_ratio": metric}, ["a b"], ["a b c"])
    assert found["length_ratio"].tolist() == [1.5]


def test_format(house, tmp_path, monkeypatch, capsys):
    root = minisgd.write(
        tmp_path / "data", train_dialogues=2, dev_dialogues=1, test_dialogues=1
    )
    table = recipes.table(root)
    assert table.tasks_of("polite_eval")[0] == "polite_sgd"
    examples = {}
    for name in ("d3st", "polite"):
        recipe = table.recipes[f"{name}_sgd"]["validation"]
        job = parallel.FormatJob(
            recipe.corpus, recipe.corpus.files()[0], recipe.options
        )
        ((*examples[name],),) = parallel.format_file(job, lambda example: example)
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
    # A format of no family of ours counts as it says.
    other = dataclasses.make_dataclass("Other", [], bases=(T5DSTOptions,), frozen=True)
    other.family, other.per_slot = "other", False
    monkeypatch.setitem(recipes.FORMATS.data, "other", other())
    assert main(["tasks", "[do]*_sgd", "--data_dir", str(root)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    counts = {row[0]: row[1:4] for row in rows if len(row) > 4}
    assert counts["other_sgd"] == counts["d3st_sgd"]


@pytest.mark.parametrize("group", extensions.GROUPS)
def test_what_cannot_be_imported_is_named_once_it_is_asked_for(install, group):
    install("broken-one", {f"jaxaug.{group}": {"broken": "broken_one:no"}}, "1 / 0")
    table = TABLES[group]
    assert "broken" in table
    for name in table.data:
        assert table[name] is table.data[name]
    message = (
        f"{group[:-1]} 'broken' of package broken-one: broken_one:no cannot be imported "
        "(ZeroDivisionError: division by zero). Mend the package, or uninstall it."
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
    message = f"of package thief: jaxaug has a {group[:-1]} of that name. Uninstall"
    with pytest.raises(UserError, match=message):
        TABLES[group][name]


def test_a_name_that_two_packages_have_is_refused(install):
    for name in ("one", "two"):
        install(name, {"jaxaug.schemes": {"same": f"{name}:f", f"my_{name}": "re:sub"}})
    with pytest.raises(
        UserError, match="of package (one|two): package (one|two) registers"
    ):
        sentences.METHODS["same"]
    assert sentences.METHODS["my_one"] is re.sub


@pytest.mark.parametrize(
    ("group", "name", "value", "message"),
    [
        ("schemes", "x", "math:pi", "math:pi is 3.14159.*, expected a function. Mend"),
        (
            "schemes",
            "a.b",
            "re:sub",
            "names have letters, digits, _ and - only. Regist",
        ),
        ("models", "x", "math:pi", "expected a function"),
        ("metrics", "x", "math:pi", "expected a function"),
        (
            "samplers",
            "x",
            "re:sub",
            "takes pattern: its options are keywords with a def",
        ),
        (
            "formats",
            "x",
            "math:pi",
            "lacks family, version, per_slot, order, seed, answers_intents, formatter, pars",
        ),
        (
            "formats",
            "x",
            "jaxaug.formats:D3STOptions",
            "is no dataclass: expected a Form",
        ),
        (
            "formats",
            "a_b",
            "jaxaug_own:o",
            "is called 'a_b': names of formats have lett",
        ),
    ],
)
def test_what_is_no_entry_is_refused(install, group, name, value, message):
    source = "from jaxaug.formats.d3st import D3STOptions\no = D3STOptions()\n"
    install("jaxaug-own", {f"jaxaug.{group}": {name: value}}, source)
    where = f"{group[:-1]} '{name}' of package jaxaug-own: "
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
