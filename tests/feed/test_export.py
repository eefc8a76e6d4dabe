"""`jaxaug format`: columns, same bytes for any workers, and errors."""

import hashlib

import pytest

from jaxaug import cli
from jaxaug.core.errors import UserError
from jaxaug.feed.export import export
from jaxaug.feed.parallel import Corpus, example_row, in_order, row, worker_count
from jaxaug.formats.d3st import D3STOptions
from jaxaug.formats.records import Example
from jaxaug_papers import minisgd


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export") / "data"
    minisgd.write(folder, train_dialogues=300, dev_dialogues=4, test_dialogues=6)
    return folder


def run(*arguments):
    return cli.main([str(argument) for argument in arguments])


def test_d3st_file(sgd_tree, tmp_path, capsys):
    out = tmp_path / "new" / "test.tsv"
    code = run(
        "format", "d3st", "--data_dir", sgd_tree, "--split", "test", "--out", out
    )
    assert code == 0
    assert "4 examples" in capsys.readouterr().err
    lines = out.read_text().split("\n")
    assert lines[0] == "inputs\ttargets\tdialogue_id\tturn\tframe"
    assert lines[1] == (
        "0=name of the park 1=what to do in the park 1a) picnic 1b) run "
        "i0=look for a park [user] a park for a picnic, and a train there\t"
        "[states] 1=1a | a picnic [intents] i0 [req_slots] 0\t4_00000\t0\t0"
    )
    assert lines[-2].split("\t")[1:] == [
        "[states] 0=kyiv 1=1a [intents] i1 [req_slots] 2",
        "4_00001",
        "2",
        "0",
    ]
    assert lines[-1] == "" and len(lines) == 6
    assert [path.name for path in out.parent.iterdir()] == ["test.tsv"]


def test_t5dst_file(sgd_tree, tmp_path):
    out = tmp_path / "dev.tsv"
    arguments = ["--data_dir", sgd_tree, "--split", "dev", "--variant", "v3"]
    assert run("format", "t5dst", *arguments, "--no-lowercase", "--out", out) == 0
    lines = out.read_text().splitlines()
    assert lines[0] == "inputs\ttargets\tdialogue_id\tturn\tservice\tslot"
    assert lines[1] == (
        "[user] A train to Bern please [slot] Where the train goes (wording 3)\tBern\t"
        "3_00000\t0\tTrains_13\tcity_v3"
    )
    # 2 + 1 frames of Trains_1 with 3 slots, 1 of Parks_1 with 2.
    assert len(lines) == 1 + 3 * 3 + 2


@pytest.mark.parametrize("order", ["schema", "shuffled"])
def test_bytes_do_not_depend_on_the_workers(data, tmp_path, order):
    corpus = Corpus(str(data), "train")
    digests = set()
    for workers in (1, 2, 3):
        out = tmp_path / f"{workers}.tsv"
        count = export(corpus, D3STOptions(order=order), out, workers=workers)
        text = out.read_bytes()
        assert text.count(b"\n") == count + 1 > 300
        digests.add(hashlib.sha256(text).hexdigest())
    assert len(digests) == 1


def test_other_seed_and_epoch_give_other_orders(data, tmp_path):
    texts = []
    for number, extra in enumerate([[], ["--seed", 1], ["--epoch", 1]]):
        out = tmp_path / f"{number}.tsv"
        arguments = ["--data_dir", data, "--split", "dev", "--order", "shuffled"]
        assert run("format", "d3st", *arguments, *extra, "--out", out) == 0
        texts.append(out.read_text())
    assert len(set(texts)) == 3


def test_bad_dialogue_ends_in_one_message_and_keeps_the_old_file(
    sgd_tree, tmp_path, capsys
):
    out = tmp_path / "train.tsv"
    out.write_text("old")
    (sgd_tree / "train" / "dialogues_002.json").write_text('[{"dialogue_id": "x"')
    for workers in (1, 2):
        arguments = ["--data_dir", sgd_tree, "--split", "train", "--workers", workers]
        assert run("format", "d3st", *arguments, "--out", out) == 1
        error = capsys.readouterr().err
        assert "dialogues_002.json: truncated JSON" in error
        assert "Traceback" not in error
        assert out.read_text() == "old"
        assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["train.tsv"]


def test_out_is_a_folder(sgd_tree, tmp_path):
    with pytest.raises(UserError, match="is a folder. Name the TSV file to write"):
        export(Corpus(str(sgd_tree), "dev"), D3STOptions(), tmp_path)


def test_rows_refuse_tabs_and_line_breaks():
    assert row(["a", 1, "b c"]) == b"a\t1\tb c\n"
    for value in ("a\tb", "a\nb", "a\x85b"):
        with pytest.raises(UserError, match="holds a tab or a line break"):
            row([value, "c"])


def test_rows_of_examples_refuse_them_too():
    example = Example("in", "out", "1", 0, 0, "s", "{}")
    assert (
        example_row(example, "a", 1, "\u00a0b").decode() == "in\tout\ta\t1\t\u00a0b\n"
    )
    for value in ("a\tb", "a\nb", "a\u2028b", "a\x85b"):
        with pytest.raises(UserError, match="holds a tab or a line break"):
            example_row(example, value, "c")


def test_negative_workers():
    with pytest.raises(UserError, match="workers=-1: use 0 for one process per core"):
        worker_count(-1)


def test_results_come_in_order_and_errors_come_through():
    assert list(in_order(abs, list(range(-9, 0)), 3, "test")) == list(range(9, 0, -1))
    with pytest.raises(ValueError, match="invalid literal"):
        list(in_order(int, ["1", "x", "3"], 2, "test"))


def test_real_data_counts(real_data, tmp_path):
    for split, frames in {"dev": 20_542, "test": 26_802}.items():
        corpus = Corpus(str(real_data / "sgd"), split)
        assert export(corpus, D3STOptions(), tmp_path / split) == frames
