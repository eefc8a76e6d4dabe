"""Trains and evaluates one item of the queue, a tracker on SGD.

It needs JAX and Flax, but neither TensorFlow nor SeqIO. Items with the same shape
(steps, rows, length) share one compiled training step. All items share the decoding
programs.
"""

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxaug_base.files import replacing
from t5x import models, optimizers, partitioning, trainer, utils

from jaxaug.core import digests
from jaxaug.core.errors import UserError
from jaxaug.curriculum import schedule
from jaxaug.data.schema import Schema
from jaxaug.feed import cache, recipes, tokens, vocabulary
from jaxaug.feed.batches import TokenBatches, layout_of
from jaxaug.feed.order import Stage
from jaxaug.feed.tokens import Examples, TokenCache
from jaxaug.formats.answers import FrameAnswer, postprocessor
from jaxaug.look.robustness import RobustnessWriter
from jaxaug.models import llama
from jaxaug.models.named import catalogue
from jaxaug.models.text import continuing, language
from jaxaug.track.tracker import Tracker

ORDERS = ("mixture", "cyclic", "gradual", "random")
LEARNING_RATE, WARMUP_SHARE = 5e-4, 0.1
ROUND = 20  # Steps between two looks at the clock.


@dataclasses.dataclass(frozen=True)
class Item:
    """A line of the queue.

    Attributes:
        set: task or mixture of `recipes.table()`, such as "d3st_tree_6x".
        order: order of the variants of a mixture, one of `ORDERS`.
    """

    set: str
    steps: int
    seed: int
    order: str = "mixture"

    @classmethod
    def of(cls, values: Mapping[str, Any], place: str) -> "Item":
        """Checks the fields of a JSON object.

        Raises:
            UserError: a field is missing, is unknown, or has the wrong type.
        """
        kinds = {"set": str, "steps": int, "seed": int, "order": str}
        values = {"order": "mixture", **values}
        if set(values) != set(kinds) or any(
            type(values[name]) is not kind for name, kind in kinds.items()
        ):
            raise UserError(
                f"{place}: an item is {dict(values)}. Give set (text), steps and seed "
                "(whole numbers) and, if wanted, order (text)."
            )
        if values["order"] not in ORDERS or values["steps"] < 1 or values["seed"] < 0:
            raise UserError(
                f"{place}: an item is {dict(values)}. The order is one of "
                f"{', '.join(ORDERS)}, steps are at least 1 and a seed is at least 0."
            )
        return cls(**values)

    @property
    def family(self) -> str:
        """The format of the examples."""
        return self.set.partition("_")[0]

    def name(self, table: recipes.Table) -> str:
        """Returns the name of the item's folder, with the digest of its variants."""
        digest = self.variants(table)
        version = f"-{digest[:8]}" if digest else ""
        order = "" if self.order == "mixture" else f"-{self.order}"
        return f"{self.set}{version}{order}-{self.steps}steps-seed{self.seed}"

    def variants(self, table: recipes.Table) -> str:
        """Returns the digest of the set's generated train schemas, or ""."""
        found = []
        for task in table.tasks_of(self.set):
            corpus = table.recipes[task]["train"].corpus
            if corpus.variant and "sgdx" not in task and corpus.variants_dir:
                folder = Path(corpus.variants_dir, corpus.variant, "train")
                found.append(digests.file_digest(folder / "schema.json"))
        return digests.digest_of(found) if found else ""

    def stages(self, levels: int) -> list[Stage]:
        """Returns the rates of the tasks of the set by step, the originals first."""
        if self.order == "mixture" or levels == 1:
            return [Stage(self.steps, (1.0,) * levels)]
        visits = {"cyclic": 2 * levels, "gradual": levels, "random": levels}
        each = max(1, self.steps // visits[self.order])
        found = getattr(schedule, self.order)(each, levels - 1)
        return [*map(Stage, found.ends, found.weights)]


@dataclasses.dataclass(frozen=True)
class Settings:
    """Sizes of training and evaluation.

    Attributes:
        model: "smollm2", or "tiny" for tests.
        inputs, targets: maximum tokens of an input and of an answer, including EOS; a
            packed row has their sum.
    """

    model: str = "smollm2"
    rows: int = 64
    microbatches: int = 4
    eval_rows: int = 256
    inputs: int = 928
    targets: int = 96


class Words:
    """A vocabulary with `encode_batch`, for several tokenizer libraries."""

    def __init__(self, words: Any, file: str):
        self.words, self.file = words, file

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """Returns the ids of several texts, without EOS."""
        if isinstance(self.words, vocabulary.TokenVocabulary):
            return self.words.processor.encode(texts)
        return self.words.encode_batch(texts)


def load_model(name: str) -> tuple[continuing.PrefixModel, Words]:
    """Returns the untrained "smollm2" or "tiny" model and its vocabulary."""
    if name == "smollm2":
        folder = catalogue.CATALOGUE[name].folder
        found = language.load(folder, name)
        (file,) = sorted(folder.glob("*.gguf"))
        config = dataclasses.replace(found.module.config, dtype=jnp.bfloat16)
        module, params, words = found.module, found.params, found.vocabulary
        module = module.clone(config=config)
        return continuing.PrefixModel(name, module, params, words, False), Words(
            words, str(file)
        )
    pieces = vocabulary.TokenVocabulary(vocabulary.shipped("mini"))
    config = llama.Config(
        vocab_size=pieces.vocab_size, emb_dim=32, num_layers=1, num_heads=2,
        num_kv_heads=1, head_dim=16, mlp_dim=64, tie_embeddings=True,
    )  # fmt: skip
    module = llama.DecoderWrapper(config)
    ones = jnp.ones((1, 8), jnp.int32)
    start = jax.random.PRNGKey(0)
    params = module.init(start, ones, ones, enable_dropout=False)["params"]
    return continuing.PrefixModel(name, module, params, pieces, False), Words(
        pieces, pieces.path
    )


class Learner:
    """Trains and evaluates items in sequence, with shared compiled programs."""

    def __init__(self, settings: Settings, table: recipes.Table):
        self.settings, self.table = settings, table
        self.model, self._words = load_model(settings.model)
        self._trainers: dict[int, trainer.Trainer] = {}
        self._shapes: Any = None
        self._compiled: set[int] = set()
        self._building = threading.Lock()
        self._trackers: dict[str, Tracker] = {}

    # Data.

    def train_sets(self, item: Item) -> list[Examples]:
        """Returns the tokenized train sets of an item; later calls use caches."""
        end = self.model.input_vocabulary.eos_id
        return [
            Examples(
                task,
                self._tokens(self.table.recipes[task]["train"]),
                {"inputs": end, "targets": end},
            )
            for task in self.table.tasks_of(item.set)
        ]

    def _tokens(self, recipe: cache.Recipe) -> TokenCache:
        encode = self._words.encode_batch
        with self._building:  # A thread that prepares the next items also builds.
            return tokens.build(cache.build(recipe), self._words.file, encode=encode)

    @property
    def _lengths(self) -> dict[str, int]:
        return {"inputs": self.settings.inputs, "targets": self.settings.targets}

    def cut(self, tasks: Sequence[Examples]) -> float:
        """Returns the larger share of truncated examples, of inputs or of targets."""
        found = [task.whole_lengths() for task in tasks]
        return max(
            float(np.mean(np.concatenate([each[name] for each in found]) > most))
            for name, most in self._lengths.items()
        )

    def batches(self, item: Item, tasks: Sequence[Examples]) -> TokenBatches:
        """Returns the training data of an item; refuses truncation of more than 1%.

        Raises:
            UserError: more than 1% of the inputs or targets would be truncated.
        """
        if (cut := self.cut(tasks)) > 0.01:
            raise UserError(
                f"{item.set}: {100 * cut:.1f}% of the examples exceed --inputs "
                f"{self.settings.inputs} or --targets {self.settings.targets}. At most "
                "1% may. Give larger lengths."
            )
        return TokenBatches(
            tasks,
            self._lengths,
            self.settings.rows,
            stages=item.stages(len(tasks)),
            seed=item.seed,
            pack=True,
            layout="prefix_lm",
        )

    # Training.

    def _trainer(self, steps: int) -> trainer.Trainer:
        """Returns the trainer of items with `steps` steps, without a train state."""
        if steps in self._trainers:
            return self._trainers[steps]
        rate = optax.warmup_cosine_decay_schedule(
            0.0, LEARNING_RATE, max(1, int(steps * WARMUP_SHARE)), steps, 0.0
        )
        model = models.DecoderOnlyModel(
            self.model.module,
            self.model.input_vocabulary,
            optimizers.adamw(rate, b2=0.95, weight_decay=0.01),
        )
        partitioner = partitioning.PjitPartitioner(num_partitions=1)
        shape = self.settings.rows, sum(self._lengths.values())
        init_fn: Any = model.get_initial_variables
        initializer = utils.TrainStateInitializer(
            optimizer_def=model.optimizer_def,
            init_fn=init_fn,
            input_shapes={"decoder_input_tokens": shape},
            partitioner=partitioner,
        )
        self._shapes = initializer.global_train_state_shape
        parts = self.settings.microbatches
        self._trainers[steps] = trainer.Trainer(
            model=model,
            train_state=self._first_state(),
            partitioner=partitioner,
            eval_names=[],
            summary_dir=None,
            train_state_axes=initializer.train_state_axes,
            rng=jax.random.PRNGKey(0),  # There is no dropout.
            learning_rate_fn=rate,
            num_microbatches=parts if parts > 1 else None,
        )
        return self._trainers[steps]

    def _first_state(self) -> Any:
        """Returns published weights with a new optimizer state, without compilation."""
        values = jax.tree.map(
            lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), self._shapes.state_dict()
        )
        weights = jax.tree.map(jnp.array, dict(self.model.params))  # A step donates.
        return self._shapes.restore_state({**values, "target": weights})

    def _state_of(self, checkpoint: Path | None) -> Any:
        """Returns the stored state of an item, or the initial state."""
        if checkpoint is None or not checkpoint.exists():
            return self._first_state()
        stored = flax.serialization.msgpack_restore(checkpoint.read_bytes())
        return self._shapes.restore_state(jax.tree.map(jnp.array, stored))

    def compile(self, steps: int) -> float:
        """Compiles the training step for a number of steps; returns the seconds."""
        started = time.perf_counter()
        rows: list[Any] = [[]] * self.settings.rows
        batch = layout_of("prefix_lm").fill(rows, self._lengths, True)
        if steps not in self._compiled:
            self._trainer(steps).compile_train(
                {name: jnp.array(value) for name, value in batch.items()}
            )
            self._compiled.add(steps)
        return time.perf_counter() - started

    def train(
        self, item: Item, checkpoint: Path | None, stop: Callable[[int, float], bool]
    ) -> dict[str, Any] | None:
        """Trains an item, from its checkpoint if there is one.

        Args:
            checkpoint: file of the state, written if training stops early; None drops
                an unfinished item.
            stop: function (step, mean seconds per step) -> whether to stop.
        """
        compiling = self.compile(item.steps)
        work, tasks = self._trainer(item.steps), self.train_sets(item)
        data = self.batches(item, tasks)
        work.train_state = None  # Frees the state of the last item first.
        work.train_state = self._state_of(checkpoint)
        step = first = int(work.train_state.step)
        if step and checkpoint is not None:
            data.restore(f"{checkpoint}.{step}")
        losses: dict[int, Any] = {}
        started = time.perf_counter()
        while step < item.steps:
            spent = time.perf_counter() - started
            if stop(step, spent / (step - first) if step > first else 0.0):
                if checkpoint is not None:
                    data.save(f"{checkpoint}.{step}")
                    _write_state(checkpoint, work.train_state)
                return None
            count = min(ROUND, item.steps - step)
            losses[step + count] = work.train(data, count, step)
            step += count
        jax.block_until_ready(work.train_state.params)
        seconds = time.perf_counter() - started
        if checkpoint is not None:
            for path in checkpoint.parent.glob(f"{checkpoint.name}*"):
                path.unlink()
        return {
            "compile_seconds": round(compiling, 1),
            "train_seconds": round(seconds, 1),
            "positions_per_second": round(
                (step - first)
                * self.settings.rows
                * sum(self._lengths.values())
                / seconds
            ),
            "share_cut": self.cut(tasks),
            "loss": {n: round(_loss(found), 4) for n, found in losses.items()},
        }

    # Evaluation.

    def evaluate(self, item: Item, out: Path) -> tuple[float, dict[str, list[str]]]:
        """Writes the report on all wordings; returns seconds and the answers."""
        started = time.perf_counter()
        params = self._trainer(item.steps).train_state.params
        tracker = self._tracker(item.family).with_params(params)
        wordings = self.table.wordings(item.family, "test")
        found = {task: self.table.recipes[task]["test"] for task in wordings}
        inputs: list[list[int]] = []
        sizes = {}
        for task, recipe in found.items():
            ids = self._tokens(recipe)
            inputs += [self._input(ids, index) for index in range(len(ids))]
            sizes[task] = len(ids)
        decoded = tracker.write_tokens(inputs)
        texts = iter(map(self.model.output_vocabulary.decode, decoded))
        answers = {task: [next(texts) for _ in range(n)] for task, n in sizes.items()}
        writer = RobustnessWriter(str(out))
        for task, recipe in found.items():
            writer.add(task, item.steps, list(_answers(recipe, answers[task])))
        return time.perf_counter() - started, answers

    def _tracker(self, family: str) -> Tracker:
        if family not in self._trackers:
            rows = self.settings.eval_rows
            self._trackers[family] = Tracker(
                self.model, family, self._lengths, Schema(()), rows
            )
        return self._trackers[family]

    def _input(self, ids: TokenCache, index: int) -> list[int]:
        kept = ids.get("inputs", index)[1 - self.settings.inputs :].tolist()
        return [*kept, self.model.input_vocabulary.eos_id]


def _answers(recipe: cache.Recipe, texts: Sequence[str]) -> Iterator[FrameAnswer]:
    read = postprocessor(recipe.options.parse)
    for text, example in zip(texts, cache.build(recipe).read(), strict=True):
        names = ("dialogue_id", "turn", "frame", "service", "key")
        fields = {name: getattr(example, name) for name in names}
        yield read(text, {"split": recipe.corpus.split, **fields})


def _loss(summary: Any) -> float:
    return float(summary.result()["loss_per_nonpadding_target_token"].value)


def _write_state(path: Path, state: Any) -> None:
    values = jax.device_get(flax.serialization.to_state_dict(state.state_dict()))
    with replacing(path) as temporary:
        temporary.write_bytes(flax.serialization.msgpack_serialize(values))
