"""TransferTransfo: speakers, candidates, both heads, and GPT-2 without a prompt."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from t5x import decoding

from jaxaug.core.errors import UserError
from jaxaug.models import gpt2
from jaxaug_papers.pcc.dialogue import speakers, transfertransfo
from jaxaug_papers.pcc.dialogue.speakers import PARTNER, PERSONA, SELF

SIZES = {
    "vocab_size": 24, "emb_dim": 16, "num_layers": 1, "num_heads": 2, "head_dim": 8,
    "mlp_dim": 32, "num_positions": 32, "dropout_rate": 0.0,
    "embedding_dropout_rate": 0.0, "attention_dropout_rate": 0.0,
}  # fmt: skip
MARKED = ((20, PERSONA), (21, PARTNER), (22, SELF))
CONFIG = transfertransfo.Config(**SIZES, markers=MARKED)
LENGTH = 14
TOPICS = 6


class Words:
    """The interface of a vocabulary that the model uses."""

    eos_id = 1
    vocab_size = 24


def model(config=CONFIG, **options):
    module = transfertransfo.DecoderWrapper(config)
    greedy = functools.partial(decoding.temperature_sample, temperature=0.0)
    return transfertransfo.DoubleHeadsModel(module, Words(), None, greedy, **options)


@functools.cache
def initial():
    shapes = {"decoder_input_tokens": (2, LENGTH)}
    variables = jax.eval_shape(
        lambda: model().get_initial_variables(jax.random.PRNGKey(0), shapes)
    )
    assert set(variables) == {"params", "params_axes"}
    noise = np.random.default_rng(0)
    return jax.tree.map(
        lambda x: (0.2 * noise.normal(size=x.shape)).astype(np.float32),
        dict(variables["params"]),
    )


def scored(both, params, batch):
    return np.asarray(jax.jit(lambda *a: both._both_heads(*a, None)[1])(params, batch))


def batch_of(rows):
    """Returns SeqIO's prefix-converted features of (inputs, targets), both with EOS."""
    shape = len(rows), LENGTH
    batch = {
        f"decoder_{name}": np.zeros(shape, np.int32)
        for name in (
            "input_tokens",
            "target_tokens",
            "loss_weights",
            "causal_attention",
        )
    }
    for row, (inputs, targets) in enumerate(rows):
        tokens = [*inputs, *targets]
        batch["decoder_target_tokens"][row, : len(tokens)] = tokens
        batch["decoder_input_tokens"][row, 1 : len(tokens)] = tokens[:-1]
        batch["decoder_loss_weights"][row, len(inputs) : len(tokens)] = 1
        batch["decoder_causal_attention"][row, : len(inputs) + 1] = 1
    return batch  # fmt: skip


ROWS = [
    ([20, 5, 21, 6, 7, 22, 8, 21, 9, 1], [10, 11, 1]),
    ([20, 4, 21, 3, 1], [12, 1]),
    ([20, 4, 21, 3, 1], [12, 1]),
    ([20, 2, 21, 13, 14, 1], [15, 16, 17, 1]),
]


def test_types_by_markers():
    batch = batch_of(ROWS[:2])
    lengths = transfertransfo.prompt_lengths_of(batch)
    assert lengths.tolist() == [10, 5]
    types = speakers.token_types(batch["decoder_input_tokens"], lengths, MARKED, 1)
    assert types[0].tolist() == [0, 1, 1, 2, 2, 2, 3, 3, 2, 2, 3, 3, 3, 3]
    assert types[1, :7].tolist() == [0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        # persona | partner | self | partner | reply
        ([5, 5, 1, 6, 1, 7, 7, 1, 8, 1], [1, 1, 1, 1, 2, 2, 3, 3, 3, 2, 3, 3, 3, 3]),
        # Without the oldest utterance, the last one is still by the partner.
        ([5, 5, 1, 7, 7, 1, 8, 1], [1, 1, 1, 1, 3, 3, 3, 2, 3, 3, 3, 3, 3, 3]),
        ([5, 1], [1, 1, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3]),
    ],
)
def test_types_by_turns(inputs, expected):
    batch = batch_of([(inputs, [9, 10, 1])])
    lengths = transfertransfo.prompt_lengths_of(batch)
    types = speakers.token_types(batch["decoder_input_tokens"], lengths, (), 1)
    assert types[0].tolist() == expected


def test_markers_of_a_vocabulary():
    class Pieces:
        names = ("", "[persona]", "[partner_persona]", "[partner]", "[self]")

        def encode(self, text):
            return [0, self.names.index(text)]

        def decode(self, ids):
            return self.names[ids[0]]

    assert speakers.markers_of(Pieces()) == ((1, 1), (2, 1), (3, 2), (4, 3))
    Pieces.decode = lambda self, ids: "]"
    with pytest.raises(UserError, match=r"no piece '\[persona\]'.*markers = \(\)"):
        speakers.markers_of(Pieces())


def test_without_types_the_logits_equal_gpt2():
    params = initial()
    plain = {"decoder": dict(params["decoder"])}
    plain["decoder"].pop("type_embedder")
    plain["decoder"].pop("choice")
    tokens = batch_of(ROWS)["decoder_input_tokens"]
    call = (tokens, np.ones_like(tokens))

    def logits(network, params, **told):
        apply = functools.partial(network.apply, enable_dropout=False)
        return np.asarray(jax.jit(apply)({"params": params}, *call, **told))

    expected = logits(gpt2.DecoderWrapper(gpt2.Config(**SIZES)), plain)
    network = transfertransfo.DecoderWrapper(CONFIG)
    np.testing.assert_allclose(logits(network, params), expected, atol=1e-6)
    typed = logits(network, params, prompt_lengths=np.array([10, 5, 5, 6]))
    assert np.abs(typed - expected).max() > 0.1


def test_candidates():
    batch = batch_of(ROWS)
    candidates = jax.jit(transfertransfo.candidates, static_argnums=1)
    made = jax.tree.map(np.asarray, candidates(batch, 3))
    np.testing.assert_array_equal(made.targets[0], batch["decoder_target_tokens"])
    np.testing.assert_array_equal(made.inputs[0], batch["decoder_input_tokens"])
    wrong = [*ROWS[0][0], *ROWS[1][1]]
    assert made.targets[1, 0].tolist() == wrong + [0] * (LENGTH - len(wrong))
    wrong = [*ROWS[1][0], *ROWS[3][1]]
    assert made.targets[2, 1].tolist() == wrong + [0] * (LENGTH - len(wrong))
    assert made.inputs[2, 1].tolist() == [0, *wrong[:-1]] + [0] * (LENGTH - len(wrong))
    assert made.ends[:, 1].tolist() == [6, 6, 8]
    # The replies to examples 1 and 2 are the same.
    assert made.valid[0].all() and made.valid[1].tolist() == [True, False, True, True]
    # A row of padding, as in the last batch, is neither an example nor a reply.
    padded = {name: np.pad(x, ((0, 1), (0, 0))) for name, x in batch.items()}
    made = jax.tree.map(np.asarray, candidates(padded, 2))
    assert made.valid[:, 4].tolist() == [False, False] and not made.valid[1, 3]


def test_loss_is_the_weighted_sum_and_its_gradient_is_finite():
    params, batch = initial(), batch_of(ROWS)
    both = model(num_candidates=3, language_weight=2.0, choice_weight=0.5)
    (loss, found), grads = jax.jit(
        jax.value_and_grad(both.loss_fn, has_aux=True), static_argnums=2
    )(params, batch, None)
    logits = jax.jit(both._compute_logits)(params, batch)
    weights = batch["decoder_loss_weights"]
    logs = jnp.take_along_axis(
        jax.nn.log_softmax(logits), batch["decoder_target_tokens"][..., None], axis=2
    )[..., 0]
    language = -float(jnp.sum(logs * weights))
    scores = scored(both, params, batch)
    assert scores.shape == (4, 3) and scores[1, 1] == -1e10
    choice = -float(jnp.mean(jax.nn.log_softmax(scores)[:, 0]))
    assert float(loss) == pytest.approx(
        2 * language + 0.5 * choice * weights.sum(), rel=1e-5
    )
    assert found["loss"].compute() == pytest.approx(float(loss))
    assert found["cross_ent_loss"].compute() == pytest.approx(language, rel=1e-5)
    assert found["choice_loss"].compute() == pytest.approx(choice, rel=1e-5)
    share = np.mean(scores[:, 0] > scores[:, 1:].max(axis=1))
    assert found["choice_accuracy"].compute() == pytest.approx(share)
    for path, leaf in jax.tree_util.tree_leaves_with_path(grads):
        assert np.isfinite(leaf).all(), path
        if "choice" in str(path) and "kernel" in str(path):
            assert np.abs(leaf).max() > 0


def test_scores_of_candidates_equal_single_scores():
    """The head reads the end of each reply, with the types of the same prompt."""
    params, both = initial(), model(num_candidates=3)
    together = scored(both, params, batch_of(ROWS))
    swapped = batch_of([(ROWS[0][0], ROWS[1][1]), (ROWS[3][0], ROWS[0][1])])
    alone = scored(model(), params, swapped)
    np.testing.assert_allclose(together[0, 1], alone[0, 0], atol=1e-5)
    np.testing.assert_allclose(together[3, 1], alone[1, 0], atol=1e-5)


def toy(rng, rows):
    """The reply names the topic of the persona, which the partner asks for."""
    topics = rng.integers(2, 2 + TOPICS, rows)
    said = rng.integers(10, 18, (rows, 2))
    return batch_of(
        [
            ([20, topic, 21, *noise, 1], [topic + TOPICS, int(noise[0]), 1])
            for topic, noise in zip(topics.tolist(), said.tolist(), strict=True)
        ]
    )


@functools.cache
def trained():
    both, params = model(num_candidates=4), initial()
    rng, optimizer = np.random.default_rng(1), optax.adam(1e-2)

    @jax.jit
    def step(params, state, batch):
        grads, found = jax.grad(both.loss_fn, has_aux=True)(params, batch, None)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(params, updates), state, found

    state, losses = optimizer.init(params), []
    for _ in range(150):
        params, state, found = step(params, state, toy(rng, 24))
        losses.append(float(found["loss"].compute()))
    return both, params, losses


@pytest.mark.long
def test_it_learns_and_ranks_the_right_reply_first():
    both, params, losses = trained()
    assert losses[-1] < 0.4 * losses[0]
    unseen = toy(np.random.default_rng(2), 40)
    _, found = jax.jit(both.eval_fn)(params, unseen)
    chance = 1 / 4
    assert found["choice_accuracy"].compute() > chance + 0.5


@pytest.mark.long
def test_greedy_replies_keep_the_speakers():
    """Prefill and decoding steps give the same logits as a full forward pass."""
    both, params, _ = trained()
    batch = toy(np.random.default_rng(3), 8)
    predicted = np.asarray(jax.jit(both.predict_batch)(params, batch))
    forward = jax.jit(both._compute_logits)
    tokens, end = batch["decoder_input_tokens"].copy(), 6  # of the prompt
    for step in range(3):
        whole = {
            **batch,
            "decoder_input_tokens": tokens,
            "decoder_target_tokens": np.ones_like(tokens),
        }
        best = np.argmax(forward(params, whole)[:, end + step], axis=-1)
        np.testing.assert_array_equal(predicted[:, step], best)
        tokens[:, end + step + 1] = best
    right = batch["decoder_target_tokens"][:, end]
    assert np.mean(predicted[:, 0] == right) > 0.7


def test_refused():
    with pytest.raises(UserError, match="num_candidates = 1: give at least 2"):
        model(num_candidates=1)
    with pytest.raises(UserError, match="= 5, but a \\(micro\\)batch has 4 examples"):
        transfertransfo.candidates(batch_of(ROWS), 5)
    packed = {**batch_of(ROWS), "decoder_segment_ids": np.ones((4, LENGTH))}
    with pytest.raises(UserError, match="one example a row.*pack = False"):
        transfertransfo.prompt_lengths_of(packed)
