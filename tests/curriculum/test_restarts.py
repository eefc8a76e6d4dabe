"""An interrupted cyclic T5X run uses the same examples in each step."""

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
    python: str,
    folder: Path,
    count: int,
    pack: str,
    shards: int,
    stops: dict[int, str],
) -> None:
    """Runs the program, in several processes, to its end or to SIGTERM."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    rest = (pack, str(shards), json.dumps(stops))
    common = (str(count), str(port), str(folder), *rest)
    workers = [
        subprocess.Popen(
            [python, PROGRAM, str(rank), *common],
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
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


def notes(folder: Path, name: str) -> list[tuple[int, list]]:
    """Returns (step, rows) of each global batch that was used, in order."""
    by_process = [
        [json.loads(line) for line in path.read_text().splitlines()]
        for path in sorted(folder.glob(f"{name}.*.jsonl"))
    ]
    first, *others = by_process
    found = []
    for number, (step, rows) in enumerate(first):
        for notes in others:  # They end earlier if one process continues alone.
            if number < len(notes):
                assert notes[number][0] == step
                rows = rows + notes[number][1]
        found.append((step, rows))
    return found


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("count", "pack"), [(1, "pack"), (2, "alone")])
def test_five_interruptions_change_no_example_and_no_level(
    python, tmp_path, count, pack
):
    """One or two processes start; after SIGTERM a single one continues."""
    points = sorted(random.Random(count).sample(range(1, STEPS - 6), 5))
    kinds = ("kill", "kill", "kill", "kill", "terminate")
    stops = dict(zip(points, kinds, strict=True))
    start(python, tmp_path, count, pack, count, stops)
    start(python, tmp_path, 1, pack, count, {})

    straight, stopped = notes(tmp_path, "straight"), notes(tmp_path, "stopped")
    assert [step for step, _ in straight] == list(range(STEPS))
    expected = dict(straight)
    # Every step is trained, some of them twice after a kill, on the same rows.
    assert {step for step, _ in stopped} == set(range(STEPS))
    assert len(stopped) > STEPS
    for step, rows in stopped:
        assert rows == expected[step], step

    drawn = np.asarray([expected[step] for step in range(STEPS)])
    assert drawn.shape[1] == ROWS
    for step, rows in enumerate(drawn):
        levels = set(rows.reshape(-1, 2)[:, 0]) - {0}
        assert levels <= {1, step // PER_LEVEL % LEVELS + 1}
    assert {1, 2, 3} <= set(drawn.reshape(-1, 2)[:, 0])
    assert len({tuple(pair) for pair in drawn.reshape(-1, 2)}) > 20 * LEVELS
