"""Prints the settings of PCC's dialogue rows on top of each experiment, as JSON.

    python tests/papers/pcc/dialogue_rows_program.py EXPERIMENTS ROWS

Both arguments are lists separated by commas. The program runs in a separate process,
because gin keeps the registrations of earlier files.
"""

import importlib
import json
import sys

import gin
from t5x import gin_utils

from jaxaug_papers import pcc


def parse(experiment, *rows):
    files = [f"configs/personachat_{experiment}.gin"]
    files += [f"configs/runs/personachat_{row}.gin" for row in rows]
    lines = ["from __gin__ import dynamic_registration"]
    gin_utils.parse_gin_flags(
        [pcc.folder()], [], [*lines, *(f"include {file!r}" for file in files)]
    )


def value(macro):
    """Returns the value of a macro; calls it if it is a reference."""
    found = gin.query_parameter(f"%{macro}")
    if isinstance(found, gin.config.ConfigurableReference):
        return found.scoped_configurable_fn()
    return found


def main(experiments, rows):
    # The files bind `train` of the program that reads them.
    sys.modules["__main__"] = importlib.import_module("t5x.train")
    found = {}
    for experiment in experiments:
        for row in rows:
            gin.clear_config()
            parse(experiment, row)
            curriculum = value("CURRICULUM")
            found[f"{row}-{experiment}"] = {
                "tasks": value("LEVEL_TASKS"),
                "weights": curriculum.weights,
                "ends": curriculum.ends,
                "train_steps": value("TRAIN_STEPS"),
            }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*(words.split(",") for words in sys.argv[1:]))
