"""Hashes of values, files, and code."""

import importlib
import sys

import pytest

from jaxaug.core.digests import code_digest, digest_of, file_digest


def test_values():
    assert digest_of({"a": 1, "b": [2]}) == digest_of({"b": [2], "a": 1})
    assert digest_of([1, 2]) != digest_of([2, 1])


def test_files_are_known_by_their_bytes(tmp_path):
    for name, content in (("a", "x"), ("b", "x"), ("c", "y")):
        (tmp_path / name).write_text(content)
    first, same, other = (file_digest(tmp_path / name) for name in "abc")
    assert first == same != other
    (tmp_path / "a").write_text("longer")
    assert file_digest(tmp_path / "a") != first


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Writes a package of two modules and imports it: name -> module."""

    def make(name, inner="a = 1\n"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "one.py").write_text("b = 2\n")
        (folder / "__init__.py").write_text("")
        (folder / "deep").mkdir()
        (folder / "deep" / "two.py").write_text(inner)
        return importlib.import_module(name)

    monkeypatch.syspath_prepend(tmp_path)
    yield make
    for name in [name for name in sys.modules if name.startswith("package_")]:
        del sys.modules[name]


def test_code(package):
    first = package("package_a")
    assert code_digest(first) == code_digest(package("package_b"))
    assert code_digest(first) != code_digest(package("package_c", "a = 2\n"))
    one = importlib.import_module("package_a.one")
    assert code_digest(one) != code_digest(first)
    assert code_digest(one) == code_digest(importlib.import_module("package_b.one"))


def test_code_by_name_and_with_its_data(package):
    module = package("package_d")
    before = code_digest("package_d")
    assert before == code_digest(module)
    package("package_e")
    assert code_digest("package_d", "package_e") != before
