"""A model that compiles quickly and data for it, without TensorFlow.

Programs that the tests start import this module, too.
"""

import functools
import json
import os
import signal
import threading
import time
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax.linen import partitioning as flax_partitioning
from t5x import digests, losses, models, optimizers

LENGTH = 6
ROWS = 4


class Numbers:
    """Resumable batches: batch n depends on the seed and n alone."""

    def __init__(
        self,
        rows: int = ROWS,
        seed: int = 0,
        on_batch: Callable[[int], None] = lambda number: None,
        shard: tuple[int, int] = (0, 1),
    ):
        self.position = 0
        self._rows = rows
        self._shard = shard
        self._seed = seed
        self._on_batch = on_batch

    @property
    def element_spec(self) -> Mapping[str, jax.ShapeDtypeStruct]:
        rows = self._rows // self._shard[1]
        spec = jax.ShapeDtypeStruct((rows, LENGTH), np.int32)
        return {
            "encoder_input_tokens": spec,
            "decoder_input_tokens": spec,
            "decoder_target_tokens": spec,
            "decoder_loss_weights": spec,
        }

    def __next__(self) -> dict[str, np.ndarray]:
        self._on_batch(self.position)
        rng = np.random.default_rng((self._seed, self.position))
        self.position += 1
        tokens = rng.integers(2, 32, (self._rows, LENGTH)).astype(np.int32)
        index, count = self._shard
        rows = self._rows // count
        tokens = tokens[index * rows : (index + 1) * rows]
        targets = (tokens * 7) % 32
        return {
            "encoder_input_tokens": tokens,
            "decoder_input_tokens": np.pad(targets, ((0, 0), (1, 0)))[:, :-1],
            "decoder_target_tokens": targets,
            "decoder_loss_weights": np.ones_like(tokens),
        }

    def save(self, path: Any) -> None:
        Path(f"{os.fspath(path)}.json").write_text(json.dumps(self.position))

    def restore(self, path: Any) -> None:
        self.position = json.loads(Path(f"{os.fspath(path)}.json").read_text())


def train_settings(model_dir: Any, **overrides: Any) -> dict[str, Any]:
    """Returns arguments of `train`: 8 steps on `Numbers`, a checkpoint every 4."""
    from t5x import partitioning, trainer, utils
    from t5x.training import learning_rate

    settings = {
        "model": TinyModel(),
        "train_dataset_cfg": utils.DatasetConfig(
            "numbers", {"inputs": LENGTH}, "train", ROWS, False, 0
        ),
        "train_eval_dataset_cfg": None,
        "infer_eval_dataset_cfg": None,
        "checkpoint_cfg": utils.CheckpointConfig(
            save=utils.SaveCheckpointConfig(period=4)
        ),
        "partitioner": partitioning.PjitPartitioner(num_partitions=1),
        "trainer_cls": functools.partial(
            trainer.Trainer,
            learning_rate_fn=learning_rate.create_learning_rate_scheduler(
                factors="constant", base_learning_rate=0.01
            ),
            num_microbatches=None,
        ),
        "model_dir": str(model_dir),
        "total_steps": 8,
        "eval_steps": 1,
        "eval_period": 0,
        "random_seed": 0,
        "summarize_config_fn": lambda model_dir, writer, step: None,
    }
    return {**settings, **overrides}


class TinyNetwork(nn.Module):
    """Embeds input tokens, applies dropout, and predicts the targets below them."""

    vocab_size: int = 32
    features: int = 8

    @nn.compact
    def __call__(self, tokens: jax.Array, enable_dropout: bool) -> jax.Array:
        shape = (self.vocab_size, self.features)
        init = nn.initializers.normal(1.0)
        with_axes = flax_partitioning.param_with_axes
        table = with_axes("embedding", init, shape, axes=("vocab", "embed"))
        kernel = with_axes("kernel", init, shape[::-1], axes=("embed", "vocab"))
        x = nn.Dropout(0.2, deterministic=not enable_dropout)(table[tokens])
        return x @ kernel


class TinyModel(models.BaseModel):
    """A model that compiles quickly."""

    module = TinyNetwork()
    FEATURE_CONVERTER_CLS = dict

    def __init__(self) -> None:
        super().__init__(optimizers.adamw(learning_rate=0.1))

    def logits(self, params: Any, batch: Any, rng: Any = None) -> jax.Array:
        return self.module.apply(
            {"params": params},
            batch["encoder_input_tokens"].astype(jnp.int32),
            enable_dropout=rng is not None,
            rngs={} if rng is None else {"dropout": rng},
        )

    def loss_fn(self, params: Any, batch: Any, dropout_rng: Any) -> Any:
        targets = batch["decoder_target_tokens"]
        weights = batch["decoder_loss_weights"]
        logits = self.logits(params, batch, dropout_rng)
        loss, _, _ = losses.compute_weighted_cross_entropy(logits, targets, weights)
        return loss, models.compute_base_metrics(logits, targets, weights, loss, 0.0)

    def predict_batch_with_aux(self, params: Any, batch: Any, rng: Any = None) -> Any:
        logits = self.logits(params, batch)
        return jnp.argmax(logits, -1), {"scores": jnp.max(logits, (1, 2))}

    def score_batch(
        self, params: Any, batch: Any, return_intermediates: bool = False
    ) -> Any:
        logits = self.logits(params, batch)
        return jnp.sum(jax.nn.log_softmax(logits)[..., 0], axis=-1)

    def get_initial_variables(
        self, rng: Any, input_shapes: Any, input_types: Any = None
    ) -> Any:
        shape = input_shapes["encoder_input_tokens"]
        return self.module.init(rng, jnp.ones(shape, jnp.int32), enable_dropout=False)


def same_params(a: Any, b: Any) -> None:
    """Asserts that two train states hold the same bits."""
    assert int(a.step) == int(b.step)
    for name in ("params", "param_states"):
        left, right = (getattr(state, name) for state in (a, b))
        assert len(jax.tree.leaves(left)) > 1
        jax.tree.map(np.testing.assert_array_equal, left, right)


_drawn = threading.Event()


def _kill_in_save(step: str) -> None:
    """Sends SIGKILL while the checkpoint of a step is written and a batch is drawn."""
    write = digests.write

    def write_or_die(root: Any, *args: Any) -> None:
        if root.name.startswith(f"checkpoint_{step}."):
            _drawn.wait(60)
            os.kill(os.getpid(), signal.SIGKILL)
        write(root, *args)

    digests.write = write_or_die


if "TOY_KILL_IN_SAVE" in os.environ:
    _kill_in_save(os.environ["TOY_KILL_IN_SAVE"].split()[0])


def get_dataset(
    cfg: Any, shard_id: int, num_shards: int, feature_converter_cls: Any, **_: Any
) -> "Numbers":
    """A `get_dataset_fn`: the rows of one shard of a global batch."""

    def hang(number: int) -> None:
        if number == int(os.environ.get("TOY_KILL_IN_SAVE", "0 -1").split()[1]):
            _drawn.set()
        if number == int(os.environ.get("TOY_HANG_AT", "-1")):
            time.sleep(600)

    return Numbers(cfg.batch_size, cfg.seed, hang, shard=(shard_id, num_shards))


def vocabulary() -> types.SimpleNamespace:
    """Returns the part of a vocabulary that a model uses."""
    return types.SimpleNamespace(eos_id=1, vocab_size=32)


def get_eval_datasets(
    cfg: Any,
    shard_id: int,
    num_shards: int,
    eval_steps: int,
    feature_converter_cls: Any,
) -> Mapping[str, Any]:
    """A `train_eval_get_dataset_fn`."""
    batches = get_dataset(cfg, shard_id, num_shards, feature_converter_cls)
    return {"numbers": Repeated([next(batches) for _ in range(eval_steps)], batches)}


class Repeated(list):
    """A list of batches that knows their shapes."""

    def __init__(self, batches: list, source: "Numbers"):
        super().__init__(batches)
        self.element_spec = source.element_spec
