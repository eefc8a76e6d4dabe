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
from jaxaug_papers.shared.configs import made, made_all


@dataclass(frozen=True)
class Table:
    """A table of the report.

    Attributes:
        title: title of the table.
        rows: names of methods.
        reference: name of the baseline; differences to it are paired by seed.
    """

    title: str
    rows: tuple[str, ...]
    reference: str


@dataclass(frozen=True)
class Config:
    """One experiment; every field is a field of the ConfigDict of its file.

    Attributes:
        dataset: folder with train.txt and test.txt, below the data folder.
        methods: fields of `methods.Method`, for each row.
        tables: fields of `Table`.
        out: folder to write.
        data_dir: default data folder.
        per_label: number of few-shot sentences of each label; None takes all.
        seeds: seeds of the few-shot sets, networks, and draws; one network per seed.
        encoder: see `encoders.find`.
        norm: mean norm to which the encodings of the few-shot sentences are scaled; it
            affects the choice of the learning rate.
        eval_every: number of updates between two points of a learning curve.
        triplet: fields of `triplet.Settings`.
    """

    dataset: str
    methods: tuple[Method, ...]
    tables: tuple[Table, ...]
    out: str
    data_dir: str = "data"
    per_label: int | None = 10
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    encoder: str = "minilm"
    norm: float = 5.77
    eval_every: int = 200
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
        for seed in self.seeds:
            typed.check_seed(seed, "seeds: one")
        if self.per_label is not None and self.per_label < 1:
            raise UserError(f"per_label={self.per_label}: give at least 1, or None.")
        if self.eval_every < 1:
            raise UserError(f"eval_every={self.eval_every}: give at least 1.")
        if self.norm <= 0:
            raise UserError(f"norm={self.norm}: give a number above 0.")


def load(path: str) -> Config:
    """Loads the config of a file.

    Args:
        path: `file.py`, or `file.py:TEXT`; the text is the argument of `get_config`.

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
