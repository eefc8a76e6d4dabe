"""The whole verb on a tiny model."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from t5x import decoding, models

from jaxaug import cli
from jaxaug.core.buckets import Batch, pad
from jaxaug.core.errors import UserError
from jaxaug.core.parts import Part
from jaxaug.metrics import diversity
from jaxaug.models.text import registry
from jaxaug.paraphrase import run, samplers
from jaxaug.paraphrase import summary as summaries
from jaxaug.paraphrase.decoder import Decoder, log_probabilities

LENGTH = 6
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


def test_greedy_outputs_and_scores_equal_t5x(small_world):
    """Text and log probability equal the runtime's greedy decoding and scoring."""
    loaded = registry.load("random-tiny")
    params = jax.device_put(loaded.params)
    sequences = [loaded.encode(text) for text in LINES]
    length = max(map(len, sequences))
    source = pad(sequences, len(sequences), length)
    words = loaded.output_vocabulary
    t5x = models.EncoderDecoderModel(
        loaded.module, words, words, None, decoding.temperature_sample
    )
    width = np.zeros((len(LINES), LENGTH), np.int32)
    batch = {"encoder_input_tokens": source, "decoder_input_tokens": width}
    tokens = np.asarray(t5x.predict_batch(params, batch))
    ended = np.cumsum(tokens == 1, axis=1) - (tokens == 1) > 0
    expected = t5x.score_batch(
        params,
        {
            "encoder_input_tokens": source,
            "decoder_input_tokens": np.pad(tokens[:, :-1], ((0, 0), (1, 0))),
            "decoder_target_tokens": tokens,
            "decoder_loss_weights": np.where(ended, 0.0, 1.0),
        },
    )
    decoder = Decoder(
        loaded,
        samplers.find("greedy").build(1, samplers.find("greedy").complete({})),
        num=1,
        max_length=LENGTH,
        seed=0,
    )
    outputs = decoder(sequences, Batch(tuple(range(5)), 8, 32))
    assert [o.text for (o,) in outputs] == [
        loaded.decode([t for t in row if t]) for row in tokens.tolist()
    ]
    np.testing.assert_allclose(
        [o.log_probability for (o,) in outputs], expected, rtol=1e-5
    )
    assert len({o.text for (o,) in outputs}) > 1


def test_tokens_after_eos_do_not_count(small_world):
    """The sum ends with EOS, whatever follows."""
    loaded = registry.load("random-tiny")
    source = np.array([loaded.encode("find a hotel")], np.int32)
    outputs = np.array([[9, 8, 1, 0], [9, 8, 1, 5], [9, 8, 7, 1]], np.int32)
    first, second, third = map(
        float, log_probabilities(loaded, loaded.params, source, outputs)
    )
    assert first == second != third


@pytest.mark.parametrize("sampler", ["greedy", "bottom_k", "beam", "dips"])
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


def test_nan_log_probabilities_raise_an_error_that_names_the_input(
    small_world, monkeypatch
):
    """Log probabilities come from another program than the outputs."""
    loaded = registry.load("random-tiny")
    decoder = Decoder(
        loaded, samplers.find("sampling").build(2, {}), num=2, max_length=LENGTH, seed=0
    )
    monkeypatch.setattr(
        decoder, "_log_probabilities", lambda *_: jnp.array([-1, np.nan])
    )
    sequences = [loaded.encode(text) for text in LINES[:2]]
    message = (
        r"^input 8: the model's log probabilities of its outputs are \[-1.0, nan\]"
    )
    with pytest.raises(UserError, match=message):
        decoder(sequences, Batch((7, 3), 2, 32))


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
        UserError, match="'int4' is not known; give one of float32, bfloat16, int8"
    ):
        paraphrase(lines, tmp_path / "4", precision="int4")


@pytest.mark.parametrize("sampler", ["bottom_k", "dips"])
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
    call, calls = Decoder.__call__, []

    def stop_at_the_second(self, sequences, batch):
        calls.append(batch.indices)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return call(self, sequences, batch)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Decoder, "__call__", stop_at_the_second)
        paraphrase(lines, out)
    assert not out.exists()
    kept = records(tmp_path / "out.jsonl.partial")
    assert {record["line"] - 1 for record in kept} == set(calls[0])
    calls += [None, None]  # No further stop; only missing outputs are decoded.
    with monkeypatch.context() as patch:
        patch.setattr(Decoder, "__call__", stop_at_the_second)
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


@pytest.mark.parametrize(
    "sampler", [name for name in samplers.SAMPLERS.data if name != "greedy"]
)
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
        (
            {"content": b"a\nb\xff\n"},
            "lines.txt: line 2: byte 0xff at offset 3 is not UTF-8",
        ),
        ({"sampler": "greedi"}, "'greedi' is not a sampler; did you mean 'greedy'"),
        (
            {"model": "random_tiny"},
            "neither in the model registry nor a folder; did you mean 'random-tiny'",
        ),
        ({"options": {"kk": 1}}, "has no option 'kk'; did you mean"),
        ({"num": 0}, "--num is 0: give at least 1"),
        ({"batch_size": -1}, "--batch_size is -1"),
        ({"max_length": 0}, "--max_length is 0"),
        ({"max_length": 10**30}, "--max_length is 1000.*: give 4096 at most"),
        ({"num": 100_000}, "--num is 100000: the outputs of an input are decoded"),
        ({"seed": 2**63}, "--seed is 9223372036854775808: give a whole number from 0"),
        ({"seed": -1}, "--seed is -1: give a whole number from 0 to 4294967295"),
        (
            {"sampler": "sampling", "options": {"temperature": float("inf")}},
            "option: temperature=inf: expected a finite number",
        ),
        ({"out": "."}, "cannot be written"),
        ({"out": "lines.txt/out.jsonl"}, "cannot be written"),
    ],
)
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


def test_minisgd_tells_how_to_train_it(tmp_path, monkeypatch):
    checkout, here = tmp_path / "check out", tmp_path / "here"
    (checkout / "configs").mkdir(parents=True)
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(registry, "_CHECKOUT", checkout)
    with pytest.raises(UserError) as error:
        registry.load("minisgd")
    assert str(error.value) == (
        "model 'minisgd' is not trained yet: there is no folder "
        f"{here}/runs/paraphrase_minisgd and no folder {checkout}/runs/"
        f"paraphrase_minisgd. Train it with `cd '{checkout}' && python -m t5x.train "
        "--gin_file=configs/paraphrase_minisgd.gin`, or name the folder of another run."
    )
    # A wheel has no such folder, and trains in any working folder.
    monkeypatch.setattr(registry, "_CHECKOUT", tmp_path)
    with pytest.raises(UserError) as error:
        registry.load("minisgd")
    assert str(error.value) == (
        "model 'minisgd' is not trained yet: there is no folder "
        f"{here}/runs/paraphrase_minisgd. Train it with `python -m t5x.train "
        "--gin_file=configs/paraphrase_minisgd.gin`, or name the folder of another run."
    )
    monkeypatch.setattr(registry, "_CHECKOUT", checkout)
    # Found in the checkout, but first in the current folder.
    for folder in (checkout, here):
        run_folder = folder / registry.MINISGD_RUN
        run_folder.mkdir(parents=True)
        with pytest.raises(UserError) as error:
            registry.load("minisgd")
        assert f"{run_folder}/config.gin: no such file." in str(error.value)


@pytest.mark.slow
def test_killed_and_started_again(python, tmp_path):
    """SIGKILL in the middle of a run of the program, then the same command."""
    (tmp_path / "lines.txt").write_text("".join(f"find hotel {i}\n" for i in range(60)))
    command = [python, "-m", "jaxaug.cli", "paraphrase"]
    command += ["--model", "random-tiny", "--sampler", "top_k_top_p", "--num", "2"]
    command += ["--max_length", "8"]
    command += ["--batch_size", "1", "--in", str(tmp_path / "lines.txt"), "--out"]
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    environment = os.environ | {"JAXAUG_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run([*command, whole], check=True, env=environment, capture_output=True)
    partial = tmp_path / "out.jsonl.partial"
    with subprocess.Popen([*command, out], env=environment) as process:
        while process.poll() is None and (
            not partial.exists() or partial.stat().st_size < 2000
        ):
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
    assert 0 < len(partial.read_bytes()) < len(whole.read_bytes()) and not out.exists()
    again = subprocess.run(
        [*command, out], check=True, env=environment, capture_output=True, text=True
    )
    assert out.read_bytes() == whole.read_bytes()
    assert not partial.exists() and "self-BLEU" in again.stdout


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
