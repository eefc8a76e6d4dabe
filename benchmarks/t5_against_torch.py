"""Train steps/s and decode tokens/s of the runtime's T5, as ratios to HF torch.

    python benchmarks/t5_against_torch.py

Both sides run the same size (T5 v1.1, emb 256, 4 heads x 64, mlp 512, 4 + 4 layers,
vocabulary 8,192, float32) in this process on the same CPU: inputs 512, targets 64,
batch 8. Training is forward, backward and an Adafactor update; decoding emits 64
tokens a row, greedy and with 4 beams, with the end of sequence made impossible so that
both sides do the same work. The process keeps freed memory and XLA goes without YNN
fusions, as in the programs. The first call of each side (compilation) is not counted.
"""

import argparse
import functools
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import torch
import transformers
from t5x import adafactor, decoding, models, train_state
from t5x.examples.t5 import network
from t5x.start import machine

BATCH, INPUTS, TARGETS = 8, 512, 64
VOCAB, EMB, HEADS, HEAD_DIM, MLP, LAYERS = 8192, 256, 4, 64, 512, 4


class Words:
    """A vocabulary whose end of sequence is outside of the model's reach."""

    eos_id = VOCAB + 1
    vocab_size = VOCAB


def best_time(function: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest of `repeats` calls after a first one that warms up."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def jax_side() -> dict[str, Callable[[], object]]:
    config = network.T5Config(
        vocab_size=VOCAB,
        emb_dim=EMB,
        num_heads=HEADS,
        num_encoder_layers=LAYERS,
        num_decoder_layers=LAYERS,
        head_dim=HEAD_DIM,
        mlp_dim=MLP,
        mlp_activations=("gelu", "linear"),
        dropout_rate=0.0,
    )
    optimizer = adafactor.Adafactor(
        1e-3, logical_factor_rules=adafactor.standard_logical_factor_rules()
    )
    rng = np.random.default_rng(0)
    tokens = rng.integers(2, VOCAB, (BATCH, INPUTS + TARGETS), dtype=np.int32)
    batch = {
        "encoder_input_tokens": tokens[:, :INPUTS],
        "decoder_input_tokens": tokens[:, INPUTS:],
        "decoder_target_tokens": tokens[:, INPUTS:],
        "decoder_loss_weights": np.ones((BATCH, TARGETS), np.int32),
    }
    shapes = {name: array.shape for name, array in batch.items()}

    def model(decode_fn):
        return models.EncoderDecoderModel(
            network.Transformer(config), Words(), Words(), optimizer, decode_fn
        )

    greedy = model(
        lambda **kwargs: decoding.temperature_sample(**kwargs, temperature=0.0)
    )
    beam = model(decoding.beam_search)
    variables = greedy.get_initial_variables(jax.random.PRNGKey(0), shapes)
    state = train_state.FlaxOptimTrainState.create(optimizer, variables)
    state = jax.tree.map(jnp.copy, state)  # each array its own, to be donated

    @functools.partial(jax.jit, donate_argnums=0)
    def step(state, batch):
        grads = jax.grad(lambda params: greedy.loss_fn(params, batch, None)[0])(
            state.params
        )
        return state.apply_gradient(grads, learning_rate=jnp.float32(1e-3))

    def train():
        nonlocal state
        state = jax.block_until_ready(step(state, batch))

    greedy_decode = jax.jit(lambda p, b: greedy.predict_batch(p, b))
    beam_decode = jax.jit(
        lambda p, b: beam.predict_batch_with_aux(p, b, num_decodes=4)[0]
    )
    return {
        "train step": train,
        "greedy": lambda: jax.block_until_ready(greedy_decode(state.params, batch)),
        "beam 4": lambda: jax.block_until_ready(beam_decode(state.params, batch)),
    }


def torch_side() -> dict[str, Callable[[], object]]:
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=VOCAB,
        d_model=EMB,
        d_kv=HEAD_DIM,
        d_ff=MLP,
        num_layers=LAYERS,
        num_heads=HEADS,
        dropout_rate=0.0,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
        decoder_start_token_id=0,
        eos_token_id=None,
    )
    model = transformers.T5ForConditionalGeneration(config)
    inputs = torch.randint(2, VOCAB, (BATCH, INPUTS))
    labels = torch.randint(2, VOCAB, (BATCH, TARGETS))
    optimizer = transformers.Adafactor(
        model.parameters(), lr=1e-3, relative_step=False, scale_parameter=True
    )

    def step():
        optimizer.zero_grad()
        model(input_ids=inputs, labels=labels).loss.backward()
        optimizer.step()

    def generate(beams):
        with torch.no_grad():
            return model.generate(
                inputs,
                num_beams=beams,
                do_sample=False,
                min_new_tokens=TARGETS,
                max_new_tokens=TARGETS,
            )

    return {
        "train step": step,
        "greedy": lambda: generate(1),
        "beam 4": lambda: generate(4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    print(machine.set_up(compilation_cache="none"), flush=True)
    ours, theirs = jax_side(), torch_side()
    work = {"train step": 1, "greedy": BATCH * TARGETS, "beam 4": BATCH * TARGETS}
    for name, amount in work.items():
        torch_time = best_time(theirs[name], repeats)
        jax_time = best_time(ours[name], repeats)
        unit = "steps/s" if name == "train step" else "tokens/s"
        print(
            f"{name:10} runtime {amount / jax_time:8.2f} {unit}   "
            f"HF torch {amount / torch_time:8.2f} {unit}   "
            f"{torch_time / jax_time:5.2f}x",
            flush=True,
        )


if __name__ == "__main__":
    main()
