"""Formats whole splits in worker processes, one dialogue file at a time."""

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from jaxaug.core import garbage
from jaxaug.core.errors import UserError
from jaxaug.core.progress import progress
from jaxaug.data import leave_out, sgd
from jaxaug.feed.workers import Pool
from jaxaug.formats.records import (
    Dialogue,
    Example,
    FormatOptions,
    Formatter,
    FromData,
)

Options = FormatOptions
COLUMNS: tuple[str, ...] = Example.__struct_fields__

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")
_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class Corpus:
    """One split of a data folder under one schema.

    `variant` is v1, v2, ... or None for the original. `variants_dir` is the folder of
    the variants; None means the SGD-X variants of the data folder. `selection`
    restricts the original to a part.
    """

    data_dir: str
    split: str
    variant: str | None = None
    variants_dir: str | None = None
    selection: leave_out.Selection | None = None

    def files(self) -> list[str]:
        """Returns the dialogue files, in reading order."""
        return [str(path) for path in sgd.dialogue_files(self.data_dir, self.split)]


def bound(options: Options, corpus: Corpus) -> Options:
    """Returns the options with the values that they take from the data of a corpus."""
    if not isinstance(options, FromData):
        return options
    return options.bound(
        corpus.data_dir, corpus.split, corpus.variant, corpus.variants_dir
    )


@dataclass(frozen=True, slots=True)
class FormatJob:
    """One dialogue file to format."""

    corpus: Corpus
    path: str
    options: Options
    epochs: tuple[int, ...] = (0,)


@functools.lru_cache(maxsize=8)
def reader(corpus: Corpus) -> Callable[[str], Iterable[Dialogue]]:
    """Returns a reader of dialogue files, renamed to the corpus's variant."""
    schema = sgd.read_schema_of(corpus.data_dir, corpus.split)
    names = sgd.renaming_of(
        corpus.data_dir, corpus.split, corpus.variant, corpus.variants_dir
    )

    def read(path: str) -> Iterable[Dialogue]:
        found = sgd.read_dialogue_file(path, schema, names)
        if corpus.selection is not None:
            return leave_out.select(found, corpus.selection)
        return found

    return read


@functools.lru_cache(maxsize=8)
def _formatter(corpus: Corpus, options: Options) -> Formatter:
    schema = sgd.read_schema_of(
        corpus.data_dir, corpus.split, corpus.variant, corpus.variants_dir
    )
    return options.formatter(schema)


def forget_schemas() -> None:
    """Forgets the schemas read so far, because files may have changed since."""
    reader.cache_clear()
    _formatter.cache_clear()


@garbage.paused()
def format_file(job: FormatJob, make: Callable[[Example], _Made]) -> list[list[_Made]]:
    """Applies `make` to the examples of a dialogue file; returns a list per epoch.

    Each example is used immediately, while it is in the processor's caches.
    """
    formatter = _formatter(job.corpus, job.options)
    made: list[list[_Made]] = [[] for _ in job.epochs]
    for dialogue in reader(job.corpus)(job.path):
        for epoch, items in zip(job.epochs, made, strict=True):
            items.extend(map(make, formatter.dialogue(dialogue, epoch)))
    return made


def row(values: Sequence[object]) -> bytes:
    """Returns one line of a TSV file.

    Raises:
        UserError: a value contains a tab or a line break (only ids and names can).
    """
    line = "\t".join(map(str, values))
    if line.count("\t") != len(values) - 1 or len(line.splitlines()) > 1:
        raise UserError(
            f"{line[:200]!r}: an id or a name in the data holds a tab or a line break, "
            "which a TSV file cannot. Rename it in the data."
        )
    return f"{line}\n".encode()


def example_row(example: Example, *rest: str | int) -> bytes:
    """Returns the line of inputs, targets, and the rest; see `row`.

    Inputs and targets contain only single spaces as white space, so only the rest is
    checked.
    """
    parts = [str(value) for value in rest]
    if not "".join(parts).isprintable():
        return row((example.inputs, example.targets, *parts))
    return "\t".join((example.inputs, example.targets, *parts)).encode() + b"\n"


def worker_count(workers: int) -> int:
    """Returns `workers`, or the number of usable cores for 0.

    Raises:
        UserError: the number is negative.
    """
    if workers < 0:
        raise UserError(
            f"workers={workers}: use 0 for one process per core, or a positive number."
        )
    if workers:
        return workers
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_order(
    function: Callable[[_Job], _Result],
    jobs: Sequence[_Job],
    workers: int,
    label: str,
) -> Iterator[_Result]:
    """Yields results of `function` in the order of `jobs`; shows a progress bar.

    Args:
        function: must be importable by name, and its arguments and results picklable.
            It must not be defined in `__main__`, which the processes do not import.
        workers: number of processes; 1 works in this process.
    """
    workers = min(workers, len(jobs))
    with progress(
        total=len(jobs), desc=label, unit="file", delay=0.1, leave=False
    ) as bar:
        if workers <= 1:
            for job in jobs:
                yield function(job)
                bar.update()
            return
        with Pool(workers) as pool:
            pending = [pool.submit(function, job) for job in jobs[: 2 * workers]]
            for index in range(len(jobs)):
                result = _take(pending, index)
                # The number of pending jobs is limited, because results wait in memory.
                if len(pending) < len(jobs):
                    pending.append(pool.submit(function, jobs[len(pending)]))
                yield result
                bar.update()


def _take(pending: list[Future], index: int):
    future = pending[index]
    result = future.result()
    # Finished futures keep their result alive, so this reference is dropped.
    pending[index] = Future()
    return result
