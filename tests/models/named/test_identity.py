"""What stands for a model in keys."""

import importlib
import sys

import numpy as np
import pytest

from jaxaug.models.named import catalogue, identity


def write(folder, **files):
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_text(content)
    return folder


FILES = {"model_safetensors": "abc", "config_json": "{}", "source_spm": "s"}


def test_a_folder_is_what_decides_in_it(tmp_path):
    first = identity.of_folder(write(tmp_path / "a", **FILES))
    assert identity.of_folder(write(tmp_path / "b", **FILES)) == first
    write(tmp_path / "b", README_md="read me", jaxaug_py="")
    (tmp_path / "b" / catalogue.SOURCE_FILE).write_text("{}")
    assert identity.of_folder(tmp_path / "b") == first
    for name in FILES:
        changed = write(tmp_path / name, **FILES | {name: "other"})
        assert identity.of_folder(changed) != first
    moved = write(tmp_path / "c", model_bin="abc", config_json="{}", source_spm="s")
    assert identity.of_folder(moved) != first


class Words:
    vocab_size = 5

    def __init__(self, path):
        self.path = path


def test_parameters(tmp_path):
    path = write(tmp_path, words_model="a") / "words.model"
    same = write(tmp_path / "b", words_model="a") / "words.model"
    params = {"a": {"kernel": np.arange(4.0)}, "b": np.float32(1)}
    first = identity.of_parameters("net", params, Words(path))
    assert identity.of_parameters("net", params, Words(same)) == first
    turned = {"b": params["b"], "a": params["a"]}
    assert identity.of_parameters("net", turned, Words(path)) == first
    others = [
        ("other net", params, Words(path)),
        ("net", params | {"b": np.float64(1)}, Words(path)),
        ("net", params | {"b": np.float32(2)}, Words(path)),
        ("net", params | {"a": {"kernel": np.arange(4.0).reshape(2, 2)}}, Words(path)),
        ("net", params | {"a": {"scale": np.arange(4.0)}}, Words(path)),
        ("net", params, Words(write(tmp_path / "c", words_model="b") / "words.model")),
        ("net", params),
    ]
    found = [identity.of_parameters(*other) for other in others]
    assert len({first, *found}) == 8


def test_a_module_that_holds_a_function_is_the_same_in_every_process():
    first, second = (f"Net(f=<function g at 0x7f{n}>)" for n in (12, 34))

    class Net:
        def __init__(self, text):
            self.text = text

        def __repr__(self):
            return self.text

    assert identity.of_parameters(Net(first), {}) == identity.of_parameters(
        Net(second), {}
    )


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Writes a package of two modules and imports it: name -> module."""

    def make(name, inner="a = 1\n"):
        folder = write(tmp_path / name, one_py="b = 2\n")
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
    assert identity.of_code(first) == identity.of_code(package("package_b"))
    assert identity.of_code(first) != identity.of_code(package("package_c", "a = 2\n"))
    one = importlib.import_module("package_a.one")
    assert identity.of_code(one) != identity.of_code(first)
    assert identity.of_code(one) == identity.of_code(
        importlib.import_module("package_b.one")
    )


def test_our_networks_are_covered():
    found = [module.__name__ for module in identity.network_code()]
    assert found == ["jaxaug.models", "t5x.examples.t5"]
