"""Paraphrasing with a language model: prompts, cut outputs, and log probabilities."""

import dataclasses
import json
import shutil
from types import SimpleNamespace

import jax
import numpy as np
import pytest
import torch
import transformers

from jaxaug import cli
from jaxaug.core.buckets import Batch, pad, plan
from jaxaug.core.errors import UserError
from jaxaug.models.text import language, prompts, registry
from jaxaug.models.tokenizers import hf
from jaxaug.paraphrase import causal, run, samplers
from jaxaug.paraphrase.decoder import Decoder

LENGTH = 8
# All texts are of one bucket, because compilation is slow.
LINES = ["a bus", "hotel", "date", "hotel", "People"]
PROMPT = "Say it otherwise.\nA: hot\nB: warm\n\nA: {text}\nB:"


@pytest.fixture(scope="module")
def prompt_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("prompt") / "prompt.txt"
    path.write_text(PROMPT + "\n")
    return path


@pytest.fixture(scope="module")
def model(tiny_lm, prompt_file):
    """Returns the same object in all runs, so that each program is compiled once."""
    loaded = language.load(tiny_lm, "tiny@0", str(prompt_file))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(language.LanguageModel, "prompted", lambda self, prompt: self)
        patch.setattr(registry, "load", lambda name: loaded)
        yield loaded


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


@pytest.fixture
def paraphrase(model, lines, prompt_file):
    def call(out, sampler="bottom_k", num=3, **changes):
        settings = {"model": "tiny", "max_length": LENGTH, "batch_size": 4}
        settings |= {"prompt": str(prompt_file)} | changes
        run.paraphrase(lines, out, sampler=sampler, num=num, **settings)
        return records(out)

    return call


def records(path):
    return [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]


def greedy(num=1):
    chosen = samplers.find("greedy")
    return chosen.build(num, chosen.complete({}))


def line_in_torch(theirs, prompt, ends):
    """Returns published ids of the greedy line and its log probability."""
    tokens, total = [], 0.0
    while len(tokens) < LENGTH:
        with torch.no_grad():
            ids = torch.tensor([[0, *prompt, *tokens]])
            log_probs = torch.log_softmax(theirs(ids).logits[0, -1].double(), -1)
        ending = torch.logsumexp(log_probs[ends], -1).item()
        log_probs[ends] = -torch.inf
        best = int(log_probs.argmax())
        if ending > log_probs[best]:
            return tokens, total + ending
        tokens, total = [*tokens, best], total + log_probs[best].item()
    return tokens, total


def test_greedy_lines_and_log_probabilities_equal_torch(model, tiny_lm):
    theirs = transformers.LlamaForCausalLM.from_pretrained(tiny_lm).eval()
    words = model.vocabulary
    ends = [0, 1, words.encode("\n")[0] - 1, words.encode("\r")[0] - 1]
    sequences = [model.encode(text) for text in LINES]
    decoder = Decoder(model, greedy(), num=1, max_length=LENGTH, seed=0)
    outputs = decoder(sequences)
    lengths = []
    for index, (output,) in enumerate(outputs):
        prompt = [token - 1 for token in sequences[index]]
        expected, log_probability = line_in_torch(theirs, prompt, ends)
        assert output.text == model.decode([token + 1 for token in expected])
        np.testing.assert_allclose(output.log_probability, log_probability, rtol=1e-4)
        lengths.append(len(expected))
    assert min(lengths) < LENGTH


@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
def test_every_listed_token_ends_an_output(model, tiny_lm, tmp_path, name):
    """An ordinary letter that the model writes becomes an end."""
    theirs = transformers.LlamaForCausalLM.from_pretrained(tiny_lm).eval()
    words = model.vocabulary
    ends = [0, 1, words.encode("\n")[0] - 1, words.encode("\r")[0] - 1]
    texts = {text: [token - 1 for token in model.encode(text)] for text in LINES}
    written = {t: line_in_torch(theirs, prompt, ends)[0] for t, prompt in texts.items()}
    text, plain = max(written.items(), key=lambda item: len(set(item[1])))
    letter = list(dict.fromkeys(plain))[1]
    for path in tiny_lm.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    path = tmp_path / name
    told = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(told | {"eos_token_id": [1, letter]}))
    loaded = dataclasses.replace(language.load(tmp_path, "x"), prompt=model.prompt)
    sequences = [loaded.encode(text)]
    decoder = Decoder(loaded, greedy(), num=1, max_length=LENGTH, seed=0)
    ((output,),) = decoder(sequences)
    expected, log_probability = line_in_torch(theirs, texts[text], [*ends, letter])
    assert expected == plain[: plain.index(letter)]
    assert output.text == model.decode([token + 1 for token in expected])
    np.testing.assert_allclose(output.log_probability, log_probability, rtol=1e-4)


def test_log_probabilities_of_many_outputs(model):
    """More outputs than are scored in one batch, each as if it were alone."""
    prompt = np.array([model.encode("find a hotel") + [0] * 5], np.int32)
    eos = model.vocabulary.eos_id
    outputs = np.random.default_rng(0).integers(3, 250, (11, 5)).astype(np.int32)
    outputs[4, 2:] = [eos, 9, 9]
    outputs[5] = [*outputs[4, :3], 7, 8]  # Differs after its end only.
    together = causal.log_probabilities(model, model.params, prompt, outputs)
    alone = [
        causal.log_probabilities(model, model.params, prompt, outputs[i : i + 1])[0]
        for i in range(11)
    ]
    np.testing.assert_allclose(together, alone, rtol=1e-5)
    assert together[4] == together[5]
    assert len(set(np.asarray(together).tolist())) == 10


def test_prompt_and_source(model):
    """The three parts give the tokens of the whole; the source is the line only."""
    words = model.vocabulary
    tokens = model.encode("find a  hotel")
    assert tokens == words.encode(PROMPT.format(text="find a hotel"))
    rows = pad([tokens, model.encode("date")], 2, len(tokens) + 3)
    sources = np.asarray(causal.sources_of(model, rows))
    texts = [words.decode([t for t in row if t]) for row in sources.tolist()]
    assert texts == [" find a hotel", " date"]
    assert model.shared == len(tokens) - len(" find a hotel")


def test_decode_functions_see_the_source_and_embeddings(model):
    seen = {}

    def spy(inputs, *args, source, embeddings, max_decode_steps, **kwargs):
        seen.update(source=source, embeddings=embeddings, steps=max_decode_steps)
        return greedy()(
            inputs, *args, source=source, max_decode_steps=max_decode_steps, **kwargs
        )

    tokens = model.encode("date")
    jax.eval_shape(
        lambda: causal.decode(
            model, spy, 1, LENGTH, model.params, pad([tokens], 2, len(tokens)),
            np.arange(2), jax.random.PRNGKey(0),
        )
    )  # fmt: skip
    assert seen["steps"] == LENGTH
    assert seen["embeddings"].shape == (259, 16)
    assert seen["source"].shape == (2, len(tokens))


def test_records(paraphrase, tmp_path):
    found = paraphrase(tmp_path / "out.jsonl", seed=3)
    assert [(r["line"], r["index"]) for r in found] == [
        (line, index) for line in range(1, 6) for index in range(3)
    ]
    assert [r["input"] for r in found[::3]] == LINES
    for record in found:
        assert record["model"] == "tiny@0" and record["log_probability"] < 0
        assert "prompt.txt " in record["prompt"]
        assert record["output"] == " ".join(record["output"].split())
    texts = [record["output"] for record in found]
    assert texts[3:6] != texts[9:12] and len(set(texts)) > 8


@pytest.mark.parametrize("sampler", ["beam", "diverse_beam"])
def test_other_samplers(paraphrase, tmp_path, sampler):
    found = paraphrase(tmp_path / "out", sampler, num=2)
    assert len(found) == 10 and len({r["log_probability"] for r in found}) > 5


def test_min_length_holds_back_the_end_of_this_vocabulary(model):
    """EOS has another id than in the vocabularies of T5."""
    prompts_of = pad([model.encode("date")], 2, len(model.encode("date")))
    first_ends = []
    for min_length in (0, 5):
        sampler = samplers.find("sampling")
        options = sampler.complete({"min_length": min_length})
        tokens = causal.decode(
            model, sampler.build(8, options), 8, LENGTH, model.params, prompts_of,
            np.arange(2), jax.random.PRNGKey(0),
        )  # fmt: skip
        is_end = np.asarray(tokens) == model.vocabulary.eos_id
        assert is_end.any()
        first_ends.append(is_end.argmax(axis=-1)[is_end.any(axis=-1)].min())
    assert first_ends[0] < 5 <= first_ends[1]


def test_another_prompt_is_another_run(paraphrase, tmp_path, prompt_file):
    paraphrase(tmp_path / "out")
    other = tmp_path / "other.txt"
    other.write_text(PROMPT.replace("hot", "cold"))
    with pytest.raises(UserError, match="prompt"):
        paraphrase(tmp_path / "out", prompt=str(other))


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        (" a day \n b", "a day"),
        ("\n\na day", "a day"),
        ('"a day"', "a day"),
        ("'a' or 'b", "'a' or 'b"),
        ("- a  day", "a day"),
        ("2) a day", "a day"),
        ("2 days", "2 days"),
        ("", ""),
    ],
)
def test_outputs_are_cut_and_cleaned(model, text, cleaned):
    assert model.decode(model.vocabulary.encode(text)) == cleaned


@pytest.mark.parametrize("name", ["schema", "persona"])
def test_prompts_have_three_examples_and_end_before_the_answer(name):
    prompt = prompts.find(name)
    assert prompt.before.count("\nParaphrase: ") == 3
    assert prompt.behind == "\nParaphrase:" and prompt.space == " "


def test_wrong_prompts(paraphrase, tmp_path, monkeypatch, model):
    bad = tmp_path / "bad.txt"
    bad.write_text("nothing")
    with pytest.raises(UserError, match=r"contains \{text\} 0 times, but must"):
        paraphrase(tmp_path / "out", prompt=str(bad))
    with pytest.raises(
        UserError, match=r"Use one of plain, .*schema, ask, sentence, persona, or name"
    ):
        paraphrase(tmp_path / "out", prompt="personna")
    with monkeypatch.context() as patch:
        seq2seq = SimpleNamespace(label="t5")
        patch.setattr(registry, "load", lambda name: seq2seq)
        with pytest.raises(UserError, match="takes no prompt"):
            paraphrase(tmp_path / "out", prompt="schema")


def test_buckets_round_up_unshared_tokens():
    batches = plan([103, 109, 117, 101], 4, shared=100)
    assert batches == [Batch((2,), 1, 132), Batch((1,), 1, 116), Batch((0, 3), 2, 108)]


def test_command_line(tiny_lm, lines, tmp_path, monkeypatch, capsys):
    monkeypatch.undo()
    arguments = ["--model", str(tiny_lm), "--sampler", "greedy", "--prompt", "persona"]
    arguments += ["--max_length", "4", "--in", str(lines), "--out", str(tmp_path / "o")]
    assert cli.main(["paraphrase", *arguments]) == 0
    assert "5 inputs, 5 outputs" in capsys.readouterr().out
    assert {r["prompt"] for r in records(tmp_path / "o")} == {"persona"}


def test_no_eos(tiny_lm, tmp_path):
    for path in tiny_lm.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    # The model writes the first one of a list.
    for folder, ids in ((tmp_path / "list", [9, 1]), (tmp_path, None)):
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config | {"eos_token_id": ids}))
    shutil.copy(tmp_path / "tokenizer.json", tmp_path / "list")
    assert hf.load(tmp_path / "list", 1).eos_id == 10
    with pytest.raises(UserError, match="names no token that ends a text"):
        language.load(tmp_path, "x")


def test_the_prefix_is_computed_once(model):
    """A cached prefix keeps tokens, and log probabilities up to rounding."""
    params = causal.ready(model, model.params)
    sequences = [model.encode(text) for text in LINES]
    rows = pad(sequences, len(sequences), max(map(len, sequences)) + 2)
    chosen = samplers.find("bottom_k")
    settings = (chosen.build(3, chosen.complete({})), 3, LENGTH)
    ids, key = np.arange(len(rows)), jax.random.PRNGKey(5)
    plain = causal.decode(model, *settings, model.params, rows, ids, key)
    found = causal.decode(model, *settings, params, rows, ids, key)
    np.testing.assert_array_equal(found, plain)
    outputs = np.asarray(plain[2])
    np.testing.assert_allclose(
        causal.log_probabilities(model, params, rows[2:3], outputs),
        causal.log_probabilities(model, model.params, rows[2:3], outputs),
        rtol=1e-5,
    )
    # Cached outputs are not checked.
    other = rows.copy()
    other[:, : len(model.before)] = 9
    found = causal.decode(model, *settings, params, other, ids, key)
    np.testing.assert_array_equal(found, plain)
    assert len(model.before) > 20
