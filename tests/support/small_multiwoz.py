"""A few invented dialogues in the public layout of MultiWOZ 2.2."""

import json
from pathlib import Path
from typing import Any


def _slot(name: str, values: list[str] | None, **more: Any) -> dict[str, Any]:
    slot = {"name": name, "description": f"the {name}", "is_categorical": bool(values)}
    return slot | ({} if values is None else {"possible_values": values}) | more


def _service(name: str, intents: list[str], slots: list[dict[str, Any]]) -> Any:
    taken = {slot["name"]: "dontcare" for slot in slots if "possible_values" in slot}
    return {
        "service_name": name,
        "description": f"about {name}",
        "slots": slots,
        "intents": [
            {
                "name": intent,
                "description": f"to {intent}",
                "is_transactional": False,
                "required_slots": [],
                "optional_slots": taken,
            }
            for intent in intents
        ],
    }


SCHEMA = [
    _service("hotel", ["find_hotel", "book_hotel"],
     [_slot("hotel-area", ["centre", "north"]), _slot("hotel-name", []),
     _slot("hotel-phone", None)]),
    _service("taxi", ["book_taxi"], [_slot("taxi-destination", []),
     _slot("taxi-leaveat", [])]),
    _service("police", ["police"], [_slot("police-name", ["parkside"])]),
]  # fmt: skip


def frame(service: str, intent: str = "NONE", slots: Any = (), **values: list[str]):
    """Returns a user frame; its slots are given without the name of the service."""
    state = {
        "active_intent": intent,
        "requested_slots": [],
        "slot_values": {f"{service}-{name}": found for name, found in values.items()},
    }
    return {"actions": [], "service": service, "slots": list(slots), "state": state}


def dialogue(name: str, services: list[str], *turns: tuple[str, list[Any]]) -> Any:
    """Returns a dialogue of turns (utterance, frames); the user speaks first."""
    return {
        "dialogue_id": name,
        "services": services,
        "turns": [
            {
                "frames": frames,
                "speaker": "SYSTEM" if number % 2 else "USER",
                "turn_id": str(number),
                "utterance": said,
            }
            for number, (said, frames) in enumerate(turns)
        ],
    }


SPAN = {"slot": "hotel-name", "start": 4, "exclusive_end": 9, "value": "acorn"}
COPIED = {"slot": "taxi-destination", "copy_from": "hotel-name", "value": ["acorn"]}


def both(name: str) -> Any:
    """Returns a dialogue about a hotel and a taxi to it."""
    named = {"name": ["acorn", "the acorn"]}
    return dialogue(
        name, ["hotel", "taxi"],
        ("the acorn please", [frame("hotel", "find_hotel", [SPAN], **named)]),
        ("the acorn it is", [{"actions": [], "service": "hotel", "slots": [SPAN]}]),
        ("a taxi there, at 8pm", [frame("hotel", **named), frame("taxi", "book_taxi",
         [COPIED], destination=["acorn"], leaveat=["8pm", "20:00"]), frame("police")]),
    )  # fmt: skip


def hotel(name: str) -> Any:
    """Returns a dialogue about a hotel; it has frames of other domains too."""
    found = frame("hotel", "find_hotel", area=["north"])
    return dialogue(
        name, ["hotel"], ("one in the north", [found, frame("taxi"), frame("police")])
    )


def police(name: str) -> Any:
    """Returns a dialogue without service; its intent is not in the schema."""
    return dialogue(name, [], ("help", [frame("police", "find_police")]))


def write(root: Path) -> Path:
    """Writes the folder: train has both and hotel, dev hotel, test both and police."""
    splits = {
        "train": [both("A.json"), hotel("B.json")],
        "dev": [hotel("C.json")],
        "test": [both("D.json"), police("E.json")],
    }
    root.mkdir(parents=True)
    (root / "schema.json").write_text(json.dumps(SCHEMA))
    for split, dialogues in splits.items():
        (root / split).mkdir()
        (root / split / "dialogues_001.json").write_text(json.dumps(dialogues))
    return root
