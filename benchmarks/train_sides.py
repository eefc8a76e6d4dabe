"""The sides of benchmarks/train.py, each in a separate process.

A side builds its network when it starts. Then it answers requests of the parent for the
seconds of some steps or for its memory. While one side runs, the other one waits.
"""

import functools
import itertools
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import train_shapes

LEARNING_RATE = 1e-3


class Setting(NamedTuple):
    """The training task of both sides.

    Attributes:
        shape: key of `train_shapes.SHAPES`.
        rows: batch size.
        lengths: lengths of inputs and targets.
        dtype: type of matrix products, "float32" or "bfloat16"; parameters are float32.
        model_options: further fields of the config of our network.
    """

    shape: str
    rows: int
    lengths: tuple[int, int]
    dtype: str
    model_options: dict[str, Any]


def runtime_model(setting: Setting) -> Any:
    """Returns the T5X model of a setting."""
    from t5x import adafactor, models
    from t5x.examples.t5 import network

    class Words:
        eos_id, vocab_size = 1, train_shapes.SHAPES[setting.shape].vocab

    shape = train_shapes.SHAPES[setting.shape]
    optimizer = adafactor.Adafactor(
        LEARNING_RATE,
        logical_factor_rules=adafactor.standard_logical_factor_rules(),
    )
    sizes = {
        "vocab_size": shape.vocab,
        "emb_dim": shape.emb,
        "num_heads": shape.heads,
        "head_dim": shape.head_dim,
        "mlp_dim": shape.mlp,
        "dtype": setting.dtype,
        "dropout_rate": 0.0,
        **setting.model_options,
    }
    if shape.family == "llama":
        from jaxaug.models import llama

        config = llama.Config(
            **sizes,
            num_layers=shape.layers,
            num_kv_heads=shape.kv_heads,
            tie_embeddings=shape.tied,
        )
        return models.DecoderOnlyModel(llama.DecoderWrapper(config), Words(), optimizer)
    t5_config = network.T5Config(
        **sizes,
        num_encoder_layers=shape.layers,
        num_decoder_layers=shape.layers,
        mlp_activations=("gelu", "linear"),
        logits_via_embedding=shape.tied,
    )
    return models.EncoderDecoderModel(
        network.Transformer(t5_config), Words(), Words(), optimizer
    )


class Work(NamedTuple):
    """The functions of a side.

    Attributes:
        steps: starts a number of steps; on a GPU it returns before they end.
        finish: waits for the steps.
        peak: measures the operations per second of a large matrix product.
        facts: measurements of the start.
    """

    steps: Callable[[int], Any]
    finish: Callable[[], Any]
    peak: Callable[[], float]
    facts: dict[str, Any]


def runtime_side(setting: Setting) -> Work:
    """Returns the side with `t5x.trainer.Trainer`."""
    import jax
    import jax.numpy as jnp
    from t5x import partitioning, trainer, utils
    from t5x.start import machine

    # As the programs do; compiled programs are not kept, as compiling is measured.
    machine.set_up(compilation_cache="none")
    shape = train_shapes.SHAPES[setting.shape]
    batch = train_shapes.random_batch(shape, setting.rows, *setting.lengths)
    model = runtime_model(setting)
    partitioner = partitioning.PjitPartitioner(num_partitions=1)
    initializer = utils.TrainStateInitializer(
        optimizer_def=model.optimizer_def,
        init_fn=model.get_initial_variables,
        input_shapes={name: array.shape for name, array in batch.items()},
        partitioner=partitioner,
    )
    rng = jax.random.PRNGKey(0)
    work = trainer.Trainer(
        model=model,
        train_state=initializer.from_scratch(rng),
        partitioner=partitioner,
        eval_names=[],
        summary_dir=None,
        train_state_axes=initializer.train_state_axes,
        rng=rng,
        learning_rate_fn=lambda step: jnp.float32(LEARNING_RATE),
        num_microbatches=None,
    )
    batch = {name: jnp.asarray(array) for name, array in batch.items()}
    start = time.perf_counter()
    work.compile_train(batch)
    compile_seconds = time.perf_counter() - start

    def steps(number: int) -> Any:
        # One call, as in a run: each call asks for the number of the last step.
        return work.train(itertools.repeat(batch), number)

    def finish() -> Any:
        return jax.block_until_ready(work.train_state)

    size = 2048 if jax.default_backend() == "cpu" else 8192
    square = jax.random.normal(rng, (size, size), setting.dtype)
    product = jax.jit(lambda x: x @ x)

    def peak() -> float:
        start = time.perf_counter()
        jax.block_until_ready(product(square))
        return 2.0 * size**3 / (time.perf_counter() - start)

    facts = {"compile": compile_seconds, "device": str(jax.devices()[0])}
    return Work(steps, finish, peak, facts)


def torch_side(
    setting: Setting, is_tuned: bool = False, is_compiled: bool = False
) -> Work:
    """Returns the side with Hugging Face's model of the same shape.

    Args:
        setting: the training task.
        is_tuned: whether to use PyTorch's attention (sdpa) and fused AdamW instead of
            the model's default attention and Adafactor.
        is_compiled: whether `torch.compile` compiles the model.
    """
    import torch

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model: Any = _torch_model(setting).to(device)
    arrays = train_shapes.random_batch(
        train_shapes.SHAPES[setting.shape], setting.rows, *setting.lengths
    )
    tokens = {k: torch.from_numpy(v).long().to(device) for k, v in arrays.items()}
    labels = tokens["decoder_target_tokens"]
    if "encoder_input_tokens" in tokens:
        features = {"input_ids": tokens["encoder_input_tokens"], "labels": labels}
    else:
        counted = torch.where(tokens["decoder_loss_weights"] > 0, labels, -100)
        features = {"input_ids": labels, "labels": counted}
    optimizer = _torch_optimizer(model, is_tuned)
    if is_tuned:
        model.set_attn_implementation("sdpa")
    if is_compiled:
        model = torch.compile(model)

    def finish() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    def steps(number: int) -> Any:
        for _ in range(number):
            optimizer.zero_grad()
            with torch.autocast(
                device, torch.bfloat16, enabled=setting.dtype == "bfloat16"
            ):
                loss = model(**features).loss
            loss.backward()
            optimizer.step()

    size = 2048 if device == "cpu" else 8192
    # Random numbers, because products of ones run faster than products of data.
    square = torch.randn((size, size), dtype=getattr(torch, setting.dtype)).to(device)

    def peak() -> float:
        start = time.perf_counter()
        square @ square
        finish()
        return 2.0 * size**3 / (time.perf_counter() - start)

    return Work(steps, finish, peak, {"device": device})


def _torch_optimizer(model: Any, is_tuned: bool) -> Any:
    import torch
    import transformers

    if is_tuned:
        return torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)
    return transformers.Adafactor(
        model.parameters(), lr=LEARNING_RATE, relative_step=False, scale_parameter=True
    )


def _torch_model(setting: Setting) -> Any:
    import transformers

    shape = train_shapes.SHAPES[setting.shape]
    if shape.family == "llama":
        return transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=shape.vocab,
                hidden_size=shape.emb,
                intermediate_size=shape.mlp,
                num_hidden_layers=shape.layers,
                num_attention_heads=shape.heads,
                num_key_value_heads=shape.kv_heads,
                head_dim=shape.head_dim,
                tie_word_embeddings=shape.tied,
                use_cache=False,
            )
        )
    fields: Any = {"tie_word_embeddings": shape.tied, "decoder_start_token_id": 0}
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            vocab_size=shape.vocab,
            d_model=shape.emb,
            d_kv=shape.head_dim,
            d_ff=shape.mlp,
            num_layers=shape.layers,
            num_heads=shape.heads,
            dropout_rate=0.0,
            feed_forward_proj="gated-gelu",
            use_cache=False,
            **fields,
        )
    )


SIDES: dict[str, Callable[[Setting], Work]] = {
    "runtime": runtime_side,
    "HF torch": torch_side,
    "HF torch tuned": functools.partial(torch_side, is_tuned=True),
    "HF torch compiled": functools.partial(torch_side, is_tuned=True, is_compiled=True),
}


def serve(name: str, setting: Setting, pipe: Connection) -> None:
    """Builds a side and answers until the word "end".

    The requests are:

    - ("step", n): returns the wall time and the CPU time of a step in seconds.
    - "peak": returns the operations per second of a large matrix product.
    - "memory": returns the peak memory in bytes.
    """
    steps, finish, peak, facts = SIDES[name](setting)
    start = time.perf_counter()
    steps(1)
    finish()
    facts["first_step"] = time.perf_counter() - start
    pipe.send(facts)
    while (word := pipe.recv()) != "end":
        if word == "memory":
            pipe.send(peak_memory(facts["device"]))
        elif word == "peak":
            pipe.send(max(peak() for _ in range(5)))
        else:
            start, before = time.perf_counter(), time.process_time()
            steps(word[1])
            finish()
            spent = time.perf_counter() - start, time.process_time() - before
            pipe.send(tuple(seconds / word[1] for seconds in spent))


def peak_memory(device: str) -> int:
    """Returns the peak bytes of the device, or on CPU of this process."""
    if "cuda" not in device.lower():
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.split("VmHWM:")[1].split()[0])
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_allocated()
    import jax

    return jax.devices()[0].memory_stats()["peak_bytes_in_use"]
