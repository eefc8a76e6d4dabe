"""Rounds of `jaxaug augment`, with a scheme that needs no model."""

import json

import pytest

from jaxaug.augment import config as configs
from jaxaug.augment import plan as plans
from jaxaug.augment import run
from jaxaug.augment.output import records
from jaxaug.augment.schemes import registry
from jaxaug.augment.schemes.registry import Job

FIELDS = {"scheme": "few", "variants": 3, "rounds": 4, "seed": 3, "shard_size": 100}


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """(seed, texts) of each call of a scheme; short texts get one candidate a call."""
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
    # Another run reads all rounds from the shards; what people refuse draws nothing.
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
