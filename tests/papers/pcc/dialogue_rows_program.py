"""What PCC's rows of dialogue become over each experiment: JSON on standard output.

    python tests/papers/pcc/dialogue_rows_program.py EXPERIMENTS ROWS

Both are lists with commas. A process of its own: gin keeps what other files registered.
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
    """What a macro stands for, made if need be."""
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
