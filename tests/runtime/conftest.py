"""Makes the kits importable, and runs checkpoint tests on both layouts."""

import pathlib
import sys

import pytest

# The test modules import the *_kit modules of this folder.
sys.path.insert(0, str(pathlib.Path(__file__).parent))


@pytest.fixture(params=["orbax", "legacy"])
def layout(request):
    return request.param
