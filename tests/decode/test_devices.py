"""One device with a batch of 24 decodes the same tokens as eight devices with 8."""

import json
import os
import pathlib
import subprocess

import pytest

PROGRAM = pathlib.Path(__file__).with_name("decode_program.py")


def start(python, devices, *batch_sizes):
    flags = os.environ["XLA_FLAGS"]
    flags += f" --xla_force_host_platform_device_count={devices}"
    return subprocess.Popen(
        [python, str(PROGRAM), *map(str, batch_sizes)],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(program):
    out, err = program.communicate(timeout=1500)
    assert program.returncode == 0, err[-3000:]
    return json.loads(out)


@pytest.mark.slow
def test_one_device_equals_eight_with_smaller_batches(python):
    one = finish(start(python, 1, 24))
    eight = finish(start(python, 8, 8))
    assert (one.pop("devices"), eight.pop("devices")) == (1, 8)
    expected = one["24"]
    assert expected.keys() >= {"greedy", "bottom_k", "beam", "diverse", "dips"}
    for decoder, texts in expected.items():
        assert len(texts) == 19
        distinct = {tuple(text) for row in texts for text in row}
        assert len(distinct) > (8 if decoder == "greedy" else 30)
        assert eight["8"][decoder] == texts, decoder
