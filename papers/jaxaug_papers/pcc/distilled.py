"""Distills M and G of equation 3 of PCC from the labels that its authors released.

    python -m jaxaug_papers.pcc.distilled --text_dir data --out distilled.jsonl

A small network reads u, v, |u - v|, and u * v, where u and v are the pooled encodings
of a sentence and its paraphrase. One output predicts BLEURT (G), another one mutual
implication (M). A fifth of the source sentences of HuffPost is held out; each seed has
its own split and start. In the released files, a paraphrase without implication has a
BLEURT of at least 0.5. A second head therefore sees mismatched pairs, too: a sentence
with a paraphrase of another one, which counts as not implied. The program appends a
JSON line of scores for each seed, head, and data set.
"""

import argparse
import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Shaped
from scipy import stats

from jaxaug.curriculum import levels
from jaxaug.curriculum.difficulty import BETA, difficulty, kept
from jaxaug_papers.shared import encoders

FILES = "pcc/aug_huff_train_s*.txt"
RELEASED = "pcc/persona_paraphrases.jsonl"
HELD_OUT = 0.2
EPOCHS, BATCH = 4, 256
OPTIMIZER = optax.adam(1e-3)


class Head(nn.Module):
    """Predicts BLEURT and the logit of mutual implication from two encodings."""

    @nn.compact
    def __call__(
        self, u: Float[Array, "... width"], v: Float[Array, "... width"]
    ) -> Float[Array, "... 2"]:
        x = jnp.concatenate([u, v, jnp.abs(u - v), u * v], axis=-1)
        return nn.Dense(2)(nn.relu(nn.Dense(64)(x)))


class Pairs:
    """Sentences with their paraphrases, as rows of a table of encodings."""

    def __init__(
        self, found: Mapping[str, Sequence[levels.Scored]], rows: Mapping[str, int]
    ):
        """Flattens text -> paraphrases; `rows` has the row of each text."""
        items = [(text, item) for text, own in found.items() for item in own]
        self.source = np.array([rows[text] for text, _ in items])
        self.new = np.array([rows[item.text] for _, item in items])
        self.bleurt = np.array([item.similarity for _, item in items])
        self.implied = np.array([bool(item.implied) for _, item in items])


HEAD = Head()
apply = jax.jit(HEAD.apply)


@functools.cache
def _updater(mismatched: bool) -> Any:
    def loss(params: Any, vectors: Array, batch: Any) -> Array:
        source, new, other, bleurt, implied = batch
        out = jnp.asarray(HEAD.apply(params, vectors[source], vectors[new]))
        total = (out[:, 0] - bleurt) ** 2
        total += optax.sigmoid_binary_cross_entropy(out[:, 1], implied)
        if mismatched:
            apart = jnp.asarray(HEAD.apply(params, vectors[source], vectors[other]))
            none = jnp.zeros_like(implied)
            total += optax.sigmoid_binary_cross_entropy(apart[:, 1], none)
        return jnp.mean(total)

    @jax.jit
    def update(params: Any, state: Any, vectors: Array, batch: Any) -> Any:
        gradients = jax.grad(loss)(params, vectors, batch)
        updates, state = OPTIMIZER.update(gradients, state)
        return optax.apply_updates(params, updates), state

    return update


def trained(
    vectors: Float[Array, "texts width"],
    pairs: Pairs,
    chosen: Shaped[np.ndarray, " pairs"],
    mismatched: bool,
    seed: int,
) -> Any:
    """Returns the parameters of a head, fitted to some pairs with Adam."""
    rng, update = np.random.default_rng(seed), _updater(mismatched)
    params = HEAD.init(jax.random.key(seed), vectors[:1], vectors[:1])
    state = OPTIMIZER.init(params)
    for _ in range(EPOCHS):
        order = rng.permutation(chosen)
        for place in range(0, len(order) - BATCH + 1, BATCH):
            own = order[place : place + BATCH]
            other = pairs.new[rng.permutation(own)]
            texts = pairs.source[own], pairs.new[own], other
            batch = (*texts, pairs.bleurt[own], pairs.implied[own].astype(np.float32))
            params, state = update(params, state, vectors, batch)
    return params


def area(right: Bool[np.ndarray, " n"], scores: Float[np.ndarray, " n"]) -> float:
    """Returns the area under the ROC curve."""
    positive = int(right.sum())
    ranks = stats.rankdata(scores)[right].sum() - positive * (positive + 1) / 2
    return float(ranks / (positive * (len(right) - positive)))


def same_level(
    source: Shaped[np.ndarray, " n"],
    bleurt: Float[np.ndarray, " n"],
    scores: Float[np.ndarray, " n"],
) -> float:
    """Returns the share of paraphrases with equal levels by BLEURT and by `scores`."""
    same = []
    for one in np.unique(source):
        own = source == one
        same += [*(difficulty(bleurt[own]) == difficulty(scores[own]))]
    return float(np.mean(same))


def scored(
    vectors: Float[Array, "texts width"],
    pairs: Pairs,
    tested: Shaped[np.ndarray, " tests"],
    params: Any,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Returns the scores of a head, and of the cosine, on held-out pairs."""
    source, new = pairs.source[tested], pairs.new[tested]
    bleurt, implied = pairs.bleurt[tested], pairs.implied[tested]
    out = np.asarray(apply(params, vectors[source], vectors[new]))
    apart = np.asarray(apply(params, vectors[source], vectors[rng.permutation(new)]))
    cosine = np.asarray(jnp.sum(vectors[source] * vectors[new], axis=1))
    similar = bleurt >= BETA
    found = {
        "G: correlation with BLEURT": np.corrcoef(out[:, 0], bleurt)[0, 1],
        "cosine: correlation with BLEURT": np.corrcoef(cosine, bleurt)[0, 1],
        "G: equal levels": same_level(source, bleurt, out[:, 0]),
        "cosine: equal levels": same_level(source, bleurt, cosine),
    }
    if 0 < implied.mean() < 1:  # Traits have no labels.
        both = out[similar, 1], implied[similar]
        found |= {
            "M: accuracy": np.mean((out[:, 1] > 0) == implied),
            "share of implied pairs": np.mean(implied),
            "M: AUC, BLEURT at least 0.5": area(both[1], both[0]),
            "cosine: AUC, BLEURT at least 0.5": area(both[1], cosine[similar]),
            "BLEURT: AUC, BLEURT at least 0.5": area(both[1], bleurt[similar]),
        }
    return {name: float(value) for name, value in found.items()} | {
        "equation 3 keeps": float(kept(out[:, 1] > 0, out[:, 0], BETA).mean()),
        "equation 3 keeps, mismatched pairs": float(
            kept(apart[:, 1] > 0, apart[:, 0], BETA).mean()
        ),
    }


def huffpost(text_dir: Path, files: str) -> dict[str, list[levels.Scored]]:
    """Returns sentence -> released paraphrases, of all files of a pattern."""
    found: dict[str, list[levels.Scored]] = {}
    for path in sorted(text_dir.glob(files)):
        for text, items in levels.scored_huffpost(path).items():
            found.setdefault(text, []).extend(items)
    return found


def main() -> None:
    """Appends the scores of each seed to a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text_dir", type=Path, required=True, help="holds pcc/")
    parser.add_argument("--files", default=FILES)
    parser.add_argument("--traits", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    huff = huffpost(options.text_dir, options.files)
    persona = dict([*levels.scored_persona(options.text_dir / RELEASED).items()][
        : options.traits
    ])  # fmt: skip
    texts = {
        text: None
        for found in (huff, persona)
        for source, items in found.items()
        for text in (source, *(item.text for item in items))
    }
    rows = {text: row for row, text in enumerate(texts)}
    vectors = jnp.asarray(encoders.find("minilm")([*rows]))
    pairs, traits = Pairs(huff, rows), Pairs(persona, rows)
    for seed in range(options.seeds):
        rng = np.random.default_rng(seed)
        sources = rng.permutation(np.unique(pairs.source))
        held_out = np.isin(pairs.source, sources[: int(HELD_OUT * len(sources))])
        for mismatched in (False, True):
            fitted = np.flatnonzero(~held_out)
            params = trained(vectors, pairs, fitted, mismatched, seed)
            for name, own, tested in (
                ("HuffPost", pairs, np.flatnonzero(held_out)),
                ("Persona-Chat", traits, np.arange(len(traits.new))),
            ):
                line = {
                    "data": name,
                    "mismatched": mismatched,
                    "seed": seed,
                    "pairs": len(tested),
                    **scored(vectors, own, tested, params, rng),
                }
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
                print(line, flush=True)


if __name__ == "__main__":
    main()
