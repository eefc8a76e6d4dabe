"""The network of the judge: MiniLM with an adapter, in NumPy, without JAX.

It reads a text and its rewording together (a cross-encoder, Nogueira and Cho, 2019) and
gives the log odds that the rewording is well formed and faithful.
`benchmarks/train_judge.py` trains the adapter.
"""

import functools
import unicodedata
from collections.abc import Mapping, Sequence

import numpy as np
from etils import epath
from jaxtyping import Float, Int

from jaxaug.augment.judge.features import Pair
from jaxaug.core import json_reader
from jaxaug.core.errors import UserError
from jaxaug.models.named import catalogue

BASE: str = "minilm"
NAME = "rewording-judge"
FILE, WEIGHTS = "adapter.safetensors", "model.safetensors"
LENGTH, LENGTH_OF_ONE = 128, 256
"""Maximum tokens of a pair, whose longer text is cut, and of a single text."""
_TOKENS = 512  # of a batch, so that its activations stay in the processor's cache
_CLS, _SEP, _UNKNOWN = 101, 102, 100
_LONGEST = 100  # letters of a word that has word pieces
_A, _B = ".lora_A", ".lora_B"
_EPSILON = 1e-12
_HEADS = 12

Array = Float[np.ndarray, "..."]


class Words:
    """WordPiece tokenizer of BERT for lower-case English (Devlin et al., 2019)."""

    def __init__(self, pieces: Sequence[str]):
        self._ids = {piece: number for number, piece in enumerate(pieces)}
        self.of_word = functools.lru_cache(1 << 16)(self._of_word)

    def __call__(self, text: str) -> list[int]:
        """Returns the ids of a text, without special tokens."""
        return [token for word in _words(text) for token in self.of_word(word)]

    def _of_word(self, word: str) -> list[int]:
        found, start = [], 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = ("##" if start else "") + word[start:end]
                if piece in self._ids:
                    break
            else:
                return [_UNKNOWN]
            found.append(self._ids[piece])
            start = end
        return found if len(word) <= _LONGEST else [_UNKNOWN]


def _words(text: str) -> list[str]:
    """Returns words and marks, in lower case and without accents."""
    letters = []
    for letter in unicodedata.normalize("NFD", text.lower()):
        kind = unicodedata.category(letter)
        if letter in "\t\n\r" or kind == "Zs":
            letters.append(" ")
        elif kind.startswith("P") or _is_mark(letter) or _is_chinese(letter):
            letters.append(f" {letter} ")
        elif kind != "Mn" and not kind.startswith("C") and letter != "\ufffd":
            letters.append(letter)
    return "".join(letters).split()


def _is_mark(letter: str) -> bool:
    return letter.isascii() and letter.isprintable() and not letter.isalnum()


def _is_chinese(letter: str) -> bool:
    return (
        "\u3400" <= letter <= "\u9fff"
        or "\uf900" <= letter <= "\ufaff"
        or ("\U00020000" <= letter <= "\U0002fa1f")
    )


class Encoder:
    """A BERT encoder whose outputs are the mean of its tokens and the first of them."""

    def __init__(self, weights: Mapping[str, Array], words: Words, exact: bool = False):
        """
        Args:
            weights: tensors by their published names.
            exact: whether the activation is the published one; otherwise it is a
                faster approximation, which the judge was fitted with.
        """
        self._weights, self._words = dict(weights), words
        self._activation = _gelu if exact else _fast_gelu
        self._layers = len(
            {name.split(".")[2] for name in weights if ".layer." in name}
        )
        for number in range(self._layers):
            own = f"encoder.layer.{number}.attention.self"
            for part in ("weight", "bias"):
                names = [f"{own}.{x}.{part}" for x in ("query", "key", "value")]
                self._weights[f"{own}.{part}"] = np.concatenate(
                    [weights[name] for name in names]
                )

    def __call__(
        self, texts: Sequence[tuple[str, ...]]
    ) -> tuple[Float[np.ndarray, "texts width"], Float[np.ndarray, "texts width"]]:
        """Returns the mean of the last layer, and its first position.

        Args:
            texts: single texts, or pairs.
        """
        rows = [self.encode(*one) for one in texts]
        width = self._weights["embeddings.LayerNorm.weight"].shape[0]
        mean, first = np.zeros((2, len(rows), width), np.float32)
        by_length: dict[int, list[int]] = {}
        for place, (tokens, _) in enumerate(rows):
            by_length.setdefault(len(tokens), []).append(place)
        for length, places in by_length.items():
            size = max(1, _TOKENS // length)
            for start in range(0, len(places), size):
                chosen = places[start : start + size]
                tokens, segments = np.array([rows[i] for i in chosen]).swapaxes(0, 1)
                hidden = self._hidden(tokens, segments)
                mean[chosen], first[chosen] = hidden.mean(1), hidden[:, 0]
        return mean, first

    def encode(self, first: str, second: str | None = None) -> tuple[list[int], ...]:
        """Returns the ids and segments of a text or a pair, cut to the maximum."""
        one = self._words(first)
        two = [] if second is None else self._words(second)
        most = LENGTH_OF_ONE - 2 if second is None else LENGTH - 3
        while len(one) + len(two) > most:
            (two if len(two) >= len(one) else one).pop()
        tokens, behind = [_CLS, *one, _SEP], [] if second is None else [*two, _SEP]
        return [*tokens, *behind], [0] * len(tokens) + [1] * len(behind)

    def _hidden(
        self, tokens: Int[np.ndarray, "n length"], segments: Int[np.ndarray, "n length"]
    ) -> Float[np.ndarray, "n length width"]:
        table = "embeddings.{}_embeddings.weight"
        x = (
            self._weights[table.format("word")][tokens]
            + self._weights[table.format("token_type")][segments]
            + self._weights[table.format("position")][: tokens.shape[1]]
        )
        n, length, width = x.shape
        x = self._normed(x.reshape(-1, width), "embeddings.LayerNorm")
        for number in range(self._layers):
            own = f"encoder.layer.{number}"
            y = self._mapped(x, f"{own}.attention.self")
            q, k, v = y.reshape(n, length, 3, _HEADS, -1).transpose(2, 0, 3, 1, 4)
            scores = q @ k.swapaxes(2, 3) / np.float32(np.sqrt(width // _HEADS))
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            y = (scores @ v) / scores.sum(-1, keepdims=True)
            y = y.transpose(0, 2, 1, 3).reshape(-1, width)
            y = self._mapped(y, f"{own}.attention.output.dense")
            x = self._normed(x + y, f"{own}.attention.output.LayerNorm")
            y = self._activation(self._mapped(x, f"{own}.intermediate.dense"))
            y = self._mapped(y, f"{own}.output.dense")
            x = self._normed(x + y, f"{own}.output.LayerNorm")
        return x.reshape(n, length, width)

    def _mapped(self, x: Array, name: str) -> Array:
        y = x @ self._weights[f"{name}.weight"].T
        y += self._weights[f"{name}.bias"]
        return y

    def _normed(self, x: Array, name: str) -> Array:
        x = x - x.mean(-1, keepdims=True)
        x /= np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(_EPSILON))
        x *= self._weights[f"{name}.weight"]
        x += self._weights[f"{name}.bias"]
        return x


def _gelu(x: Array) -> Array:
    """Returns x times the normal distribution function of x, to about 1e-7."""
    # Abramowitz and Stegun (1964), 7.1.26: erfc(z) for z = |x| / sqrt(2).
    z = np.abs(x) * np.float32(np.sqrt(0.5))
    t = 1 / (z * np.float32(0.3275911) + np.float32(1))
    y = t * np.float32(1.061405429)
    for number in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        y += np.float32(number)
        y *= t
    z *= -z
    y *= np.exp(z, out=z)
    y *= np.float32(0.5)
    return x * np.where(x < 0, y, 1 - y)


def _fast_gelu(x: Array) -> Array:
    y = x * x * np.float32(0.044715) + np.float32(1)
    y *= x * np.float32(np.sqrt(2 / np.pi))
    np.tanh(y, out=y)
    y += np.float32(1)
    y *= x * np.float32(0.5)
    return y


class Network:
    """The trained network, and its base for the similarity of texts."""

    def __init__(self, base: Encoder, adapted: Encoder, head: Array, bias: Array):
        """
        Args:
            base: encoder of single texts.
            adapted: encoder of pairs.
            head: weights of the log odds, for the mean and then for the first position.
        """
        self._base, self._adapted, self._head, self._bias = base, adapted, head, bias

    def log_odds(self, pairs: Sequence[Pair]) -> Float[np.ndarray, " pairs"]:
        """Returns the log odds that each rewording is well formed and faithful."""
        texts = [(f"{one.kind}: {one.original}", one.candidate) for one in pairs]
        pooled = np.concatenate(self._adapted(texts), axis=1)
        return pooled @ self._head + self._bias

    def similarity(self, pairs: Sequence[Pair]) -> Float[np.ndarray, " pairs"]:
        """Returns the cosine of the embeddings of both texts, -1 to 1."""
        texts = [(one.original, one.candidate) for one in pairs]
        return cosines(self._base, texts)


def cosines(
    encoder: Encoder, pairs: Sequence[tuple[str, str]]
) -> Float[np.ndarray, " pairs"]:
    """Returns the cosine of the mean outputs for the texts of each pair, -1 to 1."""
    texts = dict.fromkeys(text for pair in pairs for text in pair)
    mean, _ = encoder([(text,) for text in texts])
    mean /= np.linalg.norm(mean, axis=1, keepdims=True)
    place = {text: number for number, text in enumerate(texts)}
    first, second = ([place[pair[i]] for pair in pairs] for i in (0, 1))
    return np.sum(mean[first] * mean[second], axis=1)


def files() -> tuple[epath.Path, ...]:
    """Returns the files of the network: base, vocabulary, and adapter.

    Raises:
        UserError: the base is not on this machine and cannot be fetched.
    """
    base = catalogue.find(BASE).checked_folder
    return (
        base / WEIGHTS,
        base / "vocab.txt",
        epath.Path(catalogue.__file__).parent / NAME / FILE,
    )


@functools.cache
def load() -> Network:
    """Returns the network.

    Raises:
        UserError: the base is not on this machine, or a file is damaged.
    """
    base, pieces = _base()
    adapter = tensors(files()[-1])
    head, bias = adapter.pop("head.weight"), adapter.pop("head.bias")
    adapted = dict(base)
    for name, b in adapter.items():
        if name.endswith(_B):
            stem = name.removesuffix(_B)
            adapted[f"{stem}.weight"] = base[f"{stem}.weight"] + b @ adapter[stem + _A]
    return Network(Encoder(base, pieces), Encoder(adapted, pieces), head, bias)


@functools.cache
def sentences() -> Encoder:
    """Returns the base as it was published, for `cosines`; see `load`."""
    return Encoder(*_base(), exact=True)


@functools.cache
def _base() -> tuple[dict[str, Array], Words]:
    weights, words, _ = files()
    return tensors(weights), Words(words.read_text().splitlines())


def tensors(path: epath.Path) -> dict[str, Array]:
    """Returns the tensors of a safetensors file in float32.

    Raises:
        UserError: the file is cut off or has another format.
    """
    data = path.read_bytes()
    try:
        size = int.from_bytes(data[:8], "little")
        header = json_reader.decoded(data[8 : 8 + size])
        found = {}
        for name, about in header.items():
            if name == "__metadata__":
                continue
            start, end = (8 + size + x for x in about["data_offsets"])
            part = data[start:end]
            if about["dtype"] == "BF16":
                wide = np.frombuffer(part, "<u2").astype("<u4") << 16
                values = wide.view("<f4")
            elif about["dtype"] == "F32":
                values = np.frombuffer(part, "<f4").copy()
            else:
                continue  # Positions, which this network does not read.
            found[name] = values.reshape(about["shape"])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path}: is no complete safetensors file ({error}). Get it again."
        ) from None
    return found
