"""Reads and writes adapters in the folder format of `peft`, without that library.

`adapter_config.json` has the settings and `adapter_model.safetensors` the matrices,
under the names of the published model. `base_model.model.<map>.lora_A.weight` is [rank,
in], and `lora_B.weight` is [out, rank]. The header of the second file has the digest of
the base and the prompt, for which `peft` has no field; `peft` ignores that header.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
from etils import epath
from flax import traverse_util

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, shown, write_text
from jaxaug.models.lora import layout as layouts
from jaxaug.models.lora.layout import A, B, Layout
from jaxaug.models.lora.settings import ALL_LINEAR, Settings
from jaxaug.models.weights import hf_config, keymap, safetensors_io

CONFIG, FILE = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."
_SUFFIXES = {A: "lora_A.weight", B: "lora_B.weight"}
_FIX = f"Name a folder with {CONFIG} and {FILE} of a LoRA adapter."
_TORCH_FILE = "adapter_model.bin"
# Fields that do not affect the computation: notes, and the tensor layout of the base,
# which peft also takes from the base.
_NOTES = frozenset(
    (
        "auto_mapping", "base_model_name_or_path", "fan_in_fan_out", "inference_mode",
        "peft_type", "peft_version", "revision", "task_type",
    )
)  # fmt: skip
_READ = frozenset(
    (
        "init_lora_weights", "lora_alpha", "lora_dropout", "r", "target_modules",
        "use_rslora",
    )
)  # fmt: skip
# Defaults of peft for omitted fields; None for all other fields.
_DEFAULTS: Mapping[str, Any] = {
    "bias": "none",
    "megatron_core": "megatron.core",
    "qalora_group_size": 16,
}
# Initializations that do not change the base; others subtract the initial adapter from
# it.
_INITIALIZATIONS = ("gaussian", "eva", "orthogonal", "mica")
_MERGE = "Merge the adapter with peft and convert the merged model."


@dataclasses.dataclass(frozen=True)
class Notes:
    """Notes on an adapter in addition to its matrices; unknown ones are empty.

    Attributes:
        base_digest: see `jaxaug.models.lora.layout.digest`.
        prompt: template with `{text}` that a language model was trained with.
    """

    base_digest: str = ""
    base: str = ""
    prompt: str = ""


def is_adapter(folder: PathLike) -> bool:
    """Returns whether a folder has this format."""
    return (epath.Path(folder) / CONFIG).exists()


def read_settings(folder: PathLike) -> Settings:
    """Returns the settings of an adapter, or `UserError` for another kind."""
    path = epath.Path(folder) / CONFIG
    config = hf_config.read_object(path, _FIX)
    if config.get("peft_type") != "LORA":
        raise UserError(
            f"{path}: peft_type is {shown(config.get('peft_type'))}, but only 'LORA' "
            f"is read. {_FIX}"
        )
    _check_fields(config, path)
    targets = config.get("target_modules")
    if targets is not None and not isinstance(targets, str):
        targets = tuple(sorted(targets)) if isinstance(targets, list) else ("",)
    try:
        return Settings(
            rank=config.get("r", 8),
            alpha=config.get("lora_alpha", 8),
            targets=targets,
            dropout=config.get("lora_dropout", 0.0),
            rank_stabilized=config.get("use_rslora", False),
        )
    except UserError as error:
        raise UserError(
            f"{path}: {error} The fields are r, lora_alpha, target_modules, "
            "lora_dropout, and use_rslora there."
        ) from None


def _check_fields(config: Mapping[str, Any], path: epath.Path) -> None:
    """Checks that a file describes plain LoRA, by the fields that are known here."""
    start = config.get("init_lora_weights", True)
    if not (start is None or isinstance(start, bool) or start in _INITIALIZATIONS):
        raise UserError(
            f"{path}: init_lora_weights is {shown(start)}, which may have changed the "
            "base before training. Supported are true, false, "
            f"{', '.join(map(repr, _INITIALIZATIONS))}, which do not change it. "
            f"{_MERGE}"
        )
    known = set(_NOTES | _READ)
    if start == "eva":
        known.add("eva_config")  # It only affects the initial A.
    others = {
        name: value
        for name, value in config.items()
        if name not in known and not _is_default(name, value)
    }
    if others:
        listed = ", ".join(f"{name} = {shown(value)}" for name, value in others.items())
        fix = _MERGE
        if "alora_invocation_tokens" in others:
            fix = (
                "It acts on part of the sequence and cannot be merged: train one "
                "without alora_invocation_tokens."
            )
        raise UserError(
            f"{path}: has {listed}, which is not supported: only plain LoRA on linear "
            f"maps is. {fix}"
        )


def _is_default(name: str, value: Any) -> bool:
    """Returns whether a field is off; the number 0 is a value, like the first layer."""
    if value is None or value is False or value in ("", [], {}):
        return True
    return value == _DEFAULTS.get(name) and not isinstance(value, bool)


def read(folder: PathLike, layout: Layout) -> tuple[dict[str, Any], Notes]:
    """Returns the float32 matrices of an adapter, and its notes.

    Raises:
        UserError: the file is missing or damaged, or its matrices do not match the
            layout.
    """
    path = epath.Path(folder) / FILE
    if not path.exists() and (path.parent / _TORCH_FILE).exists():
        raise UserError(
            f"{folder}: its matrices are in {_TORCH_FILE}, but only {FILE} is read. "
            "Load it with peft and write it again with save_pretrained(folder), which "
            "makes that file."
        )
    places = {
        f"{_PREFIX}{place.name}.{suffix}": (*place.path, part)
        for place in layout.places
        for part, suffix in _SUFFIXES.items()
    }
    flat = {}
    with safetensors_io.Tensors(path) as tensors:
        notes = Notes(
            **{
                field.name: tensors.metadata.get(field.name, "")
                for field in dataclasses.fields(Notes)
            }
        )
        for name in tensors:
            tensor = tensors[name]
            keymap.check_finite(tensor, name, str(path))
            # The check of the layout reports unknown names.
            place = places.get(name, tuple(name.split(".")))
            flat[place] = np.ascontiguousarray(tensor.T, np.float32)
    adapter = traverse_util.unflatten_dict(flat)
    layouts.check(layout, adapter, str(path))
    return adapter, notes


def write(
    folder: PathLike,
    adapter: Any,
    layout: Layout,
    notes: Notes,
    dtype: np.typing.DTypeLike = np.float32,
) -> epath.Path:
    """Writes an adapter as float32 or bfloat16; returns the folder.

    Raises:
        UserError: the matrices do not match the layout.
    """
    root = epath.Path(folder)
    layouts.check(layout, adapter, str(folder))
    flat = traverse_util.flatten_dict(adapter)
    tensors = {
        f"{_PREFIX}{place.name}.{suffix}": np.ascontiguousarray(
            np.asarray(flat[(*place.path, part)]).T, dtype
        )
        for place in layout.places
        for part, suffix in _SUFFIXES.items()
    }
    root.mkdir(parents=True, exist_ok=True)
    known = {k: v for k, v in dataclasses.asdict(notes).items() if v}
    safetensors_io.write(root / FILE, tensors, known)
    text = json.dumps(_config(layout, notes), indent=2, sort_keys=True)
    write_text(root / CONFIG, text + "\n")
    return root


BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def _config(layout: Layout, notes: Notes) -> Mapping[str, Any]:
    settings = layout.settings
    targets = settings.targets
    if targets == ALL_LINEAR:
        # The meaning of that name in peft depends on its version.
        targets = tuple({place.name.rpartition(".")[2] for place in layout.places})
    return {
        "base_model_name_or_path": notes.base or None,
        "bias": "none",
        "fan_in_fan_out": layout.fan_in_fan_out,
        "inference_mode": True,
        "lora_alpha": settings.alpha,
        "lora_dropout": settings.dropout,
        "peft_type": "LORA",
        "r": settings.rank,
        "target_modules": targets
        if isinstance(targets, str)
        else sorted(targets or ()),
        "task_type": "SEQ_2_SEQ_LM"
        if layout.family.kind == "encoder_decoder"
        else "CAUSAL_LM",
        "use_rslora": settings.rank_stabilized,
    }
