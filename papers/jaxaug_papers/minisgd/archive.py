"""`python -m jaxaug_papers.minisgd.archive`: packs the MiniSGD that jaxaug ships.

To be run after every change of this package; a test compares the archive with it.
"""

import io
import json
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from jaxaug.core.files import write_bytes
from jaxaug.data import minisgd as shipped
from jaxaug_papers import minisgd
from jaxaug_papers.minisgd.draw import Draw
from jaxaug_papers.minisgd.simulator import between
from jaxaug_papers.minisgd.world import ORIGINAL, service_json, services

_SERVICES = ("Restaurants_1", "Trains_1")
_DIALOGUES = {"train": 12, "dev": 4, "test": 4}
_BOTH = 4  # Every fourth dialogue of the example is about both services.


def contents() -> dict[str, bytes]:
    """Returns a map from path to content of the files in the archive."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(minisgd.write(Path(scratch) / "world"))
        world = {
            f"world/{path.relative_to(root).as_posix()}": path.read_bytes()
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }
    return world | _example()


def _example() -> dict[str, bytes]:
    specs = [spec for spec in services() if spec.name in _SERVICES]
    found = {}
    for split, size in _DIALOGUES.items():
        dialogues = []
        for index in range(size):
            first, second = specs[index % 2], specs[1 - index % 2]
            both = second if index % _BOTH == _BOTH - 1 else None
            draw = Draw(f"example/{split}/{index}")
            dialogues.append(between(draw, first, both, index))
        schema = [service_json(spec, ORIGINAL) for spec in specs]
        found[f"example/{split}/dialogues_001.json"] = _indented(dialogues)
        found[f"example/{split}/schema.json"] = _indented(schema)
    return found


def _indented(value: Any) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()


def packed(files: dict[str, bytes]) -> bytes:
    """Returns an archive of files that holds no time and no owner."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:xz", preset=9) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return target.getvalue()


if __name__ == "__main__":
    write_bytes(shipped.ARCHIVE, packed(contents()))
    print(f"wrote {shipped.ARCHIVE}")
