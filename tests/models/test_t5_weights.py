"""Published T5 in the network of the runtime, compared with torch; scanned stacks."""

import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.torch
import torch
import transformers
from t5x import decoding, models
from t5x.examples.scalable_t5 import network as scalable
from t5x.examples.t5 import network

from jaxaug.core.errors import UserError
from jaxaug.models import convert, t5_weights
from jaxaug.models.weights import families, hf_folder, t5x_layout

TINY = {
    "vocab_size": 40, "d_model": 12, "d_kv": 5, "d_ff": 20, "num_heads": 3,
    "num_layers": 2, "num_decoder_layers": 1,
}  # fmt: skip
VARIANTS = {
    "v1.0": {"feed_forward_proj": "relu"},
    "v1.1": {"feed_forward_proj": "gated-gelu", "untied": True},
    "silu": {"feed_forward_proj": "gated-silu", "untied": True},
    "unscaled tie": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    "mt5": {"feed_forward_proj": "gated-gelu", "untied": True, "cls": "MT5"},
}
INPUTS = np.array([[5, 6, 7, 8, 1], [9, 4, 1, 0, 0]])
TARGETS = np.array([[11, 12, 13, 1], [14, 1, 0, 0]])


def add_head(folder):
    """Stores an output matrix that differs from the embedding."""
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    tensors["lm_head.weight"] = torch.randn(TINY["vocab_size"], TINY["d_model"])
    safetensors.torch.save_file(tensors, path, {"format": "pt"})


def published(folder, feed_forward_proj, untied=False, cls="T5", **options):
    """Writes a random T5 as transformers does; returns its torch model."""
    config_cls = getattr(transformers, f"{cls}Config")
    model_cls = getattr(transformers, f"{cls}ForConditionalGeneration")
    if untied:
        options["tie_word_embeddings"] = False
    torch.manual_seed(3)
    config = config_cls(**TINY, feed_forward_proj=feed_forward_proj, **options)
    model = model_cls(config)
    # The initial tables are too even to show a mistake in them.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    if untied:
        # T5 v1.1 is published so; transformers 5 itself builds tied models only.
        add_head(folder)
        path = folder / "config.json"
        values = json.loads(path.read_text())
        values.pop("scale_decoder_outputs", None)
        path.write_text(json.dumps({**values, "tie_word_embeddings": False}))
    return model_cls.from_pretrained(folder).eval()


@pytest.fixture(scope="module", params=VARIANTS, ids=str)
def pair(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("t5")
    oracle = published(folder, **VARIANTS[request.param])
    return request.param, oracle, hf_folder.load(folder)


def decoder_inputs(targets):
    return np.concatenate([np.zeros((len(targets), 1), int), targets[:, :-1]], axis=1)


def oracle_logits(oracle):
    with torch.no_grad():
        return oracle(
            input_ids=torch.tensor(INPUTS),
            attention_mask=torch.tensor(INPUTS > 0),
            decoder_input_ids=torch.tensor(decoder_inputs(TARGETS)),
        ).logits.numpy()


def our_logits(model, dtype=jnp.float32):
    module = model.module.clone(config=model.config.replace(dtype=dtype))
    apply = jax.jit(functools.partial(module.apply, enable_dropout=False))
    variables = {"params": model.params}
    return np.asarray(apply(variables, INPUTS, decoder_inputs(TARGETS), TARGETS))


def test_logits(pair):
    name, oracle, model = pair
    assert model.family.name == "t5"
    assert model.config.logits_via_embedding == (name == "v1.0")
    found, expected = our_logits(model), oracle_logits(oracle)
    shown = TARGETS > 0
    assert np.abs(expected[shown]).max() > 1
    np.testing.assert_allclose(found[shown], expected[shown], atol=1e-4, rtol=0)


def t5x_model(model):
    class Words:
        vocab_size, eos_id, pad_id = TINY["vocab_size"], 1, 0

    return models.EncoderDecoderModel(
        model.module, Words(), Words(), None, decode_fn=decoding.temperature_sample
    )


@pytest.mark.parametrize("pair", ["v1.0", "v1.1"], indirect=True)
def test_greedy_generation(pair):
    _, oracle, model = pair
    length = 10
    batch = {
        "encoder_input_tokens": jnp.asarray(INPUTS),
        "decoder_input_tokens": jnp.zeros((len(INPUTS), length), jnp.int32),
    }
    found = jax.jit(t5x_model(model).predict_batch)(model.params, batch)
    expected = oracle.generate(
        input_ids=torch.tensor(INPUTS),
        attention_mask=torch.tensor(INPUTS > 0),
        decoder_start_token_id=0,
        max_new_tokens=length,
        do_sample=False,
        num_beams=1,
    ).numpy()[:, 1:]
    expected = np.pad(expected, ((0, 0), (0, length - expected.shape[1])))
    np.testing.assert_array_equal(found, expected)


def test_config_and_back(pair):
    _, _, model = pair
    again = t5_weights.Config.from_hf(t5_weights.to_hf(model.config))
    assert again == model.config
    found = t5_weights.config_of(model.params, "x")
    if "silu" not in model.config.mlp_activations:
        assert found == model.config
    assert found.head_dim == 5 and found.num_decoder_layers == 1


@pytest.mark.parametrize("own_head", [False, True])
def test_mt5_of_transformers_5(tmp_path, own_head):
    """It writes `tie_word_embeddings: true` and computes without the scale."""
    published(tmp_path, "gated-gelu", cls="MT5")
    if own_head:
        add_head(tmp_path)
    stored = json.loads((tmp_path / "config.json").read_text())
    assert stored["tie_word_embeddings"] and stored["transformers_version"][0] == "5"
    model_cls = transformers.MT5ForConditionalGeneration
    expected = oracle_logits(model_cls.from_pretrained(tmp_path).eval())
    model = hf_folder.load(tmp_path)
    shown = TARGETS > 0
    assert np.abs(expected[shown]).max() > 1
    found = our_logits(model)
    np.testing.assert_allclose(found[shown], expected[shown], atol=1e-4, rtol=0)


def test_the_tie_of_mt5_by_version():
    mt5 = {"model_type": "mt5", "architectures": ["MT5ForConditionalGeneration"]}
    tied = {**mt5, "tie_word_embeddings": True}
    for config, expected in (
        (mt5, False),
        (tied, False),
        ({**tied, "transformers_version": "5.0.0"}, False),
        # Before that version a tie implied the scale, too.
        ({**tied, "transformers_version": "4.57.1"}, True),
        ({**mt5, "transformers_version": "4.57.1"}, False),
    ):
        found = t5_weights.Config.from_hf(config)
        assert found.logits_via_embedding == expected, config


def test_the_published_configs():
    """Configs of the hub: t5-small of 2019 and flan-t5-base."""
    small = t5_weights.Config.from_hf(
        {
            "architectures": ["T5WithLMHeadModel"], "model_type": "t5", "d_ff": 2048,
            "d_kv": 64, "d_model": 512, "dropout_rate": 0.1, "num_heads": 8,
            "num_layers": 6, "relative_attention_num_buckets": 32,
            "vocab_size": 32128, "layer_norm_epsilon": 1e-06,
        }
    )  # fmt: skip
    assert small == t5_weights.Config(
        vocab_size=32128, emb_dim=512, num_heads=8, head_dim=64, mlp_dim=2048,
        num_encoder_layers=6, num_decoder_layers=6, mlp_activations=("relu",),
        logits_via_embedding=True,
    )  # fmt: skip
    base = t5_weights.Config.from_hf(
        {
            "architectures": ["T5ForConditionalGeneration"], "model_type": "t5",
            "d_ff": 2048, "d_kv": 64, "d_model": 768, "feed_forward_proj": "gated-gelu",
            "num_decoder_layers": 12, "num_heads": 12, "num_layers": 12,
            "tie_word_embeddings": False, "vocab_size": 32128,
        }
    )  # fmt: skip
    assert base.mlp_activations == ("gelu", "linear")
    assert not base.logits_via_embedding


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"decoder_start_token_id": 5}, "decoder_start_token_id is 5; the T5 of"),
        ({"forced_eos_token_id": 1}, "forced_eos_token_id is 1, but a T5 here decodes"),
        ({"forced_bos_token_id": 7}, "forced_bos_token_id is 7, but a T5 here decodes"),
    ],
)
def test_unsupported_settings_of_generation(tmp_path, told, message):
    config = {"model_type": "t5", "forced_eos_token_id": 1}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "generation_config.json").write_text("{}")
    hf_folder.read_config(tmp_path)  # If both exist, the second one decides.
    (tmp_path / "generation_config.json").write_text(json.dumps(told))
    with pytest.raises(UserError, match=f"{tmp_path}: config.json.*{message}"):
        hf_folder.read_config(tmp_path)
    (tmp_path / "generation_config.json").write_text("[]")
    with pytest.raises(UserError, match="generation_config.json holds no JSON object"):
        hf_folder.read_config(tmp_path)


def test_a_tied_head_must_be_tied(tmp_path):
    published(tmp_path, "relu")
    path = tmp_path / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    tensors["lm_head.weight"] = tensors["shared.weight"].clone()
    tensors[
        "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    ] = torch.zeros(32, 3)
    safetensors.torch.save_file(tensors, path, {"format": "pt"})
    hf_folder.load(tmp_path)
    tensors["lm_head.weight"] += 1
    safetensors.torch.save_file(tensors, path, {"format": "pt"})
    with pytest.raises(UserError, match="shared.weight and lm_head.weight differ"):
        hf_folder.load(tmp_path)


def test_weights_of_another_size(tmp_path, edit_json):
    published(tmp_path, "relu")
    edit_json(tmp_path / "config.json", lambda c: c.update(num_layers=3))
    with pytest.raises(UserError, match="8 missing: encoder.block.2.layer.0.SelfAtt"):
        hf_folder.load(tmp_path)
    edit_json(tmp_path / "config.json", lambda c: c.update(num_layers=1))
    with pytest.raises(UserError, match="8 left over: encoder.block.1.layer.0.SelfAtt"):
        hf_folder.load(tmp_path)
    edit_json(tmp_path / "config.json", lambda c: c.update(num_layers=2, d_ff=21))
    with pytest.raises(UserError, match=r"wi.weight has shape \[20, 12\].*\[12, 21\]"):
        hf_folder.load(tmp_path)


def test_parameters_of_another_network(tmp_path):
    with pytest.raises(UserError, match="x is not a checkpoint of t5x.*'relpos_bias'"):
        embedding = {"embedding": np.zeros((4, 2))}
        params = {"token_embedder": embedding, "encoder": {}, "decoder": {}}
        t5_weights.config_of(params, "x")
    with pytest.raises(UserError, match="mlp_activations .'elu',. has no name"):
        t5_weights.to_hf(network.T5Config(vocab_size=8, mlp_activations=("elu",)))


def test_gin_text(pair):
    _, _, model = pair
    lines = t5x_layout.network_gin(model.module).splitlines()
    assert lines[:6] == [
        "from __gin__ import dynamic_registration",
        "from t5x.examples.t5 import network",
        "",
        "NETWORK = @network.Transformer()",
        "network.Transformer.config = @network.T5Config()",
        "network.T5Config:",
    ]
    assert "  emb_dim = 12" in lines
    # Scale files bind the dtype of the same class; another than the default is kept.
    assert not any("dtype" in line for line in lines)
    other = dataclasses.replace(model.config, dtype="bfloat16")
    text = t5x_layout.network_gin(network.Transformer(other))
    assert "\n  dtype = 'bfloat16'\n" in text


CONFIG = network.T5Config(
    vocab_size=20, emb_dim=8, num_heads=2, head_dim=4, mlp_dim=16, num_encoder_layers=2,
    num_decoder_layers=3, mlp_activations=("gelu", "linear"),
    logits_via_embedding=False,
)  # fmt: skip
SCANNED_INPUTS = np.array([[5, 6, 7, 1, 0, 0], [8, 9, 10, 11, 12, 1]])
SCANNED_TARGETS = np.array([[3, 4, 1, 0, 0], [13, 14, 15, 16, 1]])
SHIFTED = np.array([[0, 3, 4, 0, 0], [0, 13, 14, 15, 16]])


@pytest.fixture(scope="module")
def params():
    start = functools.partial(network.Transformer(CONFIG).init, enable_dropout=False)
    shapes = jax.eval_shape(
        start, jax.random.key(0), SCANNED_INPUTS, SHIFTED, SCANNED_TARGETS
    )
    draw = np.random.default_rng(0)
    return jax.tree.map(
        lambda x: np.float32(0.3 * draw.standard_normal(x.shape)), shapes["params"]
    )


def same(found, expected):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    jax.tree.map(np.testing.assert_array_equal, found, expected)


@pytest.mark.parametrize("axis", [0, 1])
def test_there_and_back(params, axis):
    stacked = t5_weights.stacked(params, t5_weights.scanned_config(CONFIG, axis))
    assert t5_weights.is_stacked(stacked) and not t5_weights.is_stacked(params)
    kernel = stacked["decoder"]["decoder"]["self_attention"]["out"]["kernel"]
    assert kernel.shape == ((3, 2, 4, 8) if axis == 0 else (2, 3, 4, 8))
    same(t5_weights.unstacked(stacked, "x"), params)


def test_logits_and_gradients_equal_t5(params):
    config = t5_weights.scanned_config(CONFIG)

    def loss(params, module):
        logits = module.apply(
            {"params": params},
            SCANNED_INPUTS,
            SHIFTED,
            SCANNED_TARGETS,
            enable_dropout=False,
        )
        return jax.nn.log_softmax(logits)[..., 3].sum(), logits

    compute = jax.jit(jax.value_and_grad(loss, has_aux=True), static_argnums=1)
    (_, expected), gradient = compute(params, network.Transformer(CONFIG))
    (_, logits), found = compute(
        t5_weights.stacked(params, config), scalable.Transformer(config)
    )
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    wanted = t5_weights.stacked(gradient, config)
    for stack in ("encoder", "decoder"):
        # A bias shared by the stack gets the sum of the gradients of all layers.
        own = found[stack][stack].pop("relpos_bias")["rel_embedding"]
        shared = wanted[stack][stack].pop("relpos_bias")["rel_embedding"][:, 0]
        np.testing.assert_allclose(own.sum(1), shared, atol=1e-4)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), found, wanted
    )


def test_convert_both_ways(params, tmp_path):
    t5 = families.FAMILIES["t5"]
    source = t5x_layout.write(
        tmp_path / "plain", t5, network.Transformer(CONFIG), params, step=7
    )
    there = convert.convert(source, tmp_path / "scanned", form="t5x", scan_layers=True)
    text = (tmp_path / "scanned/network.gin").read_text()
    assert "import network" in text and "scan_layers = True" in text
    stored = t5x_layout.read(there)
    assert stored.step == 7 and t5_weights.is_stacked(stored.params)
    back = convert.convert(there, tmp_path / "back", form="t5x")
    same(t5x_layout.read(back).params, params)


def test_input_that_cannot_be_converted(params, tmp_path):
    stacked = t5_weights.stacked(params, t5_weights.scanned_config(CONFIG))
    bias = stacked["encoder"]["encoder"]["relpos_bias"]
    bias["rel_embedding"] = bias["rel_embedding"] + np.arange(2)[:, None]
    with pytest.raises(
        UserError, match="here: the encoder's scanned layers have different posit"
    ):
        t5_weights.unstacked(stacked, "here")
    with pytest.raises(UserError, match="--scan-layers: use it with --format t5x"):
        convert.convert("any", tmp_path / "x", form="hf", scan_layers=True)
