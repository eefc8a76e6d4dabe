"""Rounds of `jaxaug augment`, with a scheme that needs no model."""

import json

import pytest

from jaxaug import cli
from jaxaug.augment import config as configs
from jaxaug.augment import plan as plans
from jaxaug.augment import preview, run
from jaxaug.augment.output import records
from jaxaug.augment.schemes import registry
from jaxaug.augment.schemes.registry import Job
from jaxaug.core.errors import UserError
from jaxaug.models.endpoint import asking
from tests.support.chat_server import failed, good

FIELDS = {"scheme": "few", "variants": 3, "rounds": 4, "seed": 3, "shard_size": 100}


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """Records (seed, texts) of each call; short texts get one candidate per call."""
    calls = []

    def jobs(seed, **options):
        def run_(texts):
            calls.append((seed, texts))
            few = [f"r{len(calls)}"]
            return [
                [f"{t} {end}" for end in (few if len(t.split()) < 4 else "abc")]
                for t in texts
            ]

        return [Job("few", lambda: {"seed": seed, **options}, run_, 3)]

    monkeypatch.setitem(registry.SCHEMES, "few", jobs)
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    return calls


def test_texts_with_too_few_candidates_are_drawn_again(sgd_tree, drawn, tmp_path):
    out = tmp_path / "out"
    run.augment(configs.of(FIELDS, "test"), sgd_tree, out)
    # The third round fills the three variants, so there is no fourth.
    seeds = [seed for seed, _ in drawn]
    assert seeds == [plans.seed_of_round(3, number) for number in range(3)]
    assert seeds[0] == 3 and len(set(seeds)) == 3
    first, second, third = (set(texts) for _, texts in drawn)
    assert second == third == {text for text in first if len(text.split()) < 4}
    assert second and second < first
    assert records.read_manifest(out)["counts"]["original"] == 0
    # Another run reads all rounds from the shards; rejected texts cause no new draws.
    rows = map(json.loads, (out / records.CANDIDATES).read_text().splitlines())
    refused = next(row for row in rows if row["source"] in first - second)
    row = {name: refused[name] for name in ("id", "source", "candidate")}
    (out / "decisions.jsonl").write_text(json.dumps(row | {"decision": "rejected"}))
    run.augment(configs.of(FIELDS, "test"), sgd_tree, out)
    assert len(drawn) == 3
    assert records.read_manifest(out)["counts"]["original"] == 1


def test_one_round_leaves_the_original(sgd_tree, drawn, tmp_path):
    run.augment(configs.of(FIELDS | {"rounds": 1}, "test"), sgd_tree, tmp_path / "out")
    assert len(drawn) == 1
    assert records.read_manifest(tmp_path / "out")["counts"]["original"] > 0


@pytest.fixture
def server(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-0123456789")
    return server


def further(server, **block):
    """Returns a further round that asks a server."""
    block = {"model": "openai:tiny", "endpoint": server.url, "num": 3} | block
    options = {"grid": (block,)}
    return {"scheme": "paraphrase", "options": options}


def test_a_further_round_asks_another_model_about_missing_variants(
    sgd_tree, drawn, tmp_path, server
):
    """The second round asks only about short texts."""
    fields = FIELDS | {"rounds": 1, "further": (further(server),)}
    config, out = configs.of(fields, "test"), tmp_path / "out"
    told = preview.preview(plans.resolve(config, sgd_tree, out))
    assert "round 2, for texts with fewer than 3 candidates left: scheme paraph" in told
    assert f"     3  openai:tiny {server.url} prompt=schema num=3" in told
    assert "  fewer, if not all texts lack variants in that round" in told
    server.script = [good]
    server.answer = failed(500, "out of memory")
    options = {"retries": 0, "concurrent": 1}
    down = configs.of(fields | {"further": (further(server, options=options),)}, "test")
    with pytest.raises(UserError, match="HTTP 500: out of memory") as caught:
        run.augment(down, sgd_tree, out)
    assert not (out / records.MANIFEST).exists()
    assert "run the same command again" in "".join(caught.value.__notes__)
    server.answer = good
    asking.of.cache_clear()
    asked = len(server.bodies)
    said = run.augment(down, sgd_tree, out)
    # The first round and the one reply are kept.
    assert [seed for seed, _ in drawn] == [3]
    few = [text for text in drawn[0][1] if len(text.split()) < 4]
    assert len(server.bodies) - asked == len(few) - 1
    assert f"openai:tiny: {len(few) - 1} requests; 1 replies from the cache" in said
    rows = list(map(json.loads, (out / records.CANDIDATES).read_text().splitlines()))
    first = [row for row in rows if row["settings"] == ["few"]]
    assert first and not any(row["dropped"] for row in first)
    asked_about = {row["source"] for row in rows if row["settings"] != ["few"]}
    assert asked_about == set(few)
    assert len({plans.resolve(one, sgd_tree, out).work for one in (config, down)}) == 2


def test_the_model_of_a_command_line_is_a_further_round(
    sgd_tree, drawn, tmp_path, server, capsys
):
    tree = {"levels": ("jaccard",), "decisions": ("max",), "constraints": ()}
    fields = FIELDS | {"select": "tree", "metrics": {"jaccard": {}}, "tree": tree}
    (tmp_path / "mine.py").write_text(f"def get_config():\n    return {fields}\n")

    def call(*more):
        paths = [f"--config={tmp_path / 'mine.py'}", f"--out={tmp_path / 'out'}"]
        status = cli.main(["augment", *paths, f"--data_dir={sgd_tree}", *more])
        said = capsys.readouterr()
        return status, said.out + said.err

    model = ["--model=openai:tiny", f"--endpoint={server.url}"]
    status, text = call(*model, "--option", "temperature=0.5", "--dry_run")
    assert status == 0, text
    assert (
        "rounds: at most 4" in text and "round 5, for texts with fewer than 3" in text
    )
    assert "temperature=0.5 num=20" in text and "faithful >= 0.5" in text
    assert server.bodies == []
    # Models of a further round are also looked up among models that saw the data.
    status, text = call("--model=smollm2", "--dry_run")
    assert status == 0 and "25  smollm2 top_k_top_p k=40 p=0.9 temperature=0.7" in text
    listed = text.partition("\nmodels:\n")[2].splitlines()
    assert [line.split()[0] for line in listed[:2]] == ["smollm2", "minilm"]
    for flags, message in (
        ([model[1]], "--endpoint: is for --model. Name a model, or leave it out."),
        ([model[0]], "--endpoint is missing"),
        (["--model=smollm2", model[1]], "model 'smollm2' runs on this machine"),
        ([*model, "--option", "k=4"], "--option k=4: write it as NAME=VALUE"),
    ):
        status, text = call(*flags, "--dry_run")
        assert status == 1 and message in text and text.count("\n") == 1


@pytest.mark.parametrize(
    ("further", "message"),
    [
        ({"options": {}}, "draws nothing: name a scheme"),
        ({"scheme": "given"}, "draws nothing: name a scheme"),
        ({"scheme": "few", "num": 3}, "further: "),
        ({"scheme": "few", "options": 3}, "options=3: expected a mapping"),
    ],
)
def test_a_wrong_further_round(further, message):
    with pytest.raises(UserError, match=message):
        configs.of(FIELDS | {"further": (further,)}, "test")
