"""`jaxaug attack`: how far faithful rewordings of a schema lower a tracker's accuracy."""

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Any

from etils import epath

from jaxaug.augment.output import variants
from jaxaug.core import columns, compiled
from jaxaug.core.errors import UserError
from jaxaug.core.files import check_writable
from jaxaug.data import folders, sgd
from jaxaug.data.schema import Schema
from jaxaug.metrics import benchmark
from jaxaug.metrics.evaluate import write_json
from jaxaug.track import rewordings
from jaxaug.track import run as predicting
from jaxaug.track.tracker import Tracker
from jaxaug.track.worst import (
    ORIGINAL,
    RANDOM,
    SEARCHED,
    WORST,
    Attack,
    AttackOptions,
    Example,
    attack,
)

_WORDINGS = (ORIGINAL, RANDOM, WORST, SEARCHED)


def run(arguments: argparse.Namespace) -> int:
    """The verb; see `jaxaug attack --help`.

    Raises:
      UserError: the run, the data, or an option is missing or wrong.
    """
    options = AttackOptions(
        *(arguments.candidates, arguments.beam, arguments.random, arguments.seed)
    )
    rewordings.check_least(arguments, dialogues=2, examples=0)
    if arguments.json:
        check_writable(arguments.json, "--json")
    if arguments.out:
        folders.check_variants_name(epath.Path(arguments.out))
    compiled.keep_programs()
    data_dir, split = folders.resolve_data_dir(arguments.data_dir), arguments.split
    reference = benchmark.load(data_dir, split)
    dialogues = list(reference.dialogues.values())[: arguments.dialogues]
    schema = _chosen(reference.schema, dialogues, arguments.services)
    tracker = Tracker.load(arguments.run, schema)
    found = attack(tracker, reference, dialogues, options, predicting.resumed)
    print(text(found, schema, arguments.examples))
    if arguments.json:
        about = dataclasses.asdict(options) | {
            "split": split,
            "dialogues": len(dialogues),
        }
        write_json(arguments.json, as_json(found, schema, about))
        print(f"written: {arguments.json}")
    if arguments.out:
        texts = variant_texts(found, reference.schema, split, options.beam)
        variants.write(arguments.out, data_dir, split, reference.schema, texts)
        print(f"written: {arguments.out}")
    return 0


def _chosen(
    schema: Schema, dialogues: Sequence[sgd.Dialogue], names: Sequence[str] | None
) -> Schema:
    """The asked services; all that at least two dialogues have if none is asked for."""
    if names:
        return Schema(tuple(schema.service(name) for name in dict.fromkeys(names)))
    found = tuple(
        service
        for service in schema.services
        if sum(service.name in one.services for one in dialogues) > 1
    )
    if not found:
        raise UserError(
            f"no service occurs in two of the {len(dialogues)} dialogues, so none can be "
            "searched and scored. Give more --dialogues."
        )
    return Schema(found)


def text(found: Attack, schema: Schema, examples: int) -> str:
    """Returns the tables and examples that the command prints.

    Args:
      found: the attack.
      schema: services that were attacked, with the given descriptions.
      examples: number of frames that are shown.
    """
    frames = len(found.goals[ORIGINAL])
    rows = [["wording", "JGA"]]
    rows += [[name, _percent(found.accuracy(name))] for name in _WORDINGS]
    table = [["service", "frames", *_WORDINGS]]
    for service in schema.services:
        count = sum(key[2] == service.name for key in found.goals[ORIGINAL])
        scores = [_percent(found.accuracy(name, service.name)) for name in _WORDINGS]
        table.append([service.name, str(count), *scores])
    scored = sum(one.scored for one in found.services.values())
    title = (
        f"{len(schema.services)} services, {frames:,} frames; the search scored "
        f"{scored:,} inputs of other dialogues"
    )
    parts = [
        title,
        columns.aligned(rows, [False, True]),
        columns.aligned(table, [False, *[True] * 5]),
    ]
    shown = found.examples[:examples]
    if shown:
        total = len(found.examples)
        parts.append(
            f"right before, wrong under the searched wording ({len(shown)} of {total})"
        )
    return "\n\n".join([*parts, *map(_told, shown)])


def _told(one: Example) -> str:
    given, searched = ("nothing" if not v else " | ".join(v) for v in one.answers)
    return (
        f"{one.service}.{one.slot}: {one.descriptions[0]!r} -> {one.descriptions[1]!r}\n"
        f"  dialogue {one.dialogue_id}, turn {one.turn}: {one.utterance}\n"
        f"  annotated {' | '.join(one.annotated) or 'nothing'}; given wording: {given}; "
        f"searched wording: {searched}"
    )


def _percent(value: float | None) -> str:
    return "NA" if value is None else f"{100 * value:.1f}"


def as_json(found: Attack, schema: Schema, about: dict[str, Any]) -> dict[str, Any]:
    """Returns an attack as JSON; accuracies are shares, not per cent.

    Args:
      found: the attack.
      schema: services that were attacked, with the given descriptions.
      about: what it was made from.
    """
    services = {}
    for service in schema.services:
        one = found.services[service.name]
        changed = rewordings.worded(service, one.searched[0])
        services[service.name] = {
            "jga": {name: found.accuracy(name, service.name) for name in _WORDINGS},
            "log_likelihood": dict(
                zip((ORIGINAL, WORST, SEARCHED), one.likelihood, strict=True)
            ),
            "descriptions": {
                old.name: [old.description, new.description]
                for old, new in zip(service.slots, changed.slots, strict=True)
                if old != new
            },
        }
    return {
        "about": about,
        "jga": {name: found.accuracy(name) for name in _WORDINGS},
        "frames": len(found.goals[ORIGINAL]),
        "scored": sum(one.scored for one in found.services.values()),
        "services": services,
        "examples": [one._asdict() for one in found.examples],
    }


def variant_texts(
    found: Attack, schema: Schema, split: str, number: int
) -> list[dict[str, str]]:
    """Returns the searched texts by the ids of a whole schema, the worst wording first.

    Args:
      found: the attack.
      schema: of the split, with all services.
      split: part of the ids.
      number: of wordings; services with fewer repeat their last one.
    """
    wordings: list[dict[str, str]] = [{} for _ in range(number)]
    for place, service in enumerate(schema.services):
        if service.name in found.services:
            searched = found.services[service.name].searched
            for rank, texts in enumerate(wordings):
                for key, text in searched[min(rank, len(searched) - 1)].items():
                    _, _, rest = key.split("/", 2)
                    texts[f"{split}/{place}/{rest}"] = text
    return wordings
