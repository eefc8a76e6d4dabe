"""A cyclic T5X run that is interrupted anywhere uses the same examples in each step."""

import json
import os
import random
import socket
import subprocess
from pathlib import Path

import numpy as np
import pytest

PROGRAM = Path(__file__).with_name("restart_program.py")
STEPS, ROWS, PER_LEVEL, LEVELS = 24, 4, 4, 3


def start(
    python: str, folder: Path, count: int, pack: str, stops: dict[int, str]
) -> None:
    """Runs the program, in several processes, to its end or to SIGTERM."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    common = (str(count), str(port), str(folder), pack, json.dumps(stops))
    workers = [
        subprocess.Popen(
            [python, PROGRAM, str(rank), *common],
            env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    try:
        errors = [worker.communicate(timeout=580)[1] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    for worker, error in zip(workers, errors, strict=True):
        assert worker.returncode == (3 if stops else 0), error[-4000:]


def notes(folder: Path, name: str, rank: int) -> list[tuple[int, list]]:
    """(step, rows) of each batch that a process used."""
    lines = (folder / f"{name}.{rank}.jsonl").read_text().splitlines()
    return [tuple(json.loads(line)) for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize(("count", "pack"), [(1, "pack"), (2, "alone")])
def test_five_interruptions_change_no_example_and_no_level(
    python, tmp_path, count, pack
):
    points = sorted(random.Random(count).sample(range(1, STEPS - 6), 5))
    kinds = ("kill", "kill", "kill", "kill", "terminate")
    start(python, tmp_path, count, pack, dict(zip(points, kinds, strict=True)))
    start(python, tmp_path, count, pack, {})

    of_process = []
    for rank in range(count):
        straight = notes(tmp_path, "straight", rank)
        stopped = notes(tmp_path, "stopped", rank)
        assert [step for step, _ in straight] == list(range(STEPS))
        expected = dict(straight)
        # Every step is trained, some of them again after a kill, on the same rows.
        assert {step for step, _ in stopped} == set(range(STEPS))
        assert len(stopped) > STEPS
        for step, rows in stopped:
            assert rows == expected[step], step
        pairs = np.asarray([expected[step] for step in range(STEPS)])
        assert pairs.shape[1] == ROWS // count
        of_process.append(pairs.reshape(STEPS, -1, 2))

    drawn = np.concatenate(of_process, axis=1)
    for step, pairs in enumerate(drawn):
        assert set(pairs[:, 0]) - {0} <= {1, step // PER_LEVEL % LEVELS + 1}
    assert {1, 2, 3} <= set(drawn[..., 0].ravel())
    # No example belongs to two processes.
    examples = [{tuple(pair) for pair in pairs.reshape(-1, 2)} for pairs in of_process]
    assert len(examples[0]) > 20
    if count == 2:
        assert examples[0] & examples[1] <= {(0, 0)}
