"""Reads and writes config.json, and reads generation_config.json, of Hugging Face.

Settings of generation that force or exclude tokens are applied or refused. Settings of
the search are only named in a warning, because the user's options define the search.
"""

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Annotated, Any, NamedTuple

import msgspec
from absl import logging
from etils import epath
from msgspec import Meta

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_json, shown
from jaxaug.models import layers

# Settings of the first token of an output, and of the last token of a cut output.
FORCED = ("forced_bos_token_id", "forced_eos_token_id")
# Greater values indicate damage: building the network would exhaust memory or never
# end.
_LARGEST = 1 << 24
_MOST_LAYERS = 1000
_LARGEST_TABLE = 1 << 26


_SIZE = Annotated[int, Meta(ge=1, le=_LARGEST)]
# Some files use -1 for none.
_ID = Annotated[int, Meta(ge=-1, le=_LARGEST)]
_NUMBERS = Annotated[str, Meta(pattern="^[0-9]{1,9}$")]
# Rules for the values of keys that families read, if the keys are present and not null.
_RULES: tuple[tuple[Any, str, str], ...] = (
    (
        _SIZE,
        f"a whole number from 1 to {_LARGEST}",
        (
            "attention_head_size conv_groups d_ff d_kv d_model decoder_attention_heads "
            "decoder_ffn_dim decoder_vocab_size embedding_size encoder_attention_heads "
            "encoder_ffn_dim head_dim hidden_size input_embedding_size "
            "intermediate_size max_position_embeddings n_embd n_head n_inner "
            "n_positions num_attention_heads num_heads num_key_value_heads num_labels "
            "sliding_window sliding_window_pattern vocab_size"
        ),
    ),
    (
        Annotated[int, Meta(ge=0, le=_LARGEST)],
        f"a whole number from 0 to {_LARGEST}",
        "type_vocab_size",
    ),
    (
        _ID,
        f"a whole number from -1 to {_LARGEST}",
        "conv_kernel_size max_relative_positions position_buckets",
    ),
    (
        Annotated[int, Meta(ge=1, le=_MOST_LAYERS)],
        f"a whole number from 1 to {_MOST_LAYERS}",
        (
            "decoder_layers encoder_layers n_layer num_decoder_layers "
            "num_hidden_layers num_layers"
        ),
    ),
    (_ID, "an id of a token", "bos_token_id decoder_start_token_id pad_token_id"),
    (_ID | list[_ID], "an id of a token, or a list of ids", "eos_token_id"),
    (
        Annotated[float, Meta(ge=0, lt=1)],
        "a number from 0 to below 1",
        (
            "activation_dropout attention_dropout attention_probs_dropout_prob "
            "attn_pdrop cls_dropout dropout dropout_rate embd_pdrop "
            "hidden_dropout_prob pooler_dropout resid_pdrop"
        ),
    ),
    (
        Annotated[float, Meta(gt=0, le=sys.float_info.max)],
        "a number above 0",
        (
            "attn_logit_softcapping final_logit_softcapping layer_norm_eps "
            "layer_norm_epsilon query_pre_attn_scalar rms_norm_eps "
            "rope_local_base_freq rope_theta"
        ),
    ),
    (
        bool,
        "true or false",
        (
            "attention_bias mlp_bias position_biased_input relative_attention "
            "scale_attn_by_inverse_layer_idx scale_attn_weights scale_decoder_outputs "
            "scale_embedding share_att_key share_encoder_decoder_embeddings "
            "tie_word_embeddings use_sliding_window"
        ),
    ),
    (
        str,
        "a text",
        (
            "activation_function conv_act feed_forward_proj hidden_act "
            "hidden_activation model_type norm_rel_ebd pooler_hidden_act"
        ),
    ),
    (list[str], "a list of texts", "architectures layer_types"),
    (str | list[str], "a text or a list of texts", "pos_att_type"),
    (dict[_NUMBERS, str], "an object from numbers to texts", "id2label"),
    (list, "a list", "bad_words_ids"),
    (dict, "an object", "rope_parameters rope_scaling"),
)


def read_object(path: PathLike, fix: str) -> dict[str, Any]:
    """Returns the JSON object in a published file; `fix` ends error messages.

    Raises:
        UserError: the file is missing or damaged, or does not hold an object.
    """
    found = read_json(path, fix)
    if not isinstance(found, dict):
        raise UserError(f"{path} holds no JSON object. {fix}")
    return found


def check_types(config: Mapping[str, Any]) -> None:
    """Raises `UserError` unless the values of a config.json have the expected types."""
    for kind, expected, names in _RULES:
        for name in names.split():
            try:
                msgspec.convert(value := config.get(name), kind | None)
            except msgspec.ValidationError:
                raise UserError(
                    f"config.json: {name} is {shown(value)}, but must be {expected}. "
                    "Use the config.json that was published with the weights."
                ) from None
    width, length = (config.get(k) or 1 for k in ("d_model", "max_position_embeddings"))
    if width * length > _LARGEST_TABLE:
        raise UserError(
            f"config.json: d_model is {width} and max_position_embeddings {length}, "
            f"but their product must be at most {_LARGEST_TABLE}. Use the config.json "
            "that was published with the weights."
        )


_SPECIAL = ("decoder_start_token_id", "pad_token_id", *FORCED)


def check_rows(config: Any, names: Iterable[str] = _SPECIAL) -> None:
    """Raises `UserError` unless the special tokens are rows of the embedding.

    Devices would read the last row instead. Only texts need a BOS.
    """
    rows = getattr(config, "decoder_vocab_size", None) or config.vocab_size
    for name in names:
        number = getattr(config, name, None)
        if number is not None and not 0 <= number < rows:
            raise UserError(
                f"config.json: {name} is {number}, but the embedding has ids from 0 to "
                f"{rows - 1}. Use the config.json that was published with the weights."
            )


@contextlib.contextmanager
def complete() -> Iterator[None]:
    """Converts missing keys and too large numbers in config.json to a `UserError`."""
    try:
        yield
    except OverflowError as error:
        raise UserError(
            f"config.json: a number is too large ({error}). Use the config.json that "
            "was published with the weights."
        ) from error
    except KeyError as error:
        raise UserError(_lacks(error.args[0])) from error


def _lacks(names: str) -> str:
    return (
        f"config.json: lacks {names}. Use the config.json that was published with the "
        "weights."
    )


def head(config: Mapping[str, Any], known: Mapping[str, str], default: str) -> str:
    """Returns the head of a model.

    Args:
        known: name of an architecture -> head.
        default: architecture of a config.json that names none.

    Raises:
        UserError: the config.json names no known architecture.
    """
    named = config.get("architectures") or [default]
    heads = [known[name] for name in named if name in known]
    if not heads:
        raise UserError(
            f"config.json: architectures is {named}, but must name one of "
            f"{', '.join(known)}. Take a model with one of these heads."
        )
    return heads[0]


def require_head(head: str, *wanted: str) -> None:
    """Raises `UserError` unless a network has one of the heads that a method needs."""
    if head not in wanted:
        raise UserError(
            f"this model has the head {head!r}, but {wanted[-1]!r} is needed: take "
            "weights whose config.json names such an architecture"
        )


def labels(config: Mapping[str, Any], default: int) -> tuple[str, ...]:
    """Returns names of labels by index; the default names are LABEL_0, LABEL_1, ..."""
    if names := config.get("id2label"):
        return tuple(names[key] for key in sorted(names, key=int))
    return tuple(f"LABEL_{i}" for i in range(config.get("num_labels", default)))


def with_labels(names: tuple[str, ...]) -> dict[str, Any]:
    """Returns the fields of a config.json for labels; inverts `labels`."""
    if not names:
        return {}
    return {
        "id2label": {str(index): name for index, name in enumerate(names)},
        "label2id": {name: index for index, name in enumerate(names)},
    }


# Fields that do not change logits: notes of libraries, and settings of generation and
# training.
_NEUTRAL = (
    "_attn_implementation _attn_implementation_autoset _name_or_path "
    "add_cross_attention architectures attn_implementation auto_map bad_words_ids "
    "begin_suppress_tokens bos_token_id cache_implementation chunk_size_feed_forward "
    "decoder_start_token_id diversity_penalty do_sample dtype early_stopping "
    "encoder_no_repeat_ngram_size eos_token_id exponential_decay_length_penalty "
    "finetuning_task forced_bos_token_id forced_eos_token_id id2label "
    "initializer_range is_decoder is_llama_config label2id length_penalty max_length "
    "max_position_embeddings min_length model_type no_repeat_ngram_size "
    "num_beam_groups num_beams num_labels num_return_sequences output_attentions "
    "output_hidden_states output_scores pad_token_id prefix problem_type pruned_heads "
    "remove_invalid_values repetition_penalty return_dict return_dict_in_generate "
    "sep_token_id suppress_tokens task_specific_params temperature tf_legacy_loss "
    "tie_encoder_decoder tokenizer_class top_k top_p torch_dtype torchscript "
    "transformers_version typical_p unk_token_id unsloth_fixed unsloth_version "
    "use_bfloat16 use_cache"
)


def refuse_unknown(config: Mapping[str, Any], known: Collection[str]) -> None:
    """Raises `UserError` if fields of a config.json may change logits and are unknown.

    Fields without a value (null, false, empty) count as off.
    """
    unknown = sorted(
        name
        for name, value in config.items()
        if name not in known
        and name not in _NEUTRAL.split()
        and not (value is None or value is False or value in ("", [], {}))
    )
    if unknown:
        shown_fields = ", ".join(f"{name} = {shown(config[name])}" for name in unknown)
        raise UserError(
            f"config.json: a {config.get('model_type')} has unknown fields here: "
            f"{shown_fields}. They may change what the network computes. Remove those "
            "that do not, or take weights without them."
        )


def checked_type(config: Mapping[str, Any], known: Iterable[str]) -> str:
    """Returns the `model_type` of a config.json, which must be in `known`.

    Raises:
        UserError: it is not in `known`.
    """
    found, known = config.get("model_type"), list(known)
    if found in known:
        return found
    expected = f"one of {', '.join(known)}" if len(known) > 1 else repr(known[0])
    raise UserError(
        f"config.json: model_type is {shown(found)}, but must be {expected}. Take the "
        "family of the weights."
    )


def require(config: Mapping[str, Any], family: str, architecture: str) -> None:
    """Raises `UserError` unless a config.json has the family and an LM head."""
    checked_type(config, [family])
    head(config, {architecture: "lm"}, architecture)


def refuse(config: Mapping[str, Any], fixed: Mapping[str, Any]) -> None:
    """Raises `UserError` if an option has another value than the one in `fixed`."""
    for name, value in fixed.items():
        if config.get(name, value) != value:
            raise UserError(
                f"config.json: {name} is {config[name]!r}, but only {value!r} is "
                "supported. Take weights that were trained with that."
            )


_KEY = "config.json"
REQUIRED = object()
"""Default of a field that every config.json must have."""


def same(value: Any) -> Any:
    """Returns the value."""
    return value


def or_zero(value: Any) -> Any:
    """Returns an id; 0 for null and for -1, which means none too."""
    return value if value and value != -1 else 0


def activation(name: str) -> str:
    """Returns the name of an activation; raises `UserError` if it is unknown."""
    layers.activation(name)
    return name


class Field(NamedTuple):
    """One option of a family.

    Attributes:
        read: converts their value to ours.
        written: converts our value to theirs.
    """

    theirs: str
    ours: str
    default: Any = REQUIRED
    read: Callable[[Any], Any] = same
    written: Callable[[Any], Any] = same


def key(
    theirs: str,
    *default: Any,
    absent: Any = ...,
    read: Callable[[Any], Any] = same,
    written: Callable[[Any], Any] = same,
) -> Any:
    """Returns a field of a family's `Config` that is a key of config.json.

    Args:
        absent: value if config.json lacks the key, or `REQUIRED`; by default the
            default of the field.
    """
    usual = default[0] if default else REQUIRED
    told = Field(theirs, "", usual if absent is ... else absent, read, written)
    options = {"default": default[0]} if default else {}
    return dataclasses.field(**options, metadata={_KEY: told})


def table_of(config: type) -> tuple[Field, ...]:
    """Returns the table of a `Config` with fields made by `key`."""
    return tuple(
        field.metadata[_KEY]._replace(ours=field.name)
        for field in dataclasses.fields(config)
        if _KEY in field.metadata
    )


def read_fields(table: Iterable[Field], config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a `Config` from a config.json with all required keys.

    Raises:
        UserError: required keys are missing, or a number is too large.
    """
    required = [field.theirs for field in table if field.default is REQUIRED]
    if missing := [name for name in required if config.get(name) is None]:
        raise UserError(_lacks(", ".join(missing)))
    with complete():
        return {
            field.ours: field.read(config.get(field.theirs, field.default))
            for field in table
        }


def written_fields(table: Iterable[Field], values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the contents of config.json from `Config` fields; inverts `read`."""
    return {field.theirs: field.written(values[field.ours]) for field in table}


GENERATION = "generation_config.json"
_EITHER = f"config.json or {GENERATION}"
_START = "decoder_start_token_id"
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


def read_generation(folder: epath.Path, fix: str) -> dict[str, Any] | None:
    """Returns the generation_config.json of a folder, if it exists.

    Raises:
        UserError: the file is damaged.
    """
    path = folder / GENERATION
    return read_object(path, fix) if path.exists() else None


def with_generation(
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
            f"config.json: {_START} is {shown(other)}, but {GENERATION} has "
            f"{shown(start)}. The decoder starts with one token: write the one that "
            "the weights were trained with into both files."
        )
    if start is not None:
        settings[_START] = start
    return {**config, **settings}


def refuse_chosen(config: Mapping[str, Any], never_pad: bool) -> None:
    """Raises `UserError` if generation excludes or prefers tokens."""
    for name in CHOSEN:
        value = config.get(name)
        pad = [[config.get("pad_token_id") or 0]]
        if not value or (never_pad and name == "bad_words_ids" and value == pad):
            continue
        raise UserError(
            f"{_EITHER}: {name} is {shown(value)}, which changes what the model may "
            "write and is not supported. Set it to null to decode without it."
        )


def warn_of_search(
    folder: PathLike, config: Mapping[str, Any], generation: Mapping[str, Any] | None
) -> None:
    """Warns about published settings of the search that are not used."""
    told = config if generation is None else generation
    found = {
        name: told[name]
        for name, usual in _SEARCH.items()
        if told.get(name) is not None and told[name] != usual
    }
    if found:
        logging.warning(
            "%s: %s sets %s. These are not used: the options of the command or gin "
            "file define the search.",
            folder,
            "config.json" if generation is None else GENERATION,
            ", ".join(f"{name} = {shown(value)}" for name, value in found.items()),
        )


def refuse_forced(config: Mapping[str, Any], family: str) -> None:
    """Raises `UserError` if generation forces a token."""
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
