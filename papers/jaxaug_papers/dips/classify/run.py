"""`jaxaug classify`: computes every row for every share, classifier, and seed."""

import dataclasses
import fnmatch
import json
import time
from collections.abc import Mapping, Sequence

import numpy as np
from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, write_text
from jaxaug.core.suggestion import suggestion
from jaxaug.paraphrase import endpoint_run
from jaxaug_papers.dips.classify import config as configs
from jaxaug_papers.dips.classify import examples, plot, rows, tables
from jaxaug_papers.dips.classify.arguments import Classify
from jaxaug_papers.dips.classify.classifiers import CLASSIFIERS, Fold
from jaxaug_papers.dips.classify.config import Config
from jaxaug_papers.dips.classify.examples import Data, Draw
from jaxaug_papers.dips.classify.rows import Method, Outputs
from jaxaug_papers.dips.classify.tables import Cell

_CHANGED = ("wordnet_dir", "num_sources", "shares", "classifiers")
_ASKED = (*endpoint_run.OWN, "option")


def run(arguments: Classify) -> int:
    """Runs `jaxaug classify`."""
    config = configs.load(arguments.config)
    given = {name: getattr(arguments, name) for name in arguments.changed(_CHANGED)}
    config = _with_model(dataclasses.replace(config, **given), arguments)
    if arguments.only:
        chosen = _chosen(config, arguments.only)
        config = dataclasses.replace(config, methods=chosen)
    data_dir = epath.Path(arguments.data_dir or config.data_dir).expanduser()
    if arguments.dry_run:
        print("\n".join(_planned(config, data_dir)))
        return 0
    experiment(config, data_dir, epath.Path(arguments.out or config.out))
    return 0


def _with_model(config: Config, arguments: Classify) -> Config:
    """Returns the config with the paraphraser of a command line."""
    model = arguments.model or config.paraphraser
    arguments = dataclasses.replace(arguments, model=model)
    config = dataclasses.replace(config, paraphraser=model)
    if not endpoint_run.check(arguments, (), _ASKED):
        return config
    names = ("endpoint", "key_variable", "max_requests", "prices")
    requests = [f"{k}={getattr(arguments, k)}" for k in arguments.changed(names)]
    requests += arguments.option
    new = {request.partition("=")[0] for request in requests}
    kept = [one for one in config.requests if one.partition("=")[0] not in new]
    requests = [*kept, *requests]
    methods = rows.of_server(config.methods, config.paraphraser, requests)
    return dataclasses.replace(config, requests=tuple(requests), methods=methods)


def _planned(config: Config, data_dir: PathLike) -> list[str]:
    """Lines of a dry run: what the rows of a server will cost, as far as is known."""
    _, draws = _drawn(config, data_dir)
    texts = examples.sources(draws, config.shares, config.num_sources)
    lines = [endpoint_run.counted(texts)]
    for method in config.methods:
        writer = rows.writer_of(method, config.paraphraser, config.num)
        lines += writer.plan(texts) if writer else []
    return lines


def _chosen(config: Config, patterns: Sequence[str]) -> tuple[Method, ...]:
    """Returns the first row of a config and the rows that match patterns."""
    first, *others = config.methods
    for pattern in patterns:
        names = [method.name for method in config.methods]
        if not fnmatch.filter(names, pattern):
            raise UserError(
                f"--only {pattern}: no such row; {suggestion(pattern, names)}"
            )
    return (
        first,
        *(m for m in others if any(fnmatch.fnmatch(m.name, p) for p in patterns)),
    )


def experiment(config: Config, data_dir: PathLike, out: PathLike) -> list[Cell]:
    """Trains every classifier on every row and share; prints and writes the tables.

    The test set is not used for selection. A row whose model is not on this machine is
    skipped; the reason is printed below the tables.

    Args:
        out: folder for `results.txt`, `results.json`, `results.csv`, and `results.png`.

    Raises:
        UserError: data or config are invalid, or the first row cannot be made.
    """
    began = time.monotonic()
    data, draws = _drawn(config, data_dir)
    notes = [_described(config, data, draws), *data.notes]
    print("\n".join(notes), flush=True)
    outputs, missing = _outputs(config, draws)
    notes += _on_outputs(outputs)
    writers = [
        rows.writer_of(m, config.paraphraser, config.num) for m in config.methods
    ]
    notes += [writer.spent() for writer in writers if writer]
    cells = []
    for share in config.shares:
        for name in outputs:
            cells += _cells(config, data, draws, share, name, outputs[name])
    title = epath.Path(config.dataset).name
    blocks = [
        "\n".join(notes),
        *(tables.text_table(cells, share, missing) for share in config.shares),
        tables.table_5(cells, title),
        tables.LEGEND,
        *(f"{name}: not run: {reason}" for name, reason in missing.items()),
        f"{time.monotonic() - began:.0f} s.",
    ]
    _write(epath.Path(out), config, cells, missing, "\n\n".join(blocks))
    return cells


def _drawn(config: Config, data_dir: PathLike) -> tuple[Data, list[Draw]]:
    """Returns the data of an experiment, and the draw of each seed."""
    data = examples.read(config.reader, epath.Path(data_dir) / config.dataset)
    _check(config, data)
    return data, [
        examples.draw(data.train, seed, config.train_size, config.validation_size)
        for seed in config.seeds
    ]


def _check(config: Config, data: Data) -> None:
    texts = len(data.train[0].texts)
    for name in config.classifiers:
        if CLASSIFIERS[name][1] != texts:
            fitting = [n for n, (_, count) in CLASSIFIERS.items() if count == texts]
            raise UserError(
                f"classifier {name!r} reads {CLASSIFIERS[name][1]} texts, the examples "
                f"of reader {config.reader!r} have {texts}. Use {', '.join(fitting)}."
            )


def _described(config: Config, data: Data, draws: Sequence[Draw]) -> str:
    first = draws[0]
    return (
        f"{config.dataset}: {len(data.labels)} classes, {len(first.train)} examples to "
        f"train on, {len(first.validation)} to validate with, drawn from "
        f"{len(data.train)} by each of {len(draws)} seeds; {len(data.test)} to test "
        "with"
    )


def _outputs(
    config: Config, draws: Sequence[Draw]
) -> tuple[dict[str, list[Outputs]], dict[str, str]]:
    """Returns the paraphrases of each row per seed, and the reasons of skipped rows."""
    texts = examples.sources(draws, config.shares, config.num_sources)
    found: dict[str, list[Outputs]] = {}
    missing = {}
    for place, method in enumerate(config.methods):
        try:
            outputs = rows.outputs_of(
                method, texts, config.num, config.paraphraser, config.wordnet_dir
            )
        except UserError as error:
            # The replies of a server are kept; the same command continues.
            if place == 0 or method.name == config.paraphraser:
                raise
            missing[method.name] = str(error)
            print(f"{method.name}: not run: {error}", flush=True)
            continue
        # A text of two seeds is added in both, if it is among the first texts of each.
        found[method.name] = [
            {text: outputs[text] for text in _of_seed(config, draw)} for draw in draws
        ]
    return found, missing


def _of_seed(config: Config, draw: Draw) -> list[str]:
    return examples.sources([draw], config.shares, config.num_sources)


def _on_outputs(outputs: Mapping[str, Sequence[Outputs]]) -> list[str]:
    """Returns a line per row: the number of paraphrases, and the fraction of copies."""
    notes = []
    for name, by_seed in outputs.items():
        merged = {text: found for one in by_seed for text, found in one.items()}
        share = rows.copied(merged)
        if share is not None:
            count = sum(map(len, merged.values()))
            notes.append(
                f"{name}: {count} paraphrases of {len(merged)} texts, "
                f"{100 * share:.0f}% of which equal their text"
            )
    return notes


def _cells(
    config: Config,
    data: Data,
    draws: Sequence[Draw],
    share: float,
    method: str,
    outputs: Sequence[Outputs],
) -> list[Cell]:
    """Returns the results of all classifiers for one row."""
    folds = []
    for seed, draw, own in zip(config.seeds, draws, outputs, strict=True):
        originals = examples.share_of(draw.train, share)
        train = rows.augmented(originals, own)
        folds.append(
            Fold(seed, train, len(originals), draw.validation, data.test, data.labels)
        )
    right = np.array([example.label for example in data.test])
    size = float(np.mean([len(fold.train) for fold in folds]))
    cells = []
    for name in config.classifiers:
        began = time.monotonic()
        guessed = CLASSIFIERS[name][0](folds, config.lstm)
        hits = np.array([np.array(one) == right for one in guessed])
        cells.append(Cell(share, name, method, size, hits))
        print(
            f"{tables.percent(share)} {method}, {name}: "
            f"{', '.join(f'{100 * value:.1f}' for value in cells[-1].accuracy)} "
            f"({time.monotonic() - began:.0f} s)",
            flush=True,
        )
    return cells


def _write(
    folder: epath.Path,
    config: Config,
    cells: Sequence[Cell],
    missing: Mapping[str, str],
    text: str,
) -> None:
    print(f"\n{text}")
    write_text(folder / "results.txt", f"{text}\n")
    content = {
        "config": dataclasses.asdict(config),
        "missing": dict(missing),
        "cells": [cell.plain() for cell in cells],
    }
    write_text(folder / "results.json", json.dumps(content, indent=2) + "\n")
    write_text(folder / "results.csv", tables.csv_table(cells, config.seeds))
    plot.write(folder / "results.png", cells)
    print(f"Tables and a plot are in {folder}.")
