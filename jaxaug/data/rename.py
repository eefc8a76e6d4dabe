"""Renames dialogues from one schema to a variant, matched by position (SGD-X).

A variant has the services, slots, and intents of the original in the same order, with
other names and descriptions. Service names change too; SGD-X appends the digit of the
variant. The same fields are renamed as in the generation script of SGD-X, so that other
tools read the result as SGD-X dialogues.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jaxaug.core.files import shown
from jaxaug.core.json_places import Keys
from jaxaug.data.schema import Problem, Schema, refuse

MISMATCH = "variant does not match"

# Actions whose values are names of intents.
INTENT_ACTS = frozenset({"INFORM_INTENT", "OFFER_INTENT"})


@dataclass(frozen=True, slots=True)
class ServiceNames:
    """New names of one service and of its slots and intents."""

    service: str
    slots: Mapping[str, str]
    intents: Mapping[str, str]


Renaming = Mapping[str, ServiceNames]
"""Original service name -> new names."""


def renaming(original: Schema, variant: Schema, where: str) -> Renaming:
    """Returns the new names of each service, matched by position.

    Args:
        original: schema with the names in the dialogues.

    Raises:
        UserError: the schemas differ in the number of services, or two services differ
            in their numbers of slots or intents, or in the slots that are categorical.
    """
    refuse(mismatches(original, variant), where)
    return {
        old.name: ServiceNames(
            new.name,
            {a.name: b.name for a, b in zip(old.slots, new.slots, strict=True)},
            {a.name: b.name for a, b in zip(old.intents, new.intents, strict=True)},
        )
        for old, new in zip(original.services, variant.services, strict=True)
    }


def mismatches(original: Schema, variant: Schema) -> list[Problem]:
    """Returns the reasons why a variant cannot be matched; see `renaming`.

    The keys of the problems are paths in the file of the variant.
    """
    found = _other_length("service", original.services, variant.services, "", ())
    # Pairs are compared only if the numbers agree.
    for index, (old, new) in enumerate(
        zip(original.services, variant.services, strict=True) if not found else ()
    ):
        here = f"service {shown(new.name)} (variant of {shown(old.name)})"
        keys = (index, "slots")
        surplus = _other_length("slot", old.slots, new.slots, here, keys)
        found += surplus
        pairs = () if surplus else zip(old.slots, new.slots, strict=True)
        for number, (old_slot, new_slot) in enumerate(pairs):
            if old_slot.is_categorical != new_slot.is_categorical:
                text = (
                    f"slot {shown(new_slot.name)} stands where the original has "
                    f"{shown(old_slot.name)}, but is_categorical is "
                    f"{new_slot.is_categorical} instead of {old_slot.is_categorical}"
                )
                place = (*keys, number, "is_categorical")
                fix = "A variant keeps the order of the original's slots: restore it."
                found.append(Problem(MISMATCH, place, here, text, fix))
        keys = (index, "intents")
        found += _other_length("intent", old.intents, new.intents, here, keys)
    return found


def _other_length(
    what: str, old: tuple, new: tuple, place: str, keys: Keys
) -> list[Problem]:
    if len(old) == len(new):
        return []
    text = f"{len(new)} {what}s, but the original has {len(old)}"
    fix = (
        "A variant holds the same services, slots and intents as the original, in the "
        "same order: restore the missing ones or remove the surplus."
    )
    return [Problem(MISMATCH, keys, place, text, fix)]


def rename_dialogue(dialogue: dict[str, Any], names: Renaming) -> None:
    """Renames the JSON object of one checked dialogue in place.

    Changes services, spans, states, actions, service calls, and service results. Names
    that the schema lacks, such as the action slot `count`, stay unchanged.
    """
    dialogue["services"] = [names[s].service for s in dialogue["services"]]
    for turn in dialogue["turns"]:
        for frame in turn["frames"]:
            _rename_frame(frame, names[frame["service"]])


def _rename_frame(frame: dict[str, Any], names: ServiceNames) -> None:
    slots, intents = names.slots, names.intents
    frame["service"] = names.service
    for span in frame.get("slots", ()):
        span["slot"] = slots.get(span["slot"], span["slot"])
    for action in frame.get("actions", ()):
        _rename_action(action, names)
    state = frame.get("state")
    if state is not None:
        active = state["active_intent"]
        state["active_intent"] = intents.get(active, active)
        state["requested_slots"] = [slots.get(s, s) for s in state["requested_slots"]]
        state["slot_values"] = _renamed_keys(state["slot_values"], slots)
    call = frame.get("service_call")
    if call is not None:
        call["method"] = intents.get(call["method"], call["method"])
        call["parameters"] = _renamed_keys(call["parameters"], slots)
    if "service_results" in frame:
        frame["service_results"] = [
            _renamed_keys(result, slots) for result in frame["service_results"]
        ]


def _rename_action(action: dict[str, Any], names: ServiceNames) -> None:
    slot = action.get("slot")
    if slot is None:
        return
    # Only the act shows whether "intent" is a slot of the service.
    if slot == "intent" and action["act"] in INTENT_ACTS:
        for key in ("values", "canonical_values"):
            if key in action:
                action[key] = [names.intents.get(v, v) for v in action[key]]
    else:
        action["slot"] = names.slots.get(slot, slot)


def _renamed_keys(values: Mapping[str, Any], slots: Mapping[str, str]) -> dict:
    return {slots.get(name, name): value for name, value in values.items()}
