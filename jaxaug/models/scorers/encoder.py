"""A published encoder with its tokenizer, run over batches of similar length."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from etils import epath
from flax import linen as nn
from jaxtyping import Array, Float, Int

from jaxaug.core.buckets import plan
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_json
from jaxaug.models.named import catalogue, identities
from jaxaug.models.tokenizers import hf as tokenizers
from jaxaug.models.weights import hf_folder, pins

# (params, tokens, segments, mask, numbers) -> one row for each row.
Program = Callable[[Any, Any, Any, Any, Any], Array]

SENTENCE_CONFIG = "sentence_bert_config.json"
_FIX = "Get the model again."


@dataclasses.dataclass(frozen=True, eq=False)
class Encoder:
    """A model that reads whole texts.

    Attributes:
        name: for messages.
        module: with a `config`; called with tokens, segments and mask.
        params: of the module.
        tokenizer: with the ids of the module.
        max_length: tokens of a text or pair at most; the rest is cut off.
        identity: hash of everything that results depend on.
        folder: where it was read from, if anywhere.
        batch_size: rows that are computed together at most.
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
    def config(self) -> Any:
        """Of the module."""
        return self.module.config  # type: ignore[attr-defined]

    def encode(
        self, texts: Sequence[tuple[str, str]] | Sequence[str]
    ) -> list[tokenizers.Encoded]:
        """Texts or pairs as the model reads them."""
        encoded = self.tokenizer.pairs(texts, self.max_length)
        if getattr(self.config, "num_segments", 1) > 1:
            return encoded
        return [one._replace(segments=[0] * len(one.tokens)) for one in encoded]

    def run(
        self,
        program: Program,
        encoded: Sequence[tokenizers.Encoded],
        numbers: Int[np.ndarray, "n k"] | None = None,
    ) -> Float[np.ndarray, "n ..."]:
        """The rows that a jitted program gives, in the order of the inputs.

        Args:
            program: compiled once for each length, a power of two.
            encoded: inputs.
            numbers: further arguments of each row.

        Raises:
            UserError: a number is NaN or infinite.
        """
        if numbers is None:
            numbers = np.zeros((len(encoded), 1), np.int32)
        rows: dict[int, np.ndarray] = {}
        for batch in plan([len(one.tokens) for one in encoded], self.batch_size):
            places = np.resize(batch.indices, batch.rows)
            shape = (batch.rows, min(batch.length, self.max_length))
            tokens = np.full(shape, self.tokenizer.pad_id, np.int32)
            segments, mask = np.zeros(shape, np.int32), np.zeros(shape, np.bool_)
            for row, place in enumerate(places):
                one = encoded[place]
                tokens[row, : len(one.tokens)] = one.tokens
                segments[row, : len(one.tokens)] = one.segments
                mask[row, : len(one.tokens)] = True
            results = np.asarray(
                program(self._params, tokens, segments, mask, numbers[places])
            )
            rows |= dict(zip(batch.indices, results, strict=False))
        found = np.stack([rows[place] for place in range(len(encoded))])
        if not np.isfinite(found).all():
            raise UserError(
                f"{self.name}: what it computes of a text is NaN or infinite. Its weights "
                "are damaged or its activations overflow: get the model again, or name "
                "another."
            )
        return found


def load(name: PathLike, max_length: int | None = None) -> Encoder:
    """A published encoder.

    Args:
        name: of `jaxaug models list`, or `hf:` and a hub id, or a folder.
        max_length: None is what the model was made for.

    Raises:
        UserError: no such model on this machine, or its files are wrong.
    """
    folder = folder_of(name)
    published = hf_folder.load(folder)
    # Some families leave id 0 to T5X.
    id_offset = getattr(published.config, "id_offset", 0)
    words = tokenizers.load(folder, id_offset)
    return Encoder(
        str(name),
        published.module,
        published.params,
        words,
        max_length or _longest(folder, published.config, words),
        identities.of_folder(folder),
        folder,
    )


def folder_of(name: PathLike) -> epath.Path:
    """The folder of a model that is on this machine; raises `UserError` if none is."""
    folder = epath.Path(name).expanduser()
    if folder.is_dir():
        return folder
    if str(name).startswith(catalogue.HUB_PREFIX):
        return catalogue.fetched(str(name))
    folder = catalogue.find(str(name)).checked_folder
    pins.verify(folder)
    return folder


def _longest(folder: epath.Path, config: Any, words: tokenizers.Tokenizer) -> int:
    if (folder / SENTENCE_CONFIG).exists():
        limit = read_json(folder / SENTENCE_CONFIG, _FIX).get("max_seq_length")
        if limit:
            return int(limit)
    # RoBERTa counts positions from behind the padding.
    offset = (
        words.pad_id + 1 if getattr(config, "family", "").endswith("roberta") else 0
    )
    return int(config.num_positions) - offset
