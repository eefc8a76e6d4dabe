"""What constrained decoding of function calls costs, beside the same without it.

    python benchmarks/constrained.py [--data_dir DIR] [--tiny] [--batch 8] [--repeats 3]

A network of the shape of SmolLM2-135M with random weights, sampling, from prompts of 64
tokens to rows of 64 more, in the languages of all services of the test split. Both sides
run in turn in this process; of the fastest call of each, less a call of one step (the
prompt), comes the time of a step, since an answer may end early. On CPUs it is the time
of this process alone (`time.process_time`), which work beside it does not change. The
vocabulary is that of SmolLM2 (`jaxaug models fetch smollm2`); `--tiny` takes a byte-level
one of 259 tokens and a network of one layer.
"""

import argparse
import dataclasses
import functools
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tokenizers
from t5x import models

from jaxaug.core.arguments import data_dir
from jaxaug.data import folders, sgd
from jaxaug.decode import constrained, sample
from jaxaug.formats.json_tools import JSONOptions
from jaxaug.models import llama
from jaxaug.models.text import json_calls
from jaxaug.models.tokenizers import hf, spelling

PROMPT, STEPS = 64, 64
SMOLLM2 = llama.Config(
    vocab_size=49152,
    emb_dim=576,
    num_layers=30,
    num_heads=9,
    num_kv_heads=3,
    head_dim=64,
    mlp_dim=1536,
    tie_embeddings=True,
    id_offset=1,
)
TINY = dataclasses.replace(
    SMOLLM2, vocab_size=258, emb_dim=32, num_layers=1, num_heads=1, num_kv_heads=1
)


class Words:
    """What `DecoderOnlyModel` asks of a vocabulary."""

    def __init__(self, eos_id: int, vocab_size: int):
        self.eos_id, self.vocab_size = eos_id, vocab_size


def tiny_tokenizer() -> hf.Tokenizer:
    """All bytes, and two special tokens."""
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    special = ["<|begin|>", "<|end|>"]
    names = {name: i for i, name in enumerate([*special, *letters])}
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(names, []))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    backend.add_special_tokens(special)
    return hf.Tokenizer("tiny", backend, {"bos": 0, "eos": 1}, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    data_dir(parser)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    words = tiny_tokenizer() if arguments.tiny else hf.load("smollm2", id_offset=1)
    assert words.eos_id is not None
    begun = time.perf_counter()
    automaton, heads = json_calls.compiled(
        [sgd.read_schema_of(folders.resolve_data_dir(arguments.data_dir), "test")],
        JSONOptions(),
        spelling.of_tokenizer(words),
        words.encode,
        words.eos_id,
    )
    print(
        f"compiled {len(heads.lengths)} services: {len(automaton.moves):,} states, "
        f"{automaton.masks.nbytes / 2**20:.0f} MiB of masks, "
        f"{time.perf_counter() - begun:.1f} s"
    )
    network = llama.DecoderWrapper(TINY if arguments.tiny else SMOLLM2)
    tokens = jnp.ones((1, 4), jnp.int32)
    params = jax.jit(lambda: network.init(jax.random.PRNGKey(0), tokens, tokens))()
    sides = {
        "unconstrained": sample.sample,
        "constrained": functools.partial(
            constrained.search, automaton=automaton, heads=heads
        ),
    }
    inputs = np.zeros((arguments.batch, PROMPT + STEPS), np.int32)
    picked = np.arange(arguments.batch) % len(heads.lengths)
    columns = min(PROMPT, heads.tokens.shape[1])
    inputs[:, 1 : 1 + columns] = heads.tokens[picked, :columns]
    batch = {
        "decoder_input_tokens": inputs,
        "decoder_causal_attention": (np.arange(PROMPT + STEPS) <= PROMPT).astype(
            np.int32
        )[None]
        * np.ones_like(inputs),
    }
    sides["one step"] = functools.partial(sample.sample, max_decode_steps=1)
    vocabulary = Words(words.eos_id, words.vocab_size)
    predict: dict[str, Any] = {
        name: jax.jit(
            models.DecoderOnlyModel(
                network, vocabulary, None, decode_fn=decode_fn
            ).predict_batch
        )
        for name, decode_fn in sides.items()
    }
    fastest, steps = dict.fromkeys(sides, float("inf")), dict.fromkeys(sides, 0)
    now = time.process_time if jax.default_backend() == "cpu" else time.perf_counter
    for repeat in range(arguments.repeats + 1):
        for name, function in predict.items():
            begun = now()
            decodes = np.asarray(function(params["params"], batch))
            steps[name] = int((decodes != 0).sum(axis=1).max())
            if repeat:  # The first call compiles.
                fastest[name] = min(fastest[name], now() - begun)
    first = fastest.pop("one step")
    each = {name: (took - first) / (steps[name] - 1) for name, took in fastest.items()}
    for name, took in each.items():
        ratio = took / each["unconstrained"]
        print(
            f"{name:14} {1000 * took:8.2f} ms a step  x{ratio:.3f}  {steps[name]} steps"
        )


if __name__ == "__main__":
    main()
