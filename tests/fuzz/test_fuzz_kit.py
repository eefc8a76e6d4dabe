"""The fuzzer finds the defects that it is made for."""

import os
import time
from pathlib import Path
from random import Random

import pytest
from fuzz_kit import Reader
from mutators import BYTES, JSON, damage

from jaxaug.core.errors import UserError

GOOD = b'{"name": "value", "items": [1, 2, 3]}'


def make(folder, material):
    (folder / "fuzzed.json").write_bytes(GOOD)
    return folder / "fuzzed.json"


def when_damaged(act):
    """Returns a reader that fails on every damaged file."""

    def read(path, material):
        data = path.read_bytes()
        return data if data == GOOD else act(path)

    return read


def spin(path):
    while True:
        time.process_time()


def take_memory(path):
    return len(bytearray(3 * 2**30))


def take_memory_and_refuse(path):
    try:
        take_memory(path)
    except MemoryError:
        raise UserError(f"{path}: too large.") from None


def refuse(message):
    def act(path):
        raise UserError(message.format(path=path))

    return act


def no_check(found, expected, path):
    """Accepts any other result."""


def reader(act, check=None):
    return Reader(make, when_damaged(act), JSON, check, seconds=0.3)


READERS = {
    "refuses": reader(refuse("{path}: damaged. Get it again.")),
    "heals": reader(lambda path: GOOD),
    "reads": reader(Path.read_bytes, no_check),
    "wrong answer": reader(Path.read_bytes),
    "traceback": reader(lambda path: 1 / 0),
    "hang": reader(spin),
    "memory": reader(take_memory),
    "memory, then refused": reader(take_memory_and_refuse),
    "crash": reader(lambda path: os.abort()),
    "end": reader(lambda path: os._exit(3)),
    "no name": reader(refuse("damaged. Get it again.")),
    "flood": reader(refuse("{path}" + 4000 * "x")),
}


@pytest.mark.parametrize(
    ("name", "outcome", "what"),
    [
        ("refuses", "refused", None),
        ("heals", "same", None),
        ("reads", "other", None),
        ("wrong answer", "defect", "AssertionError at fuzz_kit.py"),
        ("traceback", "defect", "ZeroDivisionError at test_fuzz_kit.py"),
        ("hang", "defect", "too much time of the processor"),
        ("memory", "defect", "MemoryError at test_fuzz_kit.py"),
        ("memory, then refused", "defect",
         "memory was asked for before it was refused"),
        ("crash", "defect", "killed by SIGABRT"),
        ("end", "defect", "exit 3"),
        ("no name", "defect", "the message does not name the file"),
        ("flood", "defect", "a message of 4"),
    ],
)  # fmt: skip
def test_outcomes(fuzzer, tmp_path, name, outcome, what):
    report = fuzzer.run(name, tmp_path, files=2)
    assert report.counts == {outcome: 2}
    assert (what in report.text()) if what else not report.defects


def test_mutators_are_seeded_and_change_the_file(tmp_path):
    path = tmp_path / "x.json"

    def damaged(seed, mutators):
        path.unlink(missing_ok=True)
        path.write_bytes(GOOD)
        damage(path, mutators, Random(seed))
        return None if path.is_fifo() else path.read_bytes()

    for mutators in (JSON, BYTES):
        first = [damaged(seed, mutators) for seed in range(60)]
        assert first == [damaged(seed, mutators) for seed in range(60)]
        assert GOOD not in first and len(set(first)) > 40
    assert None in (damaged(seed, BYTES) for seed in range(200))
