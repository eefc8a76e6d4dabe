"""Leave one domain out: the selections for training and for the test."""

import json

import pytest

from jaxaug.cli import main
from jaxaug.core.errors import UserError
from jaxaug.data import leave_out, sgd
from jaxaug.feed import cache, recipes
from jaxaug_papers import multiwoz
from tests.support import small_multiwoz


@pytest.fixture
def data(tmp_path):
    """Train: A.json about hotel and taxi, B.json about a hotel alone."""
    multiwoz.convert(small_multiwoz.write(tmp_path / "public"), tmp_path / "data")
    return tmp_path / "data"


def _asked(dialogues):
    """Returns dialogue -> (turn, service) of the questions."""
    return {
        dialogue.dialogue_id: [
            (index, frame.service)
            for index, turn in enumerate(dialogue.turns)
            for frame in turn.frames
            if frame.state is not None
        ]
        for dialogue in dialogues
    }


@pytest.mark.parametrize(
    ("domain", "kept", "expected"),
    [
        # B.json is only about hotels. A.json has a question about the taxi in every
        # turn.
        ("hotel", "others", {"A.json": [(0, "taxi"), (2, "taxi")]}),
        ("hotel", "strict", {}),
        (
            "hotel",
            "alone",
            {"A.json": [(0, "hotel"), (2, "hotel")], "B.json": [(0, "hotel")]},
        ),
        # Dialogues about other domains have no questions about police.
        (
            "taxi",
            "others",
            {"A.json": [(0, "hotel"), (2, "hotel")], "B.json": [(0, "hotel")]},
        ),
        ("taxi", "strict", {"B.json": [(0, "hotel")]}),
        ("taxi", "alone", {"A.json": [(0, "taxi"), (2, "taxi")]}),
        ("police", "alone", {}),
    ],
)
def test_kept_dialogues_and_turns(data, domain, kept, expected):
    path, schema = data / "train/dialogues_001.json", sgd.read_schema_of(data, "train")
    dialogues = list(sgd.read_dialogue_file(path, schema))
    whole = {item.dialogue_id: [t.utterance for t in item.turns] for item in dialogues}
    found = leave_out.select(dialogues, leave_out.Selection(domain, kept))
    assert _asked(found) == expected
    for item in found:  # The dialogue keeps its whole text.
        assert [turn.utterance for turn in item.turns] == whole[item.dialogue_id]


def test_tasks_of_a_domain(data, tmp_path, monkeypatch, capsys):
    plain = recipes.table(data)
    monkeypatch.setenv("JAXAUG_LEAVE_OUT", "hotel, taxi")
    table = recipes.table(data)
    suffixes = ("without_{}", "without_{}_strict", "only_{}")
    assert table.recipes.keys() - plain.recipes.keys() == {
        f"{form}_{suffix.format(domain)}"
        for form in ("d3st", "d3st2a", "json", "sdt", "sdtids", "sdtind", "t5dst")
        for suffix in suffixes
        for domain in ("hotel", "taxi")
    }
    assert set(table.recipes["d3st_without_hotel"]) == {"train", "validation"}
    assert set(table.recipes["d3st_only_hotel"]) == {"train", "validation", "test"}
    found = {}
    for task in ("d3st_sgd", "d3st_without_hotel", "d3st_only_hotel"):
        built = cache.build(table.recipes[task]["train"], 1, tmp_path / "cache")
        found[task] = {(e.dialogue_id, e.turn, e.service): e for e in built.read()}
    taxi = {("A.json", 0, "taxi"), ("A.json", 2, "taxi")}
    assert set(found["d3st_without_hotel"]) == taxi
    assert {service for *_, service in found["d3st_only_hotel"]} == {"hotel"}
    # Frames keep their numbers, which match answers with references.
    for key, example in found["d3st_without_hotel"].items():
        assert example.frame == found["d3st_sgd"][key].frame == 1
    # Four orders, or one: `jaxaug tasks` counts the examples in the caches.
    command = ["tasks", "t5dst_*_hotel", "--data_dir", str(data)]
    assert main(command) == 0
    rows = {r.split()[0]: r for r in capsys.readouterr().out.splitlines() if "t5d" in r}
    assert rows["t5dst_without_hotel"].split()[1:4] == ["4", "0", "-"]
    assert rows["t5dst_without_hotel"].endswith("original schemas, without hotel")
    assert rows["t5dst_only_hotel"].split()[1:4] == ["9", "3", "6"]


def test_groups_of_services_are_domains(sgd_tree, monkeypatch):
    (dialogue,) = list(sgd.read_dialogues(sgd_tree, "dev"))[:1]
    for domain in ("Trains", "Trains_1"):
        selection = leave_out.Selection(domain, "alone")
        assert set(_asked(leave_out.select([dialogue], selection))) == {"3_00000"}
    monkeypatch.setenv("JAXAUG_LEAVE_OUT", "Trans")
    with pytest.raises(
        UserError, match=r"^\$JAXAUG_LEAVE_OUT: 'Trans' is no service .*'Trains'"
    ):
        recipes.table(sgd_tree)
    schema = json.loads((sgd_tree / "train/schema.json").read_text())
    schema[0]["service_name"] = "Trains-1"
    (sgd_tree / "train/schema.json").write_text(json.dumps(schema))
    monkeypatch.setenv("JAXAUG_LEAVE_OUT", "Trains-1")
    with pytest.raises(UserError, match="letters, digits and underscores only"):
        recipes.table(sgd_tree)
