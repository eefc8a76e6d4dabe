"""Faithful rewordings of service descriptions, for `jaxaug advise` and `jaxaug attack`.

A rewording is faithful if the grammar produces it and the judge keeps it.
"""

import functools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from etils import epath

from jaxaug.augment import descriptions
from jaxaug.augment.descriptions import Description
from jaxaug.augment.grammar import engine, rules
from jaxaug.augment.judge import verdicts
from jaxaug.augment.judge.features import Pair
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.data import folders
from jaxaug.data.dialogue import Dialogue, Turn
from jaxaug.data.schema import Schema, Service
from jaxaug.formats.records import Parsed
from jaxaug.metrics import benchmark
from jaxaug.track.base import Place, Writer

if TYPE_CHECKING:  # `jaxaug sensitivity` works without JAX.
    from jaxaug.track.tracker import Tracker

_SPLIT = "schema"  # part of the ids, which treat each service as a whole schema
_CANDIDATES = 40  # maximum number of rewordings that are judged

Texts = Mapping[str, str]
"""Id of a description -> its text."""
Writers = Callable[["Tracker"], Writer | None]
"""Tracker -> function that computes its outputs; None uses the tracker itself."""


class Choice(NamedTuple):
    """A description, and its distinct possible texts; the present text comes first."""

    item: Description
    texts: tuple[str, ...]


def items_of(service: Service) -> list[Description]:
    """Returns the descriptions of a service that are not blank."""
    texts = service.description, *(one.description for one in service.slots)
    texts += tuple(one.description for one in service.intents)
    if not any(map(str.strip, texts)):
        return []
    return descriptions.descriptions(Schema((service,)), _SPLIT)


@functools.lru_cache(1024)
def choices(service: Service) -> tuple[Choice, ...]:
    """Returns the descriptions of a service, each with all faithful rewordings.

    Rewordings are in the order of the grammar. A rewording that equals another
    description of the service is left out, because it would describe two things.
    """
    items = items_of(service)
    contexts = rules.contexts(Schema((service,)))
    taken = {item.text.casefold() for item in items}
    found = []
    for item in items:
        reworded = engine.reword(item.text, contexts[item.text][0], _CANDIDATES)
        texts = [one.text for one in reworded if one.text.casefold() not in taken]
        judged = verdicts.verdicts([Pair(item.kind, item.text, text) for text in texts])
        kept = [t for t, verdict in zip(texts, judged, strict=True) if verdict.keep]
        found.append(Choice(item, (item.text, *kept)))
    return tuple(found)


def sampled(service: Service, number: int, seed: int | str) -> list[Choice]:
    """Draws rewordings of the slot descriptions of a service, deterministically.

    Args:
        service: the service; slots without a rewording are left out.
        number: maximum number of rewordings of a description.
        seed: seed of the draw, which differs between descriptions.

    Returns:
        The present text of each description, followed by its drawn rewordings.
    """
    found = []
    for item, (own, *others) in choices(service):
        if item.kind == "slot" and others:
            order = random.Random(f"{seed} {service.name} {item.id}")
            texts = order.sample(others, min(number, len(others)))
            found.append(Choice(item, (own, *texts)))
    return found


def in_split(schema: Schema, split: str, texts: Mapping[str, Texts]) -> dict[str, str]:
    """Returns the texts of services by their ids in a whole schema.

    Args:
        schema: schema of the split, with all services.
        split: the split, which is part of the ids.
        texts: name of a service -> its texts, by their ids in the service alone.
    """
    found = {}
    for place, service in enumerate(schema.services):
        for key, text in texts.get(service.name, {}).items():
            _, _, rest = key.split("/", 2)
            found[f"{split}/{place}/{rest}"] = text
    return found


def drawn(found: Sequence[Choice], number: int, seed: int) -> list[dict[str, str]]:
    """Draws texts for all descriptions of a service, deterministically.

    Args:
        found: the choices of one service. The counts of a description's texts differ by
          at most 1.
        seed: seed of the order, which differs between descriptions.
    """
    draws: list[dict[str, str]] = [{} for _ in range(number)]
    for one in found:
        order = random.Random(f"{seed} {one.item.service} {one.item.id}")
        texts: list[str] = []
        while len(texts) < number:
            texts += order.sample(one.texts, len(one.texts))
        for draw, text in zip(draws, texts, strict=False):
            draw[one.item.id] = text
    return draws


def worded(service: Service, texts: Texts) -> Service:
    """Returns a service with other descriptions; its names stay.

    A text is skipped if an earlier description of the service has it.
    """
    taken: set[str] = set()
    used: dict[str, str] = {}
    for item in items_of(service):
        text = texts.get(item.id, item.text)
        if text.casefold() not in taken:
            taken.add(text.casefold())
            used[item.id] = text
    return descriptions.with_texts(Schema((service,)), _SPLIT, used).services[0]


def worded_schema(schema: Schema, texts: Mapping[str, Texts]) -> Schema:
    """Returns a schema with other descriptions.

    Args:
        texts: name of a service -> its texts; services without an entry are unchanged.
    """
    found = [worded(one, texts.get(one.name, {})) for one in schema.services]
    return Schema(tuple(found))


def states(
    about: "Tracker", dialogues: Sequence[Dialogue], writers: Writers
) -> dict[Place, Parsed]:
    """Returns the predicted state of each frame of the dialogues."""
    return {
        (number, frame.turn, frame.service): frame.state
        for number, one in enumerate(about.predict_all(dialogues, writers(about)))
        for frame in one.frames
    }


def about_service(dialogues: Sequence[Dialogue], name: str) -> list[Dialogue]:
    """Returns the dialogues with user frames of a service; other frames are removed."""
    found = []
    for one in dialogues:
        turns = []
        for turn in one.turns:
            frames = [frame for frame, _ in benchmark.scored_frames(turn)]
            own = tuple(frame for frame in frames if frame.service == name)
            turns.append(Turn(turn.speaker, turn.utterance, own))
        if any(turn.frames for turn in turns):
            found.append(Dialogue(one.dialogue_id, (name,), tuple(turns)))
    return found


def check_new(out: PathLike) -> None:
    """Raises `UserError` if a variants folder exists or its name fits no task."""
    folder = epath.Path(out)
    folders.check_variants_name(folder)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UserError(f"--out {folder}: exists already. Name a new folder.")
