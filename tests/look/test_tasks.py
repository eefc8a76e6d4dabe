"""`jaxaug tasks`: exact text on a tiny folder; counts are the counts of the caches."""

import shutil

import pytest

from jaxaug.cli import main
from jaxaug.feed import cache, recipes
from jaxaug.look import tasks


@pytest.fixture
def folder(sgd_tree, monkeypatch):
    """Returns a folder with variants v1 and v2 of all splits, and one of train."""
    for number in (3, 4, 5):
        shutil.rmtree(sgd_tree / f"sgd_x/data/v{number}")
    variant = sgd_tree / "variants/mine/v1"
    shutil.copytree(sgd_tree / "sgd_x/data/v1/train", variant / "train")
    monkeypatch.setenv("JAXAUG_DATA_DIR", str(sgd_tree))
    monkeypatch.setenv("JAXAUG_RENDERINGS", "3")
    return sgd_tree


LISTED = """\
data folder {folder}

task           train  validation  test  of
t5dst_sgd         36          11    11  T5DST: original schemas, train in 3 orders
t5dst_sgdx_v1     12          11    11  T5DST: sgd_x/data/v1
t5dst_sgdx_v2     12          11    11  T5DST: sgd_x/data/v2
t5dst_mine_v1     12           -     -  T5DST: variants/mine/v1

mixture        share of each task
t5dst_sgdx_2x  50.0% t5dst_sgd, t5dst_sgdx_v1
t5dst_mine_2x  50.0% t5dst_sgd, t5dst_mine_v1
t5dst_eval     33.3% t5dst_sgd, t5dst_sgdx_v1, t5dst_sgdx_v2

--all lists general_paraphraser, paraphrase_*, personachat_*, \
rewording_paraphraser too
"""


def listed(capsys, *arguments):
    assert main(["tasks", *arguments]) == 0
    return capsys.readouterr().out


def test_exact_text(folder, capsys):
    assert listed(capsys, "t5dst*") == LISTED.format(folder=folder)


def test_counts_equal_the_caches(folder, tmp_path):
    sizes = tasks._Sizes(False)
    table = recipes.table()
    for name in (
        *("d3st_sgd", "d3st_sgdx_v1_short2", "d3st2a_sgdx_v2", "sdt_sgd"),
        *("sdtind_sgd", "t5dst_mine_v1"),
    ):
        for recipe in table.recipes[name].values():
            made = cache.build(recipe, workers=1, root=tmp_path / "cache")
            assert sizes.of(recipe) == str(made.examples)


def test_descriptions_of_tasks(folder, capsys):
    out = listed(capsys, "d3st*_sgd*")
    lines = {line.split(" ")[0]: line for line in out.splitlines()}
    assert lines["d3st_sgd_short2"].endswith(
        "  12           -     -  D3ST, options as 1a), 1 to 2 slots: original schemas, "
        "train in 3 orders"
    )
    assert lines["d3st2a_sgdx_v2"].endswith(
        "   4           4     4  D3ST, options as a): sgd_x/data/v2"
    )


def test_large_data_are_read_only_when_asked(folder, capsys, monkeypatch):
    monkeypatch.setattr(tasks, "_CHEAP", 1)
    out = listed(capsys, "t5dst_mine*")
    assert "t5dst_mine_v1      ?           -     -  T5DST: variants/mine/v1\n" in out
    assert (
        "\n?: not counted, as the dialogues are not read; --count reads train (0 MiB)\n"
        in out
    )
    out = listed(capsys, "t5dst_mine*", "--count")
    assert (
        "t5dst_mine_v1     12           -     -  " in out and "not counted" not in out
    )


def test_nothing_of_that_name(folder, capsys):
    assert main(["tasks", "d3st_sdg"]) == 1
    assert (
        f"'d3st_sdg' fits no task and no mixture of {folder}; did you mean "
        f"'d3st_sgd' or "
    ) in (error := capsys.readouterr().err)
    assert "--all knows general_paraphraser, " in error
