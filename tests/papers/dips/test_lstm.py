"""The attentive LSTM against PyTorch's LSTM and the attention of the DiPS program."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from t5x import adafactor, decoding, losses, models

from jaxaug.core.errors import UserError
from jaxaug.models.weights import keymap
from jaxaug_papers.dips import lstm

CONFIG = lstm.Config(
    vocab_size=17, emb_dim=5, hidden_dim=6, num_layers=2, dropout_rate=0.0
)
SOURCES = np.array([[5, 9, 2, 16, 1], [7, 1, 0, 0, 0], [3, 3, 8, 1, 0]], np.int32)
TARGETS = np.array([[4, 6, 1, 0], [2, 2, 15, 1], [11, 1, 0, 0]], np.int32)
SHIFTED = np.pad(TARGETS, ((0, 0), (1, 0)))[:, :-1]


class Words:
    eos_id = 1
    vocab_size = CONFIG.vocab_size


class Torch(torch.nn.Module):
    """The model of the paper's program for single rows, with its parameter names."""

    def __init__(self, config: lstm.Config):
        super().__init__()
        size, depth = config.hidden_dim, config.num_layers
        self.config = config
        self.embedding = torch.nn.Embedding(config.vocab_size, config.emb_dim)
        self.encoder, self.decoder = torch.nn.Module(), torch.nn.Module()
        self.encoder.rnn = torch.nn.LSTM(
            config.emb_dim, size, depth, bidirectional=config.bidirectional
        )
        self.decoder.rnn = torch.nn.LSTM(config.emb_dim, size, depth)
        self.decoder.attn = torch.nn.Module()
        self.decoder.attn.attn = torch.nn.Linear(size, size)
        self.decoder.concat = torch.nn.Linear(2 * size, size)
        self.decoder.out = torch.nn.Linear(size, config.vocab_size)

    def forward(self, source: list[int], inputs: list[int]) -> np.ndarray:
        with torch.no_grad():
            memory, state = self.encoder.rnn(self.embedding(torch.tensor(source)))
            size = self.config.hidden_dim
            if self.config.bidirectional:
                memory = memory[:, :size] + memory[:, size:]
            state = tuple(part[: self.config.num_layers] for part in state)
            output, _ = self.decoder.rnn(self.embedding(torch.tensor(inputs)), state)
            scores = output @ self.decoder.attn.attn(memory).T
            context = torch.softmax(scores, dim=-1) @ memory
            joined = torch.cat((output, context), dim=-1)
            return self.decoder.out(torch.relu(self.decoder.concat(joined))).numpy()


@functools.cache
def both(config: lstm.Config) -> tuple[Torch, lstm.Transducer, dict]:
    torch.manual_seed(3)
    theirs = Torch(config)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.mul_(4.0)
    module = lstm.Transducer(config)
    shapes = jax.eval_shape(
        lambda: module.init(jax.random.PRNGKey(0), SOURCES, SHIFTED, TARGETS)
    )
    tensors = {name: t.numpy() for name, t in theirs.state_dict().items()}
    params = keymap.params_from(
        tensors,
        lstm.key_map(config),
        lstm.IGNORED,
        shapes=shapes["params"],
        source="a test",
    )
    return theirs, module, jax.tree.map(jnp.asarray, params)


def applied(module: lstm.Transducer):
    @jax.jit
    def apply(params, inputs):
        return module.apply(
            {"params": params}, SOURCES, inputs, inputs, enable_dropout=False
        )

    return apply


def real(row: np.ndarray) -> list[int]:
    return [int(token) for token in row if token]


@pytest.mark.parametrize("bidirectional, num_layers", [(False, 1), (True, 3)])
def test_logits_equal_torch_without_padding(bidirectional, num_layers):
    config = CONFIG.replace(bidirectional=bidirectional, num_layers=num_layers)
    theirs, module, params = both(config)
    logits = applied(module)(params, SHIFTED)
    for row in range(len(SOURCES)):
        expected = theirs(real(SOURCES[row]), SHIFTED[row].tolist())
        np.testing.assert_allclose(logits[row], expected, atol=1e-5)
    assert np.std(np.asarray(logits), axis=(0, 1)).max() > 0.1


def test_steps_with_the_cache_equal_the_full_forward():
    _, module, params = both(CONFIG.replace(bidirectional=True))
    full = applied(module)(params, SHIFTED)
    encoded = jax.jit(
        lambda params: module.apply(
            {"params": params}, SOURCES, enable_dropout=False, method="encode"
        )
    )(params)

    @jax.jit
    def step(variables, tokens):
        return module.apply(
            {"params": params, **variables}, encoded, SOURCES, tokens, tokens,
            enable_dropout=False, decode=True, mutable=["cache"], method="decode",
        )  # fmt: skip

    _, variables = step({}, SHIFTED)
    for column in range(SHIFTED.shape[1]):
        logits, variables = step(variables, SHIFTED[:, column : column + 1])
        np.testing.assert_allclose(logits[:, 0], full[:, column], atol=1e-5)


def greedy_of_torch(theirs: Torch, source: list[int], length: int) -> list[int]:
    tokens = [0]
    while len(tokens) <= length and tokens[-1] != Words.eos_id:
        tokens.append(int(np.argmax(theirs(source, tokens)[-1])))
    return tokens[1:]


def model(module: lstm.Transducer, decode_fn) -> models.EncoderDecoderModel:
    return models.EncoderDecoderModel(
        module, Words(), Words(), adafactor.Adafactor(), decode_fn
    )


def test_greedy_decoding_equals_torch():
    theirs, module, params = both(CONFIG)

    def greedy(**kwargs):
        return decoding.temperature_sample(**kwargs, temperature=0.0)

    length = 9
    batch = {
        "encoder_input_tokens": jnp.asarray(SOURCES),
        "decoder_input_tokens": jnp.zeros((len(SOURCES), length), jnp.int32),
    }
    decoded = jax.jit(model(module, greedy).predict_batch)(params, batch)
    expected = [greedy_of_torch(theirs, real(row), length) for row in SOURCES]
    assert [real(row) for row in np.asarray(decoded)] == expected
    assert len({tuple(row) for row in expected}) > 1


def test_beam_search_scores_its_outputs():
    """The state follows its beam when beams are reordered."""
    _, module, params = both(CONFIG)
    batch = {
        "encoder_input_tokens": jnp.asarray(SOURCES),
        "decoder_input_tokens": jnp.zeros((len(SOURCES), 5), jnp.int32),
    }
    predict = functools.partial(
        model(module, decoding.beam_search).predict_batch_with_aux,
        decoder_params={"alpha": 0.0},
        num_decodes=4,
        return_all_decodes=True,
    )
    decodes, aux = jax.jit(predict)(params, batch)
    decodes, checked = np.asarray(decodes), 0
    apply = applied(module)
    for beam_number in range(4):
        targets = decodes[:, beam_number]
        logits = apply(params, np.pad(targets, ((0, 0), (1, 0)))[:, :-1])
        log_probs = np.asarray(jax.nn.log_softmax(logits))
        chosen = np.take_along_axis(log_probs, targets[..., None], -1)[..., 0]
        after_eos = np.cumsum(targets == Words.eos_id, 1) - (targets == Words.eos_id)
        score = np.sum(np.where(after_eos, 0.0, chosen), axis=1)
        returned = np.asarray(aux["scores"][:, beam_number])
        filled = returned > decoding.NEG_INF
        np.testing.assert_allclose(returned[filled], score[filled], atol=1e-4)
        checked += int(np.sum(filled))
    assert checked > 8


@pytest.mark.long
def test_training_in_bfloat16_lowers_the_loss():
    module = lstm.Transducer(
        CONFIG.replace(dtype=jnp.bfloat16, bidirectional=True, dropout_rate=0.1)
    )
    keys = {"params": jax.random.PRNGKey(1), "dropout": jax.random.PRNGKey(2)}
    params = jax.jit(module.init)(keys, SOURCES, SHIFTED, TARGETS)["params"]
    optimizer = optax.adam(0.03)

    def loss(params, key):
        logits = module.apply(
            {"params": params}, SOURCES, SHIFTED, TARGETS, rngs={"dropout": key}
        )
        assert logits.dtype == jnp.float32
        weights = (TARGETS > 0).astype(jnp.float32)
        return losses.compute_weighted_cross_entropy(logits, TARGETS, weights)[0]

    @jax.jit
    def step(params, state, key):
        value, grads = jax.value_and_grad(loss)(params, key)
        updates, state = optimizer.update(grads, state)
        return value, optax.apply_updates(params, updates), state

    state, values = optimizer.init(params), []
    for number in range(60):
        value, params, state = step(params, state, jax.random.PRNGKey(number))
        values.append(float(value))
    assert values[-1] < 0.5 * values[0]


def test_packed_examples_are_refused():
    module = lstm.Transducer(CONFIG)
    with pytest.raises(UserError, match=r"segment ids.*`pack = False`"):
        module.init(
            jax.random.PRNGKey(0), SOURCES, SHIFTED, TARGETS, np.ones_like(SOURCES)
        )


def test_round_trip_of_the_weights_is_exact():
    theirs, _, params = both(CONFIG.replace(bidirectional=True))
    back = keymap.tensors_from(params, lstm.key_map(CONFIG.replace(bidirectional=True)))
    state = theirs.state_dict()
    assert set(back) == set(state) - {"decoder.attn.attn.bias"}
    for name, tensor in back.items():
        assert tensor.tobytes() == state[name].numpy().tobytes(), name
