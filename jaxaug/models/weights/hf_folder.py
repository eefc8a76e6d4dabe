"""Loads published models: a folder with config.json and weights, read without torch."""

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from etils import epath
from flax import linen as nn

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.models.weights import (
    families,
    hf_generation,
    safetensors_io,
    torch_file,
)
from jaxaug.models.weights import hf_config as rules
from jaxaug.models.weights.keymap import params_from

Tensors = safetensors_io.Tensors | torch_file.Tensors

CONFIG = "config.json"
FIX = (
    "Name the folder of a published model: config.json next to model.safetensors or "
    "pytorch_model.bin."
)


@dataclasses.dataclass(frozen=True, eq=False)
class Published:
    """A published model.

    Attributes:
        family: family of the model.
        config: configuration of the network.
        module: the network.
        params: NumPy parameters of the network.
        hf_config: contents of config.json.
        folder: folder of the model, with the files of its tokenizer.
    """

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
) -> Published:
    """Loads the model in a folder.

    Args:
        folder: folder with `config.json` and `model.safetensors` or
            `pytorch_model.bin`, or with an index and shards of either. Safetensors take
            precedence.
        dtype: dtype of activations; None means the family's default.
        param_dtype: dtype of the parameters; None keeps the dtypes of the file.

    Raises:
        UserError: a file is missing or damaged, the architecture is unknown, or the
            weights do not match the configuration. The message lists the keys.
    """
    root = epath.Path(folder).expanduser()
    family, hf_config, config = read_config(root)
    if family.kind != "encoder":
        hf_generation.warn_of_search(root, hf_config, hf_generation.read(root, FIX))
    if dtype is not None:
        config = dataclasses.replace(config, dtype=dtype)
    module, shapes = family.network_of(config, root / CONFIG)
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
    """Returns family, config.json, and configuration of a folder.

    Raises:
        UserError: the folder or its config.json is missing, or the config.json is
            refused.
    """
    path = epath.Path(folder).expanduser() / CONFIG
    hf_config = rules.read_object(path, FIX)
    family = families.of_config(hf_config, str(path))
    try:
        rules.check_types(hf_config)
        rules.refuse(hf_config, {"quantization_config": None})
        merged = hf_generation.added(hf_config, hf_generation.read(path.parent, FIX))
        if family.kind != "encoder":
            hf_generation.refuse_chosen(merged, never_pad=family.bars_padding)
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


def open_weights(
    folder: epath.Path,
) -> tuple[epath.Path, Tensors]:
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
