"""Digests that identify models in keys, independent of name and location.

The texts and scores of a model depend only on its weights, the code that reads them,
and the code that computes the result. Names, folders, and dates do not matter: a copy
is the same model, and another model in a folder of the same name is not.
"""

import hashlib
import importlib
import re
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np
from etils import epath
from flax import traverse_util
from t5x.examples.t5 import network

from jaxaug import models
from jaxaug.core.digests import file_digest
from jaxaug.models.named import catalogue

_SUFFIXES = (
    ".safetensors", ".bin", ".gguf", ".jinja", ".json", ".txt", ".model", ".spm",
)  # fmt: skip
_BYTES = 16
# Part of the text of a module that holds a function.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def of_folder(folder: epath.Path) -> str:
    """Returns the digest of weights, configuration, and tokenizer of a published model.

    Files are read again only if their size or time changed (about 1 GB/s).
    """
    digest = _new()
    for path in sorted(folder.glob("*"), key=lambda path: path.name):
        if path.suffix in _SUFFIXES and path.name != catalogue.SOURCE_FILE:
            digest.update(f"{path.name} {file_digest(path)}\n".encode())
    return digest.hexdigest()


def of_parameters(module: Any, params: Mapping[str, Any], *vocabularies: Any) -> str:
    """Returns the digest of a network with its parameters and vocabularies in memory.

    Args:
        module: network; its text names all sizes and options.
        *vocabularies: SentencePiece models, or published tokenizers.
    """
    digest = _new()
    digest.update(_ADDRESS.sub("", repr(module)).encode())
    flat = traverse_util.flatten_dict(dict(params), sep="/")
    for name in sorted(flat):
        array = np.ascontiguousarray(flat[name])
        digest.update(f"\n{name} {array.dtype} {array.shape} ".encode())
        digest.update(array.reshape(-1).view(np.uint8))
    for vocabulary in vocabularies:
        digest.update(b"\n" + _of_vocabulary(vocabulary))
    return digest.hexdigest()


def _of_vocabulary(vocabulary: Any) -> bytes:
    tokenizer = getattr(vocabulary, "tokenizer", vocabulary)
    backend = getattr(tokenizer, "backend", None)
    if backend is not None:
        return backend.to_str().encode()
    for name in ("sentencepiece_model_file", "path"):
        if file := getattr(vocabulary, name, None):
            return file_digest(file).encode()
    return f"{type(vocabulary).__name__} {vocabulary.vocab_size}".encode()


def network_code() -> tuple[ModuleType, ...]:
    """Returns the packages of networks, tokenizers, and prompts, for `code_digest`."""
    return models, importlib.import_module(network.__package__)


def _new() -> Any:
    return hashlib.blake2b(digest_size=_BYTES)
