"""GGUF files of the Llama family: configuration, dequantized weights, and tokenizer.

The reader of the library `gguf` trusts the numbers in a file and makes an object for
each element of a list, so a small file can fill the memory. `read` first compares each
number with the length of the file; the library only dequantizes. A file has no
config.json and no tokenizer.json; `Gguf` builds both. Source: the GGUF specification in
the ggml repository.
"""

import functools
import json
import math
import os
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from etils import epath
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    processors,
)

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, check_ordinary, shown, write_text
from jaxaug.core.installed import missing_extra
from jaxaug.models.weights import families
from jaxaug.models.weights.hf_folder import Published
from jaxaug.models.weights.keymap import params_from
from jaxaug.models.weights.safetensors_io import TensorFiles, unsupported

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_ALIGNMENT = 32
_MOST_DIMENSIONS = 4
_DEEPEST = 4
_STRING, _ARRAY, _BOOL = 8, 9, 7
_NUMBERS = {
    0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", _BOOL: "<u1",
    10: "<u8", 11: "<i8", 12: "<f8",
}  # fmt: skip
# Fewest bytes of a text (its length) and of a list (type and length).
_LEAST = {_STRING: 8, _ARRAY: 12}
_PLAIN = {
    "F32": "<f4", "F16": "<f2", "F64": "<f8", "I8": "<i1", "I16": "<i2", "I32": "<i4",
    "I64": "<i8",
}  # fmt: skip


class Tensor(NamedTuple):
    """A tensor as it is stored.

    Attributes:
        tensor_type: `gguf.GGMLQuantizationType`.
        data: numbers of that type, or rows of bytes if the tensor is quantized.
    """

    name: str
    tensor_type: Any
    data: np.ndarray


class Parts(NamedTuple):
    """Metadata by key (lists of numbers are NumPy arrays), and tensors by name."""

    metadata: dict[str, Any]
    tensors: dict[str, Tensor]


def read(path: PathLike) -> Parts:
    """Returns the parts of a file; tensors stay on disk until they are used.

    Raises:
        OSError: the file is missing.
        ValueError: the file is cut off or damaged, or is not a GGUF file.
    """
    check_ordinary(path, "Get the model again.")
    cursor = _Cursor(np.memmap(path, mode="r").view(np.ndarray))
    if cursor.take(4).tobytes() != _MAGIC:
        raise ValueError("GGUF magic invalid")
    version = cursor.number("<u4")
    if version not in _VERSIONS:
        raise ValueError(f"version {version}, but must be one of {_VERSIONS}")
    num_tensors, num_fields = cursor.number("<u8"), cursor.number("<u8")
    metadata: dict[str, Any] = {}
    cursor.check_room(num_fields, _LEAST[_STRING] + 5)
    for _ in range(num_fields):
        key = cursor.text()
        if key in metadata:
            raise ValueError(f"{key!r:.80} occurs twice")
        metadata[key] = cursor.value(cursor.number("<u4"))
    cursor.check_room(num_tensors, _LEAST[_STRING] + 16)
    infos = [_info(cursor) for _ in range(num_tensors)]
    alignment = metadata.get("general.alignment", _ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise ValueError(f"general.alignment is {alignment!r:.80}, not a power of two")
    start = -(-cursor.place // alignment) * alignment
    tensors: dict[str, Tensor] = {}
    for name, shape, kind, offset in infos:
        if name in tensors:
            raise ValueError(f"tensor {name!r:.80} occurs twice")
        tensors[name] = _tensor(cursor, name, shape, kind, start + offset)
    return Parts(metadata, tensors)


class _Cursor:
    """A position in a file; reading beyond the end raises an error."""

    def __init__(self, data: np.ndarray):
        self._data = data
        self.place = 0

    def check_room(self, count: int, size: int) -> None:
        """Checks that `count` items of at least `size` bytes may follow."""
        if count * size > len(self._data) - self.place:
            raise ValueError(f"{count} entries at byte {self.place} exceed the file")

    def take(self, size: int) -> np.ndarray:
        """Returns the next bytes."""
        self.check_room(size, 1)
        self.place += size
        return self._data[self.place - size : self.place]

    def at(self, place: int, size: int) -> np.ndarray:
        """Returns bytes at any position."""
        self.place = place
        return self.take(size)

    def number(self, dtype: str) -> Any:
        """Returns the next number."""
        return self.take(np.dtype(dtype).itemsize).view(dtype)[0].item()

    def text(self) -> str:
        """Returns the next text, which follows its length."""
        return self.take(self.number("<u8")).tobytes().decode("utf-8")

    def value(self, kind: int, depth: int = 0) -> Any:
        """Returns the next value of a type in the specification."""
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            return self._list(depth + 1)
        if kind not in _NUMBERS:
            raise ValueError(f"a value of unknown type {kind} at byte {self.place}")
        number = self.number(_NUMBERS[kind])
        return bool(number) if kind == _BOOL else number

    def _list(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError(f"lists at byte {self.place} are nested too deeply")
        kind, count = self.number("<u4"), self.number("<u8")
        if kind in _NUMBERS:
            dtype = np.dtype(_NUMBERS[kind])
            self.check_room(count, dtype.itemsize)
            return self.take(count * dtype.itemsize).view(dtype)
        self.check_room(count, _LEAST.get(kind, 1))
        return [self.value(kind, depth) for _ in range(count)]


def _info(cursor: _Cursor) -> tuple[str, tuple[int, ...], int, int]:
    """Returns name, shape, type number, and offset of a tensor."""
    name, dimensions = cursor.text(), cursor.number("<u4")
    if dimensions > _MOST_DIMENSIONS:
        raise ValueError(f"tensor {name!r:.80} has {dimensions} dimensions")
    # The file stores the innermost dimension first.
    shape = tuple(cursor.number("<u8") for _ in range(dimensions))[::-1]
    return name, shape, cursor.number("<u4"), cursor.number("<u8")


def _tensor(
    cursor: _Cursor, name: str, shape: tuple[int, ...], kind: int, place: int
) -> Tensor:
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    try:
        tensor_type = GGMLQuantizationType(kind)
    except ValueError:
        dtype = f"{kind} in the GGUF specification"
        raise unsupported(dtype, name[:80], "GGUF file") from None
    block, size = GGML_QUANT_SIZES[tensor_type]
    if not shape or 0 in shape or shape[-1] % block:
        raise ValueError(f"tensor {name!r:.80} of shape {shape}")
    data = cursor.at(place, math.prod(shape) // block * size)
    if plain := _PLAIN.get(tensor_type.name):
        return Tensor(name, tensor_type, data.view(plain).reshape(shape))
    rows = (*shape[:-1], shape[-1] // block * size)
    return Tensor(name, tensor_type, data.reshape(rows))


def halves_first(rows: np.ndarray, heads: int) -> np.ndarray:
    """Undoes the row order of queries and keys, [heads * dim, ...].

    Rotary positions of GGUF pair adjacent rows of a head. Hugging Face (and
    `layers.rotary`) pairs row i of the first half with row i of the second.
    """
    pairs = rows.reshape(heads, -1, 2, *rows.shape[1:])
    return pairs.swapaxes(1, 2).reshape(rows.shape)


_FIX = "Get the file again; a download may have stopped half-way."

# Tensors outside and inside of blocks, by their names before ".weight" or ".bias".
_OUTSIDE = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_BLOCK = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
_SIZES = {
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "max_position_embeddings": "context_length",
}
# Supported fields; the last four do not change the computation.
_KNOWN = {
    *_SIZES.values(), "attention.head_count_kv", "attention.key_length",
    "attention.layer_norm_rms_epsilon", "rope.freq_base", "rope.scaling.finetuned",
    "rope.scaling.original_context_length", "tensor_data_layout", "vocab_size",
}  # fmt: skip
# Values that turn other fields off; 0 for fields that are not listed.
_OFF: Mapping[str, Any] = {
    "attention.causal": True, "embedding_scale": 1, "logit_scale": 1,
    "residual_scale": 1, "rope.scale_linear": 1, "rope.scaling.attn_factor": 1,
    "rope.scaling.factor": 1,
}  # fmt: skip
_LISTS = {"tokenizer.ggml.tokens", "tokenizer.ggml.merges"}
# Greater sizes indicate damage, and would take minutes to refuse later.
_LARGEST = 1 << 24
_CONTROL_TOKEN, _USER_TOKEN = 3, 4
_SPECIAL = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}


def load(path: PathLike, weights: bool = True) -> Published:
    """Loads the model in a GGUF file, with float32 parameters.

    Args:
        weights: whether to read the parameters; if not, they are empty.

    Raises:
        UserError: the file is missing or damaged, has another architecture, or is
            quantized in a way that the library cannot dequantize. Or its weights do not
            match its configuration.
    """
    file = Gguf(path)
    family = families.of_config(file.hf_config, os.fspath(path))
    config = family.config(file.hf_config)
    module, shapes = family.network_of(config, path)
    params: dict[str, Any] = {}
    if weights:
        params = params_from(
            file.tensors,
            family.key_map(config),
            family.ignored,
            shapes=shapes,
            source=os.fspath(path),
        )
    folder = epath.Path(path).parent
    return Published(family, config, module, params, file.hf_config, folder)


class Tensors(TensorFiles):
    """Tensors by their Hugging Face names, dequantized on access."""

    def __init__(
        self, path: PathLike, tensors: Mapping[str, Tensor], heads: Mapping[str, int]
    ):
        """Takes parsed tensors; `heads` interleave rows of "attn_q" and "attn_k"."""
        self._path = path
        self._places = {hf_name(name): tensor for name, tensor in tensors.items()}
        self._heads = heads

    def __getitem__(self, name: str) -> np.ndarray:
        from gguf.quants import dequantize

        tensor = self._places[name]
        try:
            values = dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError:
            raise UserError(
                f"{self._path}: tensor {tensor.name} is quantized as "
                f"{tensor.tensor_type.name}, which cannot be dequantized here. Take a "
                "file in Q4_0, Q4_1, Q8_0, F16, or F32."
            ) from None
        values = np.asarray(values, np.float32)
        heads = self._heads.get(tensor.name.split(".")[-2])
        # An odd number of rows means a wrong shape, which the use of the tensor
        # reports.
        if heads is None or len(values) % (2 * heads):
            return values
        return halves_first(values, heads)


class Gguf:
    """A GGUF file of the Llama family.

    Attributes:
        hf_config: contents of the equivalent config.json.
        tensors: float32 tensors by Hugging Face names.
    """

    def __init__(self, path: PathLike):
        """Reads everything except the tensors."""
        self.path = path
        self._metadata, tensors = _open(path)
        self.hf_config = self._config(tied="output.weight" not in tensors)
        heads = {
            "attn_q": self.hf_config["num_attention_heads"],
            "attn_k": self.hf_config["num_key_value_heads"],
        }
        self.tensors = Tensors(path, tensors, heads)

    def _get(self, key: str, default: Any = None) -> Any:
        value = self._metadata.get(key, default)
        if value is None:
            raise UserError(f"{self.path} lacks the metadata {key}. {_FIX}")
        if isinstance(default, list) or key in _LISTS:
            self._check(key, value, isinstance(value, list | np.ndarray), "a list")
        else:
            self._check(
                key, value, not isinstance(value, list | np.ndarray), "a single value"
            )
        return value

    def _check(self, key: str, value: Any, fits: bool, expected: str) -> None:
        if not fits:
            raise UserError(
                f"{self.path}: {key} is {shown(value)}, but must be {expected}. {_FIX}"
            )

    def _size(self, key: str, default: int | None = None) -> int:
        value = self._get(key, default)
        fits = type(value) is int and 0 < value <= _LARGEST
        self._check(key, value, fits, f"a whole number from 1 to {_LARGEST}")
        return value

    def _positive(self, key: str, default: float | None = None) -> float:
        value = self._get(key, default)
        fits = isinstance(value, float | int) and 0 < value < float("inf")
        self._check(key, value, fits, "a number above 0")
        return value

    def _texts(self, key: str) -> list[str]:
        values = self._get(key)
        fits = isinstance(values, list) and all(isinstance(x, str) for x in values)
        self._check(key, values, fits, "a list of texts")
        return values

    def _config(self, tied: bool) -> dict[str, Any]:
        architecture = self._get("general.architecture")
        if architecture != "llama":
            raise UserError(
                f"{self.path} holds a model of architecture {architecture!r}, but only "
                "'llama' is read from GGUF. Take its safetensors instead."
            )
        config: dict[str, Any]
        config = {ours: self._size(f"llama.{key}") for ours, key in _SIZES.items()}
        config["rms_norm_eps"] = self._positive(
            "llama.attention.layer_norm_rms_epsilon"
        )
        heads = config["num_attention_heads"]
        head_dim = self._size(
            "llama.attention.key_length", config["hidden_size"] // heads
        )
        fixed = {
            "rope.scaling.type": "none",
            "rope.dimension_count": head_dim,
            "attention.value_length": head_dim,
            "expert_count": 0,
        }
        for key, value in fixed.items():
            if (found := self._get(f"llama.{key}", value)) != value:
                raise UserError(
                    f"{self.path}: llama.{key} is {found!r}, but only {value!r} is "
                    "supported. Take another model."
                )
        self._check_fields({*_KNOWN, *fixed})
        config |= {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_act": "silu",
            "vocab_size": len(self._texts("tokenizer.ggml.tokens")),
            "num_key_value_heads": self._size("llama.attention.head_count_kv", heads),
            "head_dim": head_dim,
            "rope_theta": self._positive("llama.rope.freq_base", 10000.0),
            "tie_word_embeddings": tied,
        }
        for name in _SPECIAL:
            if (number := self._special(name)) is not None:
                config[f"{name}_token_id"] = number
        return config

    def _check_fields(self, known: Collection[str]) -> None:
        """Checks that every other field of the network is off."""
        others = [
            f"{key} = {shown(value)}"
            for key, value in self._metadata.items()
            if key.startswith("llama.")
            and (name := key.removeprefix("llama.")) not in known
            and value != _OFF.get(name, 0)
        ]
        if others:
            raise UserError(
                f"{self.path} has {', '.join(others)}, which may change what the "
                "network computes and is not supported. Take the safetensors of the "
                "model."
            )

    def _special(self, name: str) -> int | None:
        key = f"tokenizer.ggml.{_SPECIAL[name]}_token_id"
        number = self._metadata.get(key)
        if number is not None:
            count = len(self._texts("tokenizer.ggml.tokens"))
            fits = type(number) is int and 0 <= number < count
            self._check(key, number, fits, f"an id below {count}")
        return number

    @functools.cached_property
    def tokenizer(self) -> Tokenizer:
        """Byte-level BPE of the file; other kinds are refused.

        Raises:
            UserError: the file has another kind of tokenizer.
        """
        kind = (self._get("tokenizer.ggml.model"), self._get("tokenizer.ggml.pre", ""))
        split: pre_tokenizers.PreTokenizer
        split = pre_tokenizers.ByteLevel(add_prefix_space=False)
        if kind == ("gpt2", "smollm"):
            split = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), split])
        elif kind not in {("gpt2", ""), ("gpt2", "default"), ("gpt2", "gpt-2")}:
            raise UserError(
                f"{self.path}: its tokenizer is {' '.join(map(str, kind))!r}; known "
                "are 'gpt2 smollm' and 'gpt2 gpt-2'. Use the tokenizer.json of the "
                "model."
            )
        try:
            return self._tokenizer(split)
        except UserError:
            raise
        except Exception as error:  # The library raises only this class.
            raise UserError(
                f"{self.path}: its tokenizer cannot be made ({error}). {_FIX}"
            ) from error

    def _tokenizer(self, split: pre_tokenizers.PreTokenizer) -> Tokenizer:
        tokens = self._texts("tokenizer.ggml.tokens")
        merges: Any = [
            tuple(pair.split(" ")) for pair in self._texts("tokenizer.ggml.merges")
        ]
        vocabulary = {token: number for number, token in enumerate(tokens)}
        for number, token in enumerate(tokens):
            # A vocabulary of `tokenizers` would keep only the last duplicate.
            if vocabulary[token] != number:
                raise UserError(
                    f"{self.path}: tokens {number} and {vocabulary[token]} are both "
                    f"{shown(token)}. {_FIX}"
                )
        tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
        tokenizer.pre_tokenizer = split
        tokenizer.decoder = decoders.ByteLevel()
        types = self._get("tokenizer.ggml.token_type", [])
        for token, type_ in zip(tokens, types, strict=len(types) > 0):
            if type_ in (_CONTROL_TOKEN, _USER_TOKEN):
                special = type_ == _CONTROL_TOKEN
                added = AddedToken(token, normalized=False, special=special)
                add = tokenizer.add_special_tokens if special else tokenizer.add_tokens
                add([added])
        first, last = self._added("bos"), self._added("eos")
        if first or last:
            tokenizer.post_processor = processors.TemplateProcessing(
                single=[*(tokens[i] for i in first), "$A", *(tokens[i] for i in last)],
                special_tokens=[(tokens[number], number) for number in first + last],
            )
        return tokenizer

    def _added(self, role: str) -> list[int]:
        """Returns the token that the tokenizer adds in a role, if any."""
        number = self._special(role)
        adds = self._get(f"tokenizer.ggml.add_{role}_token", False)
        return [number] if adds and number is not None else []

    @property
    def tokenizer_config(self) -> dict[str, Any]:
        """Contents of tokenizer_config.json: special tokens and the chat template."""
        tokens = self._texts("tokenizer.ggml.tokens")
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": self.hf_config["max_position_embeddings"],
            "clean_up_tokenization_spaces": False,
        }
        for name in _SPECIAL:
            if (number := self._special(name)) is not None:
                config[f"{name}_token"] = tokens[number]
        if (template := self._metadata.get("tokenizer.chat_template")) is not None:
            fits = isinstance(template, str)
            self._check("tokenizer.chat_template", template, fits, "a text")
            config["chat_template"] = template
        return config

    def save_tokenizer(self, folder: PathLike) -> None:
        """Writes tokenizer.json and tokenizer_config.json, for `transformers`."""
        target = epath.Path(folder)
        write_text(target / "tokenizer.json", self.tokenizer.to_str(pretty=False))
        text = json.dumps(self.tokenizer_config, indent=2, ensure_ascii=False)
        write_text(target / "tokenizer_config.json", text + "\n")


def hf_name(name: str) -> str:
    """Returns the Hugging Face name of a tensor, or the given name without one."""
    stem, _, kind = name.rpartition(".")
    if match := re.fullmatch(r"blk\.(\d+)\.(\w+)", stem):
        number, part = match.groups()
        return (
            f"model.layers.{number}.{_BLOCK[part]}.{kind}" if part in _BLOCK else name
        )
    return f"{_OUTSIDE[stem]}.{kind}" if stem in _OUTSIDE else name


def _open(path: PathLike) -> Parts:
    try:
        return read(path)
    except ImportError:
        raise missing_extra(
            f"{path} is a GGUF file, whose reader (gguf) is not installed", "gguf"
        ) from None
    except FileNotFoundError:
        raise UserError(f"{path}: no such file. {_FIX}") from None
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} is cut off, or is not a GGUF file ({error}). {_FIX}"
        ) from None
