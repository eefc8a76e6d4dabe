"""Compares the sampling speed of a language model with CTranslate2 and llama.cpp.

    python benchmarks/language.py [--model smollm2] [--prompts 16] [--num 4] \\
        [--length 32] [--repeats 3] [--sides "llama.cpp Q8_0" ...]

All sides have the same weights in one process, and draw top-k with top-p (120, 0.95).
Every output has exactly `--length` tokens, because none may end earlier. All prompts
begin with the same few-shot prompt, which each side processes once. The first call of
each side compiles, loads, or fills its cache, and is not counted. The other calls
alternate, and the fastest one counts. A ratio is the time of another side divided by
ours, `CPU` the same for CPU seconds.

llama.cpp is the wheel `xllamacpp` (no extra of ours). Its file is written from our
weights by `gguf`.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import jax
import numpy as np
from decode import best_times
from t5x.start import machine

from jaxaug.core import buckets
from jaxaug.models.engine import runner
from jaxaug.models.text import in_engine, registry
from jaxaug.paraphrase import causal, samplers

TOP_K, TOP_P = 120, 0.95
TEXTS = (
    "city where the hotel is", "number of seats to reserve", "find a place to eat",
    "whether pets are allowed", "date of the return flight", "play a song",
    "name of the doctor", "price of one ticket", "time when the bus leaves",
    "genre of the movie", "send money to a friend", "address of the dentist",
    "rating of the attraction", "whether breakfast is included", "rent a car",
    "type of room",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Work:
    """The model, its prompts, and the number and length of outputs."""

    model: Any
    prompts: list[list[int]]
    num: int
    length: int

    @property
    def tokens(self) -> int:
        return len(self.prompts) * self.num * self.length


def ours(work: Work) -> Callable[[], np.ndarray]:
    """Returns a call of the program behind `jaxaug paraphrase`."""
    options = {"k": TOP_K, "p": TOP_P, "min_length": work.length}
    sampler = samplers.find("top_k_top_p")
    decode_fn = sampler.build(work.num, sampler.complete(options))
    params = causal.ready(work.model, jax.device_put(work.model.params))
    rows = len(work.prompts)
    sources = buckets.pad(work.prompts, rows, max(map(len, work.prompts)))
    key = jax.random.PRNGKey(0)

    def generate() -> np.ndarray:
        return np.asarray(
            causal.decode(
                work.model.bare, decode_fn, work.num, work.length, params, sources,
                np.arange(rows, dtype=np.int32), key,
            )
        )  # fmt: skip

    return generate


def ctranslate2(work: Work, precision: str) -> Callable[[], Any]:
    """Returns a call of `Generator.generate_batch`."""
    # CTranslate2 never draws EOS before the minimal length.
    search = runner.Search(work.num, work.length, work.length, top_k=TOP_K, top_p=TOP_P)
    skipped = len(work.model.before)
    prompts = [one[skipped:] for one in work.prompts]
    engine = runner.Engine(
        in_engine.kept(work.model, precision),
        in_engine.rules_of(work.model),
        batch_size=len(prompts),
    )
    return lambda: engine(prompts, search)


class LlamaCpp:
    """llama.cpp's server with a slot for each output."""

    def __init__(self, work: Work):
        try:
            import xllamacpp  # type: ignore[import-not-found]
        except ModuleNotFoundError:
            raise SystemExit(
                "--sides 'llama.cpp Q8_0' needs the wheel xllamacpp. Run `pip install "
                "xllamacpp`, or leave this side out."
            ) from None
        rules = in_engine.rules_of(work.model)
        assert rules.start is not None
        start, skipped = list(rules.start), len(work.model.before)
        self._requests: list[dict[str, Any]] = [
            {
                "prompt": [
                    number - rules.offset for number in start + one[skipped:]
                ],
                "n_predict": work.length,
                "ignore_eos": True,
                "samplers": ["top_k", "top_p", "temperature"],
                "top_k": TOP_K,
                "top_p": TOP_P,
                "temperature": 1.0,
                "seed": seed,
            }
            for one in work.prompts
            for seed in range(work.num)
        ]  # fmt: skip
        self._length, threads = work.length, len(os.sched_getaffinity(0))
        settings = xllamacpp.CommonParams()
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name, "model.gguf")
        write_gguf(work.model.folder, file)
        settings.model.path = str(file)
        settings.n_parallel = len(self._requests)
        longest = max(len(one["prompt"]) for one in self._requests) + work.length
        settings.n_ctx = longest * len(self._requests)
        settings.kv_unified = True
        settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
        self._server = xllamacpp.Server(settings)

    def __call__(self) -> list[dict[str, Any]]:
        """Sends all requests at once."""
        with concurrent.futures.ThreadPoolExecutor(len(self._requests)) as pool:
            replies = list(pool.map(self._server.handle_completions, self._requests))
        for reply in replies:
            if reply["usage"]["completion_tokens"] != self._length:
                raise SystemExit(f"llama.cpp: not {self._length} tokens: {reply}")
        return replies


def write_gguf(folder: Any, file: Path) -> None:
    """Copies the GGUF file of a model folder with matrices in Q8_0."""
    (source,) = Path(folder).glob("*.gguf")
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(file, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        if field.types[0] == gguf.GGUFValueType.ARRAY:
            writer.add_array(name, field.contents())
        else:
            writer.add_key_value(name, field.contents(), field.types[0])
    for tensor in reader.tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        kinds = gguf.GGMLQuantizationType
        type_ = kinds.Q8_0 if values.ndim > 1 else kinds.F32
        writer.add_tensor(tensor.name, gguf.quantize(values, type_), raw_dtype=type_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


SIDES: Mapping[str, Callable[[Work], Callable[[], Any]]] = {
    "CTranslate2 float32": lambda work: ctranslate2(work, "float32"),
    "CTranslate2 int8": lambda work: ctranslate2(work, "int8"),
    "llama.cpp Q8_0": LlamaCpp,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--prompts", type=int, default=16, help="at most 16")
    parser.add_argument("--num", type=int, default=4)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sides", nargs="*", choices=SIDES, default=[*SIDES])
    arguments = parser.parse_args()
    print(machine.set_up())
    model = registry.load(arguments.model)
    prompts = [model.encode(text) for text in TEXTS[: arguments.prompts]]
    work = Work(model, prompts, arguments.num, arguments.length)
    programs = [ours(work), *(SIDES[side](work) for side in arguments.sides)]
    (seconds, cpu), *times = best_times(programs, arguments.repeats)
    print(
        f"{len(prompts)} prompts x {work.num} outputs x {work.length} tokens\n"
        f"{'JAX':20} {work.tokens / seconds:8.1f} tokens/s {work.tokens / cpu:8.1f} "
        "a CPU second"
    )
    for side, (other, other_cpu) in zip(arguments.sides, times, strict=True):
        print(
            f"{side:20} {work.tokens / other:8.1f} tokens/s "
            f"{work.tokens / other_cpu:8.1f} a CPU second   {other / seconds:5.2f}x   "
            f"CPU {other_cpu / cpu:5.2f}x"
        )


if __name__ == "__main__":
    main()
