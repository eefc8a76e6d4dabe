"""Turns dialogue states into calls: services are tools, annotated frames are cases."""

from collections.abc import Iterator
from itertools import islice

from etils import epath

from jaxaug.data import folders, sgd
from jaxaug.data.dialogue import Dialogue
from jaxaug.data.rename import Renaming
from jaxaug.data.schema import Intent, Schema, Service
from jaxaug.metrics.benchmark import scored_frames
from jaxaug.tools import Imported, tools_of
from jaxaug.tools.cases import Case, Message, Source, Tool
from jaxaug.tools.match import Expected

DONTCARE = "dontcare"
_TASK = (
    "Call the tool with everything that the user has asked for so far. Leave out "
    f"arguments that the user has not spoken about. The value {DONTCARE} means that "
    "the user has no preference."
)


def as_tool(service: Service) -> Service:
    """Returns a service with one intent, whose slots are all optional."""
    given = tuple((slot.name, DONTCARE) for slot in service.slots)
    intent = Intent(service.name, service.description, False, (), given, ())
    return Service(service.name, service.description, service.slots, (intent,))


def with_intents(original: Schema, tools: Schema) -> Schema:
    """Returns the schema of services that were reworded as tools; inverts `as_tool`.

    Args:
        original: supplies the names of the services, and their intents.
        tools: reworded tools in the same order, one service with one intent each. They
            supply the slots, and the intent's description becomes the service's.
    """
    return Schema(
        tuple(
            Service(own.name, one.intents[0].description, one.slots, own.intents)
            for own, one in zip(original.services, tools.services, strict=True)
        )
    )


def read(
    data_dir: epath.Path,
    split: str,
    variant: str | None = None,
    limit: int | None = None,
) -> Source:
    """Reads the annotated frames of a split as cases.

    Args:
        data_dir: data folder in the layout of SGD.
        split: "train", "dev" or "test".
        variant: name of the wording, such as "v1"; None means the original.
        limit: number of dialogues from the start; None means all.

    Raises:
        UserError: a file is missing or wrong.
    """
    folder, _ = folders.evaluated_variants(data_dir, split)
    schema = sgd.read_schema_of(data_dir, split, variant, folder)
    found = Imported("sgd", Schema(tuple(map(as_tool, schema.services))), ())
    made = tools_of(found, found.schema)
    tools = {s.name: t for s, t in zip(schema.services, made, strict=True)}
    names = _originals(sgd.renaming_of(data_dir, split, variant, folder))
    dialogues = islice(sgd.read_dialogues(data_dir, split, variant, folder), limit)
    cases = [
        case for one in dialogues for case in _frames(one, found.schema, tools, names)
    ]
    return Source(found, cases)


def _originals(names: Renaming | None) -> dict[object, str]:
    found: dict[object, str] = {}
    for old, new in (names or {}).items():
        found[new.service] = old
        found |= {(new.service, slot): own for own, slot in new.slots.items()}
    return found


def _frames(
    dialogue: Dialogue, schema: Schema, tools: dict[str, Tool], names: dict[object, str]
) -> Iterator[Case]:
    said: list[Message] = [{"role": "system", "content": _TASK}]
    for index, turn in enumerate(dialogue.turns):
        role = "user" if turn.speaker == "USER" else "assistant"
        said.append({"role": role, "content": turn.utterance})
        for frame, state in scored_frames(turn):
            service = schema.service(frame.service)
            listed = frozenset(s.name for s in service.slots if s.is_categorical)
            accepted = {
                slot: tuple(values[:1] if slot in listed else values)
                for slot, values in state.slot_values.items()
            }
            expected = Expected(
                tools[service.name]["function"]["name"], accepted, listed
            )
            original = names.get(service.name, service.name)
            yield Case(
                f"{dialogue.dialogue_id} {index} {original}",
                dialogue.dialogue_id,
                tuple(said),
                (tools[service.name],),
                (expected,),
                True,
                names,
            )
