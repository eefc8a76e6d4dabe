"""The fuzzer of a test file; the test modules import what lies next to them."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from fuzz_kit import Fuzzer


@pytest.fixture(scope="module")
def fuzzer(python, request, tmp_path_factory):
    """Feeds the `READERS` of the test module, all in one child process."""
    fuzzer = Fuzzer(request.module.__file__, tmp_path_factory.mktemp("fuzz"), python)
    yield fuzzer
    fuzzer.close()
