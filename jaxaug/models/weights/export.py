"""Writes a model as a folder for `transformers`: weights, config, tokenizer, card."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from etils import epath
from jaxaug_base.files import absolute, new_folder

from jaxaug.core.files import PathLike
from jaxaug.models.weights import safetensors_io
from jaxaug.models.weights.keymap import KeyMap, tensors_from

TOKENIZER_FILES = (
    "added_tokens.json",
    "chat_template.jinja",
    "generation_config.json",
    "merges.txt",
    "sentencepiece.bpe.model",
    "source.spm",
    "special_tokens_map.json",
    "spiece.model",
    "spm.model",
    "target.spm",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
)
_NOT_STATED = "not stated"


@dataclasses.dataclass(frozen=True)
class Card:
    """Contents of a model card; None for unknown fields.

    Attributes:
        name: title.
        source: source of the converted weights.
        data: training data.
        licence: SPDX identifier of the license, such as Apache-2.0.
        metrics: name -> value.
        seed: seed of the training.
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
        folder: folder to create; it must not exist.
        params: parameters of the network; tensors keep their exact values and dtypes.
        key_map: key map of the family.
        hf_config: contents of config.json; `dtype` is set to the dtype of the tensors.
        card: contents of README.md.
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
