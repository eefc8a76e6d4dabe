"""The whole verb on a tiny model."""

import dataclasses
import json
import os
import sys

import jax
import numpy as np
import pytest

from jaxaug import cli
from jaxaug.core.errors import UserError
from jaxaug.core.parts import Part
from jaxaug.metrics import diversity
from jaxaug.models.text import registry
from jaxaug.paraphrase import run, samplers
from jaxaug.paraphrase import summary as summaries
from jaxaug.paraphrase.decoder import Decoder
from tests.support import grids

LENGTH = 6
# The first three search in different ways.
SEVERAL = sorted(
    (name for name in samplers.SAMPLERS.data if name != "greedy"),
    key=lambda name: name not in ("bottom_k", "beam", "dips"),
)
LINES = [
    "city where the bus leaves from",
    "find a hotel",
    "number of passengers for the trip on the bus",
    "find a hotel",
    "Date",
]


@pytest.fixture
def lines(tmp_path, small_world):
    """Returns a file of five lines, two of them equal."""
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


def paraphrase(lines, out, sampler="bottom_k", num=3, **changes):
    settings = {"model": "random-tiny", "max_length": LENGTH, "batch_size": 4}
    return run.paraphrase(lines, out, sampler=sampler, num=num, **(settings | changes))


def records(path):
    return [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]


def test_records(lines, tmp_path):
    out = tmp_path / "new" / "out.jsonl"
    paraphrase(lines, out, seed=7)
    found = records(out)
    places = [(number, index) for number in range(1, 6) for index in range(3)]
    assert [(r["line"], r["index"]) for r in found] == places
    assert [r["input"] for r in found[::3]] == LINES
    for record in found:
        assert record["sampler"] == "bottom_k" and record["seed"] == 7
        assert record["model"] == "random-tiny" and record["options"]["k"] == 2
        assert record["num"] == 3 and record["max_length"] == LENGTH
        assert record["log_probability"] < 0
    assert os.listdir(out.parent) == ["out.jsonl"]
    # Equal inputs at different places are different inputs.
    texts = [record["output"] for record in found]
    assert texts[3:6] != texts[9:12]
    assert len(set(texts)) > 10


@pytest.mark.parametrize(
    "sampler", grids.first(3, ["greedy", "bottom_k", "beam", "dips"])
)
def test_nan_weights_are_an_error_that_names_the_step(
    lines, tmp_path, monkeypatch, sampler
):
    loaded = registry.load("random-tiny")
    params = jax.tree.map(lambda x: np.full_like(x, np.nan), loaded.params)
    broken = dataclasses.replace(loaded, params=params)
    monkeypatch.setitem(registry.MODELS, "random-tiny", lambda: broken)
    message = (
        r"^decoding step 0 \(counted from 0\) of row 0: the logits of the model are"
    )
    with pytest.raises(UserError, match=message):
        paraphrase(lines, tmp_path / "out.jsonl", sampler, num=1)


def test_weights_of_8_bits_are_another_run(lines, tmp_path):
    out = tmp_path / "out.jsonl"
    paraphrase(lines, out, num=2, precision="int8")
    assert {record["precision"] for record in records(out)} == {"int8"}
    with pytest.raises(
        UserError, match='made with precision "int8", this run has "float32"'
    ):
        paraphrase(lines, out, num=2)
    paraphrase(lines, tmp_path / "half", num=2, precision="bfloat16")
    assert {r["precision"] for r in records(tmp_path / "half")} == {"bfloat16"}
    with pytest.raises(
        UserError, match="--precision is 'int4': give one of float32, bfloat16"
    ):
        paraphrase(lines, tmp_path / "4", precision="int4")


@pytest.mark.parametrize("sampler", grids.first(1, ["bottom_k", "dips"]))
def test_same_bytes_for_every_batch_size(lines, tmp_path, sampler):
    options = {"probability": 0.5} if sampler == "dips" else {}
    if sampler == "dips":
        lines.write_text("find a hotel\ndate\nfind a hotel\n")
    contents = set()
    for size in (1, 4):
        out = tmp_path / f"{size}.jsonl"
        paraphrase(lines, out, sampler, batch_size=size, options=options)
        contents.add(out.read_bytes())
    assert len(contents) == 1


def test_same_bytes_after_a_stop(lines, tmp_path, monkeypatch):
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    paraphrase(lines, whole)
    call, calls = Decoder.batch, []

    def stop_at_the_second(self, sequences, batch):
        calls.append(batch.indices)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return call(self, sequences, batch)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Decoder, "batch", stop_at_the_second)
        paraphrase(lines, out)
    assert not out.exists()
    kept = records(tmp_path / "out.jsonl.partial")
    assert {record["line"] - 1 for record in kept} == set(calls[0])
    calls += [None, None]  # No further stop; only missing outputs are decoded.
    with monkeypatch.context() as patch:
        patch.setattr(Decoder, "batch", stop_at_the_second)
        paraphrase(lines, out)
    assert not set(calls[0]) & {i for batch in calls[4:] for i in batch}
    assert out.read_bytes() == whole.read_bytes()


def test_inputs_that_are_too_long_or_the_output(lines, tmp_path):
    lines.write_text("a bus\n" + 5000 * "find a hotel " + "\n")
    with pytest.raises(
        UserError, match=r"line 2 of the input has \d+ tokens; at most 4096 are"
    ):
        paraphrase(lines, tmp_path / "out.jsonl")
    with pytest.raises(UserError, match=r"lines.txt: is the input file"):
        paraphrase(lines, lines)
    assert lines.read_text().startswith("a bus\n")


def test_seeds(lines, tmp_path):
    for seed in (0, 1):
        paraphrase(lines, tmp_path / f"{seed}", seed=seed)
    first, second = (
        {r["log_probability"] for r in records(tmp_path / f"{seed}")} for seed in (0, 1)
    )
    assert not first & second


def test_outputs_of_another_model_or_of_other_code_are_refused(
    lines, tmp_path, monkeypatch
):
    """The weights of the model count, not its name."""
    out = tmp_path / "out.jsonl"
    paraphrase(lines, out)
    before, loaded = out.read_bytes(), registry.load("random-tiny")
    copy = dataclasses.replace(loaded, label="copy@7")
    params = jax.tree_util.tree_map(lambda leaf: -leaf, loaded.params)
    other = dataclasses.replace(loaded, params=params)
    assert records(out)[0]["weights"] == copy.identity != other.identity
    known = registry.MODELS | {"copy": lambda: copy, "random-tiny": lambda: other}
    monkeypatch.setattr(registry, "MODELS", known)
    paraphrase(lines, out, model="copy")
    assert out.read_bytes() == before
    with pytest.raises(UserError) as error:
        paraphrase(lines, out)
    assert str(error.value) == (
        f'{out}: line 1: was made with weights "{copy.identity}", this run has '
        f'"{other.identity}". Remove {out}, or name another --out.'
    )
    code = records(out)[0]["code"]
    monkeypatch.setattr(run.version, "of_outputs", lambda: "other code")
    match = f'was made with code "{code}", this run has "other code"'
    with pytest.raises(UserError, match=match):
        paraphrase(lines, out, model="copy")


@pytest.mark.parametrize("sampler", grids.first(3, SEVERAL))
def test_every_sampler_gives_different_outputs(lines, tmp_path, sampler):
    lines.write_text("find a hotel\n")
    paraphrase(lines, tmp_path / "out", sampler)
    found = records(tmp_path / "out")
    assert [(r["line"], r["index"]) for r in found] == [(1, 0), (1, 1), (1, 2)]
    # All unknown tokens have the same text, so outputs may look equal.
    assert len({(r["output"], r["log_probability"]) for r in found}) == 3
    assert all(r["sampler"] == sampler for r in found)


def test_summary(lines, tmp_path, capsys):
    arguments = ["--model", "random-tiny", "--sampler", "beam", "--num", "2"]
    arguments += ["--in", str(lines), "--out", str(tmp_path / "out"), "--seed", "0"]
    arguments += ["--max_length", "16", "--option", "alpha=0"]
    assert cli.main(["paraphrase", *arguments]) == 0
    printed = capsys.readouterr()
    assert "5/5" in printed.err and "line/s" in printed.err
    shown = printed.out
    groups = [
        [r["output"] for r in records(tmp_path / "out")[i : i + 2]]
        for i in range(0, 10, 2)
    ]
    expected = np.mean([diversity.self_bleu(group) for group in groups])
    assert "5 inputs, 10 outputs, 0 equal to the input" in shown
    assert f"self-BLEU {expected:.1f} " in shown
    for n in (1, 6):
        value = np.mean([diversity.distinct(group, n) for group in groups])
        line = next(x for x in shown.splitlines() if x.startswith("  of one input"))
        assert line.split()[2 + n] == f"{value:.3f}"
    assert "word-level Jaccard similarity to the input: mean" in shown
    assert "sacrebleu sentence BLEU / 100 to the input: mean" in shown
    assert (
        sum(
            int(x.split()[1])
            for x in shown.splitlines()
            if x[2:3] in "01" and x[5:6] == "-"
        )
        == 20
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lines": "none.txt"}, "none.txt: no such file. Name a UTF-8 file with --in"),
        ({"lines": "."}, "is a folder, expected a file"),
        ({"content": b""}, "lines.txt: holds no text"),
        ({"content": b"\n \n"}, "lines.txt: holds no text"),
        ({"content": b"a", "column": "text"}, "--column text: .*lines.txt is lines of"),
        ({"content": b"a\nb\xff\n"},
         "lines.txt: line 2: byte 0xff at offset 3 is not UTF-8"),
        ({"sampler": "greedi"}, "'greedi' is not a sampler; did you mean 'greedy'"),
        ({"model": "random_tiny"},
         "neither in the model registry nor a folder; did you mean 'random-tiny'"),
        ({"options": {"kk": 1}}, "has no option 'kk'; did you mean"),
        ({"num": 0}, "--num is 0: give a whole number from 1"),
        ({"max_length": 10**30}, "--max_length is 1000.*: give .* from 1 to 4,096"),
        ({"num": 100_000}, "--num is 100000: the outputs of an input are decoded"),
        ({"seed": -1}, "--seed is -1: give a whole number from 0 to 4,294,967,295"),
        ({"sampler": "sampling", "options": {"temperature": float("inf")}},
         "option: temperature=inf: expected a finite number"),
        ({"out": "."}, "cannot be written"),
        ({"out": "lines.txt/out.jsonl"}, "cannot be written"),
    ],
)  # fmt: skip
def test_wrong_arguments(lines, tmp_path, changes, message):
    changes = dict(changes)
    if "content" in changes:
        lines.write_bytes(changes.pop("content"))
    source = tmp_path / changes.pop("lines", "lines.txt")
    out = tmp_path / changes.pop("out", "out.jsonl")
    with pytest.raises(UserError, match=message):
        paraphrase(source, out, **changes)
    assert [path.name for path in tmp_path.iterdir()] == ["lines.txt"]


def test_tables_give_the_same_as_lines(tmp_path, small_world):
    """A header is not a text; a row is one text; a blank text is its own output."""
    files = {
        "lines.txt": "find a hotel\n\nDate\n",
        "semicolon.csv": "label;text\n1;find a hotel\n2;\n3;Date\n",
        "rows.jsonl": '{"text":"find a hotel"}\n{"text":null}\n{"text":"Date"}\n',
    }
    found = []
    for name, content in files.items():
        (tmp_path / name).write_text(content)
        out = tmp_path / f"{name}.out.jsonl"
        said = paraphrase(tmp_path / name, out, num=2)
        assert said.startswith("2 inputs, 4 outputs, 0 equal")
        found.append(records(out))
    assert [(r["line"], r["input"]) for r in found[0][::2]] == [
        (1, "find a hotel"), (2, ""), (3, "Date"),
    ]  # fmt: skip
    assert [(r["output"], r["log_probability"]) for r in found[0][2:4]] == [("", 0)] * 2
    assert found[1] == found[2] == found[0]
    paraphrase(tmp_path / "lines.txt", tmp_path / "o.jsonl", num=2, part=Part(1, 1))
    paraphrase(tmp_path / "lines.txt", tmp_path / "o.jsonl", num=2, merge=[])
    assert records(tmp_path / "o.jsonl") == found[0]


def test_without_sacrebleu_the_summary_has_no_bleu(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    monkeypatch.setattr(summaries.diversity, "without_bleu", lambda: "no BLEU")
    said = summaries.summary(["a b"], [["a c", "b c"]])
    assert said.splitlines()[1] == "no BLEU"
    assert said.count("BLEU") == 1 and "Jaccard" in said


@pytest.mark.parametrize("own_folders", [False, True])
def test_parts_of_two_machines_make_the_same_file(lines, tmp_path, own_folders):
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    paraphrase(lines, whole, batch_size=2)
    places = (
        [tmp_path / "one.jsonl", tmp_path / "two.jsonl"] if own_folders else [out] * 2
    )
    for number, place in enumerate(places, 1):
        found = paraphrase(lines, place, batch_size=2, part=Part(number, 2))
        assert f"part {number} of 2 is complete" in found and not place.exists()
        given = [f"{one}.parts" for one in places] if own_folders else []
        if number == 1:
            with pytest.raises(UserError, match="1 is missing: 2|no such folder"):
                paraphrase(lines, out, batch_size=2, merge=given)
    for change, name in (({"seed": 1}, "seed"), ({"batch_size": 4}, "batches")):
        with pytest.raises(UserError, match=rf"other work \({name} differ\)"):
            paraphrase(lines, out, **({"batch_size": 2, "merge": given} | change))
    with_nothing = {"part": Part(1, 2), "merge": []}
    with pytest.raises(UserError, match="--shard and --merge"):
        paraphrase(lines, out, **with_nothing)
    paraphrase(lines, out, batch_size=2, merge=given)
    assert out.read_bytes() == whole.read_bytes()


def test_a_part_that_lost_records(lines, tmp_path):
    out = tmp_path / "out.jsonl"
    paraphrase(lines, out, batch_size=2, part=Part(1, 1))
    part = tmp_path / "out.jsonl.parts" / "1-of-1.jsonl.partial"
    part.write_bytes(b"".join(part.read_bytes().splitlines(True)[:-2]))
    with pytest.raises(UserError, match="1 inputs of part 1 of 1 are missing"):
        paraphrase(lines, out, batch_size=2, merge=[])
