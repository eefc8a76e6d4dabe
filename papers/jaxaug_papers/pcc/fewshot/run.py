"""`jaxaug fewshot`: few-shot text classification with a triplet network.

Sources: Wei et al. (2021), and Lu and Lam (2023), Tables 2 and 4, for paraphrases in a
cyclic curriculum.
"""

import dataclasses
import functools
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from etils import epath
from jaxtyping import Array, Float, Int

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, write_bytes, write_text
from jaxaug.curriculum import schedule as of_steps
from jaxaug.curriculum.levels import Levelled
from jaxaug.curriculum.schedule import Schedule
from jaxaug_papers.pcc.fewshot import config as configs
from jaxaug_papers.pcc.fewshot import methods, plot, tables
from jaxaug_papers.pcc.fewshot.arguments import FewShot
from jaxaug_papers.pcc.fewshot.config import Config
from jaxaug_papers.pcc.fewshot.methods import Method
from jaxaug_papers.pcc.fewshot.tables import Point, Result
from jaxaug_papers.pcc.fewshot.triplet import Pools, Settings, Trainer, nearest_right
from jaxaug_papers.shared import encoders
from jaxaug_papers.shared import labelled as data
from jaxaug_papers.shared.labelled import FewShotData, Sentence


class Task(NamedTuple):
    """The encodings that all methods share; `rows` maps texts to rows of `table`."""

    table: Float[Array, "texts width"]
    rows: Mapping[str, int]
    support: Float[Array, "seeds n width"]
    support_labels: Int[Array, "seeds n"]
    tests: Float[Array, "m width"]
    test_labels: Int[Array, " m"]


def run(arguments: FewShot) -> int:
    """Runs `jaxaug fewshot`."""
    config = configs.load(arguments.config)
    data_dir = epath.Path(arguments.data_dir or config.data_dir).expanduser()
    out = epath.Path(arguments.out or config.out)
    if arguments.encoder:
        config = dataclasses.replace(config, encoder=arguments.encoder)
    if arguments.texts:
        texts = few_shot_texts(config, data_dir)
        write_text(arguments.texts, "".join(f"{text}\n" for text in texts))
        print(f"{len(texts)} sentences of {len(config.seeds)} seeds: {arguments.texts}")
        return 0
    experiment(config, data_dir, out, arguments.dry_run)
    return 0


def few_shot_texts(config: Config, data_dir: PathLike) -> list[str]:
    """Returns the distinct few-shot sentences of all seeds, for `jaxaug levels`."""
    found = data.load(epath.Path(data_dir) / config.dataset)
    drawn = [data.few_shot(found.train, config.per_label, s) for s in config.seeds]
    return list(dict.fromkeys(one.text for sentences in drawn for one in sentences))


def experiment(
    config: Config, data_dir: PathLike, out: PathLike, dry_run: bool = False
) -> dict[str, Result]:
    """Trains every method of a config for every seed; prints and writes the tables.

    The test set is not used for selection. The results are measured after the last
    update, and the config gives the number of updates.

    Args:
        out: folder for `results.txt`, `results.csv`, `right.npz`, `curves.csv`, and
            `curves.png`.

    Returns:
        Name -> result, in the order of the config; skipped methods are absent.
    """
    began = time.monotonic()
    folder = epath.Path(out)
    found = data.load(epath.Path(data_dir) / config.dataset)
    drawn = [data.few_shot(found.train, config.per_label, s) for s in config.seeds]
    print(_described(config, found, drawn))
    texts, missing = _texts(config, drawn, data_dir)
    schedules = {
        name: _method(config, name).schedule_of(_levels(items))
        for name, items in texts.items()
    }
    if dry_run:
        print(_plotted(schedules))
        return {}
    for name, schedule in schedules.items():
        print(plot.schedule_line(name, schedule))
    task = _task(config, found, drawn, texts)
    # The accuracy of the encodings without a network.
    raw = nearest_right(*task[2:]).mean(axis=1)
    print(f"nearest neighbour of raw encodings: {_percent(raw)}", flush=True)
    results = {}
    for name, schedule in schedules.items():
        pools = methods.pools(drawn, texts[name], task.rows)
        settings = _method(config, name).settings(config.triplet)
        trainer = _trainer(settings, task.table.shape[1])
        results[name] = _trained(trainer, name, schedule, pools, task, config)
        print(f"{name}: {_percent(results[name].accuracy)}", flush=True)
    report = [
        *(tables.text_table(table, results, missing) for table in config.tables),
        tables.LEGEND,
        f"{time.monotonic() - began:.0f} s.",
    ]
    text = "\n\n".join(report)
    print(f"\n{text}")
    write_text(folder / "results.txt", f"{text}\n")
    table = tables.csv_table(config.tables, results, config.seeds)
    write_text(folder / "results.csv", table)
    write_bytes(folder / "right.npz", tables.npz_right(results))
    write_text(folder / "curves.csv", tables.csv_curves(results, config.seeds))
    plot.write_curves(folder / "curves.png", config.tables, results)
    print(f"Tables and plots are in {folder}.")
    return results


def _described(
    config: Config, found: FewShotData, drawn: Sequence[Sequence[Sentence]]
) -> str:
    return (
        f"{config.dataset}: {len(found.labels)} labels, {len(drawn[0])} few-shot "
        f"sentences for each of {len(config.seeds)} seeds, {len(found.test)} distinct "
        f"test sentences, {found.overlap} of which also stand in train.txt; encoder "
        f"{config.encoder}"
    )


def _plotted(schedules: Mapping[str, Schedule]) -> str:
    """Returns text plots of level against step, one per distinct schedule."""
    found = plot.by_schedule(schedules)
    blocks = [f"\n{'; '.join(ns)}\n{of_steps.plot_text(s)}" for s, ns in found.items()]
    return "\n".join(blocks)


def _texts(
    config: Config, drawn: Sequence[Sequence[Sentence]], data_dir: PathLike
) -> tuple[dict[str, list[list[Levelled]]], dict[str, str]]:
    """Returns the paraphrases by method and seed, and reasons of skipped methods."""
    texts, missing = {}, {}
    for method in config.methods:
        try:
            texts[method.name] = [
                methods.levelled(method, sentences, seed, data_dir)
                for sentences, seed in zip(drawn, config.seeds, strict=True)
            ]
        except UserError as error:
            if not method.optional:
                raise
            missing[method.name] = str(error)
            print(f"{method.name}: not run: {error}")
    return texts, missing


def _method(config: Config, name: str) -> Method:
    return next(method for method in config.methods if method.name == name)


def _levels(by_seed: Sequence[Sequence[Levelled]]) -> int:
    return len(by_seed[0][0].levels) - 1


def _task(
    config: Config,
    found: FewShotData,
    drawn: Sequence[Sequence[Sentence]],
    texts: Mapping[str, Sequence[Sequence[Levelled]]],
) -> Task:
    """Returns the encodings; each distinct text is encoded once."""
    encode = encoders.find(config.encoder)
    originals = [sentence.text for sentences in drawn for sentence in sentences]
    everything = dict.fromkeys(originals)
    for by_seed in texts.values():
        for items in by_seed:
            for item in items:
                everything |= dict.fromkeys(t for level in item.levels for t in level)
    rows = {text: row for row, text in enumerate(everything)}
    vectors = encode(list(rows))
    places = np.array([rows[text] for text in originals]).reshape(len(drawn), -1)
    factor = encoders.scale(vectors[places.reshape(-1)], config.norm)
    table = jnp.asarray(vectors * factor)
    tests = jnp.asarray(encode([sentence.text for sentence in found.test]) * factor)
    numbers = {label: number for number, label in enumerate(found.labels)}
    labels = [[numbers[one.label] for one in sentences] for sentences in drawn]
    expected = [numbers[sentence.label] for sentence in found.test]
    return Task(
        table, rows, table[places], jnp.asarray(labels), tests, jnp.asarray(expected)
    )


@functools.cache
def _trainer(settings: Settings, width: int) -> Trainer:
    # Methods with the same settings share their compiled programs.
    return Trainer(settings, width)


def _trained(
    trainer: Trainer,
    name: str,
    schedule: Schedule,
    pools: Pools,
    task: Task,
    config: Config,
) -> Result:
    """Trains one method for all seeds, and records its learning curve."""
    weights = np.array([schedule(step) for step in range(schedule.steps)], np.float32)
    state = trainer.init(config.seeds)
    curve = []
    for first in range(0, schedule.steps, config.eval_every):
        part = weights[first : first + config.eval_every]
        state, figures = trainer.train(
            state, config.seeds, task.table, pools, part, first
        )
        right = trainer.right(state, *task[2:])
        curve.append(Point(first + len(part), right.mean(axis=1), *figures))
    return Result(name, schedule, tuple(curve), right)


def _percent(values: Float[np.ndarray, " seeds"]) -> str:
    each = ", ".join(f"{100 * value:.1f}" for value in values)
    return f"{100 * values.mean():.2f} ({each})"
