"""The models of benchmarks/sgd_item.py and their vocabularies."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from jaxaug.feed import vocabulary
from jaxaug.models import llama
from jaxaug.models.named import catalogue
from jaxaug.models.text import continuing, language


class Words:
    """A vocabulary with `encode_batch`, for several tokenizer libraries."""

    def __init__(self, words: Any, file: str):
        self.words, self.file = words, file

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """Returns the ids of several texts, without EOS."""
        if isinstance(self.words, vocabulary.TokenVocabulary):
            return self.words.processor.encode(texts)
        return self.words.encode_batch(texts)


def load_model(name: str) -> tuple[continuing.PrefixModel, Words]:
    """Returns the untrained model and its vocabulary.

    Args:
        name: "smollm2", from the cache folder, or "tiny": random weights and the
            vocabulary of `mini`.
    """
    if name == "smollm2":
        folder = catalogue.CATALOGUE[name].folder
        found = language.load(folder, name)
        (file,) = sorted(folder.glob("*.gguf"))
        config = dataclasses.replace(found.module.config, dtype=jnp.bfloat16)
        module, params, words = found.module, found.params, found.vocabulary
        module = module.clone(config=config)
        return continuing.PrefixModel(name, module, params, words, False), Words(
            words, str(file)
        )
    pieces = vocabulary.TokenVocabulary(vocabulary.shipped("mini"))
    config = llama.Config(
        vocab_size=pieces.vocab_size, emb_dim=32, num_layers=1, num_heads=2,
        num_kv_heads=1, head_dim=16, mlp_dim=64, tie_embeddings=True,
    )  # fmt: skip
    module = llama.DecoderWrapper(config)
    ones = jnp.ones((1, 8), jnp.int32)
    start = jax.random.PRNGKey(0)
    params = module.init(start, ones, ones, enable_dropout=False)["params"]
    return continuing.PrefixModel(name, module, params, pieces, False), Words(
        pieces, pieces.path
    )
