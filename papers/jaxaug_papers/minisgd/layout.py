"""Files of the SGD layout, written record by record."""

import json
from collections.abc import Callable
from typing import Any

from etils import epath

from jaxaug_papers.minisgd.simulator import FILE_DIALOGUES


def write_records(path: epath.Path, records: list[dict[str, Any]]) -> None:
    """Writes a JSON list, one record per line; json's fast encoder cannot indent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(record) for record in records)
    path.write_text(f"[\n{lines}\n]\n")


def write_dialogues(
    folder: epath.Path, size: int, dialogue: Callable[[int], dict[str, Any]]
) -> None:
    """Writes `dialogues_001.json` and so on, with one file in memory at a time."""
    for number, start in enumerate(range(0, size, FILE_DIALOGUES), start=1):
        indices = range(start, min(start + FILE_DIALOGUES, size))
        path = folder / f"dialogues_{number:03d}.json"
        write_records(path, [dialogue(index) for index in indices])
