"""One device with a batch of 24 decodes the same tokens as eight devices with 8."""

import json
import os
import pathlib

import pytest
from decode_program import DECODERS

from tests.support import grids
from tests.support.programs import ran

PROGRAM = pathlib.Path(__file__).with_name("decode_program.py")
# It searches, and draws the steps at which it selects.
ONE = ["dips"]
OTHERS = [name for name in DECODERS if name not in ONE]


def decoded(python, devices, batch_size, names):
    """Returns the outputs of each decoder, on a number of devices."""
    flags = os.environ["XLA_FLAGS"]
    flags += f" --xla_force_host_platform_device_count={devices}"
    done = ran(
        [python, str(PROGRAM), str(batch_size), *names],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        timeout=1500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found.pop("devices") == devices
    return found


@pytest.mark.slow
@pytest.mark.parametrize("names", grids.first(1, [ONE, OTHERS]), ids=["one", "others"])
def test_one_device_equals_eight_with_smaller_batches(python, names):
    expected = decoded(python, 1, 24, names)
    found = decoded(python, 8, 8, names)
    assert [*expected] == names
    for name, texts in expected.items():
        assert len(texts) == 19
        distinct = {tuple(text) for row in texts for text in row}
        assert len(distinct) > (8 if name == "greedy" else 30)
        assert found[name] == texts, name
