"""`jaxaug data describe`: prints counts of a data folder per split and per service."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jaxaug.core import columns
from jaxaug.core.files import PathLike
from jaxaug.core.progress import progress
from jaxaug.data import folders, sgd
from jaxaug.data.arguments import Describe
from jaxaug.data.schema import Schema, Service


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of a split, or of one service in a split.

    `turns` counts all turns; for a service, the turns with a frame of it. `frames`
    counts user frames with a state, which are the examples of a state tracker. `seen`
    counts the services that also occur in the train schema.
    """

    split: str
    service: str | None
    seen: int
    services: int
    dialogues: int
    turns: int
    frames: int
    slots: int
    categorical: int
    intents: int


def count_split(data_dir: PathLike, split: str, train: Schema) -> list[Counts]:
    """Returns the counts of a whole split, followed by those for each service by name.

    Raises:
        UserError: a file of the split is missing or invalid.
    """
    schema = sgd.read_schema_of(data_dir, split)
    dialogues: Counter[str] = Counter()
    turns: Counter[str] = Counter()
    frames: Counter[str] = Counter()
    n_dialogues = n_turns = 0
    every = sgd.read_dialogues(data_dir, split)
    for dialogue in progress(every, desc=split, unit=" dialogues", leave=False):
        n_dialogues += 1
        n_turns += len(dialogue.turns)
        dialogues.update(dialogue.services)
        for turn in dialogue.turns:
            for frame in turn.frames:
                turns[frame.service] += 1
                if turn.speaker == "USER" and frame.state is not None:
                    frames[frame.service] += 1

    def counts(
        name: str | None, services: Iterable[Service], n_dialogues: int, n_turns: int
    ) -> Counts:
        services = tuple(services)
        slots = [slot for service in services for slot in service.slots]
        return Counts(
            split=split,
            service=name,
            seen=sum(service.name in train for service in services),
            services=len(services),
            dialogues=n_dialogues,
            turns=n_turns,
            frames=sum(frames[service.name] for service in services),
            slots=len(slots),
            categorical=sum(slot.is_categorical for slot in slots),
            intents=sum(len(service.intents) for service in services),
        )

    return [counts(None, schema.services, n_dialogues, n_turns)] + [
        counts(s.name, [s], dialogues[s.name], turns[s.name])
        for s in sorted(schema.services, key=lambda service: service.name)
    ]


_NUMBERS = ("dialogues", "turns", "frames", "slots", "categorical", "intents")


def describe(data_dir: PathLike) -> str:
    """Returns the tables of a data folder: splits, services, and schema variants.

    Raises:
        UserError: a split is missing or incomplete, or a file is invalid.
    """
    # Missing files are found before minutes of reading.
    for split in folders.SPLITS:
        folders.dialogue_paths(data_dir, split)
    train = sgd.read_schema_of(data_dir, "train")
    counts = {s: count_split(data_dir, s, train) for s in folders.SPLITS}
    splits = [
        (c.split, c.services, c.seen, c.services - c.seen)
        + tuple(getattr(c, n) for n in _NUMBERS)
        for c in (rows[0] for rows in counts.values())
    ]
    services = [
        (c.split, c.service, "seen" if c.seen else "unseen")
        + tuple(getattr(c, n) for n in _NUMBERS)
        for rows in counts.values()
        for c in rows[1:]
    ]
    variants = [
        (name, variant, ", ".join(folders.variant_splits(path, variant)))
        for name, path in folders.variant_folders(data_dir).items()
        for variant in folders.variant_names(path)
    ]
    parts = [
        str(data_dir),
        _table(("split", "services", "seen", "unseen", *_NUMBERS), splits),
        _table(("split", "service", "in train", *_NUMBERS), services),
        _table(("variants", "variant", "splits"), variants)
        if variants
        else "no schema variants",
        "frames: user frames with a state; seen: the train schema has the service",
    ]
    return "\n\n".join(parts)


def _table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    cells = [list(header)] + [
        [f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row]
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [isinstance(cell, int) for cell in rows[0]]
    cells.insert(1, ["-" * width for width in widths])
    return columns.aligned(cells, right)


def run(arguments: Describe) -> int:
    """Runs `jaxaug data describe`."""
    print(describe(folders.resolve_data_dir(arguments.data_dir)))
    return 0
