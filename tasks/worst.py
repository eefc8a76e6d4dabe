"""Training data in the worst wordings: `configs/runs/worst.gin` explains the settings.

Every `period` steps `tasks.worst_search` searches faithful rewordings of the training
schemas under which the model fails. Round k is the variant `MODEL_DIR/worst/vK`. From
then on a share of the examples has the wordings of rounds 1 to k. A position in the
data depends on the content of these files, so a resumed run must find them unchanged.
"""

import copy
import json
import re
from collections.abc import Callable
from typing import Annotated, Any

import jax
from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_json, write_text
from jaxaug.core.typed import Range, bounded
from jaxaug.feed import recipes, sets
from jaxaug.formats.records import FromData
from tasks import dialogues

FOLDER = "worst"
"""Folder of the searched wordings in MODEL_DIR."""

# Records of the runtime, whose periods count from the first step of the run.
_RECORDS = "unfinished_run.json", "finished_run.json"
_SEED_STEP = 1_000_003  # between the data seeds of two rounds


class _Batches:
    """Batches whose data change after every `period` of them.

    Attributes:
        is_ready: whether `next` can return a batch. The first batch of a round needs
            the wordings that `Search` finds after the last step of the round before.
    """

    def __init__(
        self, opened: Callable[[int], Any], folder: epath.Path, period: int
    ) -> None:
        """
        Args:
            opened: number of a round -> its batches; round 0 has no searched wordings.
            period: batches of a round.
        """
        self._opened, self._folder, self._period = opened, folder, period
        self.reset()

    def reset(self) -> None:
        """Restarts from the first batch."""
        self._number = self._used = 0
        self._batches = self._opened(0)

    @property
    def element_spec(self) -> Any:
        """Shape and type of every array of a batch."""
        return self._batches.element_spec

    @property
    def is_ready(self) -> bool:
        ended = self._used == self._period
        return not ended or round_file(self._folder, self._number + 1).exists()

    def __iter__(self) -> "_Batches":
        return self

    def __next__(self) -> Any:
        if self._used == self._period:
            self._go_to(self._number + 1)
        self._used += 1
        return next(self._batches)

    def _go_to(self, number: int) -> None:
        for each in range(1, number + 1):
            if not (path := round_file(self._folder, each)).exists():
                raise UserError(
                    f"{path}: does not exist. Every {self._period} steps "
                    "(WORST_PERIOD) train.actions must write such a file. Stack "
                    "configs/runs/worst.gin last, or restore the file of a run that "
                    "you continue."
                )
        self._number, self._used = number, 0
        self._batches = self._opened(number)

    def save(self, path: PathLike) -> None:
        """Writes the position to files that begin with `path`."""
        self._batches.save(path)
        state = {"round": self._number, "used": self._used, "period": self._period}
        write_text(f"{path}.round.json", json.dumps(state))

    def restore(self, path: PathLike) -> None:
        """Continues at the position of the iterator that wrote `path`.

        Raises:
            UserError: the position has another period, or its rounds have other files.
        """
        source = f"{path}.round.json"
        state = read_json(source, "Begin in another MODEL_DIR.")
        if state.get("period") != self._period:
            raise UserError(
                f"{source}: was saved with WORST_PERIOD = {state.get('period')}, this "
                f"run has {self._period}. Use the same value, or another MODEL_DIR."
            )
        self._go_to(state["round"])
        self._batches.restore(path)
        self._used = state["used"]


@bounded
def get_dataset(
    cfg: Any,
    shard_id: int,
    num_shards: int,
    feature_converter_cls: Callable[..., Any],
    num_epochs: int | None = None,
    continue_from_last_checkpoint: bool = False,
    *,
    feed: Callable[..., Any],
    model_dir: str,
    period: Annotated[int, Range(1)],
    rate: Annotated[float, Range(0, 1)],
) -> Any:
    """Returns training batches of one host: a value for `train.get_dataset_fn`.

    Args:
        cfg, shard_id, num_shards, feature_converter_cls: as in T5X.
        num_epochs, continue_from_last_checkpoint: as in T5X.
        feed: `token_feed.get_dataset` with its settings.
        period: steps of a round.
        rate: share of the examples in searched wordings, equal for all rounds so far.

    Raises:
        UserError: the data cannot be reworded (see `base_sets`), or a setting is wrong.
    """
    base, folder = base_sets(cfg), epath.Path(model_dir) / FOLDER
    _drop_later(folder, period)
    source = sets.find(cfg.mixture_or_task_name)
    given = getattr(source, "rates", {})
    rates = {task.name: float(given.get(task.name, 1)) for task in base}
    whole = sum(rates.values())

    def opened(number: int) -> Any:
        found = [_searched(base[0], folder, each) for each in range(1, number + 1)]
        changed = copy.copy(cfg)
        changed.seed = int(cfg.seed) + _SEED_STEP * number
        changed.mixture_or_task_name = sets.Mixture(
            f"{source.name}_round{number}",
            [*base, *found],
            {name: value * (1 - rate) / whole for name, value in rates.items()}
            | {one.name: rate / number for one in found},
        )
        if not found:
            changed.mixture_or_task_name = cfg.mixture_or_task_name
        given = changed, shard_id, num_shards, feature_converter_cls
        return feed(*given, num_epochs, continue_from_last_checkpoint)

    return _Batches(opened, folder, period)


get_dataset.find = sets.find  # type: ignore[attr-defined]


def base_sets(cfg: Any) -> list[Any]:
    """Returns the sets of a configuration; one of the original schemas comes first.

    Raises:
        UserError: there are several processes or offline caches; or the data are no
            mixture of dialogues at fixed rates that includes the original schemas; or
            the format shows no descriptions.
    """
    name, advice = cfg.mixture_or_task_name, "Leave out configs/runs/worst.gin."
    if jax.process_count() > 1:
        raise UserError(
            f"worst wordings with {jax.process_count()} processes: the search runs in "
            f"one process. Train in one process. {advice}"
        )
    if cfg.use_cached:
        raise UserError(
            "worst wordings with offline caches: these have no searched wordings. Set "
            "USE_CACHED_TASKS = False."
        )
    found = dialogues.with_records(name, cfg.split)
    fixed = not getattr(sets.find(name), "stages", ())
    if not (found and fixed and cfg.split == "train"):
        raise UserError(
            f"worst wordings of {name!r}: the data must be the training split of "
            f"dialogues at fixed rates, such as d3st_tree_6x. {advice}"
        )
    if cfg.seed is None:
        raise UserError("worst wordings need a data seed. Set DatasetConfig.seed.")
    if any(isinstance(one.recipes["train"].options, FromData) for one in found):
        raise UserError(
            f"worst wordings of {name!r}: its prompts show a dialogue instead of the "
            f"descriptions. Train on D3ST, T5DST, or JSON. {advice}"
        )
    whole = [one for one in found if not one.recipes["train"].corpus.variant]
    selected = any(one.recipes["train"].corpus.selection for one in found)
    if not whole or selected:
        raise UserError(
            f"worst wordings of {name!r}: a part of the data is left out, or the "
            f"original schemas are. Train on a mixture such as d3st_tree_6x. {advice}"
        )
    return whole[:1] + [one for one in found if one is not whole[0]]


def _searched(original: Any, folder: epath.Path, number: int) -> dialogues.DialogueTask:
    """Returns the set of a round; `original` is the set of the original schemas."""
    recipe = original.recipes["train"]
    family = original.name.partition("_")[0]
    name = f"{family}_{FOLDER}_v{number}"
    made = recipes.with_variant(recipe, name, f"v{number}", folder)
    return dialogues.DialogueTask(name, {"train": made})


def round_file(folder: epath.Path, number: int) -> epath.Path:
    """Returns the schema of a round, 1 or more, in the folder of the wordings."""
    return folder / f"v{number}" / "train" / "schema.json"


def _drop_later(folder: epath.Path, period: int) -> None:
    """Removes rounds after the newest checkpoint, because they are searched again."""
    names = [path.name for path in folder.parent.glob("checkpoint_*")]
    steps = [int(n[11:]) for n in names if re.fullmatch(r"checkpoint_\d+", n)]
    last = max(steps, default=0) - first_step(folder.parent)
    for path in folder.glob("v*"):
        if re.fullmatch(r"v\d+", path.name) and int(path.name[1:]) * period > last:
            path.rmtree()


def first_step(model_dir: epath.Path) -> int:
    """Returns the step at which a run began; T5X itself counts periods from 0."""
    for name in _RECORDS:
        if (record := model_dir / name).exists():
            found = read_json(record, "Begin in another MODEL_DIR.")
            return int(found.get("first_step") or 0)
    return 0
