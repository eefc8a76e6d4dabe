"""The rows of a few-shot table: the source and the order of the texts of a method."""

import dataclasses
import inspect
import string
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from etils import epath

from jaxaug.augment.schemes import registry
from jaxaug.core import cache_folder
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, shown
from jaxaug.core.shards import Shards, Stage
from jaxaug.core.suggestion import suggestion
from jaxaug.curriculum import levels as level_files
from jaxaug.curriculum import schedule as schedules
from jaxaug.curriculum.difficulty import BETA
from jaxaug.curriculum.levels import Levelled
from jaxaug.curriculum.schedule import Schedule, Steps
from jaxaug_papers.pcc.fewshot.triplet import Pools, Settings
from jaxaug_papers.shared.configs import Count
from jaxaug_papers.shared.labelled import Sentence

ORIGINALS = "originals"
RELEASED = "released"
LEVELS = "levels"
KEEP = ("all", "implied", "similar")
_SHARD_FOLDER = "fewshot"


def constant(
    steps_per_level: Steps,
    levels: int,
    original_fraction: float = schedules.ORIGINAL_FRACTION,
    cycles: int = 1,
) -> Schedule:
    """Returns a schedule with all levels from the start: no curriculum.

    It is as long as `gradual` over five levels, `cycles` times. Without levels, it has
    only the originals.
    """
    steps = cycles * sum(schedules.lengths(steps_per_level, schedules.LEVELS))
    if not levels:
        return schedules.staged((steps,), ((1.0,),))
    share = (1 - original_fraction) / levels
    return schedules.staged((steps,), ((original_fraction, *([share] * levels)),))


SCHEDULES: Mapping[str, Callable[..., Schedule]] = {
    "constant": constant,
    "two_stage": schedules.two_stage,
    "gradual": schedules.gradual,
    "cyclic": schedules.cyclic,
    "inverse": schedules.inverse,
    "inverse_cyclic": schedules.inverse_cyclic,
    "random": schedules.random,
}
"""Name -> (steps_per_level, levels, original_fraction[, cycles]) -> schedule."""


@dataclass(frozen=True)
class Method:
    """A row of a table.

    Attributes:
        source: `originals` for no paraphrases; `released` for the paraphrases of
            HuffPost by PCC's authors; `levels` for a file of
            `jaxaug.curriculum.levels.write`; or a scheme of
            `jaxaug.augment.schemes.registry`, such as `sentence` (its `switch_out`
            draws words from the few-shot sentences).
        path: path of `released` or `levels` in the data folder; `{seed}` stands for the
            seed, `*` for any text.
        keep: filter for `released`: `all`, `implied`, or `similar` (BLEURT at least
            0.5). The last two are the parts of the filter in equation 3.
        places: for `released`, the range (first, end) of paraphrases of a sentence in
            file order; empty means all. The last 4 of 20 are from bottom-k (seeds 0, 2,
            3, and 4; seed 1 has none).
        num: for `released`, the number of paraphrases to draw per sentence and seed
            after `keep` and `places`; None means all.
        steps_per_level: number of updates per stage, or for each level from the
            originals on; for `two_stage`, for both stages.
        cycles: number of cycles of cyclic schedules; None means their default.
        candidates: candidates of hard-negative mining, see `triplet.Settings`; None
            uses the config.
        optional: whether the row may be empty, with a reason, if the source is not on
            this machine.
    """

    name: str
    source: str = ORIGINALS
    path: str = ""
    keep: str = "all"
    places: tuple[int, ...] = ()
    num: int | None = None
    levels: tuple[Mapping[str, Any], ...] = field(default=())
    schedule: str = "constant"
    steps_per_level: int | tuple[int, ...] = 200
    cycles: int | None = None
    original_fraction: float = schedules.ORIGINAL_FRACTION
    candidates: Count | None = None
    optional: bool = False

    def __post_init__(self) -> None:
        """Raises `UserError` if a field is invalid or fields contradict each other."""
        sources = (ORIGINALS, RELEASED, LEVELS, *registry.SCHEMES)
        for name, value, known in (
            ("source", self.source, sources),
            ("schedule", self.schedule, SCHEDULES),
            ("keep", self.keep, KEEP),
        ):
            if value not in known:
                raise UserError(
                    f"method {self.name!r}: {name}={value!r}; "
                    f"{suggestion(value, known)}"
                )
        from_file = self.source in (RELEASED, LEVELS)
        for name, needed in (
            ("path", from_file),
            ("levels", self.source in registry.SCHEMES),
        ):
            if needed != bool(getattr(self, name)):
                verb = "needs" if needed else "has no use for"
                raise UserError(
                    f"method {self.name!r}: source {self.source!r} {verb} {name}."
                )
        self._check_choice()
        if self.source == ORIGINALS and self.schedule != "constant":
            raise UserError(
                f"method {self.name!r}: the originals have no levels. Use the schedule "
                "'constant'."
            )

    def _check_choice(self) -> None:
        for name in ("places", "num"):
            if getattr(self, name) not in ((), None) and self.source != RELEASED:
                raise UserError(
                    f"method {self.name!r}: source {self.source!r} has no use for "
                    f"{name}."
                )
        if self.num is not None and self.num < 1:
            raise UserError(
                f"method {self.name!r}: num={self.num}: give 1 or more, or none for "
                "all."
            )
        in_order = len(self.places) == 2 and 0 <= self.places[0] < self.places[1]
        if self.places and not in_order:
            raise UserError(
                f"method {self.name!r}: places={self.places}: give the first one and "
                "the one behind the last, such as (0, 16)."
            )

    def settings(self, common: Settings) -> Settings:
        """Returns the settings of the config, overridden by this method."""
        if self.candidates is None:
            return common
        return dataclasses.replace(common, candidates=self.candidates)

    def schedule_of(self, levels: int) -> Schedule:
        """Returns the schedule for a number of levels.

        Raises:
            UserError: the options of the schedule are invalid.
        """
        make = SCHEDULES[self.schedule]
        options = {} if self.cycles is None else {"cycles": self.cycles}
        if options and "cycles" not in inspect.signature(make).parameters:
            raise UserError(
                f"method {self.name!r}: schedule {self.schedule!r} has no cycles. "
                "Leave them out, or give more steps_per_level."
            )
        return make(self.steps_per_level, levels, self.original_fraction, **options)


def levelled(
    method: Method, drawn: Sequence[Sentence], seed: int, data_dir: PathLike
) -> list[Levelled]:
    """Returns the few-shot sentences of a seed with their paraphrases, in order.

    Raises:
        UserError: a file or a model is missing, or a file lacks a sentence.
    """
    texts = [sentence.text for sentence in drawn]
    if method.source == ORIGINALS:
        return [Levelled(text, ((text,),)) for text in texts]
    if method.source in registry.SCHEMES:
        return _by_scheme(method, texts, seed)
    path = _only_file(method, seed, epath.Path(data_dir))
    found = {item.text: item for item in _read(method, path, seed)}
    for text in texts:
        if text not in found:
            raise UserError(
                f"{path}: has no paraphrases of {shown(text)}, which seed {seed} "
                "draws. Use the file of this seed, data set and number of sentences."
            )
    return [found[text] for text in texts]


def _by_scheme(method: Method, texts: Sequence[str], seed: int) -> list[Levelled]:
    by_level = []
    for level, options in enumerate(method.levels, 1):
        # Each level has another seed, so that a stronger level does not repeat the
        # draws of a weaker one.
        if options.get("method") == "switch_out":
            options = {"vocabulary": _words(texts), **options}
        jobs = registry.made(method.source, 100 * seed + level, options)
        outputs: list[list[str]] = [[] for _ in texts]
        for job in jobs:
            for place, new in enumerate(_run(method, job, texts)):
                outputs[place] += new
        by_level.append(outputs)
    return [
        Levelled(text, ((text,), *(tuple(level[place]) for level in by_level)))
        for place, text in enumerate(texts)
    ]


def _words(texts: Sequence[str]) -> list[str]:
    """Returns the words of the training texts, without surrounding punctuation."""
    words = {word.strip(string.punctuation) for text in texts for word in text.split()}
    return sorted(words - {""})


def _run(method: Method, job: registry.Job, texts: Sequence[str]) -> list[list[str]]:
    if method.source == "sentence":
        return job.run(texts)
    # Outputs of slow models are stored in shards.
    shards = Shards(cache_folder.cache_dir() / _SHARD_FOLDER)
    return shards.run(Stage(method.source, job.key, job.run, method.name), texts)


def _only_file(method: Method, seed: int, data_dir: epath.Path) -> epath.Path:
    try:
        pattern = method.path.format(seed=seed)
    except (KeyError, IndexError, ValueError) as error:
        raise UserError(
            f"method {method.name!r}: path is {method.path!r}, of which braces may "
            f"hold {{seed}} alone ({error}). Write {{{{ and }}}} for braces."
        ) from None
    found = sorted(data_dir.glob(pattern))
    if len(found) != 1:
        raise UserError(
            f"method {method.name!r}: {len(found)} files {data_dir / pattern}, "
            "expected one. Put the file there, or name the data folder with --data_dir."
        )
    return found[0]


def _read(method: Method, path: PathLike, seed: int) -> list[Levelled]:
    if method.source == LEVELS:
        return level_files.read(path)
    kept = {
        "all": lambda item: True,
        "implied": lambda item: item.implied,
        "similar": lambda item: item.similarity >= BETA,
    }[method.keep]
    found = []
    for text, items in level_files.scored_huffpost(path).items():
        chosen = [
            item for item in items[slice(*method.places or (None,))] if kept(item)
        ]
        if method.num is not None and method.num < len(chosen):
            rng = np.random.default_rng([seed, zlib.crc32(text.encode())])
            drawn = rng.choice(len(chosen), method.num, replace=False)
            chosen = [chosen[place] for place in sorted(drawn)]
        found.append(
            level_files.levelled(
                text,
                [item.text for item in chosen],
                [item.similarity for item in chosen],
            )
        )
    return found


def pools(
    drawn: Sequence[Sequence[Sentence]],
    found: Sequence[Sequence[Levelled]],
    rows: Mapping[str, int],
) -> Pools:
    """Returns the texts for triplets, padded to the same size for all seeds.

    A sentence without paraphrases of a level uses the next easier level
    (`Levelled.at`), and finally the sentence itself.

    Raises:
        UserError: a label has a single sentence, so its anchor has no positive.
    """
    by_seed = []
    for sentences, items in zip(drawn, found, strict=True):
        by_label: dict[str, list[list[int]]] = {}
        for sentence, item in zip(sentences, items, strict=True):
            levels = by_label.setdefault(
                sentence.label, [[] for _ in range(len(item.levels))]
            )
            for level, places in enumerate(levels):
                places += [rows[text] for text in item.at(level)]
        for label, levels in by_label.items():
            if len(levels[0]) < 2:
                raise UserError(
                    f"label {shown(label)} has one sentence; a triplet needs two of a "
                    "label. Take more with per_label."
                )
        if len(by_label) < 2:
            raise UserError("there is one label; a triplet needs two.")
        by_seed.append(list(by_label.values()))
    counts = np.array([[[len(p) for p in label] for label in s] for s in by_seed])
    items_array = np.zeros((*counts.shape, counts.max()), np.int32)
    for place in np.ndindex(counts.shape):
        seed, label, level = place
        items_array[place][: counts[place]] = by_seed[seed][label][level]
    return Pools(jnp.asarray(items_array), jnp.asarray(counts, jnp.int32))
