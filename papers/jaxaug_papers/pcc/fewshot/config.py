"""The config of `jaxaug fewshot`: a file with `get_config()`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_collections

from jaxaug.core import config_file, typed
from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import suggestion
from jaxaug_papers.pcc.fewshot.methods import Method
from jaxaug_papers.pcc.fewshot.triplet import Settings
from jaxaug_papers.shared.configs import Above, Count, made, made_all


@dataclass(frozen=True)
class Table:
    """A table of the report; differences to `reference` are paired by seed."""

    title: str
    rows: tuple[str, ...]
    reference: str


@dataclass(frozen=True)
class Config:
    """One experiment; every field is a field of the ConfigDict of its file.

    Attributes:
        dataset: folder with train.txt and test.txt, below the data folder.
        per_label: number of few-shot sentences of each label; None takes all.
        seeds: seeds of the few-shot sets, networks, and draws; one network per seed.
        norm: mean norm to which the encodings of the few-shot sentences are scaled; it
            affects the choice of the learning rate.
    """

    dataset: str
    methods: tuple[Method, ...]
    tables: tuple[Table, ...]
    out: str
    data_dir: str = "data"
    per_label: Count | None = 10
    seeds: tuple[typed.Seed, ...] = (0, 1, 2, 3, 4)
    encoder: str = "minilm"
    norm: Above = 5.77
    eval_every: Count = 200
    triplet: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        """Raises `UserError` if a field is invalid or fields contradict each other."""
        names = [method.name for method in self.methods]
        for name in names:
            if names.count(name) > 1:
                raise UserError(f"methods: {name!r} is there twice. Rename one.")
        for table in self.tables:
            for name in (*table.rows, table.reference):
                if name not in names:
                    raise UserError(
                        f"table {table.title!r}: no method {name!r}; "
                        f"{suggestion(name, names)}"
                    )
            if table.reference not in table.rows:
                raise UserError(
                    f"table {table.title!r}: its reference {table.reference!r} is no "
                    "row of it. Add the row."
                )
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise UserError(f"seeds={self.seeds}: name one or more, each once.")


def load(path: str) -> Config:
    """Loads the config of a file; see `jaxaug.core.config_file.read`.

    Raises:
        UserError: the file or its `get_config` is missing, the argument is missing or
            superfluous, or a field is unknown or invalid.
    """
    return config_file.load(path, "configs/fewshot", of)


def of(config: ml_collections.ConfigDict | Mapping[str, Any]) -> Config:
    """Returns the checked form of a ConfigDict.

    Raises:
        UserError: a field is unknown, missing, or invalid.
    """
    fields = made_all(config, {"methods": Method, "tables": Table})
    if "triplet" in fields:
        fields["triplet"] = made(Settings, fields["triplet"], "triplet")
    return made(Config, fields, "config")
