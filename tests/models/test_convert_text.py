"""Converted models that write text, and published ones."""

import os

import pytest
import torch
import transformers

from jaxaug.core import buckets
from jaxaug.models import convert
from jaxaug.models.named import packages
from jaxaug.models.text import registry
from jaxaug.paraphrase import decoder, samplers
from tests.models.convert_kit import TINY, tensors, word_level

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
    (batch,) = buckets.plan([len(tokens)], 1)
    ((output,),) = decoded([tokens], batch)
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
