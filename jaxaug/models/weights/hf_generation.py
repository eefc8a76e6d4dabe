"""Settings of generation that are published with a model.

They are in generation_config.json or, in older folders, in config.json. Settings that
force or exclude tokens are applied or refused. Settings of the search are only named in
a warning, because the user's options define the search.
"""

from collections.abc import Mapping
from typing import Any

from absl import logging
from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, shown
from jaxaug.models.weights import hf_config

FILE = "generation_config.json"
_EITHER = f"config.json or {FILE}"
_START = "decoder_start_token_id"
FORCED = hf_config.FORCED
# Settings that force, exclude, or prefer other tokens.
CHOSEN = (
    "bad_words_ids", "begin_suppress_tokens", "constraints", "force_words_ids",
    "forced_decoder_ids", "sequence_bias", "suppress_tokens",
)  # fmt: skip
# Settings of the search, with the defaults of transformers.
_SEARCH: Mapping[str, Any] = {
    "diversity_penalty": 0, "do_sample": False, "dola_layers": None,
    "early_stopping": False, "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1, "epsilon_cutoff": 0, "eta_cutoff": 0,
    "exponential_decay_length_penalty": None, "guidance_scale": 1, "length_penalty": 1,
    "min_length": 0, "min_new_tokens": 0, "min_p": 0, "no_repeat_ngram_size": 0,
    "num_beam_groups": 1, "num_beams": 1, "penalty_alpha": 0, "repetition_penalty": 1,
    "stop_strings": None, "temperature": 1, "top_k": 50, "top_p": 1, "typical_p": 1,
}  # fmt: skip


def read(folder: epath.Path, fix: str) -> dict[str, Any] | None:
    """Returns the generation_config.json of a folder; None if there is none.

    Args:
        folder: folder of a published model.
        fix: advice at the end of error messages.

    Raises:
        UserError: the file is damaged.
    """
    path = folder / FILE
    return hf_config.read_object(path, fix) if path.exists() else None


def added(
    config: Mapping[str, Any], generation: Mapping[str, Any] | None
) -> Mapping[str, Any]:
    """Returns a config.json with the token settings of generation_config.json.

    As in transformers, such a file replaces all token settings in config.json. However,
    transformers trains with the start token of config.json and generates with that in
    the other file. Here, one network does both.

    Raises:
        UserError: the start tokens differ.
    """
    if generation is None:
        return config
    settings = {name: generation.get(name) for name in (*FORCED, *CHOSEN)}
    start, other = generation.get(_START), config.get(_START)
    if start is not None and other is not None and start != other:
        raise UserError(
            f"config.json: {_START} is {shown(other)}, but {FILE} has {shown(start)}. "
            "The decoder starts with one token: write the one that the weights were "
            "trained with into both files."
        )
    if start is not None:
        settings[_START] = start
    return {**config, **settings}


def refuse_chosen(config: Mapping[str, Any], never_pad: bool) -> None:
    """Checks that generation neither excludes nor prefers tokens.

    Args:
        config: contents of a config.json, merged with generation_config.json.
        never_pad: whether the padding may be excluded.

    Raises:
        UserError: generation excludes or prefers tokens.
    """
    for name in CHOSEN:
        value = config.get(name)
        pad = [[hf_config.padding(config)]]
        if not value or (never_pad and name == "bad_words_ids" and value == pad):
            continue
        raise UserError(
            f"{_EITHER}: {name} is {shown(value)}, which "
            "changes what the model may write and is not supported. Set it to null to "
            "decode without it."
        )


def search_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of the search.

    Args:
        config: contents of a generation_config.json, or of an old config.json.

    Returns:
        Settings that differ from the defaults of transformers.
    """
    return {
        name: config[name]
        for name, usual in _SEARCH.items()
        if config.get(name) is not None and config[name] != usual
    }


def warn_of_search(
    folder: PathLike, config: Mapping[str, Any], generation: Mapping[str, Any] | None
) -> None:
    """Warns about published settings of the search that are not used."""
    found = search_settings(config if generation is None else generation)
    if found:
        logging.warning(
            "%s: %s sets %s. These are not used: the options of the command or gin "
            "file define the search.",
            folder,
            "config.json" if generation is None else FILE,
            ", ".join(f"{name} = {shown(value)}" for name, value in found.items()),
        )


def refuse_forced(config: Mapping[str, Any], family: str) -> None:
    """Checks that generation forces no token, for a family that does not support it.

    Raises:
        UserError: generation forces a token.
    """
    for name in FORCED:
        if config.get(name) is not None:
            raise UserError(
                f"{_EITHER}: {name} is {config[name]!r}, but a {family} here decodes "
                "without forced tokens. Set it to null to decode without it."
            )


def token(config: Mapping[str, Any], name: str) -> int | None:
    """Returns a token that may be missing, null, or the only item of a list.

    Raises:
        UserError: the setting has another form.
    """
    value = config.get(name)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise UserError(
        f"{_EITHER}: {name} is {value!r}, but must be one token id or null. Set it to "
        "one of these."
    )
