"""The config of `jaxaug classify`: a file with `get_config()`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import ml_collections

from jaxaug.core import config_file, typed
from jaxaug.core.errors import UserError
from jaxaug.core.ranges import Range
from jaxaug.core.suggestion import suggestion
from jaxaug_papers.dips.classify.classifiers import CLASSIFIERS
from jaxaug_papers.dips.classify.networks import Settings
from jaxaug_papers.dips.classify.rows import Method
from jaxaug_papers.shared.configs import Count, made, made_all


@dataclass(frozen=True)
class Config:
    """One experiment; every field is a field of the ConfigDict of its file.

    Attributes:
        dataset: folder below the data folder.
        reader: a name of `examples.READERS`.
        methods: fields of `rows.Method` for each row; the first row is the baseline.
        classifiers: names of `classifiers.CLASSIFIERS`.
        train_size: number of training examples; None means all except validation.
        validation_size: number of examples of the training split for validation.
        shares: fractions of the training examples, one experiment for each.
        seeds: seeds of splits, networks, and the order of examples.
        num_sources: number of texts per seed to paraphrase, the first ones of the
            smallest share; None means all.
        paraphraser: model of the scheme paraphrase, such as `smollm2`, a run,
            `smollm2+ADAPTER`, or `openai:NAME` behind an endpoint.
        requests: options of a paraphraser behind an endpoint, as `jaxaug augment text
            --option` takes them, such as `endpoint=URL`.
        wordnet_dir: WordNet folder for methods with synonyms; empty uses the built-in
            lexicon.
        lstm: fields of `networks.Settings`.
    """

    dataset: str
    reader: str
    methods: tuple[Method, ...]
    out: str
    data_dir: str = "data"
    classifiers: tuple[str, ...] = ("LogReg", "LSTM")
    train_size: Count | None = None
    validation_size: Count = 200
    shares: tuple[Annotated[float, Range(0, 1, above=True)], ...] = (1.0, 0.1, 0.05)
    seeds: tuple[typed.Seed, ...] = (0, 1, 2, 3, 4)
    num: Count = 5
    num_sources: Count | None = None
    paraphraser: str = "smollm2"
    requests: tuple[str, ...] = ()
    wordnet_dir: str = ""
    lstm: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        """Raises `UserError` if a field is invalid or fields contradict each other."""
        typed.check(vars(self), Config, "config")
        for name in ("methods", "classifiers", "shares", "seeds"):
            found = [getattr(v, "name", v) for v in getattr(self, name)]
            if not found or len(set(found)) != len(found):
                raise UserError(f"{name}={found}: name one or more, each once.")
        for name in self.classifiers:
            if name not in CLASSIFIERS:
                raise UserError(
                    f"classifiers: {name!r}: {suggestion(name, CLASSIFIERS)}"
                )


def load(path: str) -> Config:
    """Loads the config of a file; see `jaxaug.core.config_file.read`.

    Raises:
        UserError: the file or its `get_config` is missing, or a field is unknown or
            invalid.
    """
    return config_file.load(path, "configs/classify", of)


def of(config: ml_collections.ConfigDict | Mapping[str, Any]) -> Config:
    """Returns the checked form of a ConfigDict.

    Raises:
        UserError: a field is unknown, missing, or invalid.
    """
    fields = made_all(config, {"methods": Method})
    if "lstm" in fields:
        fields["lstm"] = made(Settings, fields["lstm"], "lstm")
    return made(Config, fields, "config")
