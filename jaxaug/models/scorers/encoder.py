"""A published encoder with its tokenizer, which runs on batches of similar length."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from etils import epath
from flax import linen as nn
from jaxtyping import Array, Float, Int
from t5x.feed.vocabularies import check_rows

from jaxaug.core import pins
from jaxaug.core.buckets import Batch, in_batches, pad
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, shown
from jaxaug.models.named import catalogue, identities
from jaxaug.models.tokenizers import hf as tokenizers
from jaxaug.models.weights import hf_config as rules
from jaxaug.models.weights import hf_folder

# (encoder, *settings, params, tokens, segments, mask, numbers) -> one output row per
# input row; see `programs.of_model`.
Program = Callable[..., Array]

SENTENCE_CONFIG = "sentence_bert_config.json"
_FIX = "Get the model again."


@dataclasses.dataclass(frozen=True, eq=False)
class Encoder:
    """A model that reads whole texts.

    Attributes:
        module: network with a `config`, called with tokens, segments, and mask.
        tokenizer: tokenizer with the ids of the module.
        max_length: maximum tokens of a text or pair; the rest is cut off.
        identity: hash of everything that results depend on.
        folder: folder of the model; None if it was not read from one.
    """

    name: str
    module: nn.Module
    params: Any
    tokenizer: tokenizers.Tokenizer
    max_length: int
    identity: str
    folder: epath.Path | None = None
    batch_size: int = 32

    @functools.cached_property
    def _params(self) -> Any:
        return jax.device_put(self.params)

    @functools.cached_property
    def bare(self) -> "Encoder":
        """The same encoder without parameters, for compiled programs to refer to."""
        return dataclasses.replace(self, params={})

    @functools.cached_property
    def config(self) -> Any:
        """Configuration of the module."""
        return self.module.config  # type: ignore[attr-defined]

    def encode(
        self, texts: Sequence[tuple[str, str]] | Sequence[str]
    ) -> list[tokenizers.Encoded]:
        """Returns encoded texts or pairs."""
        encoded = self.tokenizer.pairs(texts, self.max_length)
        if getattr(self.config, "num_segments", 1) > 1:
            return encoded
        return [one._replace(segments=[0] * len(one.tokens)) for one in encoded]

    def run(
        self,
        program: Program,
        encoded: Sequence[tokenizers.Encoded],
        *settings: Any,
        numbers: Int[np.ndarray, "n k"] | None = None,
    ) -> Float[np.ndarray, "n ..."]:
        """Returns the output rows of a jitted program, in the order of the inputs.

        Args:
            program: compiled once per length; lengths are powers of two.
            settings: static arguments of the program.
            numbers: further arguments of each row; None means zeros.

        Raises:
            UserError: an output is NaN or infinite.
        """
        if numbers is None:
            numbers = np.zeros((len(encoded), 1), np.int32)

        def compute(tokens: Int[np.ndarray, "rows length"], batch: Batch) -> Array:
            own = [encoded[place] for place in batch.indices]
            segments = pad([one.segments for one in own], *tokens.shape)
            mask = pad([[1] * len(one.tokens) for one in own], *tokens.shape) > 0
            tokens = np.where(mask, tokens, np.int32(self.tokenizer.pad_id))
            places = [*batch.indices, *batch.indices[:1] * (batch.rows - len(own))]
            rows = tokens, segments, mask, numbers[places]
            return program(self, *settings, self._params, *rows)

        found = in_batches(
            [one.tokens for one in encoded],
            self.batch_size,
            compute,
            fit=lambda batch: batch._replace(length=min(batch.length, self.max_length)),
            name=self.name,
        )
        return np.stack(found)


def load(name: PathLike, max_length: int | None = None) -> Encoder:
    """Loads a published encoder.

    Args:
        name: name from `jaxaug models list`, `hf:` and a hub id, or a folder.
        max_length: maximum tokens of a text or pair; None means the limit of the model.

    Raises:
        UserError: the model is not on this machine, or its files are wrong.
    """
    folder = folder_of(name)
    published = hf_folder.load(folder)
    # Some families reserve id 0 for T5X.
    id_offset = getattr(published.config, "id_offset", 0)
    words = tokenizers.load(folder, id_offset)
    made = Encoder(
        str(name),
        published.module,
        published.params,
        words,
        _length(folder, published.config, words, max_length),
        identities.of_folder(folder),
        folder,
    )
    check_rows(made, folder)
    return made


def folder_of(name: PathLike) -> epath.Path:
    """Returns the folder of a model on this machine, or raises `UserError`."""
    folder = epath.Path(name).expanduser()
    if folder.is_dir():
        return folder
    if str(name).startswith(catalogue.HUB_PREFIX):
        return catalogue.fetched(str(name))
    folder = catalogue.find(str(name)).checked_folder
    pins.verify(folder)
    return folder


def _length(
    folder: epath.Path, config: Any, words: tokenizers.Tokenizer, chosen: int | None
) -> int:
    """Returns the maximum tokens of a text: chosen, published, or the positions."""
    # RoBERTa's positions start after the padding id.
    is_roberta = getattr(config, "family", "").endswith("roberta")
    longest = int(config.num_positions) - (words.pad_id + 1 if is_roberta else 0)
    path, name = folder / SENTENCE_CONFIG, "max_length"
    if chosen is None and path.exists():
        name = f"{path}: max_seq_length"
        chosen = rules.read_object(path, _FIX).get("max_seq_length")
    if chosen is None:
        return longest
    if type(chosen) is not int or not 0 < chosen <= longest:
        raise UserError(
            f"{name} is {shown(chosen)}, but {folder} has {longest} positions. Give a "
            "whole number from 1 up to that."
        )
    return chosen
