"""A small data set in SGD layout, corrupted predictions, and the second scorer."""

import copy
import importlib.util
import json
import random
from pathlib import Path

import pytest

SERVICES = {
    # name -> [(slot, values of a categorical slot or None)], intents
    "Restaurants_1": (
        [
            ("city", None),
            ("cuisine", ["Italian", "Thai", "Tex-Mex"]),
            ("party_size", ["1", "2", "3"]),
            ("time", None),
        ],
        ["FindRestaurants", "ReserveRestaurant"],
    ),
    "Hotels_2": (
        [("where_to", None), ("has_wifi", ["True", "False"]), ("hotel_name", None)],
        ["SearchHotel"],
    ),
    "Alarm_1": ([("alarm_name", None), ("alarm_time", None)], ["AddAlarm"]),
    "Lights_1": ([("room", ["Kitchen", "Hall"])], ["SwitchOn"]),
}
FREE_VALUES = [
    ["San José", "San Jose"], ["half past 5 in the evening", "5:30 pm", "17:30"],
    ["Café Zoë"], ["the day after tomorrow", "March 9th"], ["O’Hare"], ["東京", "Tokyo"],
    ["Łódź"], ["???"],
]  # fmt: skip


def load_module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def oracle():
    """Returns the second scorer, `oracle.py` in this folder."""
    return load_module(Path(__file__).parent / "oracle.py")


def schema_object(names, variant=""):
    return [
        {
            "service_name": name + variant,
            "description": f"the service {name}",
            "slots": [
                {
                    "name": slot + variant,
                    "description": f"what {slot} is",
                    "is_categorical": values is not None,
                    "possible_values": values or [],
                }
                for slot, values in SERVICES[name][0]
            ],
            "intents": [
                {
                    "name": intent + variant,
                    "description": f"to do {intent}",
                    "is_transactional": False,
                    "required_slots": [],
                    "optional_slots": {},
                    "result_slots": [],
                }
                for intent in SERVICES[name][1]
            ],
        }
        for name in names
    ]


def random_state(rng, service):
    slots, intents = SERVICES[service]
    values = {}
    for slot, options in slots:
        if rng.random() < 0.6:
            values[slot] = [rng.choice(options)] if options else rng.choice(FREE_VALUES)
    requested = [slot for slot, _ in slots if rng.random() < 0.2]
    return {
        "active_intent": rng.choice([*intents, "NONE"]),
        "requested_slots": requested,
        "slot_values": values,
    }


def dialogue_object(rng, number):
    services = rng.sample(sorted(SERVICES), rng.choice([1, 1, 2, 3]))
    turns = []
    for index in range(rng.randint(1, 4)):
        text = f"turn {index}: San José at 5:30 pm, please"
        frames = []
        for service in services[: rng.randint(1, len(services))]:
            free = [slot for slot, options in SERVICES[service][0] if not options]
            spans = [
                {"slot": slot, "start": 8, "exclusive_end": rng.randint(9, len(text))}
                for slot in free
                if rng.random() < 0.5
            ]
            state = random_state(rng, service)
            frames.append(
                {"service": service, "slots": spans, "actions": [], "state": state}
            )
        turns.append({"speaker": "USER", "utterance": text, "frames": frames})
        system = {"service": services[0], "slots": [], "actions": []}
        turns.append({"speaker": "SYSTEM", "utterance": "fine", "frames": [system]})
    return {"dialogue_id": f"1_{number:05d}", "services": services, "turns": turns}


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory):
    """Returns a data folder: two of four services are in train; variants v1..v5."""
    folder = tmp_path_factory.mktemp("sgd")
    names = {"train": ["Restaurants_1", "Hotels_2"], "test": sorted(SERVICES)}
    rng = random.Random(0)
    for split, services in names.items():
        write_json(folder / split / "schema.json", schema_object(services))
        for variant in ("v1", "v2", "v3", "v4", "v5"):
            path = folder / "sgd_x" / "data" / variant / split / "schema.json"
            write_json(path, schema_object(services, variant[1]))
    for file in range(3):
        dialogues = [dialogue_object(rng, 40 * file + n) for n in range(40)]
        write_json(folder / "test" / f"dialogues_{file + 1:03d}.json", dialogues)
    return folder


def rename(dialogue, digit):
    """Returns the dialogue in the words of variant `digit`."""
    dialogue = copy.deepcopy(dialogue)
    dialogue["services"] = [name + digit for name in dialogue["services"]]
    for turn in dialogue["turns"]:
        for frame in turn["frames"]:
            frame["service"] += digit
            for span in frame.get("slots", ()):
                span["slot"] += digit
            state = frame.get("state")
            if state is None:
                continue
            if state["active_intent"] != "NONE":
                state["active_intent"] += digit
            state["requested_slots"] = [s + digit for s in state["requested_slots"]]
            state["slot_values"] = {
                slot + digit: values for slot, values in state["slot_values"].items()
            }
    return dialogue


@pytest.fixture(scope="session")
def renamed():
    return rename


def corrupt_text(rng, text):
    """Returns `text` with a few characters changed, dropped, doubled, or replaced."""
    characters = list(text)
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(characters) + 1)
        part = rng.choice(["", "x", "É", "ß", "’", " ", "-", "中", "7", "_", "İ"])
        characters[place : place + rng.randint(0, 1)] = part
    rng.random() < 0.2 and rng.shuffle(characters)
    return "".join(characters)


def corrupt_state(rng, state):
    values = state["slot_values"]
    for slot in list(values):
        kind = rng.random()
        if kind < 0.1:
            del values[slot]
        elif kind < 0.3:
            values[slot] = [corrupt_text(rng, values[slot][0]), *values[slot][1:]]
        elif kind < 0.4:
            values[slot] = list(reversed(values[slot]))
    if len(values) > 1 and rng.random() < 0.2:
        first, second = rng.sample(sorted(values), 2)
        values[first], values[second] = values[second], values[first]
    if rng.random() < 0.1:
        values[rng.choice(["no_such_slot", "dontcare"])] = ["5 pm"]
    if rng.random() < 0.2:
        state["active_intent"] = rng.choice(["NONE", "NoSuchIntent"])
    requested = state["requested_slots"]
    if rng.random() < 0.2:
        requested.append(rng.choice([*requested, "city", "price"]))
    if requested and rng.random() < 0.2:
        requested.remove(rng.choice(requested))


@pytest.fixture(scope="session")
def corrupted():
    """Returns a function that damages reference dialogues by a seed."""

    def corrupt(dialogues, seed, extra_slots=None):
        rng = random.Random(seed)
        result = copy.deepcopy(dialogues)
        for dialogue in result.values():
            for turn in dialogue["turns"]:
                for frame in turn["frames"]:
                    if "state" not in frame:
                        continue
                    corrupt_state(rng, frame["state"])
                    if extra_slots and rng.random() < 0.1:
                        slot = rng.choice(extra_slots[frame["service"]])
                        frame["state"]["slot_values"].setdefault(slot, ["5 pm"])
                    if rng.random() < 0.3:
                        frame.pop("slots", None)
                    elif frame.get("slots") and rng.random() < 0.3:
                        frame["slots"].pop()
        return result

    return corrupt
