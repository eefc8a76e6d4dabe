"""The fast reader gives the values of the checked reader, or rejects the file."""

import copy
import json
import random
import re

import msgspec
import pytest

from jaxaug.core import garbage
from jaxaug.core.errors import UserError
from jaxaug.data import dialogue, sgd
from jaxaug.data.rename import rename_dialogue
from jaxaug_papers import minisgd

FILE = "dev/dialogues_001.json"


def both(path, schema, names=None):
    """Returns the results of the fast and the checked reader; None is an error."""
    try:
        data = sgd.read_dialogue_json(path, schema)
    except UserError as error:
        with pytest.raises(UserError, match=f"^{re.escape(str(error))}$"):
            list(sgd.read_dialogue_file(path, schema, names))
        return None, None
    for item in data if names else ():
        rename_dialogue(item, names)
    checked = msgspec.convert(data, list[dialogue.Dialogue])
    assert list(sgd.read_dialogue_file(path, schema, names)) == checked
    try:
        found = list(dialogue.read(path, schema))
    except (dialogue.Rejected, ValueError, RecursionError, UserError):
        return None, checked
    return [dialogue.renamed(d, names) for d in found] if names else found, checked


@pytest.mark.parametrize("variant", [None, "v2"])
def test_it_reads_the_same_as_the_checked_reader(sgd_tree, tmp_path, variant):
    minisgd.write(tmp_path / "m", train_dialogues=8, dev_dialogues=2, test_dialogues=9)
    for folder, split in ((sgd_tree, "dev"), (tmp_path / "m", "test")):
        schema = sgd.read_schema_of(folder, split)
        names = sgd.renaming_of(folder, split, variant)
        for path in sgd.dialogue_files(folder, split):
            found, checked = both(path, schema, names)
            assert found is not None and found == checked


@pytest.mark.slow
@pytest.mark.parametrize("split", ["dev", "test"])
def test_it_reads_all_of_sgd(real_data, split):
    schema = sgd.read_schema_of(real_data / "sgd", split)
    for path in sgd.dialogue_files(real_data / "sgd", split):
        found, checked = both(path, schema)
        assert found is not None and found == checked


def places(data, place=()):
    yield place
    if isinstance(data, dict | list):
        for key in data if isinstance(data, dict) else range(len(data)):
            yield from places(data[key], (*place, key))


ANYTHING = [None, True, 0, 7, 1.0, -1, "", "city", "NONE", "Trains_1", [], {}]
ANYTHING += [["city"], [""], [1], {"city": "x"}, {"city": []}, {"city": ["x"]}]


def test_changed_files_read_equally_or_are_rejected(sgd_tree):
    """Every value and name of a file is changed once."""
    schema = sgd.read_schema_of(sgd_tree, "dev")
    names = sgd.renaming_of(sgd_tree, "dev", "v1")
    whole = json.loads((sgd_tree / FILE).read_text())
    path, draw = sgd_tree / "changed.json", random.Random(0)
    read = 0
    for place in list(places(whole))[1:]:
        data = copy.deepcopy(whole)
        *outer, last = place
        target = data
        for key in outer:
            target = target[key]
        kind = draw.randrange(4)
        if kind == 0 and isinstance(last, str):
            target["extra"] = target.pop(last)
        elif kind == 1:
            del target[last]
        else:
            target[last] = draw.choice(ANYTHING)
        path.write_text(json.dumps(data))
        found, checked = both(path, schema, draw.choice([None, names]))
        assert found in (None, checked), place
        read += found is not None
    assert read > 10


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"utterance"', '"utterance": "first", "utterance"'),
        ('"utterance"', '"utterance": "first", "utter\\u0061nce"'),
        ('"utterance"', '"utterance": "a \\"b\\" c", "utterance"'),
        ('"start": ', '"start": 1, "start": '),
        ('"city": [', '"city": ["one"], "city": ['),
        ('"service": ', '"state": null, "service": '),
        ('"service": ', '"service_results": null, "service": '),
        ("Bern", "B\\ud800"),
        ("Bern", "B\\ud800\\ud800"),
        ("Bern", "B\x00"),
        ("Bern", "B\x1f"),
        ("[{", "\ufeff[{"),
        ("}]", "}] 1"),
        ("}]", "},]"),
        ("}]", "}"),
    ],
)
def test_rejected_by_both_readers(sgd_tree, old, new):
    path = sgd_tree / FILE
    schema = sgd.read_schema_of(sgd_tree, "dev")
    text = path.read_text()
    assert old in text
    at = text.rindex(old) if old == "}]" else text.index(old)
    path.write_text(text[:at] + new + text[at + len(old) :], encoding="utf-8")
    found, checked = both(path, schema)
    assert found is None
    assert checked is None or new.startswith("\ufeff")


def test_bytes_that_are_not_text(sgd_tree):
    path = sgd_tree / FILE
    schema = sgd.read_schema_of(sgd_tree, "dev")
    path.write_bytes(path.read_bytes().replace(b"Bern", b"B\xffrn"))
    assert both(path, schema) == (None, None)
    with pytest.raises(UserError, match="none.json"):
        next(sgd.read_dialogue_file(sgd_tree / "none.json", schema))


@pytest.mark.parametrize(
    "word",
    ['"a" \\ "b\\\\"', "\\", '\\"', "\\\\\\", "tab\t \u00e4 \U0001f600 \\u0041", '""'],
)
@pytest.mark.parametrize("options", [{}, {"ensure_ascii": False}, {"indent": 2}])
def test_escapes_are_read(sgd_tree, word, options):
    path = sgd_tree / FILE
    data = json.loads(path.read_text())
    data[0]["turns"][0]["utterance"] += word
    data[0]["turns"][2]["frames"][0]["state"]["slot_values"]["city"] = [word, "x"]
    path.write_text(json.dumps(data, **options), encoding="utf-8")
    found, checked = both(path, sgd.read_schema_of(sgd_tree, "dev"))
    assert found is not None and found == checked


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[" + '{"a":' * 100_000, "[" + "1" * 5000]
)
def test_json_that_no_reader_takes(sgd_tree, text):
    (sgd_tree / FILE).write_text(text)
    with pytest.raises(UserError, match="nested too deeply|more than 4300 digits"):
        list(
            sgd.read_dialogue_file(sgd_tree / FILE, sgd.read_schema_of(sgd_tree, "dev"))
        )


def test_garbage_collection_is_paused_and_resumed():
    import gc

    assert gc.isenabled()
    with garbage.paused():
        with garbage.paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ValueError, match="x"), garbage.paused():
        raise ValueError("x")
    assert gc.isenabled()
