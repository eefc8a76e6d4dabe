"""Problems that readers accept but that harm the training or scores of a tracker.

SGD itself satisfies every rule except the notes.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jaxaug.core.files import shown
from jaxaug.core.json_places import Keys
from jaxaug.core.suggestion import suggestion
from jaxaug.core.text import clean
from jaxaug.data.check import place_of
from jaxaug.data.problem import Problem
from jaxaug.data.rename import MISMATCH
from jaxaug.data.schema import Intent, Schema, Service, Slot

DONTCARE = "dontcare"

Unreadable = Callable[[str, str, str], Sequence[str]]
"""(service, slot, value) -> the formats that cannot read the value back."""


def no_format(service: str, slot: str, value: str) -> Sequence[str]:
    """Returns no format; the `Unreadable` of checks without formats."""
    del service, slot, value
    return ()


def dialogue(
    data: list[Any], index: int, schema: Schema, unreadable: Unreadable = no_format
) -> Iterator[Problem]:
    """Yields the problems of a dialogue that passes `check.dialogue_problems`.

    The rules are:

    - The id has no line break or tab.
    - Speakers alternate, and the user begins.
    - No value is blank.
    - A categorical value is a possible value of the slot, or `dontcare`.
    - The text of a span is a value of its slot.

    Notes report empty utterances, user frames without a state, and values that a format
    cannot read back.
    """
    name = data[index]["dialogue_id"]
    yield from _name(name, (index, "dialogue_id"), f"dialogue {shown(name)}", "id")
    speakers = ("USER", "SYSTEM")
    for number, turn in enumerate(data[index]["turns"]):
        keys: Keys = (index, "turns", number)
        place = place_of(data, keys)
        if turn["speaker"] != speakers[number % 2]:
            got = f"expected {speakers[number % 2]}, got {turn['speaker']}"
            text = f"{got}: speakers take turns, the user begins"
            fix = "Join the turns of one speaker, or add the missing one."
            yield Problem("speaker order", (*keys, "speaker"), place, text, fix)
            # A single extra turn must not make all later turns wrong.
            speakers = speakers[::-1]
        if not turn["utterance"].strip():
            text, fix = "the utterance is empty", "Leave it so if nothing was said."
            yield Problem("no text", (*keys, "utterance"), place, text, fix, True)
        for frame_number, frame in enumerate(turn["frames"]):
            here = (*keys, "frames", frame_number)
            place = place_of(data, here)
            yield from _frame(turn, frame, here, place, schema, unreadable)


def _name(name: str, keys: Keys, place: str, what: str) -> Iterator[Problem]:
    """Yields a problem if a name is blank, or has a line break or a tab."""
    problem = "" if name.strip() else "is blank"
    if name.splitlines() != [name] or "\t" in name:
        problem = "holds a line break or a tab, which ends a line or field of tables"
    if problem:
        text = f"the {what} {shown(name)} {problem}"
        fix = "Rename it, everywhere in the folder."
        yield Problem("name with a line break", keys, place, text, fix)


def _blank(value: str, keys: Keys, place: str, slot: str) -> Iterator[Problem]:
    if not value.strip():
        text = (
            f"slot {shown(slot)} has the value {shown(value)}, which no format can "
            "write"
        )
        fix = "Write the value, or leave it out."
        yield Problem("empty value", keys, place, text, fix)


def _unread(
    names: Sequence[str], keys: Keys, place: str, slot: str, value: str
) -> Iterator[Problem]:
    if names:
        text = (
            f"slot {shown(slot)} has the value {shown(value)}, which cannot be read "
            f"back from the text of {', '.join(names)}"
        )
        fix = "Reword the value, or use another format."
        yield Problem("value not read back", keys, place, text, fix, True)


def _frame(
    turn: dict[str, Any],
    frame: dict[str, Any],
    keys: Keys,
    place: str,
    schema: Schema,
    unreadable: Unreadable,
) -> Iterator[Problem]:
    service = schema.service(frame["service"])
    state = frame.get("state")
    if state is None and turn["speaker"] == "USER":
        name = shown(service.name)
        text = f"the frame of {name} has no state: nothing is learned from it"
        fix = "Add the state, or leave it so on purpose."
        yield Problem("no state", keys, place, text, fix, True)
    values = state["slot_values"] if state else {}
    for name, found in values.items():
        slot = service.slot(name)
        # A categorical slot without possible values is a problem of the schema.
        possible = slot.possible_values if slot.is_categorical else ()
        for number, value in enumerate(found):
            here = (*keys, "state", "slot_values", name, number)
            if not value.strip():
                yield from _blank(value, here, place, name)
            elif not possible:
                lost = unreadable(service.name, name, value)
                yield from _unread(lost, here, place, name, value)
            elif value not in possible and value != DONTCARE:
                hint = suggestion(value, possible).rstrip(".")
                text = (
                    f"slot {shown(name)} has the value {shown(value)}, expected one of "
                    f"its possible_values or {DONTCARE!r} ({hint})"
                )
                fix = "Correct the value, or add it to the schema."
                yield Problem("value not possible", here, place, text, fix)
    for number, action in enumerate(frame.get("actions", ())):
        for key in ("values", "canonical_values"):
            for place_in, value in enumerate(action.get(key, ())):
                here = (*keys, "actions", number, key, place_in)
                yield from _blank(value, here, place, action.get("slot", ""))
    for number, span in enumerate(frame.get("slots", ())):
        yield from _span(turn, frame, values, span, (*keys, "slots", number), place)


def _span(
    turn: dict[str, Any],
    frame: dict[str, Any],
    state: dict[str, list[str]],
    span: dict[str, Any],
    keys: Keys,
    place: str,
) -> Iterator[Problem]:
    name = span["slot"]
    said = [
        value
        for action in frame.get("actions", ())
        if action.get("slot") == name
        for value in (*action.get("values", ()), *action.get("canonical_values", ()))
    ]
    # In SGD a state may lack a value that the user mentions; actions have all values.
    values = said or state.get(name, [])
    text = turn["utterance"][span["start"] : span["exclusive_end"]]
    if values and text not in values:
        where = [turn["utterance"].find(value) for value in values]
        best = next(
            ((at, v) for at, v in zip(where, values, strict=True) if at >= 0), None
        )
        hint = f"{shown(best[1])} begins at {best[0]}. " if best else ""
        found = (
            f"slot {shown(name)}: the text from {span['start']} to "
            f"{span['exclusive_end']} is {shown(text)}, expected one of its values: "
            f"{shown(values)}"
        )
        fix = (
            f"{hint}Correct start and exclusive_end (characters, from 0), or the value."
        )
        yield Problem("span is not the value", (*keys, "start"), place, found, fix)


def schema(
    of: Schema, is_note: bool, unreadable: Unreadable = no_format
) -> Iterator[Problem]:
    """Yields the problems of a schema that passes `check_schema`.

    Within a service, descriptions are distinct and not empty. Names have no line breaks
    or tabs, and no possible value is blank. A note reports possible values that a
    format cannot read back.

    Args:
        of: schema to check.
        is_note: whether repeated descriptions are only notes, as in variants, whose
            paraphrases may coincide.
        unreadable: finds the formats that cannot read a value back.
    """
    for index, service in enumerate(of.services):
        yield from _names_and_values(service, index, unreadable)
        yield from _descriptions(service, index, "slots", service.slots, is_note)
        yield from _descriptions(service, index, "intents", service.intents, is_note)


def _descriptions(
    service: Service,
    index: int,
    field: str,
    items: Sequence[Slot | Intent],
    is_note: bool,
) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for number, item in enumerate(items):
        described = clean(item.description, True).rstrip(" .")
        keys = (index, field, number, "description")
        place = f"service {shown(service.name)}, {field[:-1]} {shown(item.name)}"
        if not described:
            text = "the description is empty, and it is all that a tracker reads"
            fix = "Say in a few words what it means."
            yield Problem("no description", keys, place, text, fix, is_note)
        elif described in first:
            text = (
                f"has the description of {shown(first[described])}, "
                f"{shown(item.description)}: a tracker cannot tell them apart"
            )
            fix = "Say in what they differ."
            yield Problem("repeated description", keys, place, text, fix, is_note)
        first.setdefault(described, item.name)


def _names_and_values(
    service: Service, index: int, unreadable: Unreadable
) -> Iterator[Problem]:
    place = f"service {shown(service.name)}"
    yield from _name(service.name, (index, "service_name"), place, "name")
    for number, intent in enumerate(service.intents):
        keys: Keys = (index, "intents", number, "name")
        yield from _name(intent.name, keys, place, "name of the intent")
    for number, slot in enumerate(service.slots):
        keys = (index, "slots", number, "name")
        yield from _name(slot.name, keys, place, "name of the slot")
        for at, value in enumerate(slot.possible_values):
            keys = (index, "slots", number, "possible_values", at)
            yield from _blank(value, keys, place, slot.name)
            if slot.is_categorical and value.strip():
                lost = unreadable(service.name, slot.name, value)
                yield from _unread(lost, keys, place, slot.name, value)


def variant(original: Schema, other: Schema) -> Iterator[Problem]:
    """Yields the problems of a variant that passes `rename.mismatches`.

    Services keep their order, and categorical slots keep their values. A note reports a
    slot or intent whose name belongs to another one in the original service.
    """
    names = [service.name for service in original.services]
    for index, (old, new) in enumerate(
        zip(original.services, other.services, strict=True)
    ):
        # SGD-X appends the number of the variant.
        meant = new.name if new.name in names else new.name[:-1]
        if meant in names and meant != old.name:
            at = f"stands where the original has {shown(old.name)}"
            text, place = f"{at}, and is called like {shown(meant)}", shown(new.name)
            fix = "Variants are matched by position: restore the order of the services."
            keys: Keys = (index, "service_name")
            yield Problem(MISMATCH, keys, f"service {place}", text, fix)
            continue
        here = f"service {shown(new.name)} (variant of {shown(old.name)})"
        for number, (a, b) in enumerate(zip(old.slots, new.slots, strict=True)):
            if not (a.is_categorical and a.possible_values):
                continue
            if {*a.possible_values} != {*b.possible_values}:
                mine, theirs = list(b.possible_values), list(a.possible_values)
                text = (
                    f"slot {shown(b.name)} has the values {shown(mine)}, the "
                    f"original's {shown(a.name)} has {shown(theirs)}"
                )
                fix = "Dialogues keep their values: restore the values of the original."
                keys = (index, "slots", number, "possible_values")
                yield Problem(MISMATCH, keys, here, text, fix)
        yield from _moved("slot", old.slots, new.slots, (index, "slots"), here)
        yield from _moved("intent", old.intents, new.intents, (index, "intents"), here)


def _moved(
    what: str,
    old: Sequence[Slot | Intent],
    new: Sequence[Slot | Intent],
    keys: Keys,
    place: str,
) -> Iterator[Problem]:
    names = [item.name for item in old]
    for number, item in enumerate(new):
        if item.name in names and item.name != names[number]:
            text = (
                f"{what} {shown(item.name)} stands where the original has "
                f"{shown(names[number])}, and another {what} of the original has its "
                "name"
            )
            fix = "Variants are matched by position: see whether the order was lost."
            at = (*keys, number, "name")
            yield Problem("name of another", at, place, text, fix, True)
