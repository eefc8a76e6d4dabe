"""Time to compile, and of a step, of T5 with scanned layers against unrolled ones.

    python benchmarks/scan_layers.py --layers 12

Loss and gradients of a network of that many encoder and decoder layers (emb 128, mlp 256,
4 rows of 64 and 32 tokens, float32), without the persistent cache of compiled programs;
CPU seconds of all threads.
"""

import argparse
import time

import jax
import numpy as np
from t5x.examples.scalable_t5 import network


def measure(layers: int, scan: bool, steps: int) -> tuple[float, float]:
    """(seconds to trace and compile, fastest step)."""
    config = network.T5Config(
        vocab_size=512,
        emb_dim=128,
        num_heads=4,
        head_dim=32,
        mlp_dim=256,
        num_encoder_layers=layers,
        num_decoder_layers=layers,
        mlp_activations=("gelu", "linear"),
        scan_layers=scan,
    )
    module = network.Transformer(config)
    draw = np.random.default_rng(0)
    inputs, targets = (draw.integers(1, 512, (4, n)) for n in (64, 32))

    def loss(params):
        logits = module.apply(
            {"params": params}, inputs, targets, targets, enable_dropout=False
        )
        return jax.nn.log_softmax(logits)[..., 3].mean()

    shapes = jax.eval_shape(
        lambda key: module.init(key, inputs, targets, targets, enable_dropout=False),
        jax.random.key(0),
    )["params"]
    params = jax.tree.map(
        lambda x: np.float32(0.05 * draw.standard_normal(x.shape)), shapes
    )
    start = time.process_time()
    step = jax.jit(jax.grad(loss)).lower(params).compile()
    compiling = time.process_time() - start
    times = []
    for _ in range(steps):
        start = time.process_time()
        jax.block_until_ready(step(params))
        times.append(time.process_time() - start)
    return compiling, min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--steps", type=int, default=8)
    options = parser.parse_args()
    jax.config.update("jax_enable_compilation_cache", False)
    found = {
        scan: measure(options.layers, scan, options.steps) for scan in (False, True)
    }
    for name, (one, other) in zip(
        ("compile", "step"), zip(*found.values(), strict=True), strict=True
    ):
        print(
            f"{name:8} unrolled {one:7.2f} s, scanned {other:7.2f} s: {other / one:.2f}"
        )


if __name__ == "__main__":
    main()
