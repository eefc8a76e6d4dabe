"""Every gin file of a model parses, and builds the model of its name."""

import functools
from pathlib import Path

import gin
import jax
import pytest
import t5x.examples
from t5x import decoding, gin_utils, models

from tests.support import grids

EXAMPLES = Path(t5x.examples.__file__).parent
# The folders named examples hold whole runs, which have separate tests.
FILES = sorted(
    str(path.relative_to(EXAMPLES))
    for path in EXAMPLES.rglob("*.gin")
    if path.parent.name != "examples"
)
# Folder of the files, with emb_dim, num_heads, layers, head_dim, mlp_dim.
T5_1_1 = {
    "tiny": (8, 4, 2, 2, 3, 16),
    "small": (512, 6, 8, 8, 64, 1024),
    "base": (768, 12, 12, 12, 64, 2048),
    "large": (1024, 16, 24, 24, 64, 2816),
    "xl": (2048, 32, 24, 24, 64, 5120),
    "xxl": (4096, 64, 24, 24, 64, 10240),
}
T5_1_0 = {
    "tiny": (8, 4, 2, 2, 3, 16),
    "small": (512, 8, 6, 6, 64, 2048),
    "base": (768, 12, 12, 12, 64, 3072),
    "large": (1024, 16, 24, 24, 64, 4096),
    "3B": (1024, 32, 24, 24, 128, 16384),
    "11B": (1024, 128, 24, 24, 128, 65536),
}
BYT5 = {
    "tiny": (8, 4, 2, 2, 3, 16),
    "small": (1472, 6, 12, 4, 64, 3584),
    "base": (1536, 12, 18, 6, 64, 3968),
    "large": (1536, 16, 36, 12, 64, 3840),
    "xl": (2560, 32, 36, 12, 64, 6720),
    "xxl": (4672, 64, 36, 12, 64, 12352),
}
SCALABLE = {size: sizes for size, sizes in T5_1_1.items() if size != "tiny"}
GATED, PLAIN = ("gelu", "linear"), ("relu",)
FAMILIES = {
    "t5/t5_1_1": (T5_1_1, 32128, GATED, False),
    "t5/t5_1_0": (T5_1_0, 32128, PLAIN, True),
    "t5/mt5": (T5_1_1, 250112, GATED, False),
    "t5/byt5": (BYT5, 384, GATED, False),
    "scalable_t5/t5_1_1": (SCALABLE, 32128, GATED, False),
}
COUNTS = {
    "t5/t5_1_1/small": 76_961_152,
    "t5/t5_1_1/base": 247_577_856,
    "t5/t5_1_0/base": 222_903_552,
    "t5/mt5/small": 300_176_768,
    "t5/byt5/small": 299_637_760,
    "scalable_t5/t5_1_1/small": 76_961_152 + (8 + 8) * 32 * 6 - 2 * 32 * 6,
    "t5/t5_1_1/large": 783_150_080,
    "t5/t5_1_1/xl": 2_849_757_184,
    "t5/t5_1_1/xxl": 11_135_332_352,
}


class Vocabulary:
    """Replaces a SentencePiece model, which the tests cannot download."""

    eos_id = 1
    vocab_size = 100


@pytest.fixture(autouse=True)
def _clean_gin():
    gin.clear_config()
    yield
    gin.clear_config()


def build(name, *bindings, dropout="DROPOUT_RATE = 0.1"):
    """Returns the model of a run that includes the file, with our vocabulary."""
    run = [
        "from __gin__ import dynamic_registration",
        f"include 't5x/examples/{name}.gin'",
        "VOCABULARY = None",
        dropout,
    ]
    gin_utils.parse_gin_flags([], [], [*run, *bindings])
    return gin.query_parameter("%MODEL").scoped_configurable_fn()


def test_all_files_are_covered():
    expected = {f"{folder}/{s}.gin" for folder, f in FAMILIES.items() for s in f[0]}
    expected |= {f"decoder_only/models/{s}.gin" for s in ("base", "large", "xl", "xxl")}
    assert set(FILES) == expected


@pytest.mark.parametrize("folder", FAMILIES)
def test_encoder_decoder_files(folder):
    table, vocab_size, activations, tied = FAMILIES[folder]
    for size, sizes in table.items():
        gin.clear_config()
        model = build(f"{folder}/{size}")
        assert isinstance(model, models.EncoderDecoderModel)
        assert model.decode_fn is decoding.beam_search
        config = model.module.config
        assert (
            config.emb_dim, config.num_heads, config.num_encoder_layers,
            config.num_decoder_layers, config.head_dim, config.mlp_dim,
        ) == sizes, size  # fmt: skip
        assert config.vocab_size == vocab_size
        assert tuple(config.mlp_activations) == activations
        assert config.logits_via_embedding is tied
        assert (config.dtype, config.dropout_rate) == ("bfloat16", 0.1)
        assert model._z_loss == 1e-4
        assert model._label_smoothing == 0.0
        assert model._loss_normalizing_factor is None
        assert type(model.optimizer_def).__name__ == "Adafactor"


@pytest.mark.parametrize("name", grids.first(6, COUNTS))
def test_parameter_counts(name):
    model = build(name)
    shapes = {"encoder_input_tokens": (1, 4), "decoder_input_tokens": (1, 4)}
    start = functools.partial(model.get_initial_variables, input_shapes=shapes)
    params = jax.eval_shape(start, jax.random.key(0))["params"]
    assert sum(p.size for p in jax.tree.leaves(params)) == COUNTS[name]


def test_decoder_only_files():
    for size in ("base", "large", "xl", "xxl"):
        gin.clear_config()
        model = build(f"decoder_only/models/{size}")
        assert isinstance(model, models.DecoderOnlyModel)
        config = model.module.config
        emb_dim, num_heads, num_layers, _, head_dim, mlp_dim = T5_1_1[size]
        assert (config.emb_dim, config.num_heads, config.num_layers) == (
            emb_dim,
            num_heads,
            num_layers,
        )
        assert (config.head_dim, config.mlp_dim) == (head_dim, mlp_dim)
        assert config.logits_via_embedding is True


def test_macros_reach_the_model():
    model = build(
        "t5/t5_1_1/small",
        "Z_LOSS = 0.5",
        "LABEL_SMOOTHING = 0.25",
        "LOSS_NORMALIZING_FACTOR = 'AVERAGE_PER_SEQUENCE'",
        "import t5x.examples.t5.network as network",
        "network.T5Config.dtype = 'float32'",
        dropout="DROPOUT_RATE = 0.0",
    )
    assert (model._z_loss, model._label_smoothing) == (0.5, 0.25)
    assert model._loss_normalizing_factor == "AVERAGE_PER_SEQUENCE"
    assert model.module.config.dropout_rate == 0.0
    assert model.module.config.dtype == "float32"


def test_dropout_rate_is_required():
    with pytest.raises(Exception, match="DROPOUT_RATE/macro.value.*not subsequently"):
        build("t5/t5_1_1/tiny", dropout="")


def test_number_of_decodes_is_bound_through_the_method():
    seen = {}

    def decode_fn(num_decodes, inputs, **kwargs):
        seen["num_decodes"] = num_decodes
        raise StopIteration

    model = build(
        "t5/t5_1_1/tiny",
        "from t5x import models",
        "models.EncoderDecoderModel.predict_batch_with_aux.num_decodes = 4",
    )
    assert isinstance(model, models.EncoderDecoderModel)
    model._decode_fn = decode_fn
    model._output_vocabulary = Vocabulary()
    tokens = jax.numpy.ones((1, 4), jax.numpy.int32)
    shapes = {"encoder_input_tokens": (1, 4), "decoder_input_tokens": (1, 4)}
    start = functools.partial(model.get_initial_variables, input_shapes=shapes)
    params = jax.eval_shape(start, jax.random.key(0))["params"]
    batch = {"encoder_input_tokens": tokens, "decoder_input_tokens": tokens}
    with pytest.raises(StopIteration):
        jax.eval_shape(model.predict_batch, params, batch)
    assert seen == {"num_decodes": 4}
