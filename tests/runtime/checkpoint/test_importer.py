"""Mesh TensorFlow checkpoints of T5, written here and read by T5X names."""

import jax
import numpy as np
import pytest
from flax import traverse_util
from flax.linen import partitioning as flax_partitioning
from t5x import adafactor, checkpoint_importer, checkpoints
from t5x.checkpoint import state_init
from t5x.checkpoint.settings import RestoreCheckpointConfig
from t5x.errors import UserError
from t5x.partitioning import PjitPartitioner

EMB, HEADS, MLP, VOCAB = 4, 2, 6, 10
ATTENTION = {n: ("embed", "joined_kv") for n in ("query", "key", "value")} | {
    "out": ("joined_kv", "embed")
}
# T5 v1.1: T5X parameter -> (Mesh TensorFlow variable, axes, shape)
SHAPES = {"embed": EMB, "joined_kv": EMB, "heads": HEADS, "relpos_buckets": 32}
SHAPES |= {"mlp": MLP, "vocab": VOCAB}


def t5_1_1_names():
    """Returns the names of a T5 v1.1 with one layer per stack and an untied head."""
    names = {
        "token_embedder/embedding": ("shared/embedding", ("vocab", "embed")),
        "decoder/logits_dense/kernel": ("decoder/logits/kernel", ("embed", "vocab")),
    }
    stacks = {
        "encoder": [("attention", "SelfAttention", "pre_attention_layer_norm")],
        "decoder": [
            ("self_attention", "SelfAttention", "pre_self_attention_layer_norm"),
            (
                "encoder_decoder_attention",
                "EncDecAttention",
                "pre_cross_attention_layer_norm",
            ),
        ],
    }
    for stack, attentions in stacks.items():
        block, layer = f"{stack}/block_000", f"{stack}/layers_0"
        names[f"{stack}/relpos_bias/rel_embedding"] = (
            f"{block}/layer_000/SelfAttention/relative_attention_bias",
            ("heads", "relpos_buckets"),
        )
        names[f"{stack}/{stack}_norm/scale"] = (f"{stack}/rms_norm/scale", ("embed",))
        for i, (module, kind, norm) in enumerate(attentions):
            place = f"{block}/layer_{i:03}"
            names[f"{layer}/{norm}/scale"] = (f"{place}/rms_norm/scale", ("embed",))
            for (ours, axes), theirs in zip(ATTENTION.items(), "qkvo", strict=True):
                names[f"{layer}/{module}/{ours}/kernel"] = (
                    f"{place}/{kind}/{theirs}",
                    axes,
                )
        place = f"{block}/layer_{len(attentions):03}"
        names[f"{layer}/pre_mlp_layer_norm/scale"] = (
            f"{place}/rms_norm/scale",
            ("embed",),
        )
        for matrix, axes in {
            "wi_0": ("embed", "mlp"),
            "wi_1": ("embed", "mlp"),
            "wo": ("mlp", "embed"),
        }.items():
            names[f"{layer}/mlp/{matrix}/kernel"] = (
                f"{place}/DenseReluDense/{matrix}/kernel",
                axes,
            )
    return names


class Model:
    """A model with parameters of the names above."""

    def get_initial_variables(self, rng, input_shapes, input_types=None):
        params, axes = {}, {}
        for name, (_, names) in t5_1_1_names().items():
            path = tuple(name.split("/"))
            params[path] = np.zeros([SHAPES[n] for n in names], np.float32)
            metadata = flax_partitioning.AxisMetadata(names=names)
            axes[(*path[:-1], f"{path[-1]}_axes")] = metadata
        unflatten = traverse_util.unflatten_dict
        return {"params": unflatten(params), "params_axes": unflatten(axes)}


def make_initializer():
    optimizer = adafactor.Adafactor(
        0.1,
        min_dim_size_to_factor=5,
        logical_factor_rules=adafactor.standard_logical_factor_rules(),
    )
    partitioner = PjitPartitioner(num_partitions=1)
    return (
        state_init.TrainStateInitializer(
            optimizer, Model().get_initial_variables, {}, partitioner
        ),
        partitioner,
    )


@pytest.fixture(scope="module")
def tf_checkpoint(tmp_path_factory):
    """Writes a checkpoint of step 1000; returns (prefix, T5X name -> values)."""
    tf = pytest.importorskip("tensorflow")
    initializer, _ = make_initializer()
    state = initializer.global_train_state_shape.state_dict()
    rng = np.random.default_rng(0)
    slots = {"v": "_slot_v", "v_row": "_slot_vr", "v_col": "_slot_vc"}
    variables, expected = {}, {}
    flat = traverse_util.flatten_dict(state["target"], sep="/")
    params = {n: tuple(x.shape) for n, x in flat.items()}
    states = traverse_util.flatten_dict(state["state"]["param_states"], sep="/")
    for name, (theirs, _) in t5_1_1_names().items():
        value = rng.normal(size=params[name]).astype(np.float32)
        variables[theirs] = expected[f"target/{name}"] = value
        for slot, suffix in slots.items():
            shape = tuple(states[f"{name}/{slot}"].shape)
            if shape != (1,):
                value = rng.random(shape).astype(np.float32)
                key = f"state/param_states/{name}/{slot}"
                variables[theirs + suffix] = expected[key] = value
    folder = tmp_path_factory.mktemp("mesh_tf")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = np.int64(1000)
        for name, value in {**variables, "global_step": step}.items():
            tf.compat.v1.get_variable(name, initializer=value)
        session.run(tf.compat.v1.global_variables_initializer())
        saver = tf.compat.v1.train.Saver()
        prefix = saver.save(session, str(folder / "model.ckpt"), global_step=1000)
    return prefix, expected


def check(state, expected):
    flat = traverse_util.flatten_dict(state.state_dict(), sep="/")
    for name, value in expected.items():
        np.testing.assert_array_equal(flat[name], value, err_msg=name)
    assert int(state.step) == 1000
    placeholders = set(flat) - set(expected) - {"state/step"}
    assert placeholders
    assert all(not np.any(flat[n]) and flat[n].shape == (1,) for n in placeholders)


@pytest.mark.parametrize("use_orbax", [True, False])
def test_restore_through_the_configuration(tf_checkpoint, use_orbax):
    prefix, expected = tf_checkpoint
    initializer, partitioner = make_initializer()
    cfg = RestoreCheckpointConfig(prefix, mode="specific")
    state, _ = state_init.create_checkpoint_manager_and_restore(
        initializer, partitioner, cfg, prefix, None, use_orbax=use_orbax
    )
    check(state, expected)


def test_latest_of_a_tensorflow_folder(tf_checkpoint):
    prefix, expected = tf_checkpoint
    initializer, _ = make_initializer()
    cfg = RestoreCheckpointConfig(prefix.rsplit("/", 1)[0])
    check(initializer.from_checkpoint([cfg]), expected)


def test_conversion(tf_checkpoint, tmp_path):
    prefix, expected = tf_checkpoint
    initializer, partitioner = make_initializer()
    checkpointer = checkpoints.Checkpointer(
        initializer.global_train_state_shape, partitioner, str(tmp_path)
    )
    checkpointer.convert_from_tf_checkpoint(prefix)
    check(checkpointer.restore(step=1000), expected)


def test_transformations_and_t5x_loading_are_refused(tf_checkpoint):
    prefix, _ = tf_checkpoint
    initializer, _ = make_initializer()
    cfg = RestoreCheckpointConfig(
        prefix, mode="specific", assignment_map=[("target/.*", None)]
    )
    with pytest.raises(UserError, match="Cannot initialize from a TensorFlow"):
        initializer.from_checkpoint([cfg])
    with pytest.raises(UserError, match="is a TensorFlow checkpoint"):
        checkpoints.load_t5x_checkpoint(prefix)


def test_strictness_and_missing_variables(tf_checkpoint):
    prefix, expected = tf_checkpoint
    read = checkpoint_importer.restore_from_t5_checkpoint
    initializer, _ = make_initializer()
    target = initializer.global_train_state_shape.state_dict()
    restored = read(target, prefix)
    np.testing.assert_array_equal(
        restored["target"]["token_embedder"]["embedding"],
        expected["target/token_embedder/embedding"],
    )
    del target["target"]["decoder"]["logits_dense"]
    with pytest.raises(UserError, match=r"lacks: \['target/decoder/logits_dense"):
        read(target, prefix)
    assert "logits_dense" not in read(target, prefix, strict=False)["target"]["decoder"]
    target["target"]["more"] = jax.ShapeDtypeStruct((2,), np.float32)
    with pytest.raises(UserError, match=r"Variable target/more of shape \(2,\) needed"):
        read(target, prefix, strict=False)


def test_unknown_variables_are_named():
    with pytest.raises(UserError, match=r"not of a T5 model: \['bert/embeddings'\]"):
        checkpoint_importer.t5_importer.apply({"bert/embeddings": 0})


def test_damaged_file(tmp_path):
    pytest.importorskip("tensorflow")
    (tmp_path / "model.ckpt-5.index").write_bytes(b"nothing")
    with pytest.raises(UserError, match=r"model.ckpt-5 is damaged or incomplete"):
        checkpoint_importer.load_tf_ckpt(str(tmp_path / "model.ckpt-5"))


def test_unshared_bias_tables_and_decoder_only_names():
    apply = checkpoint_importer.t5_importer.apply
    bias = "transformer/block_001/layer_000/SelfAttention/relative_attention_bias"
    names = {
        bias: 1,
        "transformer/block_001/layer_001/layer_norm/scale_slot_v": 2,
        "transformer/block_001/layer_001/DenseReluDense/wi/kernel": 3,
        "transformer/final_layer_norm/scale": 4,
        "transformer/embedding": 5,
        "transformer/logits/kernel_slot_vc": 6,
    }
    assert apply(names, bias_per_layer=True) == {
        "target/decoder/layers_1/relpos_bias/rel_embedding": 1,
        "state/param_states/decoder/layers_1/pre_mlp_layer_norm/scale/v": 2,
        "target/decoder/layers_1/mlp/wi/kernel": 3,
        "target/decoder/decoder_norm/scale": 4,
        "target/decoder/token_embedder/embedding": 5,
        "state/param_states/decoder/logits_dense/kernel/v_col": 6,
    }
    assert apply({bias: 1}, bias_per_layer=False) == {
        "target/decoder/relpos_bias/rel_embedding": 1
    }
