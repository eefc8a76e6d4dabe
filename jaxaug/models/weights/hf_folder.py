"""Reads and writes folders of published models, without torch."""

import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from etils import epath
from flax import linen as nn
from jaxaug_base.files import absolute, new_folder

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.models.weights import families, safetensors_io, torch_file
from jaxaug.models.weights import hf_config as rules
from jaxaug.models.weights.keymap import KeyMap, params_from, tensors_from

Tensors = safetensors_io.Tensors | torch_file.Tensors

CONFIG = "config.json"
FIX = (
    "Name the folder of a published model: config.json next to model.safetensors or "
    "pytorch_model.bin."
)


@dataclasses.dataclass(frozen=True, eq=False)
class Published:
    """A published model with its NumPy parameters, its config.json, and its folder."""

    family: families.Family
    config: Any
    module: nn.Module
    params: Mapping[str, Any]
    hf_config: Mapping[str, Any]
    folder: epath.Path


def load(
    folder: PathLike,
    *,
    dtype: Any = None,
    param_dtype: np.typing.DTypeLike | None = np.float32,
    weights: bool = True,
) -> Published:
    """Loads the model in a folder.

    Args:
        folder: folder with `config.json` and `model.safetensors` or
            `pytorch_model.bin`, or with an index and shards of either. Safetensors take
            precedence.
        param_dtype: dtype of the parameters; None keeps the dtypes of the file.
        weights: whether to read the parameters; if not, they are empty.

    Raises:
        UserError: a file is missing or damaged, the architecture is unknown, or the
            weights do not match the configuration. The message lists the keys.
    """
    root = epath.Path(folder).expanduser()
    family, hf_config, config = read_config(root)
    if family.kind != "encoder":
        rules.warn_of_search(root, hf_config, rules.read_generation(root, FIX))
    if dtype is not None:
        config = dataclasses.replace(config, dtype=dtype)
    module, shapes = family.network_of(config, root / CONFIG)
    if not weights:
        return Published(family, config, module, {}, hf_config, root)
    path, tensors = open_weights(root)
    with tensors:
        params = params_from(
            tensors,
            family.key_map(config),
            family.ignored,
            shapes=shapes,
            source=os.fspath(path),
            dtype=param_dtype,
        )
    return Published(family, config, module, params, hf_config, root)


def read_config(folder: PathLike) -> tuple[families.Family, dict[str, Any], Any]:
    """Returns family, config.json, and configuration of a folder, or `UserError`."""
    path = epath.Path(folder).expanduser() / CONFIG
    hf_config = rules.read_object(path, FIX)
    family = families.of_config(hf_config, str(path))
    try:
        rules.check_types(hf_config)
        rules.refuse(hf_config, {"quantization_config": None})
        merged = rules.with_generation(
            hf_config, rules.read_generation(path.parent, FIX)
        )
        if family.kind != "encoder":
            rules.refuse_chosen(merged, never_pad=family.bars_padding)
        config = family.config(merged)
        if hasattr(config, "vocab_size"):
            rules.check_rows(config)
    except UserError as error:
        raise UserError(f"{folder}: {error}") from None
    except KeyError as error:
        raise UserError(f"{path}: {error} is missing. {FIX}") from None
    except (ArithmeticError, AttributeError, TypeError, ValueError) as error:
        raise UserError(
            f"{path}: cannot be used ({type(error).__name__}: {error}). {FIX}"
        ) from error
    return family, hf_config, config


def open_weights(folder: epath.Path) -> tuple[epath.Path, Tensors]:
    """Returns the weights file (or index) of a folder, and its tensors.

    Raises:
        UserError: the weights are missing or damaged.
    """
    readers: Mapping[str, Callable[[epath.Path], Tensors]] = {
        safetensors_io.FILE: safetensors_io.Tensors,
        safetensors_io.INDEX: safetensors_io.open_index,
        torch_file.FILE: torch_file.Tensors,
        torch_file.INDEX: torch_file.open_index,
    }
    for name, reader in readers.items():
        if (folder / name).exists():
            return folder / name, reader(folder / name)
    raise UserError(f"{folder} holds no weights: none of {', '.join(readers)}. {FIX}")


TOKENIZER_FILES = (
    "added_tokens.json", "chat_template.jinja", "generation_config.json", "merges.txt",
    "sentencepiece.bpe.model", "source.spm", "special_tokens_map.json", "spiece.model",
    "spm.model", "target.spm", "tokenizer.json", "tokenizer_config.json", "vocab.json",
    "vocab.txt",
)  # fmt: skip
_NOT_STATED = "not stated"


@dataclasses.dataclass(frozen=True)
class Card:
    """Contents of a model card; None for unknown fields.

    Attributes:
        source: source of the converted weights.
        licence: SPDX identifier of the license, such as Apache-2.0.
    """

    name: str
    source: str
    data: str | None = None
    licence: str | None = None
    metrics: Mapping[str, Any] | None = None
    seed: int | None = None

    def text(self) -> str:
        """Returns the card in Markdown, with the metadata block of the hub."""
        head = ["---", "library_name: transformers", "tags: [jaxaug]"]
        if self.licence:
            head.append(f"license: {json.dumps(self.licence.lower())}")
        rows = [
            ("Converted from", self.source),
            ("Training data", self.data or _NOT_STATED),
            ("Licence", self.licence or _NOT_STATED),
            ("Seed", _NOT_STATED if self.seed is None else str(self.seed)),
        ]
        lines = [*head, "---", "", f"# {self.name}", ""]
        lines += [f"- {key}: {value}" for key, value in rows]
        lines += ["", "## Metrics", ""]
        if self.metrics:
            lines += ["| metric | value |", "| --- | --- |"]
            lines += [f"| {key} | {value} |" for key, value in self.metrics.items()]
        else:
            lines.append(f"Metrics: {_NOT_STATED}.")
        lines += ["", "Written by `jaxaug convert`."]
        return "\n".join(lines) + "\n"


def write(
    folder: PathLike,
    params: Mapping[str, Any],
    key_map: KeyMap,
    hf_config: Mapping[str, Any],
    card: Card,
    tokenizer: Mapping[str, PathLike],
) -> epath.Path:
    """Writes a folder: `model.safetensors`, `config.json`, tokenizer, `README.md`.

    Args:
        params: parameters of the network; tensors keep their exact values and dtypes.
        tokenizer: name in the folder -> file to copy; see `tokenizer_of`.

    Raises:
        UserError: the folder exists, or the parameters do not match the key map.
    """
    tensors = tensors_from(params, key_map)
    dtypes = sorted({str(tensor.dtype) for tensor in tensors.values()})
    config = {k: v for k, v in hf_config.items() if k not in ("dtype", "torch_dtype")}
    if len(dtypes) == 1:
        # All versions of transformers read this name; versions before 5 read no other.
        config["torch_dtype"] = dtypes[0]
    with new_folder(folder) as temporary:
        safetensors_io.write(temporary / safetensors_io.FILE, tensors)
        text = json.dumps(config, indent=2, sort_keys=True)
        (temporary / "config.json").write_text(f"{text}\n", encoding="utf-8")
        (temporary / "README.md").write_text(card.text(), encoding="utf-8")
        for name, path in tokenizer.items():
            epath.Path(path).copy(temporary / name)
    return absolute(folder)


def tokenizer_of(folder: PathLike) -> dict[str, epath.Path]:
    """Returns the files of the tokenizer in a published folder, by name."""
    root = absolute(folder)
    return {n: root / n for n in TOKENIZER_FILES if (root / n).exists()}
