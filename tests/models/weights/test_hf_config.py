"""Tables of config.json, settings of generation, and networks in a published folder."""

import json

import pytest
import transformers
from absl import logging

from jaxaug.core.errors import UserError
from jaxaug.models.weights import families, hf_config, hf_folder

TABLE = (
    hf_config.Field("n_embd", "emb_dim"),
    hf_config.Field("n_layer", "num_layers"),
    hf_config.Field("drop", "rate", 0.1, float),
    hf_config.Field("sizes", "widths", (), tuple, list),
)


def test_parsed_files_are_written_back():
    told = {"n_embd": 8, "n_layer": 2, "drop": 0, "sizes": [3, 4], "other": 1}
    read = hf_config.read_fields(TABLE, told)
    assert read == {"emb_dim": 8, "num_layers": 2, "rate": 0.0, "widths": (3, 4)}
    del told["other"]
    assert hf_config.written_fields(TABLE, read | {"dtype": "float32"}) == told


def test_defaults():
    read = hf_config.read_fields(TABLE, {"n_embd": 8, "n_layer": 2})
    assert (read["rate"], read["widths"]) == (0.1, ())


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"n_embd": None}, "config.json: lacks n_embd, n_layer. Use the config.json"),
        ({"n_embd": 8, "n_layer": 2, "drop": 10**400}, "a number is too large"),
    ],
)
def test_unreadable_files(told, message):
    with pytest.raises(UserError, match=message):
        hf_config.read_fields(TABLE, told)


TOKENS = {"vocab_size": 31, "eos_token_id": 1}
BART = {
    "d_model": 12, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 6,
    "decoder_ffn_dim": 6, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "max_position_embeddings": 16, "pad_token_id": 0, "decoder_start_token_id": 0,
}  # fmt: skip
BERT = {
    "hidden_size": 12, "intermediate_size": 6, "num_attention_heads": 2,
    "num_hidden_layers": 1, "max_position_embeddings": 16,
}  # fmt: skip
MODELS = {
    "bart": ("BartForConditionalGeneration", BART),
    "pegasus": ("PegasusForConditionalGeneration", BART),
    "marian": ("MarianMTModel", BART),
    "t5": ("T5ForConditionalGeneration", {"decoder_start_token_id": 0}),
    "mt5": ("MT5ForConditionalGeneration", {"decoder_start_token_id": 0}),
    "gpt2": ("GPT2LMHeadModel", {"n_embd": 12, "n_head": 2, "n_layer": 1}),
    "llama": ("LlamaForCausalLM", BERT),
    "bert": ("BertForSequenceClassification", BERT),
    "roberta": ("RobertaForSequenceClassification", BERT),
    "xlm-roberta": ("XLMRobertaForSequenceClassification", BERT),
    "rembert": ("RemBertForSequenceClassification", BERT),
    "deberta-v2": ("DebertaV2ForSequenceClassification", BERT),
}
ENCODER_DECODERS = ("bart", "pegasus", "marian", "t5", "mt5")
WRITERS = (*ENCODER_DECODERS, "gpt2", "llama")


def write(folder, family, generation=None, **changes):
    name, options = MODELS[family]
    config = getattr(transformers, name).config_class(**TOKENS | options).to_dict()
    config |= {"architectures": [name], "transformers_version": "4.30.0"}
    if family == "mt5":
        config["tie_word_embeddings"] = False
    (folder / "config.json").write_text(json.dumps(config | changes))
    if generation is not None:
        text = json.dumps(generation)
        (folder / "generation_config.json").write_text(text)
    return config


@pytest.mark.parametrize("family", ENCODER_DECODERS)
@pytest.mark.parametrize("start, other", [(3, 0), (0, 3)])
def test_two_start_tokens_are_refused(family, start, other, tmp_path):
    generation = {"decoder_start_token_id": other}
    write(tmp_path, family, generation, decoder_start_token_id=start)
    message = (
        rf"decoder_start_token_id is {start}, but generation_config\.json has "
        rf"{other}\. "
        r".*into both files"
    )
    with pytest.raises(UserError, match=message):
        hf_folder.read_config(tmp_path)


@pytest.mark.parametrize("family", ("bart", "pegasus", "marian"))
def test_one_start_token_is_read(family, tmp_path):
    for generation in (None, {}, {"decoder_start_token_id": 3}):
        write(tmp_path, family, generation, decoder_start_token_id=3)
        config = hf_folder.read_config(tmp_path)[2]
        offset = int(family == "bart")  # Its texts begin with token 0.
        assert (config.decoder_start_token_id, config.id_offset) == (3, offset)


@pytest.mark.parametrize("family", WRITERS)
@pytest.mark.parametrize(
    "told",
    [
        {"suppress_tokens": [5]},
        {"begin_suppress_tokens": [5]},
        {"bad_words_ids": [[5]]},
        {"bad_words_ids": [[0], [5]]},
        {"sequence_bias": [[[5], -1.0]]},
        {"force_words_ids": [[5]]},
        {"forced_decoder_ids": [[1, 5]]},
    ],
)
def test_chosen_tokens_are_refused(family, told, tmp_path):
    [name] = told
    message = f"{name} is .*changes what the model may write .*Set it to null"
    write(tmp_path, family, told)
    with pytest.raises(UserError, match=message):
        hf_folder.read_config(tmp_path)
    # An old folder; generation_config.json has precedence over config.json.
    write(tmp_path, family, {}, **told)
    hf_folder.read_config(tmp_path)
    (tmp_path / "generation_config.json").unlink()
    with pytest.raises(UserError, match=message):
        hf_folder.read_config(tmp_path)


@pytest.mark.parametrize("family", WRITERS)
def test_a_barred_padding_is_followed_or_refused(family, tmp_path):
    write(tmp_path, family, {"bad_words_ids": [[0]]}, pad_token_id=0)
    if family in ("bart", "pegasus", "marian"):
        assert hf_folder.read_config(tmp_path)[2].never_pad
        return
    with pytest.raises(UserError, match=r"bad_words_ids is \[\[0\]\], which changes"):
        hf_folder.read_config(tmp_path)


def test_settings_of_the_search_are_named(tmp_path, monkeypatch):
    messages = []
    monkeypatch.setattr(
        logging, "warning", lambda text, *rest: messages.append(text % rest)
    )
    config = transformers.BartConfig(**TOKENS | BART)
    transformers.BartForConditionalGeneration(config).save_pretrained(tmp_path)
    hf_folder.load(tmp_path)
    assert not messages
    told = {"num_beams": 8, "length_penalty": 0.8, "top_k": 50, "temperature": 1.0}
    (tmp_path / "generation_config.json").write_text(json.dumps(told))
    hf_folder.load(tmp_path)
    [message] = messages
    assert (
        "generation_config.json sets length_penalty = 0.8, num_beams = 8. Th" in message
    )
    assert "are not used" in message


# Fields of transformers classes that change no output of our models.
HARMLESS = (
    # Notes, and additional return values.
    "_name_or_path", "architectures", "chunk_size_feed_forward", "dtype", "label2id",
    "output_attentions", "output_hidden_states", "problem_type", "return_dict",
    "transformers_version", "use_cache",
    # Initial values, and settings of training.
    "initializer_factor", "initializer_range", "init_std", "classifier_dropout",
    "classifier_dropout_prob", "decoder_layerdrop", "encoder_layerdrop",
    # Ids that the tokenizer files also have; roles of an architecture.
    "bos_token_id", "eos_token_id", "is_decoder", "is_encoder_decoder",
    # transformers computes them from feed_forward_proj.
    "dense_act_fn", "is_gated_act",
    # Settings of unread heads; summation in float16.
    "legacy", "output_embedding_size", "reorder_and_upcast_attn", "summary_activation",
    "summary_first_dropout", "summary_proj_to_labels", "summary_type",
    "summary_use_proj",
)  # fmt: skip
# Fields that only some families have, or that others do not read.
HARMLESS_IN = {
    # Labels, which models without a classifier have too.
    **{family: ("id2label",) for family in WRITERS},
    **{
        family: ("tie_word_embeddings", "id2label")
        for family in MODELS
        if family not in WRITERS
    },
    # The first is for separate vocabularies; 0 means the same as -1 there.
    "marian": ("id2label", "decoder_vocab_size"),
    "deberta-v2": ("tie_word_embeddings", "id2label", "max_relative_positions"),
    "t5": ("id2label", "tie_word_embeddings"),
    "mt5": ("id2label", "tie_word_embeddings", "scale_decoder_outputs"),
    "gpt2": ("id2label", "pad_token_id"),
    "llama": ("id2label", "pad_token_id"),
}


def other(value):
    """Returns another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return {"0": "a"} if isinstance(value, dict) else "other"


@pytest.mark.parametrize("family", MODELS)
def test_no_field_of_a_config_is_ignored(family, tmp_path):
    """Each field is read, refused, or in the list of fields without effect."""
    told = write(tmp_path, family)
    expected = hf_folder.read_config(tmp_path)[2]
    ignored = []
    for name, value in told.items():
        write(tmp_path, family, **{name: other(value)})
        try:
            if hf_folder.read_config(tmp_path)[2] == expected:
                ignored.append(name)
        except UserError:
            pass
    assert set(ignored) <= {*HARMLESS, *HARMLESS_IN.get(family, ())}


@pytest.mark.parametrize("family", MODELS)
def test_quantized_weights_are_refused(family, tmp_path):
    write(tmp_path, family, quantization_config={"quant_method": "gptq"})
    with pytest.raises(UserError, match="quantization_config is .*but only None"):
        hf_folder.read_config(tmp_path)


@pytest.mark.parametrize(
    "family, padding", [("bert", 0), ("roberta", 1), ("xlm-roberta", 1), ("rembert", 0)]
)
def test_the_padding_of_a_config_without_one(family, padding, tmp_path):
    config = write(tmp_path, family)
    del config["pad_token_id"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert hf_folder.read_config(tmp_path)[2].pad_token_id == padding
    assert families.of_config(config, "").name == "bert"
