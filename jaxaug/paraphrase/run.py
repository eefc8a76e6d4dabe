"""`jaxaug paraphrase`: outputs of a model for each line of a text file."""

import argparse
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from jaxaug.core import typed
from jaxaug.core.buckets import plan
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_text
from jaxaug.core.progress import progress
from jaxaug.metrics import diversity
from jaxaug.models.text import prompts, registry
from jaxaug.models.text.language import LanguageModel
from jaxaug.paraphrase import samplers, version
from jaxaug.paraphrase.decoder import Decoder
from jaxaug.paraphrase.output import OutputFile
from jaxaug.paraphrase.summary import summary

DEFAULT_PROMPT = "schema"
_INPUT_FIX = "Name a UTF-8 text file with one input a line with --in."


def run(arguments: argparse.Namespace) -> int:
    """The verb; see `jaxaug paraphrase --help`."""
    text = paraphrase(
        arguments.input,
        arguments.out,
        model=arguments.model,
        sampler=arguments.sampler,
        options=samplers.parse(arguments.sampler, arguments.option),
        num=arguments.num,
        seed=arguments.seed,
        batch_size=arguments.batch_size,
        max_length=arguments.max_length,
        prompt=arguments.prompt,
    )
    print(text)
    return 0


def paraphrase(
    input_path: PathLike,
    out: PathLike,
    *,
    model: str,
    sampler: str,
    options: Mapping[str, Any] | None = None,
    num: int = 1,
    seed: int = 0,
    batch_size: int = 32,
    max_length: int = 64,
    prompt: str | None = None,
) -> str:
    """Writes `num` outputs for each line of a file; goes on where a run has stopped.

    The bytes of the file depend neither on the batch size nor on stops.

    Args:
      input_path: text file with one input a line, local or gs://.
      out: JSON lines to write; see `jaxaug.paraphrase.output`.
      model: see `jaxaug.models.text.registry.load`.
      sampler: a name of `samplers.SAMPLERS`.
      options: of the sampler; the others have their default.
      num: outputs of each input.
      seed: of everything that is random.
      batch_size: inputs that are decoded together.
      max_length: tokens of an output at most, EOS included.
      prompt: of a language model: a name of `prompts.PROMPTS`, by default "schema",
        or a file with `{text}` in it.

    Returns:
      A summary of diversity and similarity, to be printed.

    Raises:
      UserError: an argument, the input file or what the output file holds is wrong, or
        sacrebleu is not installed.
    """
    _check_numbers(num, batch_size, max_length, seed)
    inputs = read_lines(input_path)
    chosen = samplers.find(sampler)
    all_options = chosen.complete(options or {})
    decode_fn = chosen.build(num, all_options)
    # What would fail after minutes of work fails now.
    if prompt is not None:
        prompts.find(prompt)
    OutputFile.check_writable(out)
    diversity.load_sacrebleu()
    loaded = registry.load(model)
    if prompt is not None and not isinstance(loaded, LanguageModel):
        raise UserError(
            f"--prompt {prompt}: model {model!r} takes none, it reads the line itself. "
            "Leave --prompt out."
        )
    # What counts is which model it is, not what it is called.
    notes = {"model": loaded.label}
    settings = {
        "weights": loaded.identity,
        "sampler": sampler,
        "options": all_options,
        "num": num,
        "max_length": max_length,
        "seed": seed,
        "code": version.of_outputs(),
    }
    if isinstance(loaded, LanguageModel):
        prompt = prompt or DEFAULT_PROMPT
        loaded = loaded.prompted(prompt)
        settings["prompt"] = _prompt_label(prompt)
    with OutputFile(out, inputs, settings, num, notes) as file:
        _complete(
            file, inputs, loaded, decode_fn, batch_size,
            num=num, max_length=max_length, seed=seed,
        )  # fmt: skip
        file.finish()
    return summary(inputs, file.outputs())


def _check_numbers(num: int, batch_size: int, max_length: int, seed: int) -> None:
    for name, value in (
        ("num", num),
        ("batch_size", batch_size),
        ("max_length", max_length),
    ):
        if value < 1:
            raise UserError(f"--{name} is {value}: give at least 1.")
    if max_length > samplers.LONGEST:
        raise UserError(
            f"--max_length is {max_length}: give {samplers.LONGEST} at most."
        )
    typed.check_seed(seed, "--seed")


def read_lines(path: PathLike) -> list[str]:
    """The lines of a text file, without their ends.

    Raises:
      UserError: no such file, it is empty or not UTF-8, or a line is blank.
    """
    text = read_text(path, _INPUT_FIX)
    # Not splitlines, which also splits at characters that belong to a text.
    lines = [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]
    if not text.strip():
        raise UserError(f"{path}: holds no text. {_INPUT_FIX}")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            raise UserError(f"{path}: line {number} is blank. Remove it.")
    return lines


def _prompt_label(name: str) -> str:
    """Name of a prompt, with a hash of what a file holds: it may change under a run."""
    if name in prompts.PROMPTS:
        return name
    text = "\0".join(prompts.find(name))
    return f"{name} {hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}"


def _complete(
    file: OutputFile,
    inputs: list[str],
    model: registry.TextModel | LanguageModel,
    decode_fn: Callable[..., Any],
    batch_size: int,
    **settings: int,
) -> None:
    """Computes what the file lacks."""
    sequences = [model.encode(text) for text in inputs]
    shared = model.shared if isinstance(model, LanguageModel) else 0
    decoder = Decoder(model, decode_fn, **settings)
    total, done = len(inputs), len(file)
    with progress(
        desc="paraphrase", total=total, initial=done, unit="line", last=True
    ) as bar:
        # Batches are the same at a restart, so that a batch is computed in the same
        # company again; those that are complete are left out.
        lengths = [len(tokens) for tokens in sequences]
        for batch in plan(lengths, batch_size, shared):
            if all(index in file for index in batch.indices):
                continue
            outputs = decoder([sequences[i] for i in batch.indices], batch)
            done = len(file)
            file.add(dict(zip(batch.indices, outputs, strict=True)))
            bar.update(len(file) - done)
