"""Trains and evaluates the next unfinished trackers of a queue within a time limit.

    python -m jaxaug_papers.tree.queue --data_dir SGD --out OUT --minutes 9
    python -m jaxaug_papers.tree.queue --add OUT/results.tar

The program needs JAX and Flax, but neither TensorFlow nor SeqIO. `tree.pack` packs the
requirements for a GPU machine. An item is a line of `queue.jsonl` next to this file. It
is finished if --done or OUT contains its folder. Its name has the digest of its
generated variants, so new variants make a new item.
OUT/results.tar contains the finished items and is updated after each item. `--add`
unpacks it into results/sgd, which is committed. OUT/compiled.tar contains the compiled
programs for the next turn (--compiled).

An item that does not fit into the remaining time is not started. If time runs out
anyway, or on SIGTERM, the item is dropped, or stored in the folder --checkpoints. The
next turn continues a stored item and gets the same results.
"""

import argparse
import dataclasses
import datetime
import json
import lzma
import os
import platform
import shutil
import signal
import sys
import tarfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxaug.core.digests import digest_of
from jaxaug.core.errors import UserError

RESULTS = Path(__file__).resolve().parents[3] / "results/sgd"
QUEUE = Path(__file__).with_name("queue.jsonl")
ITEM, ANSWERS = "item.json", "answers.json.xz"
_MOST = 15 << 20  # Maximum bytes of the file of compiled programs.
# Python before 3.11.4 has no filters.
_SAFE: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
_MARGIN = 20.0  # Seconds to write results and to end.


def main() -> None:
    """Runs the program."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--add", type=Path, help="a results.tar to unpack")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="where --add puts items"
    )
    parser.add_argument("--data_dir", type=Path, help="SGD with variants")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--queue", type=Path, default=QUEUE)
    parser.add_argument(
        "--done", type=Path, default=RESULTS, help="folder of finished items"
    )
    parser.add_argument("--checkpoints", type=Path, help="keeps unfinished items")
    parser.add_argument("--compiled", type=Path, help="compiled.tar of an earlier turn")
    parser.add_argument("--model", choices=("smollm2", "tiny"), default="smollm2")
    for name in ("rows", "microbatches", "eval_rows", "inputs", "targets"):
        parser.add_argument(f"--{name}", type=int)
    arguments = parser.parse_args()
    if arguments.add:
        sys.exit(add(arguments.add, arguments.results))
    if not (arguments.data_dir and arguments.out):
        parser.error("give --data_dir and --out, or --add FILE")
    try:
        run(arguments)
    except UserError as error:
        sys.exit(f"queue: error: {error}")


def add(archive: Path, results: Path) -> int:
    """Unpacks finished items, but keeps existing ones; returns an exit status."""
    added = 0
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[0] for name in tar.getnames()}
        for name in sorted(names):
            if (results / name).exists():
                print(f"{name}: is there already")
                continue
            members = [m for m in tar if m.name.partition("/")[0] == name]
            tar.extractall(results, members=members, **_SAFE)
            added += 1
    print(f"{results}: {added} items added")
    return 0


class Clock:
    """The remaining time, and stop requests by signals."""

    def __init__(self, minutes: float):
        self._end = time.monotonic() + 60 * minutes - min(_MARGIN, 6 * minutes)
        self.stopped = False
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, *unused: Any) -> None:
        self.stopped = True

    @property
    def left(self) -> float:
        """Returns the remaining seconds, or 0 after a signal."""
        return 0.0 if self.stopped else max(0.0, self._end - time.monotonic())


def run(arguments: argparse.Namespace) -> None:
    """Processes the queue until it is empty or the time is over."""
    clock = Clock(arguments.minutes)
    os.environ["JAXAUG_DATA_DIR"] = str(arguments.data_dir.resolve())
    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    programs = out.resolve() / "compiled"
    if arguments.compiled and arguments.compiled.exists() and not programs.exists():
        with tarfile.open(arguments.compiled) as tar:
            tar.extractall(programs, **_SAFE)

    from t5x.start import machine

    print(machine.set_up(compilation_cache=str(programs)), flush=True)
    from jaxaug.feed import recipes
    from jaxaug_papers.tree import learner as learning

    table = recipes.table()
    items = pending(read_queue(arguments.queue), table, [arguments.done, out / "items"])
    if not items:
        print("all items are finished")
        return
    given = {
        field.name: getattr(arguments, field.name)
        for field in dataclasses.fields(learning.Settings)
        if getattr(arguments, field.name) is not None
    }
    learner = learning.Learner(learning.Settings(**given), table)
    # Formatting needs the other cores while the training step is compiled.
    ahead = threading.Thread(
        target=_prepare, args=(learner, [item for item, _ in items], clock), daemon=True
    )
    ahead.start()
    seconds: dict[str, float] = {}
    for item, name in items:
        needed = item.steps * seconds.get("step", 0.0) + seconds.get("evaluate", 0.0)
        if clock.left <= needed:
            print(f"{name}: needs {needed:.0f} s, {clock.left:.0f} s are left")
            break
        if not one(arguments, clock, learner, item, name, seconds):
            break
        write_archives(out)
    write_archives(out)  # Stores compiled programs even if no item was finished.
    print_table(out)


def _prepare(learner: Any, items: Sequence[Any], clock: Clock) -> None:
    for item in items:
        if clock.left:
            learner.train_sets(item)


def read_queue(path: Path) -> list[Any]:
    """Returns the items of a file of JSON lines.

    Raises:
        UserError: a line is not an item.
    """
    from jaxaug_papers.tree import learner

    items = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        place = f"{path}, line {number}"
        try:
            values = json.loads(line)
        except ValueError as error:
            raise UserError(
                f"{place}: {error}. Write one JSON object per line."
            ) from None
        items.append(learner.Item.of(values, place))
    return items


def pending(
    items: Sequence[Any], table: Any, done: Sequence[Path]
) -> list[tuple[Any, str]]:
    """Returns the unfinished items with available data, and their names."""
    found, missing = [], []
    for item in items:
        if item.set not in table.mixtures and item.set not in table.recipes:
            missing.append(item.set)
            continue
        name = item.name(table)
        if not any((folder / name / ITEM).exists() for folder in done):
            found.append((item, name))
    for name in dict.fromkeys(missing):
        print(f"{name}: not in the data folder, left out")
    return found


def one(
    arguments: argparse.Namespace,
    clock: Clock,
    learner: Any,
    item: Any,
    name: str,
    seconds: dict[str, float],
) -> bool:
    """Trains and evaluates one item; returns whether it was finished."""
    print(f"{name}: begun, {clock.left:.0f} s left", flush=True)
    checkpoint = None
    if arguments.checkpoints:
        checkpoint = arguments.checkpoints / f"{name}.msgpack"

    def stop(step: int, pace: float) -> bool:
        rest = (item.steps - step) * pace + seconds.get("evaluate", 0.0)
        # An item that can be continued uses all remaining time.
        return clock.left <= (0.0 if checkpoint else rest)

    facts = learner.train(item, checkpoint, stop)
    if facts is None:
        kept = f"stored in {checkpoint}" if checkpoint else "dropped"
        print(f"{name}: {kept}, as the time is over", flush=True)
        return False
    seconds["step"] = facts["train_seconds"] / item.steps
    folder = arguments.out / "items" / f".{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    took, answers = learner.evaluate(item, folder)
    seconds["evaluate"] = took
    shutil.rmtree(folder / "predictions")  # The answers contain the same data.
    for extra in (folder / "robustness").glob("*.[cp][sn][vg]"):
        extra.unlink()
    text = json.dumps(answers, ensure_ascii=False)
    (folder / ANSWERS).write_bytes(lzma.compress(text.encode()))
    about = {
        "name": name,
        **dataclasses.asdict(item),
        **dataclasses.asdict(learner.settings),
        "variants": item.variants(learner.table),
        "data": data_digest(arguments.data_dir),
        **facts,
        "evaluate_seconds": round(took, 1),
        **environment(),
    }
    (folder / ITEM).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    folder.rename(folder.with_name(name))
    print(
        f"{name}: trained in {facts['train_seconds']} s, "
        f"{facts['positions_per_second']:,} positions a second, evaluated in "
        f"{took:.0f} s",
        flush=True,
    )
    return True


def data_digest(data_dir: Path) -> str:
    """Returns the digest of the list of sampled dialogues, or "" for other data."""
    path = data_dir / "sample.json"
    return digest_of(json.loads(path.read_text())) if path.exists() else ""


def environment() -> dict[str, str]:
    """Returns the device, the versions and the date."""
    import flax
    import jax

    return {
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "flax": flax.__version__,
        "python": platform.python_version(),
        "date": datetime.date.today().isoformat(),
    }


def write_archives(out: Path) -> None:
    """Writes results.tar and compiled.tar; each appears only when it is complete."""
    _tar(out / "results.tar", out / "items", "[!.]*")
    newest = sorted((out / "compiled").glob("*"), key=lambda path: path.stat().st_mtime)
    if sum(path.stat().st_size for path in newest) <= _MOST:
        _tar(out / "compiled.tar", out / "compiled", "*")


def _tar(target: Path, folder: Path, pattern: str) -> None:
    partial = target.with_suffix(".partial")
    with tarfile.open(partial, "w") as tar:
        for path in sorted(folder.glob(pattern)):
            tar.add(path, path.name)
    partial.replace(target)


def print_table(out: Path) -> None:
    """Prints the figures of the finished items."""
    from jaxaug.metrics.report import aggregate_seeds, read_runs, text_table

    folders = sorted(path.parent for path in out.glob(f"items/[!.]*/{ITEM}"))
    runs = [run for folder in folders for run in read_runs(folder)]
    if runs:
        print(text_table([*runs, *aggregate_seeds(runs)]))
    print(f"{len(folders)} items in {out / 'results.tar'}")


if __name__ == "__main__":
    main()
