"""Writes the generated training data of the model `mini`.

The data contain no content words that occur only in the evaluation variants v1..v5 of
MiniSGD, so a model trained on them has not seen these wordings.
"""

import functools
from collections.abc import Collection, Sequence
from typing import Any

from etils import epath
from jaxaug_base.files import temporary_name

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.core.text import clean
from jaxaug_papers.mini import invented, overlap, recombined, varied, written
from jaxaug_papers.mini.exercises import exercise, span
from jaxaug_papers.mini.invented_words import Fresh, Lexis
from jaxaug_papers.minisgd import simulator
from jaxaug_papers.minisgd.draw import Draw
from jaxaug_papers.minisgd.simulator import write_dialogues, write_records
from jaxaug_papers.minisgd.world import ORIGINAL, ServiceSpec, service_json

EXERCISES = "exercises.tsv"
_SPANS = 0.2
_WRITTEN = 0.8
_HELD_OUT = 50
_LEAST_HELD_OUT = 20
# Share with `reword`. Most errors confuse the values of two services.
_TWO_SERVICES = 0.35


def lexis(words: Collection[str] = ()) -> Lexis:
    """Returns the words of generated data."""
    banned = overlap.evaluation_only_words()
    content = {*words, *overlap.training_content()} - overlap.STOP_WORDS
    return Lexis(tuple(sorted(content - banned)), banned)


def write(
    out_dir: PathLike,
    *,
    services: int,
    dialogues: int,
    exercises: int,
    words: Collection[str] = (),
    seed: int = 0,
    reword: bool = False,
    corpus: bool = False,
) -> epath.Path:
    """Writes generated data in the layout of the SGD repository.

    Dev and test have a fiftieth of the services and dialogues of train, and at least 20
    services. No service occurs in two splits. A line of `exercises.tsv` is an input, a
    tab, and its answer (see `exercises`). A fifth of the exercises are dialogues of
    MiniSGD's services with hidden words, which are not in MiniSGD's training split. The
    same arguments give the same bytes.

    Args:
        services: number of services in train, at least 4.
        dialogues: number of dialogues in train, evenly divided among the services.
        reword: whether services have more kinds of slots, descriptions, and openers;
            see `varied` and `typed_slot`.
        corpus: whether most exercises come from the corpus of rewordings; see
            `written`.

    Raises:
        UserError: the folder exists, or a number is too small.
    """
    folder = epath.Path(out_dir)
    if services < 4 or dialogues < services or exercises < 1:
        raise UserError(
            f"{services} services, {dialogues} dialogues and {exercises} exercises: "
            "give at least 4 services, as many dialogues as services, and 1 exercise."
        )
    if folder.exists():
        raise UserError(
            f"{folder} exists: an invented world is written into a new folder. "
            "Name another one, or remove it."
        )
    partial = temporary_name(folder)
    try:
        _write_world(
            partial,
            (services, dialogues, exercises),
            lexis(words),
            seed,
            (reword, corpus),
        )
        partial.rename(folder)
    finally:
        if partial.exists():
            partial.rmtree()
    return folder


def _write_world(
    folder: epath.Path,
    sizes: tuple[int, int, int],
    words: Lexis,
    seed: int,
    kinds: tuple[bool, bool],
) -> None:
    services, dialogues, exercises = sizes
    reword, corpus = kinds
    few = max(_LEAST_HELD_OUT, services // _HELD_OUT)
    start = 0
    for split, count, size in (
        ("train", services, dialogues),
        ("dev", few, max(few, dialogues // _HELD_OUT)),
        ("test", few, max(few, dialogues // _HELD_OUT)),
    ):
        specs = [_service(start + i, seed, words, reword) for i in range(count)]
        start += count
        (folder / split).mkdir(parents=True)
        schema = [service_json(spec, ORIGINAL) for spec in specs]
        write_records(folder / split / "schema.json", schema)
        one = functools.partial(_dialogue, split, specs, words, seed, reword)
        write_dialogues(folder / split, size, one)
    lines = (_exercise(index, words, seed, corpus) for index in range(exercises))
    (folder / EXERCISES).write_text("".join(lines))


def _service(index: int, seed: int, words: Lexis, reword: bool) -> ServiceSpec:
    """Returns a service of an index; every other service is `recombined`."""
    if not index % 2:
        return invented.service(index, seed, words, more=reword)
    found = recombined.service(index, seed, words, invented.value_list)
    if not reword:
        return found
    return varied.service(Draw(f"varied/{seed}/service/{index}"), found, words)


def _dialogue(
    split: str,
    specs: Sequence[ServiceSpec],
    words: Lexis,
    seed: int,
    reword: bool,
    index: int,
) -> dict[str, Any]:
    draw = Draw(f"invented/{seed}/{split}/dialogue/{index}")
    first = specs[index % len(specs)]
    second = None
    if draw.chance(_TWO_SERVICES if reword else simulator.TWO_SERVICES):
        # The next service is of the other kind, generated or recombined.
        step = draw.pick((1, 2)) if reword else 1
        second = specs[(index + step) % len(specs)]
    remarks = invented.remarks(draw, words)
    found = simulator.between(draw, first, second, index, remarks)
    for turn in found["turns"]:
        turn["utterance"] = words.allowed(turn["utterance"])
    return found


def _exercise(index: int, words: Lexis, seed: int, corpus: bool) -> str:
    draw = Draw(f"invented/{seed}/exercise/{index}")
    if corpus and draw.chance(_WRITTEN):
        text, answer = written.exercise(draw, Fresh(words, draw))
        return f"{text}\t{answer}\n"
    if not draw.chance(_SPANS):
        text, answer = exercise(draw, Fresh(words, draw))
        return f"{text}\t{answer}\n"
    found = simulator.dialogue("train", index, seed + 1)
    said = (f"[{turn['speaker']}] {turn['utterance']}" for turn in found["turns"])
    text, answer = span(draw, clean(words.allowed(" ".join(said)), True))
    return f"{text}\t{answer}\n" if answer else ""
