"""The identity of a model in cache keys."""

import numpy as np

from jaxaug.models.named import catalogue, identities


def write(folder, **files):
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_text(content)
    return folder


FILES = {"model_safetensors": "abc", "config_json": "{}", "source_spm": "s"}


def test_identity_of_a_folder(tmp_path):
    first = identities.of_folder(write(tmp_path / "a", **FILES))
    assert identities.of_folder(write(tmp_path / "b", **FILES)) == first
    write(tmp_path / "b", README_md="read me", jaxaug_py="")
    (tmp_path / "b" / catalogue.SOURCE_FILE).write_text("{}")
    assert identities.of_folder(tmp_path / "b") == first
    for name in FILES:
        changed = write(tmp_path / name, **FILES | {name: "other"})
        assert identities.of_folder(changed) != first
    moved = write(tmp_path / "c", model_bin="abc", config_json="{}", source_spm="s")
    assert identities.of_folder(moved) != first


class Words:
    vocab_size = 5

    def __init__(self, path):
        self.path = path


def test_parameters(tmp_path):
    path = write(tmp_path, words_model="a") / "words.model"
    same = write(tmp_path / "b", words_model="a") / "words.model"
    params = {"a": {"kernel": np.arange(4.0)}, "b": np.float32(1)}
    first = identities.of_parameters("net", params, Words(path))
    assert identities.of_parameters("net", params, Words(same)) == first
    turned = {"b": params["b"], "a": params["a"]}
    assert identities.of_parameters("net", turned, Words(path)) == first
    others = [
        ("other net", params, Words(path)),
        ("net", params | {"b": np.float64(1)}, Words(path)),
        ("net", params | {"b": np.float32(2)}, Words(path)),
        ("net", params | {"a": {"kernel": np.arange(4.0).reshape(2, 2)}}, Words(path)),
        ("net", params | {"a": {"scale": np.arange(4.0)}}, Words(path)),
        ("net", params, Words(write(tmp_path / "c", words_model="b") / "words.model")),
        ("net", params),
    ]
    found = [identities.of_parameters(*other) for other in others]
    assert len({first, *found}) == 8


def test_a_module_that_holds_a_function_is_the_same_in_every_process():
    first, second = (f"Net(f=<function g at 0x7f{n}>)" for n in (12, 34))

    class Net:
        def __init__(self, text):
            self.text = text

        def __repr__(self):
            return self.text

    assert identities.of_parameters(Net(first), {}) == identities.of_parameters(
        Net(second), {}
    )


def test_our_networks_are_covered():
    found = [module.__name__ for module in identities.network_code()]
    assert found == ["jaxaug.models", "t5x.examples.t5"]
