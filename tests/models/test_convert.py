"""`jaxaug convert`: every input and output form, bit by bit, and converted models."""

import dataclasses
import os
import shutil

import flax
import gin
import jax
import numpy as np
import pytest
import safetensors.torch
import torch
import transformers
from etils import epath
from t5x import checkpoints

from jaxaug import cli
from jaxaug.core.errors import UserError
from jaxaug.models import convert
from jaxaug.models.named import catalogue, packages
from jaxaug.models.text import registry
from jaxaug.models.tokenizers import hf
from jaxaug.models.weights import hf_folder, t5x_layout
from jaxaug.paraphrase import decoder, samplers
from tests.models.convert_kit import (
    TINY,
    WORDS,
    assert_same_tensors,
    config_of,
    tensors,
    word_level,
    write,
)
from tests.support import grids


@pytest.fixture(params=[*TINY, "bfloat16"])
def published(request, tmp_path, words):
    """Returns the folder of a model of each family."""
    if request.param == "bfloat16":
        return write(tmp_path / "source", "t5", words, torch.bfloat16)
    return write(tmp_path / "source", request.param, words)


@pytest.fixture
def t5(tmp_path, words):
    """Returns a T5 v1.0; bare parameters are taken as this kind."""
    return write(tmp_path / "source", "t5", words, feed_forward_proj="relu")


def test_hf_to_hf(published, tmp_path):
    out = convert.convert(published, tmp_path / "out")
    assert_same_tensors(out, published)
    assert config_of(out) == config_of(published)
    assert (out / WORDS).read_bytes() == (published / WORDS).read_bytes()
    _, report = transformers.AutoModel.from_pretrained(out, output_loading_info=True)
    assert not report["mismatched_keys"]


def test_parameters_are_rounded_on_request(t5, tmp_path, capsys):
    command = ["convert", "--from", str(t5), "--to", str(tmp_path / "out")]
    assert cli.main([*command, "--dtype", "bfloat16"]) == 0
    found, before = tensors(tmp_path / "out"), tensors(t5)
    for name, tensor in before.items():
        assert torch.equal(found[name], tensor.bfloat16()), name
    assert config_of(tmp_path / "out")["dtype"] == "bfloat16"
    with pytest.raises(UserError, match="dtype='int8': expected 'float32' or 'b"):
        convert.convert(t5, tmp_path / "other", dtype="int8")


@pytest.mark.parametrize("form", grids.first(1, ["t5x", "t5x_legacy"]))
def test_hf_to_t5x_and_back(published, tmp_path, form):
    step = convert.convert(published, tmp_path / "run" / "checkpoint_3", form=form)
    assert step == tmp_path / "run" / "checkpoint_3"
    assert (step / "checkpoint").exists() == (form == "t5x_legacy")
    assert (tmp_path / "run" / t5x_layout.GIN).read_text().count("NETWORK = @") == 1
    out = convert.convert(tmp_path / "run", tmp_path / "out", like=published)
    assert_same_tensors(out, published)
    assert config_of(out) == config_of(published)
    # The network is next to the checkpoint.
    bare = convert.convert(step, tmp_path / "bare")
    assert_same_tensors(bare, published)
    first, second = (hf_folder.read_config(f)[2] for f in (published, bare))
    assert first == second
    load = transformers.AutoConfig.from_pretrained
    theirs, back = (load(folder).to_dict() for folder in (published, bare))
    told = {name for _, options in TINY.values() for name in options} & theirs.keys()
    assert {name: back[name] for name in told} == {name: theirs[name] for name in told}
    again = convert.convert(step, tmp_path / "again", form=form, like=published)
    assert again.name == "checkpoint_3"
    first, second = (checkpoints.load_t5x_checkpoint(p) for p in (step, again))
    jax.tree.map(np.testing.assert_array_equal, first, second)
    assert jax.tree.structure(first) == jax.tree.structure(second)


def test_a_bare_checkpoint_of_t5(t5, tmp_path):
    step = convert.convert(t5, tmp_path / "run" / "checkpoint_0")
    (tmp_path / "run" / t5x_layout.GIN).unlink()
    out = convert.convert(step, tmp_path / "out")
    assert_same_tensors(out, t5)
    tokens = torch.tensor([[3, 4, 1]])
    logits = []
    for folder in (t5, out):
        model = transformers.T5ForConditionalGeneration.from_pretrained(folder).eval()
        with torch.no_grad():
            output = model(input_ids=tokens, decoder_input_ids=tokens)
        logits.append(output.logits)
    assert torch.equal(*logits)


def test_a_network_that_differs_from_the_checkpoint(t5, tmp_path):
    run = tmp_path / "run"
    convert.convert(t5, run / "checkpoint_0")
    gin_file = run / t5x_layout.GIN
    text = gin_file.read_text()
    for old, new, message in (
        (
            "num_heads = 2",
            "num_heads = 1",
            r"key/kernel of shape \(8, 4\), but the checkpoint next to it has \(8, 8\)",
        ),
        ("num_heads", "heads", "unexpected keyword argument 'heads'"),
        ("network.T5Config", "other.Config", "the configuration of no known network"),
        ("emb_dim = 8", "dtype = 'float33'\n  emb_dim = 8", "float33"),
        ("NETWORK =", "NETWORK = =", ""),
        ("emb_dim = 8", "emb_dim = @os.system()", "emb_dim .* is not a plain value"),
    ):
        assert old in text
        gin_file.write_text(text.replace(old, new))
        with pytest.raises(UserError, match=f"network.gin.*{message}") as error:
            convert.convert(run, tmp_path / "out")
        assert str(error.value).endswith("started from with --like.")


def test_a_run_with_its_own_config(t5, tmp_path, words):
    """`t5x.train` writes a config.gin that names network and vocabulary."""
    run = tmp_path / "run"
    convert.convert(t5, run / "checkpoint_5")
    (run / "config.gin").write_text(
        (run / t5x_layout.GIN).read_text()
        + f"""
from jaxaug.feed import vocabulary
from t5x import models
MODEL = @models.EncoderDecoderModel()
VOCABULARY = @vocabulary.TokenVocabulary()
vocabulary.TokenVocabulary.path = '{words}'
models.EncoderDecoderModel:
  module = %NETWORK
  input_vocabulary = %VOCABULARY
  output_vocabulary = %VOCABULARY
  optimizer_def = None
"""
    )
    out = convert.convert(run, tmp_path / "out", seed=4)
    assert_same_tensors(out, t5)
    assert (out / WORDS).read_bytes() == words.read_bytes()
    assert "- Seed: 4\n" in (out / "README.md").read_text()
    # The vocabulary has more pieces than this small embedding has rows.
    for folder in run, out:
        with pytest.raises(UserError, match=f"{folder}: .*1051 ids, but .* 40 rows"):
            registry.load(str(folder))
    assert not gin.config_str().strip()


IMPORTS = """from __gin__ import dynamic_registration
import seqio
from t5x import models
"""
LEAK = """VOCABULARY = @seqio.SentencePieceVocabulary()
seqio.SentencePieceVocabulary.sentencepiece_model_file = '{secret}'
MODEL = @models.EncoderDecoderModel()
models.EncoderDecoderModel:
  module = %NETWORK
  input_vocabulary = %VOCABULARY
  output_vocabulary = %VOCABULARY
"""


def test_a_run_folder_leaks_no_file(t5, tmp_path):
    run, secret = tmp_path / "run", tmp_path / "id_rsa"
    secret.write_text("secret")
    convert.convert(t5, run / "checkpoint_0")
    network = (run / t5x_layout.GIN).read_text()
    text = f"{network}\n{IMPORTS}{LEAK.format(secret=secret)}"
    (run / "config.gin").write_text(text)
    with pytest.raises(UserError, match="id_rsa: is no SentencePiece model"):
        convert.convert(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_model_of_the_hub(t5, tmp_path, monkeypatch):
    fetched = []

    def fetch(name):
        fetched.append(name)
        return epath.Path(t5)

    monkeypatch.setattr(catalogue, "fetch", fetch)
    out = convert.convert("hf:google/small", tmp_path / "out")
    assert fetched == ["hf:google/small"]
    assert_same_tensors(out, t5)
    assert "- Converted from: google/small\n" in (out / "README.md").read_text()


def test_the_verb(t5, tmp_path, capsys):
    (tmp_path / "metrics.json").write_text('{"JGA": 0.25}')
    out = tmp_path / "out"
    arguments = ["convert", "--from", str(t5), "--to", str(out), "--seed", "7"]
    arguments += ["--data", "SGD", "--licence", "Apache-2.0"]
    arguments += ["--metrics", str(tmp_path / "metrics.json")]
    assert cli.main(arguments) == 0
    assert capsys.readouterr().out == f"wrote {out}\n"
    card = (out / "README.md").read_text()
    for line in (
        "- Converted from: source",
        "- Training data: SGD",
        "- Licence: Apache-2.0",
        "- Seed: 7",
        "| JGA | 0.25 |",
    ):
        assert line in card.splitlines()
    assert cli.main(arguments) == 1
    assert f"error: {out} exists." in capsys.readouterr().err


def test_refused_arguments(t5, tmp_path):
    with pytest.raises(
        UserError, match="nowhere: no such file or folder. Name a folder"
    ):
        convert.convert(tmp_path / "nowhere", tmp_path / "out")
    # A missing folder is not looked up on the hub.
    with pytest.raises(UserError) as error:
        convert.convert("runs/nowhere", tmp_path / "out")
    assert str(error.value) == (
        "runs/nowhere: no such file or folder. Name a folder with config.json, a T5X "
        "run or checkpoint, a .gguf file, a name from `jaxaug models list`, or hf: and "
        "an id of the Hugging Face hub, such as hf:runs/nowhere."
    )
    with pytest.raises(UserError, match="form='onnx': expected 'hf' or 't5x' or 't5x_"):
        convert.convert(t5, tmp_path / "out", form="onnx")
    with pytest.raises(
        UserError, match="x.gguf: GGUF is read, not written. Name a fold"
    ):
        convert.convert(t5, tmp_path / "x.gguf")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="empty"):
        convert.convert(tmp_path / "empty", tmp_path / "out")
    convert.convert(t5, tmp_path / "run", form="t5x")
    with pytest.raises(UserError, match="checkpoint_0 exists. Name another folder"):
        convert.convert(t5, tmp_path / "run", form="t5x")
    (tmp_path / "run" / "checkpoint_0" / "state" / "_METADATA").unlink()
    with pytest.raises(UserError, match="run"):
        convert.convert(tmp_path / "run", tmp_path / "out")
    for like in (tmp_path / "nope", tmp_path / "empty", "/nope"):
        match = f"--like {like}: no such folder, or one without a model. Name a publ"
        with pytest.raises(UserError, match=match):
            convert.convert(t5, tmp_path / "out", like=like)
    assert not (tmp_path / "out").exists()


def test_a_checkpoint_of_another_configuration(t5, tmp_path, edit_json):
    convert.convert(t5, tmp_path / "run", form="t5x")
    edit_json(t5 / "config.json", lambda c: c.update(num_decoder_layers=3))
    with pytest.raises(UserError, match="keys without a parameter: decoder/layers_2/"):
        convert.convert(tmp_path / "run", tmp_path / "out", like=t5)


def test_parameters_are_float32_by_default(t5):
    path = t5 / "model.safetensors"
    half = {name: t.half() for name, t in safetensors.torch.load_file(path).items()}
    safetensors.torch.save_file(half, path, {"format": "pt"})
    for options, dtype in (({}, np.float32), ({"param_dtype": None}, np.float16)):
        params = hf_folder.load(t5, **options).params
        flat = flax.traverse_util.flatten_dict(params)
        assert {leaf.dtype for leaf in flat.values()} == {np.dtype(dtype)}
    assert hf_folder.load(t5, dtype="bfloat16").config.dtype == "bfloat16"


def test_control_fields_are_special_tokens(t5, tmp_path, monkeypatch):
    named = dataclasses.replace(
        catalogue.find("qcpg-captions"), prompt="COND_{lexical} {text}",
        controls={"lexical": (30, 90)},
    )  # fmt: skip
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(catalogue, "CATALOGUE", {named.name: named})
    shutil.copytree(t5, named.folder)
    (named.folder / WORDS).unlink()
    (named.folder / catalogue.SOURCE_FILE).write_text('{"commit": "abc"}')
    word_level(named.folder, "COND_30")
    model = registry.load(named.name)
    assert model.label == "qcpg-captions@abc"
    assert model.encode("b COND_30") == [8, 5, 3, 2]
    shutil.rmtree(named.folder)
    shutil.copytree(t5, named.folder)
    (named.folder / catalogue.SOURCE_FILE).write_text('{"commit": "abc"}')
    (named.folder / WORDS).unlink()
    word_level(named.folder, "COND_25")
    hf._load.cache_clear()
    with pytest.raises(UserError, match="does not know the control field COND_30"):
        registry.load(named.name)


def test_models_that_write_no_text(tmp_path, words):
    write(tmp_path, "bert", words)
    with pytest.raises(UserError, match="is a bert, which writes no text"):
        registry.load(str(tmp_path))


WHEELS = os.environ.get(packages.WHEELS_VARIABLE)


def test_a_published_bart_that_paraphrases(tmp_path):
    model_cls, options = TINY["bart"]
    torch.manual_seed(1)
    oracle = model_cls(model_cls.config_class(**options)).eval()
    with torch.no_grad():
        for parameter in oracle.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    oracle.save_pretrained(tmp_path)
    word_level(tmp_path)
    model = registry.load(str(tmp_path))
    tokens = model.encode("a c b")
    # Ids of the published vocabulary plus 1, between <s> and </s>.
    assert tokens == [1, 5, 7, 6, 3]
    assert model.decode([5, 7, 3, 5]) == "a c"
    decoded = decoder.Decoder(
        model, samplers.find("greedy").build(1, {}), num=1, max_length=6, seed=0
    )
    ((output,),) = decoded([tokens])
    generated = oracle.generate(
        torch.tensor([tokens]) - 1, max_new_tokens=6, do_sample=False, num_beams=1
    )
    expected = [token + 1 for token in generated[0, 1:].tolist()]
    assert expected and output.text == model.decode(expected)


@pytest.fixture
def real(request, tmp_path, monkeypatch):
    """Returns a named model whose wheel is on this machine."""
    if not WHEELS:
        pytest.skip("the wheels are not there: JAXAUG_PACKAGES is unset")
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    return request.param


@pytest.mark.slow
@pytest.mark.parametrize("real", ["minilm"], indirect=True)
def test_the_real_minilm(real, tmp_path):
    out = convert.convert(real, tmp_path / "out")
    source = tmp_path / "cache" / "models" / real
    found, expected = tensors(out), tensors(source)
    # The file also holds position indices, which are not parameters.
    assert set(expected) - set(found) <= {"embeddings.position_ids"}
    assert all(torch.equal(found[name], expected[name]) for name in found)
    assert "- Licence: Apache-2.0" in (out / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("real", ["smollm2"], indirect=True)
def test_the_real_smollm2(real, tmp_path):
    """A GGUF file becomes a folder with which transformers generates text."""
    out = convert.convert(real, tmp_path / "out")
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    model, report = transformers.AutoModelForCausalLM.from_pretrained(
        out, output_loading_info=True
    )
    assert not report["missing_keys"] and not report["unexpected_keys"]
    tokens = tokenizer("The capital of France is", return_tensors="pt")
    generated = model.generate(**tokens, max_new_tokens=2, do_sample=False)
    assert "Paris" in tokenizer.decode(generated[0])
