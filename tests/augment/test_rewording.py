"""Further wordings of a schema: names stay, results are cached, folders are matched."""

import pytest

from jaxaug.augment import rewording
from jaxaug.core.errors import UserError
from jaxaug.data import sgd
from jaxaug.data.schema import Schema, Service, Slot


def schema(*descriptions, name="Hotels_1"):
    """Returns a service with these slots."""
    slots = tuple(Slot(f"s{n}", one, False, ()) for n, one in enumerate(descriptions))
    return Schema((Service(name, "book a hotel", slots, ()),))


def texts(found):
    """Returns the descriptions of the slots."""
    return [slot.description for slot in found.services[0].slots]


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    """Clears the cache in memory."""
    monkeypatch.setattr(rewording, "_remembered", {})


def test_descriptions_change_and_nothing_else():
    given = schema("city of the hotel", "number of rooms")
    first, second = rewording.of_schema(given, 2)
    assert len({*texts(given), *texts(first), *texts(second)}) == 6
    for found in (first, second):
        (service,) = found.services
        assert [slot.name for slot in service.slots] == ["s0", "s1"]
        assert service.name == "Hotels_1"
    assert rewording.of_schema(given, 4)[:2] == [first, second]


def test_results_are_kept_by_the_digest_of_the_service(monkeypatch, tmp_path):
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path))
    given = schema("city of the hotel")
    expected = rewording.of_schema(given, 2)
    (file,) = (tmp_path / "wordings").iterdir()
    monkeypatch.setattr(rewording, "_remembered", {})
    computed = []

    def texts_of(schema, num):
        computed.append(schema)
        return [{}] * num

    monkeypatch.setattr(rewording, "_texts", texts_of)
    assert rewording.of_schema(given, 2) == expected and not computed
    rewording.of_schema(schema("town of the hotel"), 2)
    assert len(computed) == 1
    # A damaged file is computed again.
    monkeypatch.setattr(rewording, "_remembered", {})
    file.write_text("{")
    rewording.of_schema(given, 2)
    assert len(computed) == 2


def test_a_server_writes_no_file(monkeypatch, tmp_path):
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path))
    given = schema("city of the hotel")
    found = rewording.of_schema(given, 2, keep=False)
    assert not [*tmp_path.iterdir()]
    assert rewording.of_schema(given, 2) == found


def test_no_description_becomes_the_text_of_another_slot(monkeypatch):
    given = schema("price", "cost", "rooms")
    found = rewording.of_schema(given, 8)
    for one in found:
        assert len({text.casefold() for text in texts(one)}) == 3


def test_variants_of_a_folder_under_the_given_names(sgd_tree):
    given = sgd.read_schema_of(sgd_tree, "test")
    first, second = rewording.of_folder(given, sgd_tree / "sgd_x/data", 2)
    for number, found in enumerate((first, second), 1):
        variant = sgd.read_schema_of(sgd_tree, "test", f"v{number}")
        for own, old, new in zip(
            found.services, given.services, variant.services, strict=True
        ):
            assert own.name == old.name
            assert [s.name for s in own.slots] == [s.name for s in old.slots]
            assert [s.description for s in own.slots] == [
                s.description for s in new.slots
            ]


def test_folders_that_do_not_fit_are_refused(sgd_tree, tmp_path):
    folder = sgd_tree / "sgd_x/data"
    with pytest.raises(UserError, match="but 9 wordings are asked for"):
        rewording.of_folder(sgd.read_schema_of(sgd_tree, "test"), folder, 9)
    with pytest.raises(UserError, match="v1 has no service Boats_11 or Boats_1 with"):
        rewording.of_folder(schema("a", name="Boats_1"), folder, 1)
    with pytest.raises(UserError, match=r"has 0 variants \(none\)"):
        rewording.of_folder(schema("a"), tmp_path, 1)


def test_familiar_words_replace_unknown_ones_and_no_two_slots_become_equal():
    known = rewording.frequent_words(
        ["city of the hotel", "the city", "a hotel of", "once"]
    )
    assert known == {"city", "of", "the", "hotel"}
    given = schema("town of the hotel", "number of rooms", "municipality of the hotel")
    found = rewording.familiar(given, known)
    assert texts(found)[0] == "city of the hotel"
    # One of the hotel's two cities keeps its words.
    assert len(set(texts(found))) == 3
    assert rewording.familiar(found, known | {"number", "room"}) == found
