"""The record of services that an adapter was trained on."""

import dataclasses
import json

import pytest

from jaxaug.core.errors import UserError
from jaxaug.data import folders, minisgd, seen
from jaxaug.data.schema import read_schema


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return minisgd.materialise(tmp_path_factory.mktemp("data"))


def test_all_wordings_of_a_folder_are_seen(data_dir, tmp_path):
    path = seen.write(data_dir, tmp_path)
    assert path == tmp_path / "seen_services.json"
    known = seen.read(tmp_path)
    original = read_schema(folders.schema_path(data_dir, "train")).services
    assert seen.names(original, known) == [service.name for service in original]
    variants = folders.variant_folders(data_dir)["sgdx"]
    test = read_schema(folders.variant_schema_path(variants, "v5", "test")).services
    assert seen.names(test, known) == [service.name for service in test]
    assert all(text not in path.read_text() for text in (test[0].name, "book"))


def test_another_description_is_another_service(data_dir, tmp_path):
    seen.write(data_dir, tmp_path)
    known = seen.read(tmp_path)
    service = read_schema(folders.schema_path(data_dir, "train")).services[0]
    slot = dataclasses.replace(service.slots[0], description="something else")
    other = dataclasses.replace(service, slots=(slot, *service.slots[1:]))
    assert seen.names([other, service], known) == [service.name]
    generated = read_schema(data_dir / "variants/eda/v1/train/schema.json").services
    assert seen.names(generated, known) == []


def test_an_adapter_without_the_file_has_seen_nothing(tmp_path):
    assert seen.read(tmp_path) == frozenset()


@pytest.mark.parametrize("text", ["{", '{"a": 1}', "[1]", "[" * 100_000, "1" * 5000])
def test_a_damaged_file(tmp_path, text):
    (tmp_path / seen.FILE).write_text(text)
    with pytest.raises(
        UserError, match=r"seen_services.json: is no list of texts\. Get"
    ):
        seen.read(tmp_path)


def test_the_file_is_sorted(data_dir, tmp_path):
    found = json.loads(seen.write(data_dir, tmp_path).read_text())
    assert found == sorted(set(found))
    assert {len(one) for one in found} == {16}
