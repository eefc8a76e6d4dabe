"""Variants in SGD-X layout: output, refused input, and a full disk."""

import errno
import json
import os

import pytest
from etils import epath

from jaxaug.augment.output import records
from jaxaug.core.errors import UserError
from jaxaug.data import folders, sgd
from jaxaug.data.schema import read_schema

TEXTS = (
    {"test/0/service": "Green places", "test/1/slot/0": "Destination, or “city”"},
    {"test/1/intent/1": "Get a seat"},
    {},
)


@pytest.fixture
def schema(sgd_tree):
    return read_schema(sgd_tree / "test" / "schema.json")


def write(sgd_tree, schema, texts=TEXTS, **options):
    out = sgd_tree / "variants" / "mine"
    return records.write_variants(out, sgd_tree, "test", schema, texts, **options)


def files(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def test_layout_and_texts(sgd_tree, schema):
    written = write(sgd_tree, schema)
    folder = sgd_tree / "variants" / "mine"
    assert folders.variant_names(folder) == ("v1", "v2", "v3")
    assert written == [
        folders.variant_schema_path(folder, f"v{n}", "test") for n in (1, 2, 3)
    ]
    first = read_schema(written[0])
    assert [service.name for service in first.services] == ["Parks_11", "Trains_11"]
    assert first.services[0].description == "Green places"
    assert first.services[1].slot("city").description == "Destination, or “city”"
    assert first.services[1].slot("class") == schema.services[1].slot("class")
    second = read_schema(written[1])
    assert second.services[1].intent("BuyTicket").description == "Get a seat"
    assert second.services[1].intent("BuyTicket").optional_slots == ()
    assert "“city”" in written[0].read_text(encoding="utf-8")
    assert not [name for name in files(folder) if "tmp" in name]


def test_dialogues_read_under_a_written_variant(sgd_tree, schema):
    names = {"test/1/slot_name/0": "going to", "test/1/service_name": "railway"}
    write(sgd_tree, schema, [names])
    folder = folders.variant_folders(sgd_tree)["mine"]
    dialogues = list(sgd.read_dialogues(sgd_tree, "test", "v1", folder))
    frame = dialogues[1].turns[0].frames[0]
    assert frame.service == "Railway_11"
    assert frame.state.slot_values == {"going_to": ("Kyiv",)}


def test_same_json_keys_as_the_original(sgd_tree, schema):
    path = write(sgd_tree, schema)[2]
    original = json.loads((sgd_tree / "test" / "schema.json").read_text())
    for service in original:
        service["service_name"] += "3"
    assert json.loads(path.read_text()) == original


def test_a_second_write_replaces_the_first(sgd_tree, schema):
    write(sgd_tree, schema)
    path = write(sgd_tree, schema, [{}, {}, TEXTS[0]])[2]
    assert read_schema(path).services[0].description == "Green places"


def test_variants_of_an_earlier_run_are_not_mixed_in(sgd_tree, schema):
    write(sgd_tree, schema)
    with pytest.raises(UserError, match=r"v3.test: left by a run with more variants"):
        write(sgd_tree, schema, TEXTS[:2])
    with pytest.raises(UserError, match="give the texts of at least v1"):
        write(sgd_tree, schema, ())


def test_wrong_texts_write_nothing(sgd_tree, schema):
    with pytest.raises(UserError, match="'test/9/slot/0' is not a text of the schema"):
        write(sgd_tree, schema, [TEXTS[0], {"test/9/slot/0": "x"}])
    assert not (sgd_tree / "variants").exists()


def full_disk(monkeypatch, after):
    """Makes writing fail half-way through the file after the first `after` files."""
    written = []
    plain = type(epath.Path("/")).write_text

    def write_text(self, text, **options):
        if len(written) == after:
            plain(self, text[: len(text) // 2], **options)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written.append(self)
        return plain(self, text, **options)

    monkeypatch.setattr(type(epath.Path("/")), "write_text", write_text)


@pytest.mark.parametrize("after", [0, 1, 2])
def test_full_disk_leaves_no_half_written_variant(sgd_tree, schema, monkeypatch, after):
    with monkeypatch.context() as patched:
        full_disk(patched, after)
        with pytest.raises(
            UserError, match="No space left on device.; 0 of 3 variants were changed"
        ):
            write(sgd_tree, schema)
    assert not (sgd_tree / "variants").exists()
    # The output of an earlier run stays.
    write(sgd_tree, schema)
    folder = sgd_tree / "variants" / "mine"
    before = {p: p.read_text() for p in folder.rglob("*.json")}
    with monkeypatch.context() as patched:
        full_disk(patched, after)
        with pytest.raises(UserError, match="Free space or choose another --out"):
            write(sgd_tree, schema, [{}, {}, {}])
    assert {p: p.read_text() for p in folder.rglob("*.json")} == before
    assert len(files(folder)) == 3 * 3  # v1, v1/test, v1/test/schema.json, ...


def test_a_variant_must_read_back_unchanged(sgd_tree, schema, monkeypatch):
    broken = records.schema_json
    monkeypatch.setattr(
        records, "schema_json", lambda one: broken(one).replace("Cost of", "Cost  of")
    )
    with pytest.raises(UserError, match="the file read back differs from the written"):
        write(sgd_tree, schema)
    monkeypatch.setattr(records, "schema_json", lambda one: broken(one)[:-40])
    with pytest.raises(UserError, match="truncated JSON"):
        write(sgd_tree, schema)
    assert not (sgd_tree / "variants").exists()
