"""A train step with and without what programs set at their start.

    python benchmarks/machine_settings.py [--steps 8]

A T5 of 4 + 4 layers (emb 256, 4 heads x 64, mlp 512, vocabulary 8,192, float32; batch 8,
inputs 256, targets 64; Adafactor) and one of 2 + 2 layers (emb 64, 4 heads x 16, mlp 128,
vocabulary 1,152; inputs 120, targets 40), each with the machine as it is, with memory
kept, and with XLA's YNN fusions off as well: a process each, of whose rounds the fastest
counts. Ratios are to the machine as it is.
"""

import argparse
import resource
import subprocess
import sys
import time

SIZES = {
    "4 + 4 layers": (8192, 256, 4, 64, 512, 4, 256, 64),
    "2 + 2 layers": (1152, 64, 4, 16, 128, 2, 120, 40),
}
SETTINGS = {
    "as it is": {"keep_memory": False, "ynn_fusions": True},
    "memory kept": {"keep_memory": True, "ynn_fusions": True},
    "and fusions off": {"keep_memory": True, "ynn_fusions": False},
}
BATCH, ROUNDS = 8, 3


def measure(size: str, setting: str, steps: int) -> None:
    """Prints wall ms, system ms and page faults of a step, and the peak in MB."""
    from t5x.start import machine

    machine.set_up(**SETTINGS[setting], compilation_cache="none")
    import jax
    import jax.numpy as jnp
    import numpy as np
    from t5x import adafactor, models, train_state
    from t5x.examples.t5 import network

    vocab, emb, heads, head_dim, mlp, layers, inputs, targets = SIZES[size]

    class Words:
        eos_id = 1
        vocab_size = vocab

    config = network.T5Config(
        vocab_size=vocab,
        emb_dim=emb,
        num_heads=heads,
        num_encoder_layers=layers,
        num_decoder_layers=layers,
        head_dim=head_dim,
        mlp_dim=mlp,
        mlp_activations=("gelu", "linear"),
        dropout_rate=0.0,
    )
    optimizer = adafactor.Adafactor(
        1e-3, logical_factor_rules=adafactor.standard_logical_factor_rules()
    )
    model = models.EncoderDecoderModel(
        network.Transformer(config), Words(), Words(), optimizer
    )
    rng = np.random.default_rng(0)
    tokens = rng.integers(2, vocab, (BATCH, inputs + targets), dtype=np.int32)
    batch = {
        "encoder_input_tokens": tokens[:, :inputs],
        "decoder_input_tokens": tokens[:, inputs:],
        "decoder_target_tokens": tokens[:, inputs:],
        "decoder_loss_weights": np.ones((BATCH, targets), np.int32),
    }
    shapes = {name: array.shape for name, array in batch.items()}

    @jax.jit
    def start(key):
        variables = model.get_initial_variables(key, shapes)
        return train_state.FlaxOptimTrainState.create(optimizer, variables)

    def step(state, batch):
        grads = jax.grad(lambda params: model.loss_fn(params, batch, None)[0])(
            state.params
        )
        return state.apply_gradient(grads, learning_rate=jnp.float32(1e-3))

    compiled = jax.jit(step, donate_argnums=0)
    state = jax.block_until_ready(compiled(start(jax.random.PRNGKey(0)), batch))
    best = (float("inf"),) * 3
    for _ in range(ROUNDS):
        before, tick = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        for _ in range(steps):
            state = compiled(state, batch)
        jax.block_until_ready(state)
        wall = time.perf_counter() - tick
        after = resource.getrusage(resource.RUSAGE_SELF)
        system = after.ru_stime - before.ru_stime
        faults = after.ru_minflt - before.ru_minflt
        best = min(best, (wall / steps, system / steps, faults / steps))
    print(1000 * best[0], 1000 * best[1], best[2], after.ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(*options.measure, options.steps)
        return
    print(f"{'':32} {'ms':>8} {'ratio':>7} {'system ms':>10} {'faults':>8} {'MB':>6}")
    for size in SIZES:
        base = 0.0
        for setting in SETTINGS:
            program = [sys.executable, __file__, "--steps", str(options.steps)]
            program += ["--measure", size, setting]
            shown = subprocess.check_output(program, text=True)
            wall, system, faults, peak = map(float, shown.split())
            base = base or wall
            print(
                f"{size + ', ' + setting:32} {wall:8.1f} {base / wall:6.2f}x "
                f"{system:10.1f} {faults:8.0f} {peak:6.0f}"
            )


if __name__ == "__main__":
    main()
