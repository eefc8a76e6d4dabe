"""A data set: lines `city<TAB>utterance` of one service."""

import json
from pathlib import Path

from jaxaug.data.datasets import DataSet

SLOT = {"name": "city", "description": "where to go", "is_categorical": False}
SLOT["possible_values"] = []
SERVICE = {"service_name": "Rides", "description": "book a ride"}
SERVICE |= {"slots": [SLOT], "intents": []}


def dialogue(name, line):
    city, text = line.split("\t")
    start = text.index(city)
    span = {"slot": "city", "start": start, "exclusive_end": start + len(city)}
    state = {"active_intent": "NONE", "requested_slots": []}
    state["slot_values"] = {"city": [city]}
    frame = {"service": "Rides", "slots": [span], "actions": [], "state": state}
    turn = {"speaker": "USER", "utterance": text, "frames": [frame]}
    return {"dialogue_id": name, "services": ["Rides"], "turns": [turn]}


def convert(source, out, mentioned_only):
    """Writes a data folder in the layout of SGD, for all formats and `jaxaug data`."""
    for number, split in enumerate(("train", "dev", "test")):
        lines = (source / f"{split}.tsv").read_text().splitlines()
        made = [dialogue(f"{number}_{n:05}", line) for n, line in enumerate(lines)]
        (out / split).mkdir(parents=True, exist_ok=True)
        (out / split / "schema.json").write_text(json.dumps([SERVICE]))
        (out / split / "dialogues_001.json").write_text(json.dumps(made))
    return "one turn a dialogue"


def tasks():
    """Registers additional tasks; `import tasks` calls it."""
    import seqio

    seqio.TaskRegistry.add(
        "rides_lines",
        source=seqio.TextLineDataSource({"train": "rides/train.tsv"}),
        preprocessors=[],
        output_features={"text": seqio.Feature(seqio.ByteVocabulary())},
    )


RIDES = DataSet(
    # A folder of this package; `hf:OWNER/NAME` names a data set of the hub.
    url=str(Path(__file__).with_name("jaxaug_house_rides")),
    keep=r"((?:train|dev|test)\.tsv)",
    layout="train.tsv, dev.tsv and test.tsv",
    convert=convert,
    tasks=tasks,
)
