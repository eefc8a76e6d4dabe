"""Shapes of benchmarks/train.py: sizes, operations of a step, batches."""

from typing import NamedTuple

import numpy as np


class Shape(NamedTuple):
    """Sizes of a network.

    Attributes:
        family: "t5" (encoder-decoder, T5 v1.1) or "llama" (decoder-only).
        vocab: size of the vocabulary.
        emb: width of the embedding.
        heads: number of query heads.
        head_dim: size of a head.
        mlp: width of the gated MLP.
        layers: number of layers of each stack.
        kv_heads: number of key and value heads.
        tied: whether the output layer shares the embedding.
    """

    family: str
    vocab: int
    emb: int
    heads: int
    head_dim: int
    mlp: int
    layers: int
    kv_heads: int
    tied: bool = False


SHAPES = {
    "tiny": Shape("t5", 8192, 256, 4, 64, 512, 4, 4),
    "small": Shape("t5", 32128, 512, 6, 64, 1024, 8, 6),
    "base": Shape("t5", 32128, 768, 12, 64, 2048, 12, 12),
    "smollm2": Shape("llama", 49152, 576, 9, 64, 1536, 30, 3, tied=True),
}


def step_flops(shape: Shape, rows: int, inputs: int, targets: int) -> float:
    """Returns the FLOPs of a training step: three times a forward pass.

    Matrix products only, a multiply-add counts as two. Padding counts, and so do the
    masked halves of causal attention and the logits of positions without a weight,
    which HF torch computes; ours leaves them out on a CPU.

    Args:
        shape: shape of the network.
        rows: batch size.
        inputs: length of the inputs.
        targets: length of the targets; decoder-only networks read both in one row.
    """
    wide = shape.heads * shape.head_dim
    narrow = shape.kv_heads * shape.head_dim
    mlp = 3 * shape.emb * shape.mlp
    projections = 2 * shape.emb * (wide + narrow)

    def stack(length: int, extra: int = 0) -> int:
        return length * (projections + mlp + extra + 2 * length * wide)

    if shape.family == "llama":
        length = inputs + targets
        layer, positions = stack(length), length
    else:
        # Cross-attention: queries and outputs for targets, keys and values for inputs.
        cross = 2 * shape.emb * wide + 2 * inputs * wide
        layer = stack(inputs) + stack(targets, cross) + inputs * 2 * shape.emb * wide
        positions = targets
    logits = positions * shape.emb * shape.vocab
    return 3.0 * 2.0 * rows * (shape.layers * layer + logits)


def random_batch(
    shape: Shape, rows: int, inputs: int, targets: int
) -> dict[str, np.ndarray]:
    """Returns a batch of T5X features with uniform random tokens, without padding."""
    rng = np.random.default_rng(0)
    if shape.family == "llama":
        tokens = rng.integers(2, shape.vocab, (rows, inputs + targets), dtype=np.int32)
        weights = np.zeros(tokens.shape, np.int32)
        weights[:, inputs:] = 1
        shifted = np.pad(tokens[:, :-1], ((0, 0), (1, 0)))
        return {
            "decoder_input_tokens": shifted,
            "decoder_target_tokens": tokens,
            "decoder_loss_weights": weights,
        }
    source = rng.integers(2, shape.vocab, (rows, inputs), dtype=np.int32)
    target = rng.integers(2, shape.vocab, (rows, targets), dtype=np.int32)
    return {
        "encoder_input_tokens": source,
        "decoder_input_tokens": np.pad(target[:, :-1], ((0, 0), (1, 0))),
        "decoder_target_tokens": target,
        "decoder_loss_weights": np.ones_like(target),
    }


def real_tokens(batch: dict[str, np.ndarray]) -> tuple[int, int]:
    """Returns (non-padding tokens, positions), summed over inputs and targets."""
    names = [n for n in ("encoder_input_tokens", "decoder_target_tokens") if n in batch]
    tokens = sum(int((batch[name] != 0).sum()) for name in names)
    return tokens, sum(batch[name].size for name in names)
