"""The fuzzer of a test file; test modules can import modules of this folder."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from fuzz_kit import FILES, SHORT, Fuzzer


@pytest.fixture(params=[SHORT, pytest.param(FILES, marks=pytest.mark.long)])
def files(request):
    """Returns the number of damaged files for each reader."""
    return request.param


@pytest.fixture(scope="module")
def fuzzer(python, request, tmp_path_factory):
    """Returns a function that fuzzes the `READERS` of the module in a child process."""
    fuzzer = Fuzzer(request.module.__file__, tmp_path_factory.mktemp("fuzz"), python)
    yield fuzzer
    fuzzer.close()
