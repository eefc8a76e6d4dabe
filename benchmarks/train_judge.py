"""Trains the judge of rewordings, fits its regression, and prints its quality.

    python benchmarks/train_judge.py --out runs/judge
    python benchmarks/train_judge.py --fit [--labelled judged.tsv]

The first command trains the network: MiniLM with a LoRA adapter, which reads a text and
its rewording. The first stage is the corpus of rewordings with damaged texts. The
second one adds labeled outputs of generators. An interrupted run resumes. The result is
`jaxaug/models/named/rewording-judge/adapter.safetensors`.

The second command fits the regression to labels that the network has not seen, and
prints the tables of docs/judge.md; `--out` does it too. Each domain is judged without
its own labels. `--labelled` adds a file without header: label, kind, original, and
candidate, separated by tabs.
"""

import argparse
import json
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import judge_examples as data
import ml_dtypes
import numpy as np
from judge_examples import Example

from jaxaug.augment.judge import likelihood, network, verdicts
from jaxaug.core.files import write_text
from jaxaug.models.named import catalogue

NAMES = verdicts.NAMES[likelihood.MODEL]
ADAPTER = Path(str(catalogue.__file__)).parent / network.NAME / network.FILE
RANK, ALPHA = 16, 32.0
RATE = 1e-3
TOKENS = 1536  # of a batch, padding included
SAVED = 50  # steps between checkpoints
# Training pairs of the second stage: of the corpus, and of damaged texts.
CORPUS, DAMAGE = 7000, 6000
TEST = 2500  # pairs of the corpus' test services
RIDGE = 0.005  # weight of the squared weights, for columns of variance 1
FOLDS = 10
DROPPED = 0.9  # share of the bad pairs at which the table gives the share of kept ones


class Trainer:
    """The network in JAX, with the parameters to train."""

    def __init__(self) -> None:
        import jax

        from jaxaug.models.lora import layout
        from jaxaug.models.lora.layout import AdaptedNetwork
        from jaxaug.models.lora.settings import ALL_LINEAR, Settings
        from jaxaug.models.scorers import encoder

        self.encoder = encoder.load(network.BASE, network.LENGTH)
        family = layout.family_of(self.encoder.module)
        settings = Settings(rank=RANK, alpha=ALPHA, targets=ALL_LINEAR)
        self.layout = layout.layout_of(
            family, self.encoder.config, self.encoder.params, settings
        )
        self.base = jax.device_put(self.encoder.params)
        self.module = AdaptedNetwork(self.encoder.module, self.layout)
        self.params: dict[str, Any] = {
            "adapter": self.layout.initial(jax.random.key(0)),
            "head": {
                "kernel": np.zeros(2 * self.encoder.config.emb_dim, np.float32),
                "bias": np.zeros((), np.float32),
            },
        }

    def loss(self, params: Any, base: Any, batch: Any) -> Any:
        """Returns the mean cross-entropy of a batch of `batches`."""
        import jax.numpy as jnp
        import optax

        from jaxaug.models import bert
        from jaxaug.models.lora.layout import joined

        tokens, segments, mask, label, weight = batch
        joint = {"params": joined(base, params["adapter"])}
        hidden = self.module.apply(joint, tokens, segments, mask)
        pooled = jnp.concatenate(
            [bert.mean_pool(hidden, mask), bert.cls_pool(hidden)], axis=-1
        )
        logits = pooled @ params["head"]["kernel"] + params["head"]["bias"]
        each = optax.sigmoid_binary_cross_entropy(logits, label)
        return jnp.sum(each * weight) / jnp.sum(weight)

    def batches(self, examples: Sequence[Example], seed: int) -> list[Any]:
        """Returns shuffled batches of pairs of similar length.

        A batch is tokens, segments, and mask, [rows, length], and label and weight,
        [rows]; padding rows have no weight.
        """
        encoded = self.encoder.encode(
            [(f"{e.pair.kind}: {e.pair.original}", e.pair.candidate) for e in examples]
        )
        rng = random.Random(seed)
        order = list(range(len(examples)))
        rng.shuffle(order)
        buckets: dict[int, list[int]] = {}
        groups = []
        for place in order:
            count = len(encoded[place].tokens)
            width = 16 if count <= 64 else 32
            length = -(-count // width) * width
            own = buckets.setdefault(length, [])
            own.append(place)
            if len(own) == TOKENS // length:
                groups.append((length, buckets.pop(length)))
        groups += buckets.items()
        made = []
        for length, places in groups:
            shape = (TOKENS // length, length)
            tokens, segments = np.zeros((2, *shape), np.int32)
            mask = np.zeros(shape, np.bool_)
            mask[:, 0] = True  # A row without any token would give NaN.
            label, weight = np.zeros((2, shape[0]), np.float32)
            for row, place in enumerate(places):
                count = len(encoded[place].tokens)
                tokens[row, :count] = encoded[place].tokens
                segments[row, :count] = encoded[place].segments
                mask[row, :count] = True
                label[row], weight[row] = examples[place].good, 1
            made.append((tokens, segments, mask, label, weight))
        rng.shuffle(made)
        return made

    def train(self, made: Sequence[Any], out: Path, name: str) -> None:
        """Trains on the batches once; resumes from `out`."""
        import jax
        import optax
        from flax import serialization

        def write(path: Path, tree: Any) -> None:
            temporary = path.with_suffix(".new")
            temporary.write_bytes(serialization.to_bytes(jax.device_get(tree)))
            temporary.replace(path)

        @jax.jit
        def step(params: Any, state: Any, base: Any, batch: Any) -> Any:
            loss, slope = jax.value_and_grad(self.loss)(params, base, batch)
            updates, state = optimizer.update(slope, state, params)
            return optax.apply_updates(params, updates), state, loss

        done, partial = out / f"{name}.msgpack", out / f"{name}.partial"
        if done.exists():
            self.params = serialization.from_bytes(self.params, done.read_bytes())
            return
        count = len(made)
        rate = optax.warmup_cosine_decay_schedule(
            0.0, RATE, max(1, count // 20), count, RATE / 20
        )
        optimizer = optax.chain(
            optax.clip_by_global_norm(1.0), optax.adamw(rate, weight_decay=0.01)
        )
        params, first = self.params, 0
        state = optimizer.init(params)
        if partial.exists():
            first, params, state = serialization.from_bytes(
                (0, params, state), partial.read_bytes()
            )
        began, losses = time.time(), []
        for number in range(first, count):
            params, state, loss = step(params, state, self.base, made[number])
            losses.append(float(loss))
            if (number + 1) % SAVED == 0:
                write(partial, (number + 1, params, state))
                seconds = (time.time() - began) / (number + 1 - first)
                print(
                    f"{name}: step {number + 1}/{count}, loss "
                    f"{np.mean(losses[-SAVED:]):.3f}, {seconds:.2f} s a step",
                    flush=True,
                )
        write(done, params)
        self.params = jax.device_get(params)

    def export(self, path: Path) -> None:
        """Writes the adapter in bfloat16, scaled, and the head."""
        from flax import traverse_util

        from jaxaug.models.weights import safetensors_io

        flat = traverse_util.flatten_dict(self.params["adapter"])
        tensors = {}
        for place in self.layout.places:
            a, b = (
                np.asarray(flat[(*place.path, part)], np.float32).T
                for part in ("lora_a", "lora_b")
            )
            scaled = b * np.float32(self.layout.settings.scale)
            for suffix, part in (("lora_A", a), ("lora_B", scaled)):
                narrow = np.ascontiguousarray(part).astype(ml_dtypes.bfloat16)
                tensors[f"{place.name}.{suffix}"] = narrow
        head = self.params["head"]
        tensors["head.weight"] = np.asarray(head["kernel"], np.float32)
        tensors["head.bias"] = np.asarray(head["bias"], np.float32)
        path.parent.mkdir(parents=True, exist_ok=True)
        safetensors_io.write(path, tensors, {})
        path.chmod(0o644)


def trained(out: Path) -> None:
    """Trains the network and writes its adapter."""
    out.mkdir(parents=True, exist_ok=True)
    trainer = Trainer()
    first = data.of_corpus("train", 0)
    trainer.train(trainer.batches(first, 0), out, "corpus")
    labels = [one for one in data.of_readings() if not data.is_held(one)]
    corpus, damage = data.of_corpus("train", 1), data.of_damage("train", 7)
    rng = random.Random(7)
    rng.shuffle(corpus)
    rng.shuffle(damage)
    mixed = [*labels, *labels, *corpus[:CORPUS], *damage[:DAMAGE]]
    trainer.train(trainer.batches(mixed, 3), out, "labels")
    trainer.export(ADAPTER)
    network.load.cache_clear()


def fit(
    columns: np.ndarray, good: np.ndarray, ridge: float = RIDGE
) -> verdicts.Regression:
    """Returns the logistic regression with a penalty on its squared weights."""
    mean, scale = columns.mean(0), columns.std(0)
    scale[scale < 1e-9] = np.inf
    inputs = np.c_[np.ones(len(columns)), (columns - mean) / scale]
    penalty = np.r_[0.0, np.full(columns.shape[1], ridge)]
    found = np.zeros(len(penalty))
    for _ in range(20):  # Newton's method.
        odds = 1 / (1 + np.exp(-inputs @ found))
        slope = inputs.T @ (odds - good) / len(good) + 2 * penalty * found
        curvature = (inputs.T * (odds * (1 - odds))) @ inputs / len(good)
        found -= np.linalg.solve(curvature + np.diag(2 * penalty + 1e-9), slope)
    weights = found[1:] / scale
    return verdicts.Regression(
        round(float(found[0] - mean @ weights), 4), np.round(weights, 4)
    )


def held_out(columns: np.ndarray, examples: Sequence[Example]) -> np.ndarray:
    """Returns probabilities; each domain is judged without its own labels."""
    good = np.array([one.good for one in examples])
    own = np.array([data.fold(one.group, FOLDS) for one in examples])
    found = np.zeros(len(examples))
    for number in range(FOLDS):
        rest = own != number
        judge = fit(columns[rest], good[rest])
        found[~rest] = judge.probabilities(columns[~rest])
    return found


def area(scores: np.ndarray, good: np.ndarray) -> float:
    """Returns the area under the ROC curve; equal scores count half."""
    _, places, often = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(often) - (often - 1) / 2)[places]
    count = int(good.sum())
    above = ranks[good].sum() - count * (count + 1) / 2
    return float(above / (count * (len(good) - count)))


def kept(scores: np.ndarray, good: np.ndarray) -> float:
    """Returns the share of good pairs above the threshold that drops `DROPPED`."""
    return float((scores[good] > np.quantile(scores[~good], DROPPED)).mean())


def row(name: str, scores: np.ndarray, good: np.ndarray) -> str:
    """Returns a row of the table."""
    cells = [f"{len(good):,}", f"{np.mean(~good):.0%}"]
    chosen = scores >= verdicts.LEAST
    if min(good.sum(), (~good).sum()) >= 5:
        cells += [f"{area(scores, good):.3f}", f"{kept(scores, good):.0%}"]
        cells += [f"{chosen[good].mean():.0%}", f"{(~chosen)[~good].mean():.0%}"]
    else:
        cells += ["-"] * 4
    return f"| {name} | {' | '.join(cells)} |"


def table(scores: np.ndarray, examples: Sequence[Example]) -> Iterator[str]:
    """Yields the rows of labeled outputs: all, and by source and generator."""
    good = np.array([one.good for one in examples])
    yield row("all", scores, good)
    columns = {"": [one.source for one in examples]}
    packs = [one.how if one.source == data.PACKS else "" for one in examples]
    columns["results/judge: "] = packs
    kinds = [one.pair.kind if one.source == data.PACKS else "" for one in examples]
    columns["results/judge, kind "] = kinds
    for before, values in columns.items():
        for name in sorted({*values} - {""}):
            own = np.array(values) == name
            yield row(f"{before}{name}", scores[own], good[own])


def ablation(columns: np.ndarray, examples: Sequence[Example]) -> Iterator[str]:
    """Yields the areas with all columns, and without each one."""
    good = np.array([one.good for one in examples])
    packs = np.array([one.source == data.PACKS for one in examples])
    choices = [("all", [*NAMES])]
    choices += [
        (f"without {name}", [other for other in NAMES if other != name])
        for name in NAMES
    ]
    choices += [(f"only {name}", [name]) for name in ("network", "unlike")]
    choices.append(("without forward and back", [*verdicts.NAMES[network.BASE]]))
    choices.append(("only the words", [*verdicts.NAMES[""]]))
    for name, names in choices:
        chosen = [NAMES.index(one) for one in names]
        scores = held_out(columns[:, chosen], examples)
        areas = [area(scores[own], good[own]) for own in (packs, ~packs)]
        yield f"| {name} | {areas[0]:.3f} | {areas[1]:.3f} |"


def fitted(labelled: Path | None) -> None:
    """Fits the regression, writes it, and prints the tables."""
    examples = [one for one in data.of_readings() if data.is_held(one)]
    columns = _columns(examples)
    good = np.array([one.good for one in examples])
    numbers = {}
    for model, names in verdicts.NAMES.items():
        judge = fit(columns[:, : len(names)], good)
        weights = dict(zip(names, judge.weights.tolist(), strict=True))
        numbers[model or "words"] = {"bias": judge.bias, "weights": weights}
    write_text(verdicts.COEFFICIENTS, json.dumps(numbers, indent=2) + "\n")
    head = "| pairs | number | bad | area under ROC | good kept at 90% of bad dropped "
    head += f"| good kept at {verdicts.LEAST} | bad dropped at {verdicts.LEAST} |"
    print(head, "|---|---|---|---|---|---|---|", sep="\n")
    print(*table(held_out(columns, examples), examples), sep="\n")
    test = random.Random(0).sample(data.of_corpus("test", 0), TEST)
    found = _columns(test)
    scores = judge.probabilities(found)
    labels = np.array([one.good for one in test])
    for how in (data.NEAR, data.OTHER, data.DAMAGED):
        own = np.array([one.good or one.how == how for one in test])
        print(row(f"corpus, test services: {how}", scores[own], labels[own]))
        odds = found[own, NAMES.index("network")]
        print(row(f"the same, the network alone: {how}", odds, labels[own]))
    if labelled:
        # The regression was not fitted to these pairs; the network has seen texts of
        # the same domains.
        others = data.of_judged(labelled)
        scores = judge.probabilities(_columns(others))
        print(row(labelled.name, scores, np.array([one.good for one in others])))
    print(
        "| columns | area, results/judge | area, other readings |",
        "|---|---|---|",
        sep="\n",
    )
    print(*ablation(columns, examples), sep="\n", flush=True)


def _columns(examples: Sequence[Example]) -> np.ndarray:
    return verdicts.columns([one.pair for one in examples], likelihood.MODEL)


def main() -> None:
    """Trains or fits, as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="folder of checkpoints")
    parser.add_argument("--fit", action="store_true", help="only fit and measure")
    parser.add_argument("--labelled", type=Path)
    arguments = parser.parse_args()
    if not arguments.fit:
        if not arguments.out:
            parser.error("give --out, or --fit")
        trained(arguments.out)
    fitted(arguments.labelled)


if __name__ == "__main__":
    main()
