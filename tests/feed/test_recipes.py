"""The table of training and evaluation sets."""

import shutil

import pytest

from jaxaug.core.errors import UserError
from jaxaug.feed import recipes
from jaxaug_papers import minisgd


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    root = tmp_path_factory.mktemp("recipes") / "data"
    minisgd.write(root, train_dialogues=8, dev_dialogues=2, test_dialogues=2)
    return recipes.table(root)


def test_mixtures_hold_the_originals_and_variants(table):
    assert table.mixtures["d3st_aug_2x"] == ("d3st_sgd", "d3st_aug_v1")
    assert table.mixtures["t5dst_sgdx_4x"] == (
        "t5dst_sgd",
        *(f"t5dst_sgdx_v{number}" for number in (1, 2, 3)),
    )
    assert table.mixtures["d3st_eval"] == (
        "d3st_sgd",
        *(f"d3st_sgdx_v{number}" for number in range(1, 6)),
    )
    assert table.tasks_of("d3st_sgd") == ("d3st_sgd",)
    assert len(table.tasks_of("d3st_aug_6x")) == 6
    with pytest.raises(UserError, match="'d3st_x' is no task and no mixture; did you "):
        table.tasks_of("d3st_x")


def test_more_than_five_variants_have_a_mixture_of_all(tmp_path):
    root = tmp_path / "data"
    minisgd.write(root, train_dialogues=1, dev_dialogues=1, test_dialogues=1)
    for number in range(1, 9):
        shutil.copytree(root / "variants/aug/v1", root / f"variants/many/v{number}")
    mixtures = recipes.table(root).mixtures
    names = [name for name in mixtures if name.startswith("d3st_many_")]
    assert names == ["d3st_many_2x", "d3st_many_4x", "d3st_many_6x", "d3st_many_9x"]
    assert mixtures["d3st_many_9x"][-1] == "d3st_many_v8"


def test_evaluation_uses_present_data_and_reports_it(tmp_path):
    root = tmp_path / "data"
    minisgd.write(root, train_dialogues=1, dev_dialogues=1, test_dialogues=1)
    names = (
        "d3st_eval, d3st2a_eval, json_eval, sdt_eval, sdtids_eval, sdtind_eval, "
        "t5dst_eval"
    )
    fix = (
        "`jaxaug data fetch sgd` gets SGD and the variants of SGD-X, `jaxaug augment "
        "--splits train,test` makes some for any data."
    )
    every = "v1, v2, v3, v4, v5"
    expected = f"{names}: the original schemas and sgdx {every}."
    assert recipes.table(root).evaluation == expected and recipes.table(root).is_sgdx
    for number in (3, 5):
        shutil.rmtree(root / f"sgd_x/data/v{number}")
    table = recipes.table(root)
    assert table.mixtures["d3st_eval"] == (
        "d3st_sgd",
        *(f"d3st_sgdx_v{number}" for number in (1, 2, 4)),
    )
    assert table.evaluation == (
        f"{names}: the original schemas and sgdx v1, v2, v4. {root}/sgd_x/data has no "
        f"v3, v5 of dev or test. {fix}"
    )
    # Variants that were made for training alone are not evaluated.
    shutil.move(root / "sgd_x", tmp_path)
    table = recipes.table(root)
    assert table.mixtures["t5dst_eval"] == ("t5dst_sgd",)
    assert table.evaluation == (
        f"{names}: the original schemas only, as {root} has no variants of dev or "
        f"test: there will be no schema sensitivity. {fix}"
    )
    shutil.copytree(tmp_path / "sgd_x/data", root / "variants/mine")
    table = recipes.table(root)
    assert table.mixtures["d3st_eval"] == (
        "d3st_sgd",
        *(f"d3st_mine_v{number}" for number in (1, 2, 4)),
    )
    assert "the original schemas and mine v1, v2, v4." in table.evaluation
    assert not table.is_sgdx


def test_only_training_is_shuffled_and_each_task_differently(table):
    seeds = {}
    for task, splits in table.recipes.items():
        for split, recipe in splits.items():
            if split == "train":
                assert recipe.options.order == "shuffled"
                seeds[task] = recipe.options.seed
            else:
                assert (recipe.options.order, recipe.options.seed) == ("schema", 0)
    assert {"d3st_sgd", "d3st_aug_v1", "d3st_aug_v1_short2"} <= set(seeds)
    assert len(set(seeds.values())) == len(seeds)


def test_renderings(table, monkeypatch):
    found = table.recipes
    assert found["d3st_sgd"]["train"].renderings == 4  # MiniSGD is small
    assert found["d3st_aug_v1"]["train"].renderings == 1
    assert found["d3st_sgd"]["test"].renderings == 1
    folder = found["d3st_sgd"]["train"].corpus.data_dir
    monkeypatch.setenv(recipes.RENDERINGS_VARIABLE, "2")
    assert recipes.table(folder).recipes["d3st_sgd"]["train"].renderings == 2
    for value in ("0", "\u00b2", "9" * 5000):  # Python counts a superscript as a digit.
        monkeypatch.setenv(recipes.RENDERINGS_VARIABLE, value)
        with pytest.raises(UserError) as error:
            recipes.table(folder)
        assert str(error.value) == (
            f"$JAXAUG_RENDERINGS={value}: set it to the number of shuffled renderings "
            "of each training example, 1 to 9999, or unset it."
        )
