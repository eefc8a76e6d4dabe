"""Two services and a few dialogues in the layout of SGD, for the fixture `sgd_tree`."""

import copy
import json
from pathlib import Path
from typing import Any


def _slot(name: str, description: str, *values: str) -> dict[str, Any]:
    return {
        "name": name,
        "description": description,
        "is_categorical": bool(values),
        "possible_values": list(values),
    }


def _intent(
    name: str, description: str, required: list[str], result: list[str],
    optional: dict[str, str] | None = None, transactional: bool = False,
) -> dict[str, Any]:  # fmt: skip
    return {
        "name": name,
        "description": description,
        "is_transactional": transactional,
        "required_slots": required,
        "optional_slots": optional or {},
        "result_slots": result,
    }


TRAINS: dict[str, Any] = {
    "service_name": "Trains_1",
    "description": "Tickets for trains",
    "slots": [_slot("city", "Where the train goes"),
     _slot("class", "Comfort on board", "first", "second"),
     _slot("price", "Cost of the ticket")],
    "intents": [_intent("FindTrain", "Look up a train", ["city"],
     ["city", "class", "price"], optional={"class": "second"}),
     _intent("BuyTicket", "Pay for a seat", ["city", "class"], ["price"],
     transactional=True)],
}  # fmt: skip

PARKS: dict[str, Any] = {
    "service_name": "Parks_1",
    "description": "Gardens and parks",
    "slots": [
        _slot("park", "Name of the park"),
        _slot("intent", "What to do in the park", "picnic", "run"),
    ],
    "intents": [_intent("FindPark", "Look for a park", ["intent"], ["park", "intent"])],
}


def variant(service: dict[str, Any], version: int) -> dict[str, Any]:
    service = copy.deepcopy(service)
    service["service_name"] += str(version)
    service["description"] += f" (wording {version})"
    for slot in service["slots"]:
        slot["name"] += f"_v{version}"
        slot["description"] += f" (wording {version})"
    for intent in service["intents"]:
        intent["name"] += f"_v{version}"
        for key in ("required_slots", "result_slots"):
            intent[key] = [f"{name}_v{version}" for name in intent[key]]
        intent["optional_slots"] = {
            f"{name}_v{version}": value
            for name, value in intent["optional_slots"].items()
        }
    return service


def _action(act: str, slot: str = "", *values: str) -> dict[str, Any]:
    return {
        "act": act,
        "slot": slot,
        "values": list(values),
        "canonical_values": list(values),
    }


def _turn(speaker: str, utterance: str, *frames: dict[str, Any]) -> dict[str, Any]:
    return {"speaker": speaker, "utterance": utterance, "frames": list(frames)}


def _frame(
    service: str, *actions: dict[str, Any], spans: Any = (), **fields: Any
) -> dict[str, Any]:
    slots = [{"slot": s, "start": a, "exclusive_end": b} for s, a, b in spans]
    return {"service": service, "slots": slots, "actions": list(actions), **fields}


def _state(active: str, requested: list[str], **values: list[str]) -> dict[str, Any]:
    return {
        "active_intent": active,
        "requested_slots": requested,
        "slot_values": values,
    }


def trip(dialogue_id: str, city: str) -> dict[str, Any]:
    """Returns three turns of Trains_1 with a service call; `city` has four letters."""
    return {
        "dialogue_id": dialogue_id,
        "services": ["Trains_1"],
        "turns": [
            _turn(
                "USER",
                f"A train to {city} please",
                _frame(
                    "Trains_1",
                    _action("INFORM", "city", city),
                    _action("INFORM_INTENT", "intent", "FindTrain"),
                    spans=[("city", 11, 15)],
                    state=_state("FindTrain", [], city=[city]),
                ),
            ),
            _turn(
                "SYSTEM",
                "I found 2. The price is 30.",
                _frame(
                    "Trains_1",
                    _action("INFORM_COUNT", "count", "2"),
                    _action("OFFER_INTENT", "intent", "BuyTicket"),
                    service_call={"method": "FindTrain", "parameters": {"city": city}},
                    service_results=[
                        {"city": city, "class": "first", "price": "30"},
                        {"city": city, "class": "second", "price": "20"},
                    ],
                ),
            ),
            _turn(
                "USER",
                "First class. What is the price again?",
                _frame(
                    "Trains_1",
                    _action("REQUEST", "price"),
                    state=_state(
                        "BuyTicket", ["price"], **{"city": [city], "class": ["first"]}
                    ),
                ),
            ),
        ],
    }


def day_out(dialogue_id: str) -> dict[str, Any]:
    """Returns two turns; the user turn has a frame of Parks_1 and one of Trains_1."""
    return {
        "dialogue_id": dialogue_id,
        "services": ["Parks_1", "Trains_1"],
        "turns": [
            _turn(
                "USER", "A park for a picnic, and a train there",
                _frame("Parks_1", _action("INFORM", "intent", "picnic"),
                 _action("INFORM_INTENT", "intent", "FindPark"),
                 state=_state("FindPark", ["park"], intent=["picnic", "a picnic"])),
                _frame("Trains_1", state=_state("NONE", [])),
            ),
            _turn(
                "SYSTEM",
                "Try Green Park",
                _frame(
                    "Parks_1",
                    _action("OFFER", "park", "Green Park"),
                    spans=[("park", 4, 14)],
                ),
            ),
        ],
    }  # fmt: skip


def write(root: Path) -> Path:
    """Writes the folder of the fixture `sgd_tree`, with variants v1 to v5."""
    schemas = {"train": [TRAINS], "dev": [TRAINS, PARKS], "test": [PARKS, TRAINS]}
    dialogues = {
        "train": [[trip("1_00000", "Oslo")], [trip("2_00000", "Rome")]],
        "dev": [[trip("3_00000", "Bern"), day_out("3_00001")]],
        "test": [[day_out("4_00000"), trip("4_00001", "Kyiv")]],
    }
    content: dict[str, Any] = {}
    for split, services in schemas.items():
        content[f"{split}/schema.json"] = services
        for number, one in enumerate(dialogues[split], 1):
            content[f"{split}/dialogues_{number:03}.json"] = one
        for version in range(1, 6):
            worded = [variant(service, version) for service in services]
            content[f"sgd_x/data/v{version}/{split}/schema.json"] = worded
    for name, data in content.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(json.dumps(data))
    return root
