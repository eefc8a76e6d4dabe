"""Adapters in the T5X programs: training, saving, restoring, and rejected settings."""

import functools
import shutil

import flax
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
import transformers
from t5x import checkpoints, decoding, models, optimizers, partitioning, trainer

from jaxaug.core.errors import UserError
from jaxaug.models import consistency, finetune, llama
from jaxaug.models.lora import layout
from jaxaug.models.lora.settings import Settings
from jaxaug.models.weights import hf_folder

SIZES = {
    "vocab_size": 31, "hidden_size": 24, "intermediate_size": 40,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 32, "tie_word_embeddings": True, "pad_token_id": 0,
    "bos_token_id": 7, "eos_token_id": 1, "initializer_range": 0.3,
}  # fmt: skip
TARGETS = np.array([[9, 4, 6, 1, 3, 9, 1, 0], [7, 1, 5, 2, 8, 1, 0, 0]])
BATCH = {
    "decoder_target_tokens": TARGETS,
    "decoder_input_tokens": np.roll(TARGETS, 1, axis=1) * (np.arange(8) > 0),
    "decoder_loss_weights": np.float32(TARGETS > 0),
    "decoder_causal_attention": np.int32(np.arange(8) < np.array([[4], [3]])),
}
SHAPES = {name: value.shape for name, value in BATCH.items()}
ADAPTER = Settings(rank=2, alpha=6, targets="all-linear")


class Words:
    """The part of a vocabulary that `DecoderOnlyModel` uses."""

    eos_id = 1
    vocab_size = 31


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Returns the folder of a random Llama."""
    return save(tmp_path_factory.mktemp("base"), seed=0)


def save(folder, seed):
    torch.manual_seed(seed)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
    model.save_pretrained(folder)
    return folder


def plain(folder, **kwargs):
    """Returns the model without an adapter, and its parameters."""
    found = hf_folder.load(folder)
    optimizer = optimizers.adamw(learning_rate=0.05)
    model = models.DecoderOnlyModel(
        found.module, Words(), optimizer, decoding.temperature_sample, **kwargs
    )
    return model, found.params


def adapted(folder, **kwargs):
    model, _ = plain(folder, **kwargs)
    return finetune.lora(model, folder, ADAPTER)


def initializer(model, optimizer=True):
    return finetune.AdapterStateInitializer(
        model.optimizer_def if optimizer else None,
        model.get_initial_variables,
        SHAPES,
        partitioner(),
    )


@functools.cache
def partitioner():
    return partitioning.PjitPartitioner(num_partitions=1)


def steps(model, states, state, number):
    """Returns the state after some training steps, and their losses."""
    train = trainer.Trainer(
        model=model, train_state=state, partitioner=partitioner(), eval_names=[],
        summary_dir=None, train_state_axes=states.train_state_axes,
        rng=jax.random.PRNGKey(0), learning_rate_fn=optax.constant_schedule(0.05),
        num_microbatches=None,
    )  # fmt: skip
    losses = []
    for step in range(number):
        metrics = train.train(iter([BATCH]), 1, start_step=step)
        losses.append(float(np.asarray(metrics.result()["loss"].value)))
    return train.train_state, losses


def leaves(tree):
    return {"/".join(k): v for k, v in flax.traverse_util.flatten_dict(
        flax.core.unfreeze(tree)).items()}  # fmt: skip


def test_only_the_adapter_is_trained_and_saved(base, tmp_path):
    model = adapted(base)
    states = initializer(model)
    start = states.from_scratch(jax.random.PRNGKey(1))
    first = jax.device_get(start.params)
    start_names = jax.tree.map(lambda leaf: 0, start.state_dict())
    frozen = jax.device_get(start.flax_mutables["base"])
    state, losses = steps(model, states, start, 6)
    assert losses[-1] < losses[0] - 1
    moved = jax.tree.map(lambda a, b: bool(np.any(a != b)), first, state.params)
    assert all(jax.tree.leaves(moved))
    jax.tree.map(np.testing.assert_array_equal, frozen, state.flax_mutables["base"])

    manager = checkpoints.OrbaxCheckpointManagerInterface(
        tmp_path, states.global_train_state_shape, partitioner()
    )
    manager.save(state)
    manager.wait_until_finished()
    saved = checkpoints.load_t5x_checkpoint(tmp_path)
    assert set(leaves(saved["target"])) == set(leaves(state.params))
    assert set(saved["flax_mutables"]) == {"base_digest"}
    arrays = [v for v in leaves(saved["state"]).values() if v is not None]
    largest = max(np.size(array) for array in arrays)
    # The biggest matrix of the adapter; the base has no optimizer state.
    assert largest <= 40 * 2

    # In another process: the adapter from the checkpoint, the base from its folder.
    again = initializer(adapted(base))
    manager = checkpoints.OrbaxCheckpointManagerInterface(
        tmp_path, again.global_train_state_shape, partitioner()
    )
    restored = manager.restore()
    jax.tree.map(np.testing.assert_array_equal, state.params, restored.params)
    jax.tree.map(np.testing.assert_array_equal, frozen, restored.flax_mutables["base"])
    # Optional parts of a checkpoint, such as the digest of the base.
    lacking = leaves(again.fallback_state_dict(jax.random.PRNGKey(1)))
    assert set(lacking) == set(leaves(start_names))
    np.testing.assert_array_equal(
        lacking["flax_mutables/base_digest"], saved["flax_mutables"]["base_digest"]
    )
    _, onward = steps(model, states, state, 2)
    _, resumed = steps(model, again, restored, 2)
    assert resumed == onward


def test_another_base_is_refused(base, tmp_path):
    copy = tmp_path / "base"
    shutil.copytree(base, copy)
    states = initializer(adapted(copy))
    state = states.from_scratch(jax.random.PRNGKey(1))
    checkpoints.Checkpointer(
        states.global_train_state_shape, partitioner(), tmp_path
    ).save(state)
    save(copy, seed=1)
    again = initializer(adapted(copy), optimizer=False)
    reader = checkpoints.Checkpointer(
        again.global_train_state_shape, partitioner(), tmp_path
    )
    with pytest.raises(UserError, match="the checkpoint was trained on another base"):
        reader.restore()


def test_it_computes_the_same_as_the_merged_model(base):
    model = adapted(base, loss_chunk=4)
    state = initializer(model, False).from_scratch(jax.random.PRNGKey(1))
    rng = np.random.default_rng(0)

    def draw(x):
        return jnp.float32(0.1 * rng.normal(size=x.shape))

    params = jax.tree.map(draw, state.params)
    mutables = state.flax_mutables
    reference, weights = plain(base)
    merged = layout.merge(weights, jax.device_get(params), model.adapter)

    @jax.jit
    def loss(params):
        return model.loss_fn(params, BATCH, None, mutables)[0]

    expected = jax.jit(lambda p: reference.loss_fn(p, BATCH, None)[0])(merged)
    np.testing.assert_allclose(loss(params), expected, rtol=1e-5)
    np.testing.assert_allclose(
        jax.jit(model.score_batch)(params, BATCH, flax_mutables=mutables),
        jax.jit(reference.score_batch)(merged, BATCH),
        rtol=1e-4,
    )
    np.testing.assert_array_equal(
        jax.jit(model.predict_batch)(params, BATCH, flax_mutables=mutables),
        jax.jit(reference.predict_batch)(merged, BATCH),
    )
    # The gradient along a direction, compared with a difference of losses.
    step = jax.tree.map(draw, params)
    products = jax.tree.map(jnp.vdot, jax.jit(jax.grad(loss))(params), step)
    slope = sum(map(float, jax.tree.leaves(products)))
    near = [
        float(loss(jax.tree.map(lambda p, s, e=e: p + e * s, params, step)))
        for e in (0.01, -0.01)
    ]
    np.testing.assert_allclose(slope, (near[0] - near[1]) / 0.02, rtol=0.01)


def test_dropout_is_on_in_training_alone(base):
    model, _ = plain(base)
    model = finetune.lora(model, base, Settings(2, 6, "all-linear", dropout=0.5))
    state = initializer(model, False).from_scratch(jax.random.PRNGKey(1))
    params = jax.tree.map(jnp.ones_like, state.params)

    @jax.jit
    def loss(key):
        return model.loss_fn(params, BATCH, key, state.flax_mutables)[0]

    keys = [None, None, jax.random.PRNGKey(0), jax.random.PRNGKey(1)]
    values = [float(loss(key)) for key in keys]
    assert values[0] == values[1] and len(set(values)) == 3


def test_backward_pass_leaves_the_base_out():
    """Forward pass and both gradients cost a third each."""
    config = llama.Config(
        vocab_size=64, emb_dim=64, num_layers=2, num_heads=2, head_dim=32,
        mlp_dim=256, id_offset=1, dtype=jnp.float32,
    )  # fmt: skip
    model = models.DecoderOnlyModel(
        llama.DecoderWrapper(config), Words(), optimizers.adamw(0.1)
    )
    small = finetune.lora(model, "unread", ADAPTER)
    rows = {name: np.ones((4, 32), value.dtype) for name, value in BATCH.items()}
    shapes = {name: value.shape for name, value in rows.items()}

    def flops(loss, *variables):
        step = jax.jit(jax.grad(loss, has_aux=True))
        return step.lower(*variables).compile().cost_analysis()["flops"]

    init = functools.partial(model.get_initial_variables, input_shapes=shapes)
    base = jax.eval_shape(init, jax.random.PRNGKey(0))["params"]
    init = functools.partial(small.get_initial_variables, input_shapes=shapes)
    adapter = jax.eval_shape(init, jax.random.PRNGKey(0))["params"]
    whole = flops(lambda p: model.loss_fn(p, rows, None), base)
    part = flops(lambda p, b: small.loss_fn(p, rows, None, {"base": b}), adapter, base)
    assert 0.6 < part / whole < 0.8


def test_a_network_without_published_names_is_refused(base):
    from t5x.examples.decoder_only import network

    config = network.TransformerConfig(vocab_size=31, emb_dim=8)
    model = models.DecoderOnlyModel(network.DecoderWrapper(config), Words(), None)
    with pytest.raises(UserError, match="DecoderWrapper takes no adapter"):
        finetune.lora(model, base, ADAPTER)


def test_a_base_of_other_sizes_is_refused(base):
    config = llama.Config(vocab_size=31, emb_dim=24, num_layers=1, num_heads=4,
                          head_dim=6, mlp_dim=40)  # fmt: skip
    model = models.DecoderOnlyModel(
        llama.DecoderWrapper(config), Words(), optimizers.adamw(0.1)
    )
    states = initializer(finetune.lora(model, base, ADAPTER))
    with pytest.raises(UserError, match="Name the base of this model"):
        states.from_scratch(jax.random.PRNGKey(0))


def test_the_initializer_wants_an_adapter(base):
    model, _ = plain(base)
    with pytest.raises(UserError, match="for models of finetune.lora"):
        initializer(model)


@pytest.mark.long
def test_adapters_of_consistent_models(base):
    """Both orders of `lora` and `consistent` give the same loss of a training step."""
    rows = {name: np.repeat(value, 2, axis=0) for name, value in BATCH.items()}
    rows["decoder_input_tokens"][1::2, 0] = 5  # The other wording.
    found = []
    for model in (
        finetune.lora(consistency.consistent(plain(base)[0]), base, ADAPTER),
        consistency.consistent(adapted(base)),
    ):
        state = initializer(model).from_scratch(jax.random.PRNGKey(0))
        loss, (metrics, mutables) = model.loss_fn(
            state.params, rows, jax.random.PRNGKey(1), state.flax_mutables
        )
        assert mutables is state.flax_mutables
        found.append((loss, metrics["consistency_loss"].compute()))
    np.testing.assert_allclose(*found, rtol=1e-6)
    assert found[0][1] > 0
