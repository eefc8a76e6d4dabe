"""Writes published models for CTranslate2, and decodes with them; needs no JAX.

The inputs of `write` are tensors and a config.json with the names of `transformers`;
each model family of jaxaug writes them. The output has the layout of
`ctranslate2.specs`: linear layers are [out, in], and the projections of queries, keys,
and values are joined.
"""

import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from jaxaug.core.buckets import check_finite
from jaxaug.core.errors import UserError
from jaxaug.core.installed import missing_extra
from jaxaug.core.suggestion import one_of

PRECISIONS = ("float32", "float16", "int16", "int8")
"""Types of the stored weights. CPUs compute with float16 weights in float32."""

Tensors = Mapping[str, np.ndarray]

_ACTIVATIONS = {
    "relu": "RELU", "silu": "SWISH", "swish": "SWISH", "gelu": "GELU",
    "gelu_python": "GELU", "gelu_new": "GELUTanh", "gelu_fast": "GELUTanh",
    "gelu_pytorch_tanh": "GELUTanh", "quick_gelu": "GELUSigmoid",
}  # fmt: skip
_STAYS = "Such a model stays with JAX."


@dataclass(frozen=True)
class Special:
    """Rows of the embedding that hold special tokens; `start` may be BOS."""

    start: int
    end: int
    unknown: int | None = None


def write(
    folder: os.PathLike[str] | str,
    config: Mapping[str, Any],
    tensors: Tensors,
    special: Special,
    *,
    precision: str = "float32",
    tokens: Sequence[str] | None = None,
) -> None:
    """Writes `model.bin`, `config.json`, and the vocabulary of a model.

    Args:
        config: contents of config.json, as `to_hf` of a model family writes it.
        precision: type of the stored weights, one of `PRECISIONS`.
        tokens: token of each row of the embedding. Further rows are named by their
            numbers. None names all rows by their numbers.

    Raises:
        UserError: the family, an option, or the precision is not supported, or
            CTranslate2 is not installed.
    """
    if precision not in PRECISIONS:
        raise UserError(f"--precision {precision}: {one_of(precision, PRECISIONS)}")
    kind = str(config.get("model_type"))
    if kind not in _WRITERS:
        raise UserError(
            f"CTranslate2 has no models of type {kind!r} here; known are "
            f"{', '.join(_WRITERS)}. {_STAYS}"
        )
    check_installed()
    rows = config.get("vocab_size")
    if isinstance(rows, int) and len(tokens or ()) > rows:
        raise UserError(
            f"the tokenizer has {len(tokens or ())} tokens, but the embedding has "
            f"{rows} rows. Take the tokenizer that was published with the weights."
        )
    # Copies, because quantization writes to them.
    floats = {name: np.array(x, np.float32) for name, x in tensors.items()}
    spec = _WRITERS[kind](config, floats)
    _name(spec, special, tokens)
    spec.validate()
    spec.optimize(quantization=precision)
    spec.save(os.fspath(folder))


def check_installed() -> None:
    """Raises `UserError` if CTranslate2 is not installed."""
    if importlib.util.find_spec("ctranslate2") is None:
        raise missing_extra("CTranslate2 is not installed", "ctranslate2")


def _specs() -> Any:
    import ctranslate2.specs

    return ctranslate2.specs


def named(tokens: Sequence[str] | None, rows: int) -> list[str]:
    """Returns a distinct token for each row: the given tokens, then numbered ones."""
    known = list(tokens or ())[:rows]
    pattern = "<row_{}>" if known else "{}"
    return [*known, *(pattern.format(row) for row in range(len(known), rows))]


def _name(spec: Any, special: Special, tokens: Sequence[str] | None) -> None:
    """Sets the vocabulary and its special tokens."""
    if hasattr(spec, "encoder"):
        sources = spec.encoder.embeddings[0].weight.shape[0]
        targets = spec.decoder.embeddings.weight.shape[0]
        spec.register_source_vocabulary(named(tokens, sources))
        spec.register_target_vocabulary(words := named(tokens, targets))
        spec.config.decoder_start_token = words[special.start]
    else:
        words = named(tokens, spec.decoder.embeddings.weight.shape[0])
        spec.register_vocabulary(words)
    spec.config.bos_token = words[special.start]
    spec.config.eos_token = words[special.end]
    spec.config.unk_token = "" if special.unknown is None else words[special.unknown]


def _activation(name: str) -> Any:
    if name not in _ACTIVATIONS:
        raise UserError(
            f"CTranslate2 has no activation {name!r}; known are "
            f"{', '.join(_ACTIVATIONS)}. {_STAYS}"
        )
    return _specs().common_spec.Activation[_ACTIVATIONS[name]]


def _linear(spec: Any, tensors: Tensors, *names: str, conv: bool = False) -> None:
    """Sets a linear layer; several layers are joined along their outputs."""
    weights = [tensors[f"{name}.weight"] for name in names]
    joined = np.concatenate([w.T for w in weights] if conv else weights)
    spec.weight = np.ascontiguousarray(joined)
    if all(f"{name}.bias" in tensors for name in names):
        spec.bias = np.concatenate([tensors[f"{name}.bias"] for name in names])


def _norm(spec: Any, tensors: Tensors, name: str) -> None:
    spec.gamma = tensors[f"{name}.weight"]
    if hasattr(spec, "beta"):
        spec.beta = tensors[f"{name}.bias"]


def _cross(spec: Any, tensors: Tensors, q: str, k: str, v: str, out: str) -> None:
    """Sets the cross-attention of a decoder layer."""
    _linear(spec.linear[0], tensors, q)
    _linear(spec.linear[1], tensors, k, v)
    _linear(spec.linear[2], tensors, out)


def _encoder_decoder(
    encoder: Mapping[str, Any], decoder: Mapping[str, Any], **common: Any
) -> Any:
    module = _specs().transformer_spec
    return module.TransformerSpec(
        module.TransformerEncoderSpec(**encoder, **common),
        module.TransformerDecoderSpec(**decoder, **common),
    )


def _sides(spec: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yields (name, spec, embedding spec) of the encoder, then of the decoder."""
    yield "encoder", spec.encoder, spec.encoder.embeddings[0]
    yield "decoder", spec.decoder, spec.decoder.embeddings


def _t5(config: Mapping[str, Any], tensors: Tensors) -> Any:
    name = str(config["feed_forward_proj"])
    heads, layers = config["num_heads"], config["num_layers"]
    spec = _encoder_decoder(
        {"num_layers": layers, "num_heads": heads},
        {"num_layers": config.get("num_decoder_layers") or layers, "num_heads": heads},
        pre_norm=True,
        activation=_activation(
            {"gated-gelu": "gelu_new"}.get(name, name.removeprefix("gated-"))
        ),
        ffn_glu=name.startswith("gated-"),
        relative_attention_bias=True,
        rms_norm=True,
        head_dim=config["d_kv"],
    )
    for side, stack, embedding in _sides(spec):
        stack.scale_embeddings = False
        embedding.weight = tensors["shared.weight"]
        _norm(stack.layer_norm, tensors, f"{side}.final_layer_norm")
        table = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        for index, layer in enumerate(stack.layer):
            _t5_block(layer, tensors, f"{side}.block.{index}.layer", table)
    head = "shared" if config["tie_word_embeddings"] else "lm_head"
    _linear(spec.decoder.projection, tensors, head)
    if config["scale_decoder_outputs"]:
        spec.decoder.scale_outputs = config["d_model"] ** -0.5
    spec.config.layer_norm_epsilon = config["layer_norm_epsilon"]
    return spec


def _t5_block(layer: Any, tensors: Tensors, path: str, table: str) -> None:
    own = f"{path}.0.SelfAttention."
    attention = layer.self_attention
    attention.queries_scale = 1.0
    attention.relative_attention_bias = tensors[table]
    attention.relative_attention_max_distance = np.int32(128)
    _linear(attention.linear[0], tensors, f"{own}q", f"{own}k", f"{own}v")
    _linear(attention.linear[1], tensors, f"{own}o")
    _norm(attention.layer_norm, tensors, f"{path}.0.layer_norm")
    if (last := 1 + hasattr(layer, "attention")) == 2:
        layer.attention.queries_scale = 1.0
        cross = [f"{path}.1.EncDecAttention.{letter}" for letter in "qkvo"]
        _cross(layer.attention, tensors, *cross)
        _norm(layer.attention.layer_norm, tensors, f"{path}.1.layer_norm")
    dense = f"{path}.{last}.DenseReluDense"
    gated = hasattr(layer.ffn, "linear_0_noact")
    _linear(layer.ffn.linear_0, tensors, f"{dense}.wi_0" if gated else f"{dense}.wi")
    if gated:
        _linear(layer.ffn.linear_0_noact, tensors, f"{dense}.wi_1")
    _linear(layer.ffn.linear_1, tensors, f"{dense}.wo")
    _norm(layer.ffn.layer_norm, tensors, f"{path}.{last}.layer_norm")


def _bart(config: Mapping[str, Any], tensors: Tensors) -> Any:
    kind = config["model_type"]
    if kind == "bart" and not config["architectures"][0].endswith("Generation"):
        raise UserError(
            f"{config['architectures'][0]} writes no text, so CTranslate2 has nothing "
            f"to decode. {_STAYS}"
        )
    sizes = {
        side: {
            "num_layers": config[f"{side}_layers"],
            "num_heads": config[f"{side}_attention_heads"],
        }
        for side in ("encoder", "decoder")
    }
    spec = _encoder_decoder(
        *(sizes["encoder"], sizes["decoder"]),
        pre_norm=kind == "pegasus",
        activation=_activation(config["activation_function"]),
        layernorm_embedding=kind == "bart",
    )
    scale = config["d_model"] ** 0.5 if config["scale_embedding"] else 1.0
    for side, stack, embedding in _sides(spec):
        path = f"model.{side}"
        stack.scale_embeddings = scale
        own = tensors.get(f"{path}.embed_tokens.weight")
        embedding.weight = tensors["model.shared.weight"] if own is None else own
        learned = tensors.get(f"{path}.embed_positions.weight")
        stack.position_encodings.encodings = (
            _sinusoids(config["max_position_embeddings"], config["d_model"])
            if learned is None
            else learned[2:]  # The first two rows are not used.
        )
        if kind == "bart":
            _norm(stack.layernorm_embedding, tensors, f"{path}.layernorm_embedding")
        if kind == "pegasus":
            _norm(stack.layer_norm, tensors, f"{path}.layer_norm")
        for index, layer in enumerate(stack.layer):
            _bart_block(layer, tensors, f"{path}.layers.{index}.")
    spec.decoder.projection.weight = spec.decoder.embeddings.weight
    bias = tensors.get("final_logits_bias")
    if bias is not None and bias.any():
        spec.decoder.projection.bias = bias.reshape(-1)
    return spec


def _bart_block(layer: Any, tensors: Tensors, path: str) -> None:
    own = [f"{path}self_attn.{letter}_proj" for letter in "qkv"]
    _linear(layer.self_attention.linear[0], tensors, *own)
    _linear(layer.self_attention.linear[1], tensors, f"{path}self_attn.out_proj")
    _norm(layer.self_attention.layer_norm, tensors, f"{path}self_attn_layer_norm")
    if hasattr(layer, "attention"):
        names = ("q_proj", "k_proj", "v_proj", "out_proj")
        cross = [f"{path}encoder_attn.{name}" for name in names]
        _cross(layer.attention, tensors, *cross)
        _norm(layer.attention.layer_norm, tensors, f"{path}encoder_attn_layer_norm")
    _linear(layer.ffn.linear_0, tensors, f"{path}fc1")
    _linear(layer.ffn.linear_1, tensors, f"{path}fc2")
    _norm(layer.ffn.layer_norm, tensors, f"{path}final_layer_norm")


def _sinusoids(positions: int, width: int) -> np.ndarray:
    """Returns position encodings [positions, width]: all sines, then all cosines."""
    rates = 10_000.0 ** (-np.arange(0, width, 2) / width)
    angles = np.arange(positions)[:, None] * rates
    both = np.concatenate([np.sin(angles), np.cos(angles[:, : width // 2])], axis=1)
    return both.astype(np.float32)


def _gpt2(config: Mapping[str, Any], tensors: Tensors) -> Any:
    heads = config["n_head"]
    spec = _specs().transformer_spec.TransformerDecoderModelSpec.from_config(
        *(config["n_layer"], heads),
        pre_norm=True,
        activation=_activation(config["activation_function"]),
    )
    decoder = spec.decoder
    decoder.scale_embeddings = False
    decoder.embeddings.weight = tensors["transformer.wte.weight"]
    decoder.position_encodings.encodings = tensors["transformer.wpe.weight"]
    _norm(decoder.layer_norm, tensors, "transformer.ln_f")
    size = config["n_embd"] // heads
    for index, layer in enumerate(decoder.layer):
        path = f"transformer.h.{index}"
        scale = size**-0.5 if config["scale_attn_weights"] else 1.0
        if config["scale_attn_by_inverse_layer_idx"]:
            scale /= index + 1
        layer.self_attention.queries_scale = scale
        first, second = layer.self_attention.linear
        _norm(layer.self_attention.layer_norm, tensors, f"{path}.ln_1")
        _linear(first, tensors, f"{path}.attn.c_attn", conv=True)
        _linear(second, tensors, f"{path}.attn.c_proj", conv=True)
        _norm(layer.ffn.layer_norm, tensors, f"{path}.ln_2")
        _linear(layer.ffn.linear_0, tensors, f"{path}.mlp.c_fc", conv=True)
        _linear(layer.ffn.linear_1, tensors, f"{path}.mlp.c_proj", conv=True)
    tied = config["tie_word_embeddings"]
    _linear(decoder.projection, tensors, "transformer.wte" if tied else "lm_head")
    spec.config.layer_norm_epsilon = config["layer_norm_epsilon"]
    return spec


def _llama(config: Mapping[str, Any], tensors: Tensors) -> Any:
    rope = config.get("rope_parameters") or {}
    scaling = rope.get("rope_type", "default")
    types = _specs().attention_spec.RotaryScalingType
    kinds = {"default": None, "linear": types.Linear, "llama3": types.Llama3}
    trained = rope.get("original_max_position_embeddings", 0)
    if scaling not in kinds or config.get("sliding_window") is not None:
        raise UserError(
            f"rotary positions of type {scaling!r}, sliding_window is "
            f"{config.get('sliding_window')}: CTranslate2 models are written with type "
            f"{', '.join(kinds)} and without a window here. {_STAYS}"
        )
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    spec = _specs().transformer_spec.TransformerDecoderModelSpec.from_config(
        *(config["num_hidden_layers"], heads),
        activation=_activation(config["hidden_act"]),
        pre_norm=True,
        ffn_glu=True,
        rms_norm=True,
        rotary_dim=0,
        rotary_interleave=False,
        rotary_scaling_type=kinds[scaling],
        rotary_scaling_factor=rope.get("factor", 1),
        rotary_base=config["rope_theta"],
        original_max_position_embeddings=trained,
        num_heads_kv=None if kv_heads == heads else kv_heads,
        head_dim=config.get("head_dim"),
        qk_norm=config["model_type"] == "qwen3",
    )
    decoder = spec.decoder
    decoder.scale_embeddings = False
    decoder.embeddings.weight = tensors["model.embed_tokens.weight"]
    _norm(decoder.layer_norm, tensors, "model.norm")
    for index, layer in enumerate(decoder.layer):
        _llama_block(layer, tensors, f"model.layers.{index}.")
        if scaling == "llama3":
            # The library reads this factor; its Python class has no field for it.
            vars(layer.self_attention).update(
                rotary_scaling_factor=np.float32(rope["factor"]),
                rotary_low_freq_factor=np.float32(rope["low_freq_factor"]),
                rotary_high_freq_factor=np.float32(rope["high_freq_factor"]),
            )
    tied = config["tie_word_embeddings"]
    _linear(decoder.projection, tensors, "model.embed_tokens" if tied else "lm_head")
    spec.config.layer_norm_epsilon = config["rms_norm_eps"]
    return spec


def _llama_block(layer: Any, tensors: Tensors, path: str) -> None:
    attention, own = layer.self_attention, f"{path}self_attn."
    _norm(attention.layer_norm, tensors, f"{path}input_layernorm")
    _linear(attention.linear[0], tensors, *(f"{own}{x}_proj" for x in "qkv"))
    _linear(attention.linear[1], tensors, f"{own}o_proj")
    if hasattr(attention, "q_norm"):
        _norm(attention.q_norm, tensors, f"{own}q_norm")
        _norm(attention.k_norm, tensors, f"{own}k_norm")
    _norm(layer.ffn.layer_norm, tensors, f"{path}post_attention_layernorm")
    _linear(layer.ffn.linear_0, tensors, f"{path}mlp.gate_proj")
    _linear(layer.ffn.linear_0_noact, tensors, f"{path}mlp.up_proj")
    _linear(layer.ffn.linear_1, tensors, f"{path}mlp.down_proj")


_WRITERS: Mapping[str, Callable[[Mapping[str, Any], Tensors], Any]] = {
    **dict.fromkeys(("t5", "mt5"), _t5),
    **dict.fromkeys(("bart", "pegasus", "marian"), _bart),
    "gpt2": _gpt2,
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3"), _llama),
}


JAX, CTRANSLATE2 = "jax", "ctranslate2"
# Beam search ends when it has this many finished hypotheses for each beam. The search
# in JAX continues until no unfinished hypothesis can be better, so 1 would be too few.
_PATIENCE = 2.0
_REUSED = 2**25  # bytes of the logits of a batch that is scored


@dataclass(frozen=True)
class Rules:
    """Meaning of a model's tokens, given by the token ids of jaxaug.

    Attributes:
        start: BOS and the ids before every prompt of a decoder-only model; None for a
            model with an encoder.
        offset: number to subtract from an id to get its row of the embedding.
        forces_end: whether EOS is the last token of a truncated output.
    """

    ends: tuple[int, ...]
    size: int
    barred: tuple[int, ...] = ()
    start: tuple[int, ...] | None = None
    offset: int = 0
    forces_end: bool = False


class Decoded(NamedTuple):
    """An output of the model.

    Attributes:
        log_probability: log probability under the model, including EOS. Top-k, top-p,
            and temperature do not change it.
    """

    ids: list[int]
    log_probability: float


@dataclass(frozen=True)
class Search:
    """Options of decoding.

    Attributes:
        beam: whether to decode by beam search with `num` beams and no length penalty.
        top_k: number of the most probable tokens to draw from. 1 means greedy decoding,
            and 0 means all tokens.
    """

    num: int = 1
    max_length: int = 64
    min_length: int = 0
    beam: bool = False
    top_k: int = 1
    top_p: float = 1.0
    temperature: float = 1.0


class Engine:
    """A model in CTranslate2."""

    def __init__(
        self,
        folder: os.PathLike[str] | str,
        rules: Rules,
        *,
        seed: int = 0,
        batch_size: int = 32,
    ):
        """Loads a model folder.

        Args:
            folder: folder of `write`, written with `tokens=None`.
            seed: seed of the draws. CTranslate2 seeds each thread once. Draws are equal
                in another process that decodes the same inputs in the same order.

        Raises:
            UserError: CTranslate2 is not installed or cannot read the folder.
        """
        check_installed()
        import ctranslate2

        ctranslate2.set_random_seed(seed)
        self._rules, self._batch_size = rules, batch_size
        self._name = f"{folder} in CTranslate2"
        only = rules.start is not None
        make = ctranslate2.Generator if only else ctranslate2.Translator
        try:
            self._model: Any = make(
                os.fspath(folder), intra_threads=len(os.sched_getaffinity(0))
            )
        except RuntimeError as error:
            raise UserError(
                f"{folder}: CTranslate2 cannot read it ({error}). Remove the folder, "
                "and run the command again."
            ) from error

    def __call__(
        self, inputs: Sequence[Sequence[int]], search: Search
    ) -> list[list[Decoded]]:
        """Returns `search.num` outputs of each input, the best first.

        Args:
            inputs: token ids of each input. Inputs of an encoder include EOS, and
                prompts do not include `Rules.start`.

        Raises:
            UserError: a score is NaN or infinite.
        """
        rules = self._rules
        length = search.max_length - rules.forces_end
        draws = not search.beam and search.top_k != 1
        num = search.num if search.beam or draws else 1
        options: dict[str, Any] = {
            "beam_size": num if search.beam else 1,
            "patience": _PATIENCE,
            "num_hypotheses": num,
            "length_penalty": 0.0,
            "sampling_topk": search.top_k if search.top_k < rules.size else 0,
            "sampling_topp": search.top_p,
            "sampling_temperature": search.temperature,
            "max_batch_size": self._batch_size,
            "return_scores": True,
            "suppress_sequences": [[one] for one in self._rows(rules.barred)] or None,
            "end_token": [number - rules.offset for number in rules.ends],
        }
        tokens = [self._rows(ids) for ids in inputs]
        if rules.start is not None:
            found = self._model.generate_batch(
                tokens,
                static_prompt=self._rows(rules.start),
                include_prompt_in_result=False,
                max_length=length,
                min_length=search.min_length,
                **options,
            )
            texts = [one.sequences for one in found]
        else:
            found = self._model.translate_batch(
                tokens,
                max_input_length=0,
                max_decoding_length=length,
                min_decoding_length=search.min_length,
                **options,
            )
            texts = [one.hypotheses for one in found]
        scores = [one.scores for one in found]
        check_finite(np.array([one for own in scores for one in own]), self._name)
        outputs = map(self._decoded, texts, scores)
        # All greedy outputs of an input are equal.
        return [own * (search.num // num) for own in outputs]

    def log_likelihoods(
        self, inputs: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]]
    ) -> list[float]:
        """Returns the log probability of each output behind its prompt, in nats.

        Raises:
            UserError: a log probability is NaN or infinite.
        """
        start = self._rules.start or ()
        rows = [
            self._rows([*start, *one, *other])
            for one, other in zip(inputs, outputs, strict=True)
        ]
        # Rows of similar length need little padding.
        order = sorted(range(len(rows)), key=lambda place: len(rows[place]))
        # glibc reuses blocks up to this size; larger ones are mapped and zeroed again.
        tokens = _REUSED // (4 * self._rules.size)
        found = self._model.score_batch(
            [rows[place] for place in order],
            max_batch_size=max(tokens, *map(len, rows), 1),
            batch_type="tokens",
        )
        values = {
            place: sum(one.log_probs[-len(outputs[place]) :])
            for place, one in zip(order, found, strict=True)
        }
        ordered = [values[place] for place in range(len(rows))]
        check_finite(np.array(ordered), self._name)
        return ordered

    def _rows(self, ids: Sequence[int]) -> list[str]:
        return [str(number - self._rules.offset) for number in ids]

    def _decoded(
        self, texts: Sequence[Sequence[str]], scores: Sequence[float]
    ) -> list[Decoded]:
        offset = self._rules.offset
        return [
            Decoded([int(row) + offset for row in text], score)
            for text, score in zip(texts, scores, strict=True)
        ]
