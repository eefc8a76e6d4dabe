"""The queue of trackers on SGD, with a tiny model on MiniSGD."""

import json
import os
import runpy
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

from jaxaug.core.errors import UserError
from jaxaug.feed import recipes
from jaxaug_papers.tree import learner
from tests.support.programs import ran

ROOT = Path(__file__).resolve().parents[3]
TREE = ROOT / "papers/jaxaug_papers/tree"
SIZES = {
    "model": "tiny", "rows": 2, "microbatches": 1, "eval_rows": 16, "inputs": 384,
    "targets": 64,
}  # fmt: skip
# A Python without TensorFlow and SeqIO.
WITHOUT = """#!{python}
import os, sys
folder = os.path.dirname(os.path.abspath(__file__))
path = os.environ.get("PYTHONPATH", "")
os.environ["PYTHONPATH"] = folder + "/hook" + os.pathsep + path
os.execv("{python}", ["{python}", *sys.argv[1:]])
"""
HOOK = "import sys\nsys.modules.update(tensorflow=None, seqio=None)\n"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Returns a sample of MiniSGD with its variants."""
    from jaxaug.core import cache_folder
    from jaxaug.data import minisgd, sample

    source = minisgd.materialise(cache_folder.cache_dir())
    folder = tmp_path_factory.mktemp("sgd") / "data"
    wanted = {"train": 60, "dev": 4, "test": 4}
    chosen = {split: sample.choose(source, split, n, 0) for split, n in wanted.items()}
    sample.write(source, folder, chosen)
    return folder


def test_items_are_checked_and_named_by_their_variants(data):
    item = learner.Item
    table = recipes.table(data)
    one = item.of({"set": "d3st_tree_6x", "steps": 4, "seed": 1}, "q, line 1")
    assert one.name(table) == f"d3st_tree_6x-{one.variants(table)[:8]}-4steps-seed1"
    oracle = item("d3st_sgdx_6x", 4, 0, "cyclic")
    assert oracle.name(table) == "d3st_sgdx_6x-cyclic-4steps-seed0"
    schema = data / "variants/tree/v3/train/schema.json"
    text = schema.read_text()
    schema.write_text(text + " ")
    changed = one.name(table)
    schema.write_text(text)
    assert changed != one.name(table)
    for values, message in (
        ({"set": "d3st_sgd", "steps": 4}, "Give set"),
        ({"set": "d3st_sgd", "steps": "4", "seed": 0}, "whole numbers"),
        ({"set": "d3st_sgd", "steps": 4, "seed": 0, "lr": 1}, "Give set"),
        ({"set": "d3st_sgd", "steps": 0, "seed": 0}, "steps are at least 1"),
        ({"set": "d3st_sgd", "steps": 1, "seed": 0, "order": "up"}, "cyclic, gradual"),
    ):
        with pytest.raises(UserError, match=message):
            item.of(values, "q, line 2")


def test_orders_spend_equal_shares_on_every_level():
    item = learner.Item

    def mean(stages):
        steps = np.diff([0, *(stage.end for stage in stages)])
        return np.average([stage.rates for stage in stages], axis=0, weights=steps)

    shares = {
        order: mean(item("a", 120, 0, order).stages(6))
        for order in ("cyclic", "gradual", "random")
    }
    assert shares["gradual"] == pytest.approx([1 / 3, *[2 / 15] * 5])
    assert shares["cyclic"] == pytest.approx(shares["gradual"])
    assert shares["random"] == pytest.approx(shares["gradual"])
    assert item("a", 120, 0).stages(6) == [(120, (1.0,) * 6)]


@pytest.mark.slow
@pytest.mark.long
def test_an_interrupted_item_gives_the_same_numbers(data, tmp_path):
    item, settings = learner.Item("d3st_tree_2x", 40, 1), SIZES
    table = recipes.table(data)
    work = learner.Learner(learner.Settings(**settings), table)
    whole = work.train(item, None, lambda step, pace: False)
    weights = work._trainer(40).train_state.params
    whole_weights = [np.array(x) for x in jax_leaves(weights)]
    place = tmp_path / "state.msgpack"
    assert work.train(item, place, lambda step, pace: step >= 20) is None
    rest = work.train(item, place, lambda step, pace: False)
    assert not place.exists()
    assert rest["loss"] == {40: whole["loss"][40]}
    for one, two in zip(
        whole_weights, jax_leaves(work._trainer(40).train_state.params), strict=True
    ):
        np.testing.assert_array_equal(one, np.array(two))
    # Without a file the unfinished item leaves nothing.
    assert work.train(item, None, lambda step, pace: step >= 20) is None
    assert [*tmp_path.iterdir()] == []


def jax_leaves(tree):
    import jax

    return jax.tree.leaves(tree)


@pytest.mark.slow
@pytest.mark.long
def test_a_turn_on_a_machine_without_tensorflow(data, tmp_path):
    packed, place = tmp_path / "packed", tmp_path / "a b"
    (tmp_path / "no wheels").mkdir()
    command = [
        sys.executable, "-m", "jaxaug_papers.tree.pack", "--data_dir", data,
        "--out", packed, "--model", "tiny", "--part_mib", "0.5",
        "--wheels", tmp_path / "no wheels",
    ]  # fmt: skip
    subprocess.run(command, check=True)
    assert len([*packed.glob("part.*")]) > 1
    shutil.move(packed, place)  # as when it is copied to another machine
    python = tmp_path / "python"
    python.write_text(WITHOUT.format(python=sys.executable))
    python.chmod(0o755)
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook/sitecustomize.py").write_text(HOOK)
    queue = tmp_path / "queue.jsonl"
    queue.write_text('{"set": "d3st_tree_2x", "steps": 3, "seed": 2}\n')
    sizes = [word for name, n in SIZES.items() for word in (f"--{name}", str(n))]
    turn = [
        place / "turn.sh", "--minutes", "9", "--out", tmp_path / "out", "--queue",
        queue, *sizes,
    ]  # fmt: skip
    env = os.environ | {"PYTHON": str(python)}
    env.pop("PYTHONPATH", None)
    done = ran(turn, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert "1 items in" in done.stdout
    again = ran(turn, cwd=tmp_path, env=env)
    assert "all items are finished" in again.stdout
    with tarfile.open(tmp_path / "out/compiled.tar") as tar:
        assert tar.getnames()
    results = tmp_path / "results"
    for words in (["1 items added"], ["is there already", "0 items added"]):
        command = [
            sys.executable, "-m", "jaxaug_papers.tree.queue", "--results", results,
        ]  # fmt: skip
        added = ran([*command, "--add", tmp_path / "out/results.tar"], check=True)
        assert all(word in added.stdout for word in words)
    (folder,) = results.iterdir()
    about = json.loads((folder / "item.json").read_text())
    assert about["seed"] == 2 and about["positions_per_second"] > 0
    # Random weights are right only about frames with an empty state.
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        tables = runpy.run_path(str(ROOT / "benchmarks/tables.py"))
    page = "\n".join(tables["queue_table"](results, queue))
    assert f"| d3st_tree_2x {about['variants'][:8]} | mixture | 3 | 2 | " in page


def test_damaged_parts_are_not_unpacked(tmp_path):
    shutil.copy(TREE / "turn.sh", tmp_path / "turn.sh")
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  part.00\n")
    (tmp_path / "part.00").write_bytes(b"damaged")
    done = ran([tmp_path / "turn.sh"])
    assert done.returncode == 1
    assert "a part is missing or damaged" in done.stderr
    assert not (tmp_path / "unpacked").exists()


def test_lengths_that_cut_many_examples_are_refused(data):
    settings = learner.Settings(**{**SIZES, "inputs": 64})
    work = learner.Learner(settings, recipes.table(data))
    item = learner.Item("d3st_sgd", 40, 1)
    with pytest.raises(
        UserError, match=r"\d\d\.\d% of the examples exceed --inputs 64"
    ):
        work.batches(item, work.train_sets(item))
