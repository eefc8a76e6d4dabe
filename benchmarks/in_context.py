"""Evaluates a language model as a tracker without training, a baseline of docs/sgd.md.

    JAXAUG_DATA_DIR=DIR python benchmarks/in_context.py --out OUT [--model smollm2] \\
        [--shots 3]

The prompt has solved frames of the train split in D3ST format, each of another service.
The model continues it greedily to the end of the line. The solved frames are the same
for all prompts, and the network processes them once. Every frame of the test split is
answered with the original schemas and all variants of `d3st_eval`. OUT gets the
predictions and the report of an evaluation (`jaxaug report OUT`). An interrupted run
resumes and skips the wordings in OUT.
"""

import argparse
import dataclasses
import json
import random
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from t5x.search.decode_state import check_decodes

from jaxaug.core import buckets
from jaxaug.core.errors import UserError
from jaxaug.core.progress import progress
from jaxaug.data import folders
from jaxaug.feed import cache, recipes
from jaxaug.formats.answers import postprocessor
from jaxaug.formats.records import Example
from jaxaug.look.robustness import RobustnessWriter
from jaxaug.models.text import prompts, registry
from jaxaug.models.text.language import LanguageModel
from jaxaug.paraphrase import causal, samplers

FAMILY = "d3st"
TASK = "Write down what the user of a dialogue wants, by the numbers of the list."
ROWS = 16  # Batch size.
COLUMNS = 128  # Prompts are padded to a multiple, because each length is compiled.
EMPTY = "[states] [intents]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--shots", type=int, default=3, help="solved frames")
    parser.add_argument("--longest", type=int, default=800, help="letters of one")
    parser.add_argument(
        "--max_length", type=int, default=64, help="tokens of an answer"
    )
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    try:
        run(arguments)
    except UserError as error:
        sys.exit(f"in_context.py: error: {error}")


def run(arguments: argparse.Namespace) -> None:
    """Answers the remaining wordings, and scores all wordings."""
    table = recipes.table()
    wordings = table.wordings(FAMILY, "test")
    if not wordings:
        raise UserError(
            f"${folders.DATA_DIR_VARIABLE}: the data have no test split. Name others."
        )
    tested = {task: table.recipes[task]["test"] for task in wordings}
    original = next(iter(tested.values()))
    train = dataclasses.replace(original.corpus, split="train")
    shots = chosen(
        cache.build(cache.Recipe(train, original.options)).read(),
        arguments.shots,
        arguments.longest,
        arguments.seed,
    )
    arguments.out.mkdir(parents=True, exist_ok=True)
    prompt = arguments.out / "prompt.txt"
    text = prompt_of(shots)
    if prompt.exists() and prompt.read_text(encoding="utf-8") != text:
        raise UserError(
            f"--out {arguments.out}: holds answers to another prompt. Name another "
            "folder."
        )
    prompt.write_text(text, encoding="utf-8")
    model = registry.load(arguments.model)
    if not isinstance(model, LanguageModel):
        raise UserError(
            f"--model {arguments.model}: is no decoder-only language model."
        )
    model = dataclasses.replace(model, prompt=prompts.parse(text, str(prompt)))
    writer = RobustnessWriter(str(arguments.out))
    for task, recipe in tested.items():
        examples = list(cache.build(recipe).read())
        outputs = kept_outputs(
            arguments.out / f"{task}.json", model, examples, arguments.max_length
        )
        read = postprocessor(recipe.options.parse)
        fields = [fields_of(example, recipe.corpus.split) for example in examples]
        writer.add(task, 0, list(map(read, outputs, fields)))


def chosen(
    examples: Iterable[Example], count: int, longest: int, seed: int
) -> list[Example]:
    """Returns `count` short frames with a state, each of another service.

    Raises:
        UserError: fewer services have such a frame.
    """
    by_service: dict[str, list[Example]] = {}
    for example in examples:
        if len(example.inputs) <= longest and not example.targets.startswith(EMPTY):
            by_service.setdefault(example.service, []).append(example)
    if len(by_service) < count:
        raise UserError(
            f"--shots {count}: {len(by_service)} services have a frame of at most "
            f"--longest {longest} letters with a state. Give fewer shots or more "
            "letters."
        )
    rng = random.Random(seed)
    services = rng.sample(sorted(by_service), count)
    return [rng.choice(by_service[service]) for service in services]


def prompt_of(shots: Sequence[Example]) -> str:
    """Returns the prompt: solved frames, and a place for the frame to solve."""
    solved = "".join(f"Input: {s.inputs}\nOutput: {s.targets}\n\n" for s in shots)
    return f"{TASK}\n\n{solved}Input: {prompts.PLACE}\nOutput:"


def fields_of(example: Example, split: str) -> dict[str, object]:
    """Returns the fields of an example that a postprocessor reads."""
    names = ("dialogue_id", "turn", "frame", "service", "key")
    return {"split": split, **{name: getattr(example, name) for name in names}}


def kept_outputs(
    path: Path, model: LanguageModel, examples: Sequence[Example], max_length: int
) -> list[str]:
    """Returns the outputs of a wording: those in a file, or new ones."""
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))
    started = time.perf_counter()
    outputs = answers(model, [example.inputs for example in examples], max_length)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(outputs, indent=1), encoding="utf-8")
    partial.replace(path)
    took = time.perf_counter() - started
    print(f"{path.stem}: {len(outputs)} frames in {took:.0f} s", flush=True)
    return outputs


def answers(model: LanguageModel, inputs: Sequence[str], max_length: int) -> list[str]:
    """Returns the greedy continuation of each input, to the end of its line."""
    tokens = [model.encode(text) for text in inputs]
    params = causal.ready(model, model.params)
    decode_fn = samplers.find("greedy").build(1, {})
    outputs = [""] * len(inputs)
    order = sorted(range(len(inputs)), key=lambda index: -len(tokens[index]))
    with progress(total=len(inputs), desc="frames", unit="frame") as bar:
        for start in range(0, len(order), ROWS):
            indices = order[start : start + ROWS]
            length = -(-len(tokens[indices[0]]) // COLUMNS) * COLUMNS
            decodes = np.asarray(
                causal.decode(
                    model.bare,
                    decode_fn,
                    1,
                    max_length,
                    params,
                    buckets.pad([tokens[index] for index in indices], ROWS, length),
                    np.zeros(ROWS, np.int32),
                    np.zeros(2, np.uint32),
                )
            )
            check_decodes(decodes)
            for index, decoded in zip(indices, decodes, strict=False):
                outputs[index] = model.decode(decoded[0].tolist())
            bar.update(len(indices))
    return outputs


if __name__ == "__main__":
    main()
