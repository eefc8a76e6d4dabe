"""Models behind an endpoint as scheme `paraphrase` of `jaxaug augment`."""

import json
import logging

import pytest

from jaxaug import cli
from jaxaug.augment import config as configs
from jaxaug.augment import descriptions, preview, run
from jaxaug.augment import plan as plans
from jaxaug.augment.output import records
from jaxaug.augment.schemes import registry
from jaxaug.core.errors import UserError
from jaxaug.data.schema import Intent, Schema, Service, Slot, read_schema
from jaxaug.models.endpoint import asking
from jaxaug.paraphrase import templates
from tests.support.chat_server import failed, good

KEY = "sk-very-secret-0123456789"


@pytest.fixture
def server(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return server


def config(server, **block):
    own = {"model": "openai:tiny", "endpoint": server.url, "num": 3}
    fields = {"scheme": "paraphrase", "options": {"grid": [own | block]}}
    return configs.of(fields | {"variants": 2, "shard_size": 2}, "test")


def test_context_of_a_schema():
    schema = Schema(
        (
            Service(
                "Hotels_1", "Find hotels",
                (
                    Slot("stars", "Stars of the hotel, from 1 to 5", True, ("1", "5")),
                    Slot("city", "City of the hotel", False, ()),
                ),
                (Intent("Find", "Find hotels in a city", False, (), (), ()),),
            ),
            Service(
                "Trips_1", "Plan trips",
                (Slot("city", "City of the hotel", False, ()),), (),
            ),
        )
    )  # fmt: skip
    found = descriptions.descriptions(schema, "train")
    items = descriptions.with_contexts(
        [*(one.text for one in found[:4]), "another"], found
    )
    hotels = "Hotels_1: Find hotels"
    common = {"service": hotels, "description": "Find hotels", "values": [], "keep": []}
    city, stars = "City of the hotel", "Stars of the hotel, from 1 to 5"
    slot = common | {"kind": "slot"}
    assert items == [
        ["Find hotels", common | {
            "kind": "service", "service": "Hotels_1", "name": "Hotels_1", "names": [],
            "siblings": [],
        }],
        [stars, slot | {
            "name": "stars", "names": ["city"], "siblings": [city],
            "values": ["1", "5"], "keep": ["1", "5"],
        }],
        [city, slot | {"name": "city", "names": ["stars"], "siblings": [stars]}],
        ["Find hotels in a city", common | {
            "kind": "intent", "name": "Find", "names": [], "siblings": [],
        }],
        "another",
    ]  # fmt: skip
    prompt = templates.filled(
        templates.find("schema"), items[1][0], 4, items[1][1], ["Hotel stars"], False
    )
    for line in (
        "Write 4 paraphrases of a description in the schema of an API.",
        "The description belongs to this part of the schema: slot",
        "Service: Hotels_1: Find hotels",
        "Possible values: 1; 5",
        (
            "Other descriptions of the service, which a paraphrase must not be "
            "confused with: City of the hotel"
        ),
        "Keep these parts as they are: 1; 5",
        "These paraphrases are there already; write others: Hotel stars",
        "Description: Stars of the hotel, from 1 to 5",
    ):
        assert line in prompt.splitlines()
    bare = templates.filled(templates.find("schema"), "a", 1, {}, (), False)
    assert ": \n" not in bare and "{" not in bare and "Service" not in bare


def _descriptions(data_dir):
    return descriptions.descriptions(
        read_schema(data_dir / "train/schema.json"), "train"
    )


def test_variants_by_an_endpoint(server, sgd_tree, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    asking.of.cache_clear()
    out = tmp_path / "out"
    wanted = config(server, prices=(1, 2))
    plan = preview.preview(plans.resolve(wanted, sgd_tree, out))
    texts = len({o.text for o in _descriptions(sgd_tree)})
    assert f"openai:tiny at {server.url}; the key $OPENAI_API_KEY is set" in plan
    assert f"  expected: {texts} requests; 0 replies from the cache" in plan
    assert server.bodies == []
    # The second request fails: the first reply is kept.
    server.script = [good]
    server.answer = failed(404, f"no model for {KEY}")
    with pytest.raises(UserError, match=r"HTTP 404: no model for \*\*\*\.") as caught:
        run.augment(wanted, sgd_tree, out)
    assert "run the same command again" in caught.value.__notes__[0]
    server.answer = good
    done = len(server.bodies) - 1
    said = run.augment(wanted, sgd_tree, out)
    assert f"openai:tiny: {texts + done} requests; 1 replies from the cache" in said
    first = next(records.read_records(out))
    assert first["candidate"] == f"{first['source']}, wording a"
    assert records.read_manifest(out)["counts"]["original"] == 0
    assert any("Other descriptions of the service" in p for p in server.prompts)
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    contents = [p.read_bytes() for p in files] + [caplog.text.encode(), said.encode()]
    assert len(files) > texts and not [c for c in contents if KEY.encode() in c]


def test_grids(server):
    block = {"endpoint": server.url, "num": [2, 3]}
    grid = [
        block
        | {"model": ["openai:a", "openai:b"], "options": {"temperature": [0, 1.5]}},
        {"model": "random-tiny", "sampler": "greedy", "num": 1},
    ]
    jobs = registry.made("paraphrase", 0, {"grid": grid})
    assert (
        len(jobs) == 9
        and [job.endpoint is None for job in jobs] == [True] + [False] * 8
    )
    label = f"openai:a {server.url} prompt=schema temperature=1.5 num=3"
    assert label in [job.label for job in jobs]
    assert len({json.dumps(job.key) for job in jobs[1:]}) == 8
    other = registry.made("paraphrase", 1, {"grid": grid})
    assert jobs[1].key["seed"] == 0 and other[1].key["seed"] == 1
    for fields, message in (
        ({"sampler": "beam"}, "grid: unknown key 'sampler'"),
        ({"num": "2"}, "num='2': expected a whole number"),
        ({"options": {"k": 2}}, "grid: unknown key 'k'"),
        ({"options": 3}, "options=3: expected a mapping"),
        ({"endpoint": None}, "endpoint=None: expected a text"),
        ({"num": [2, 2]}, "comes twice. Leave one out."),
    ):
        with pytest.raises(UserError, match=message):
            registry.made("paraphrase", 0, {"grid": [grid[0] | fields]})


def test_texts_by_an_endpoint(server, tmp_path, capsys):
    lines, out = tmp_path / "in.txt", tmp_path / "out.txt"
    lines.write_text("City of the hotel\n\nBook a room\n")
    call = ["augment", "text", "--scheme", "paraphrase", "--model", "openai:tiny"]
    call += [
        "--in", str(lines), "--out", str(out), "--option", f"endpoint={server.url}",
    ]  # fmt: skip
    assert cli.main([*call, "temperature=0.5", "prices=1,2"]) == 0
    said = capsys.readouterr().out
    assert out.read_text() == "City of the hotel, wording a\n\nBook a room, wording a\n"
    assert "2 requests; 0 replies from the cache; 200 tokens of input" in said
    assert server.bodies[0]["temperature"] == 0.5
    assert server.prompts[0].startswith("Write 1 paraphrases of the text below.")
    assert cli.main([*call, "--sampler", "beam"]) == 1
    assert "openai:tiny has the sampler of its server" in capsys.readouterr().err
