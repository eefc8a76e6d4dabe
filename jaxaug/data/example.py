"""`jaxaug init`: a small data folder to begin one's own data from."""

import argparse
import json
from typing import Any

from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, reach, write_text
from jaxaug.data import folders
from jaxaug.data.minisgd.draw import Draw
from jaxaug.data.minisgd.simulator import between
from jaxaug.data.minisgd.world import ORIGINAL, service_json, services

SERVICES = ("Restaurants_1", "Trains_1")
DIALOGUES = {"train": 12, "dev": 4, "test": 4}
_BOTH = 4  # Every fourth dialogue is about both services.

_README = """\
# Data of a dialogue state tracker

This folder is an example in the layout of SGD, the Schema-Guided Dialogue data: two
services and 20 dialogues, which a program has made up. Put yours in their place.

    schema.json           what the services can do: all that a tracker reads about them
    dialogues_001.json    dialogues with the state after each turn of the user
    train/ dev/ test/     each with these two kinds of files: `dialogues_*.json`, as many
                          as you like; a service may be in test alone
    sgd_x/data/v1..v5/<split>/schema.json, variants/NAME/v1..v5/<split>/schema.json
                          the same schema in other words, written by people or by
                          `jaxaug augment`; none are here yet

JSON takes no comments, so here is what each field means. After every change:

    jaxaug data check {folder}

## schema.json: a list of services

| field | meaning |
|---|---|
| `service_name` | how dialogues name the service; each once |
| `description` | what it is for |
| `slots` | its arguments, each once; no two may have the same description |
| `slots[].name` | how states and spans name the slot; a tracker never reads it |
| `slots[].description` | what a tracker reads: say what the value is, in a few plain words |
| `slots[].is_categorical` | `true`: the value is one of a list; `false`: any text of the dialogue |
| `slots[].possible_values` | the list; empty for other slots |
| `intents` | what a user can want of the service |
| `intents[].name`, `intents[].description` | as for slots |
| `intents[].is_transactional` | whether it changes something (buy, reserve) or only looks things up |
| `intents[].required_slots` | slots without which it cannot be done |
| `intents[].optional_slots` | other slots, each with its default; `dontcare`: any will do |
| `intents[].result_slots` | slots that an answer of the service may have |

## dialogues_*.json: a list of dialogues

| field | meaning |
|---|---|
| `dialogue_id` | once in a split |
| `services` | names of the services that it is about |
| `turns` | USER and SYSTEM take turns; the user begins |
| `turns[].speaker`, `turns[].utterance` | who speaks, and the text |
| `turns[].frames` | one for each service that the turn is about |
| `frames[].service` | its name |
| `frames[].state` | in turns of the user: what the user wants so far |
| `state.active_intent` | an intent of the service, or `NONE` |
| `state.requested_slots` | slots that the user asks about in this turn |
| `state.slot_values` | slot -> a list of values, kept from turn to turn; more than one where it was worded in several ways |
| `frames[].slots` | where values stand in the utterance: `slot`, `start` and `exclusive_end` in characters from 0; may be empty |
| `frames[].actions` | what the speaker does, by slot: may be empty, as a tracker learns from states |
| `frames[].service_call`, `frames[].service_results` | in turns of the system: the call and what came back; may be absent |

## From here

    jaxaug augment --config configs/augment/eda.py --splits train,test --data_dir {folder} --out {folder}/variants/eda
    JAXAUG_DATA_DIR={folder} python -m t5x.train --gin_file=configs/d3st.gin --gin.MODEL_DIR=\\"runs/mine\\"
    jaxaug predict --run runs/mine --schema {folder}/test/schema.json --in dialogues.txt

`docs/own_schema.md` of jaxaug goes through it step by step.
"""


def write(out: PathLike) -> epath.Path:
    """Writes the example: splits with schemas and dialogues, and `README.md`.

    Args:
      out: a folder that does not exist or is empty, local or gs://.

    Raises:
      UserError: the folder holds something or cannot be written.
    """
    folder = reach(out, "Name a folder in another place.")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(
            f"{folder} holds something already, and nothing is overwritten. Name a new "
            "folder."
        )
    specs = [spec for spec in services() if spec.name in SERVICES]
    for split in folders.SPLITS:
        schema = [service_json(spec, ORIGINAL) for spec in specs]
        dialogues = []
        for index in range(DIALOGUES[split]):
            first, second = specs[index % 2], specs[1 - index % 2]
            both = second if index % _BOTH == _BOTH - 1 else None
            draw = Draw(f"example/{split}/{index}")
            dialogues.append(between(draw, first, both, index))
        _put(folder / split / "dialogues_001.json", dialogues)
        _put(folder / split / "schema.json", schema)
    write_text(folder / "README.md", _README.format(folder=folder))
    return folder


def _put(path: epath.Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(value, indent=2) + "\n")


def run(arguments: argparse.Namespace) -> int:
    """The verb `jaxaug init`."""
    folder = write(arguments.dir)
    number = sum(DIALOGUES.values())
    print(
        f"wrote {len(SERVICES)} services and {number} dialogues to {folder}; "
        f"{folder}/README.md explains every field"
    )
    return 0
