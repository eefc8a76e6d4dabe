"""Work in shards that survive an interruption: one file each, named by its content.

A shard is computed once for all runs: its file name is a hash of the settings of the
stage and of the items. It is written under a temporary name and renamed. A killed run
therefore loses only the shard that it was computing, and concurrent runs do no harm.
"""

import json
import os
import time
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, NamedTuple

from absl import logging
from etils import epath

from jaxaug.core import cache_folder
from jaxaug.core.digests import digest_of
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_json, write_text
from jaxaug.core.progress import progress

Json = Any


class Stage(NamedTuple):
    """A computation on a list of items.

    Attributes:
        name: name of the folder of its shards.
        key: JSON value with everything except the items that determines the results.
        compute: items -> one JSON value per item.
    """

    name: str
    key: Json
    compute: Callable[[Sequence[Json]], Sequence[Json]]
    label: str = ""


class Shards:
    """Computes stages shard by shard and stores the results in a folder.

    Attributes:
        names: names of the files of both, below the folder.
    """

    def __init__(self, folder: PathLike, size: int = 16):
        """Creates the store of the shards of all stages, with `size` items each.

        Raises:
            UserError: the size is below 1.
        """
        if size < 1:
            raise UserError(f"shard_size is {size}: give at least 1.")
        self.folder = epath.Path(folder)
        self.size = size
        self.computed = self.read = 0
        self.names: set[str] = set()
        self._planned: list[tuple[str, int]] = []
        self._seconds: dict[str, tuple[float, int]] = {}

    def plan(self, stages: Iterable[tuple[str, int]]) -> None:
        """Announces (name, number of items) of stages, to estimate the time left."""
        self._planned += [(name, -(-items // self.size)) for name, items in stages]

    def _left(self, name: str, shards: int) -> float | None:
        """Estimates the seconds of all planned work; new stages count with the mean."""
        if not self._seconds:
            return None
        timed = self._seconds.values()
        mean = sum(total for total, _ in timed) / sum(number for _, number in timed)
        rates = {key: total / number for key, (total, number) in self._seconds.items()}
        rest = [(name, shards), *self._planned]
        return sum(rates.get(key, mean) * number for key, number in rest)

    def run(
        self, stage: Stage, items: Sequence[Json], chosen: Container[int] | None = None
    ) -> list[Json]:
        """Returns the result of each item, computed or read.

        Args:
            chosen: shards to work on, counted from 0; None means all. Items of other
                shards have the result None.

        Raises:
            UserError: a shard cannot be written; earlier shards are kept.
        """
        results: list[Json] = []
        blocks = [items[i : i + self.size] for i in range(0, len(items), self.size)]
        label = stage.label or stage.name
        planned = [name for name, _ in self._planned]
        if stage.name in planned:
            del self._planned[planned.index(stage.name)]
        bar = progress(blocks, desc=label, unit="shard")
        for number, block in enumerate(bar):
            if chosen is not None and number not in chosen:
                results += [None] * len(block)
                continue
            path = self.folder / stage.name / f"{digest_of([stage.key, block])}.json"
            found = kept(path, len(block))
            if found is None:
                started = time.monotonic()
                found = _computed(stage, block)
                self._time(stage.name, time.monotonic() - started)
                self._show_left(bar, stage.name, len(blocks) - number - 1)
                if len(found) != len(block):
                    raise RuntimeError(
                        f"{label}: {len(found)} results for {len(block)} items"
                    )
                keep(path, found)
                # Returns the stored result and not the computed one, because a later
                # run reads the same.
                found = kept(path, len(block))
                self.computed += 1
            else:
                self.read += 1
            assert found is not None
            self.names.add(f"{stage.name}/{path.name}")
            results += found
        return results

    def _time(self, name: str, seconds: float) -> None:
        """Records the duration of a shard."""
        total, count = self._seconds.get(name, (0.0, 0))
        self._seconds[name] = total + seconds, count + 1

    def _show_left(self, bar: Any, name: str, shards: int) -> None:
        """Adds the time left for the whole command to the line of a stage."""
        left = self._left(name, shards) if self._planned else None
        text = "" if left is None else f"whole command {bar.format_interval(left)} left"
        bar.set_postfix_str(text, refresh=False)


def _computed(stage: Stage, block: Sequence[Json]) -> list[Json]:
    try:
        return list(stage.compute(block))
    except Exception as error:
        error.add_note(
            f"while computing {stage.label or stage.name}; the shards before this one "
            "are kept: mend the cause and run the same command again"
        )
        raise


def keep(path: epath.Path, results: list[Json]) -> None:
    """Writes results to a file of the cache that only the user may read; see `kept`.

    Raises:
        UserError: the file cannot be written.
    """
    try:
        content = {"digest": digest_of(results), "results": results}
        write_text(path, json.dumps(content, ensure_ascii=False), private=True)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be written ({os.strerror(error.errno or 0)}). What was "
            f"finished is kept. Free space, or set ${cache_folder.CACHE_DIR_VARIABLE} "
            "to a folder with some, and run the same command again."
        ) from error


def kept(path: epath.Path, count: int) -> list[Json] | None:
    """Returns the results in a file of the cache; None if it is missing or damaged."""
    try:
        if not path.exists():
            return None
        content = read_json(path, "")
        results = content["results"]
        whole = content["digest"] == digest_of(results) and len(results) == count
    except (ValueError, LookupError, TypeError):
        whole = False
    if not whole:
        logging.warning("%s is damaged and is computed again", path)
        return None
    return results
