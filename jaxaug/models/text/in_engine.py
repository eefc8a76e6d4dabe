"""Models of the registry as folders for CTranslate2, kept in the cache folder."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from etils import epath
from t5x.examples.scalable_t5 import network as scalable
from t5x.examples.t5 import network

from jaxaug.core import cache_folder, cached, manifest
from jaxaug.core.digests import code_digest, digest_of
from jaxaug.core.errors import UserError
from jaxaug.models import t5_weights
from jaxaug.models.engine import runner
from jaxaug.models.engine.runner import Rules
from jaxaug.models.text.language import LanguageModel
from jaxaug.models.text.registry import TextModel
from jaxaug.models.weights import families, keymap


def is_kept(model: TextModel | LanguageModel, precision: str) -> bool:
    """Returns whether `kept` has nothing to write."""
    return manifest.opened(_folder_of(model, precision)) is not None


def _folder_of(model: TextModel | LanguageModel, precision: str) -> epath.Path:
    key = digest_of([model.identity, precision, code_digest(runner, __name__)])
    return cache_folder.local_cache_dir() / "ctranslate2" / key


def kept(model: TextModel | LanguageModel, precision: str) -> epath.Path:
    """Returns the folder of a model for CTranslate2; writes it on first use.

    Raises:
        UserError: CTranslate2 is not installed, or has no such model or precision.
    """
    runner.check_installed()
    folder = _folder_of(model, precision)

    def write(temporary: epath.Path) -> None:
        config = plain_config(model.module, model.label)
        params = model.params
        if t5_weights.is_stacked(params):
            params = t5_weights.unstacked(params, model.label)
        words: Any = model.output_vocabulary
        offset = getattr(config, "id_offset", 0)
        unknown = getattr(words, "unk_id", None)
        write_folder(
            temporary,
            config,
            params,
            end=words.eos_id - offset,
            unknown=None if unknown is None else unknown - offset,
            precision=precision,
        )
        manifest.write(temporary)

    if manifest.opened(folder) is None:
        cached.publish(folder, write)
    return folder


def write_folder(
    folder: epath.PathLike,
    config: Any,
    params: Mapping[str, Any],
    *,
    end: int,
    unknown: int | None = None,
    **options: Any,
) -> None:
    """Writes a network of ours; see `runner.write`.

    Args:
        config: configuration of a network of a family, without scanned layers.
        end: row of EOS.
    """
    family = _family(config)
    tensors = keymap.tensors_from(params, family.key_map(config))
    first = getattr(config, "bos_token_id", 0)
    start = getattr(config, "decoder_start_token_id", first)
    special = runner.Special(start, end, unknown)
    runner.write(folder, family.code.to_hf(config), tensors, special, **options)


def rules_of(model: TextModel | LanguageModel) -> Rules:
    """Returns the meaning of a model's tokens for decoding as JAX does.

    Raises:
        UserError: the model begins its outputs with a forced token.
    """
    config: Any = model.module.config  # type: ignore[attr-defined]
    if isinstance(model, LanguageModel):
        ends = np.flatnonzero(model.ends).tolist()
        start = config.bos_token_id + config.id_offset, *model.before
        size = config.vocab_size + config.id_offset
        return Rules(tuple(ends), size, start=start, offset=config.id_offset)
    if getattr(config, "forced_bos_token_id", None) is not None:
        raise UserError(
            f"{model.label}: forced_bos_token_id is {config.forced_bos_token_id}. "
            "CTranslate2 does not force tokens here. Leave --engine out."
        )
    offset = getattr(config, "id_offset", 0)
    rows = getattr(config, "decoder_vocab_size", None) or config.vocab_size
    barred = {getattr(model.output_vocabulary, "unk_id", None)}
    if getattr(config, "never_pad", False):
        barred.add(config.pad_token_id + offset)
    return Rules(
        tuple(sorted({*model.ends, model.output_vocabulary.eos_id})),
        rows + offset,
        tuple(sorted(number for number in barred if number is not None)),
        offset=offset,
        forces_end=getattr(config, "forced_eos_token_id", None) is not None,
    )


def plain_config(module: Any, label: str) -> Any:
    """Returns the configuration of a network, for a T5 without scanned layers.

    Raises:
        UserError: the network belongs to no family.
    """
    config = getattr(module, "config", None)
    if isinstance(config, scalable.T5Config):
        config = t5_weights.plain_config(config)
    try:
        _family(config)
    except LookupError:
        raise UserError(
            f"{label}: its network is a {type(module).__name__}. CTranslate2 has "
            f"networks of the families {', '.join(families.FAMILIES)}. Leave --engine "
            "out."
        ) from None
    return config


def _family(config: Any) -> families.Family:
    if isinstance(config, network.T5Config):
        return families.FAMILIES["t5"]
    for family in families.every():
        if type(config) is getattr(family.code, "Config", None):
            return family
    raise LookupError
