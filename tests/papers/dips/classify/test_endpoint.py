"""`jaxaug classify` with a paraphraser behind an endpoint."""

import json

import pytest

from jaxaug import cli
from jaxaug.models.endpoint import asking

CONFIG = """
def get_config():
    row = {"scheme": "paraphrase", "options": ("max_length=9",)}
    return {
        "dataset": "toy",
        "reader": "lines",
        "classifiers": ("LogReg",),
        "train_size": 20,
        "validation_size": 4,
        "shares": (1.0,),
        "seeds": (0, 1),
        "num": 2,
        "num_sources": 3,
        "methods": (
            {"name": "NoAug"},
            {"name": "SBS", "sampler": "beam"} | row,
            {"name": "Copies", "scheme": "copies"},
            {"name": "DBS", "sampler": "diverse_beam"} | row,
        ),
        "out": "unused",
    }
"""


@pytest.fixture
def call(server, tmp_path, monkeypatch, capsys):
    """Runs the command; returns its exit status, output and results."""
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    (tmp_path / "toy").mkdir()
    for split, number in (("train", 30), ("test", 10)):
        lines = [
            f"{'ab'[i % 2]}\twhere is {split} {'pq'[i % 2]} {i}" for i in range(number)
        ]
        (tmp_path / f"toy/{split}.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "config.py").write_text(CONFIG)

    def run(*more, model="openai:tiny", url=server.url):
        asking.of.cache_clear()  # As in a new process.
        named = {"config": "config.py", "data_dir": ".", "out": "out"}
        arguments = [f"--{name}={tmp_path / value}" for name, value in named.items()]
        arguments += [f"--model={model}", f"--endpoint={url}"]
        status = cli.main(["classify", *arguments, *more])
        said = capsys.readouterr()
        results = tmp_path / "out/results.json"
        found = json.loads(results.read_text()) if results.exists() else None
        return status, said.out + said.err, found

    return run


def test_a_server_is_one_row_in_place_of_its_decoders(call, server):
    status, text, results = call("--option", "temperature=0.5", "--prices", "1,2")
    assert status == 0, text
    rows = [cell["method"] for cell in results["cells"]]
    assert rows == ["NoAug", "openai:tiny", "Copies"]
    # Three sources of each seed, two paraphrases of each.
    assert results["cells"][1]["examples"] == 26
    assert results["missing"] == {}
    assert server.bodies[0]["temperature"] == 0.5
    asked = len(server.bodies)
    assert asked in (4, 5, 6)  # Both seeds may draw the same sentence.
    assert f"openai:tiny: {asked} requests; 0 replies from the cache" in text
    assert f"${asked * 120 / 1e6:.4f}" in text  # 100 tokens in, 10 out.
    status, text, _ = call("--only", "openai:*", "--option", "temperature=0.5")
    assert status == 0 and len(server.bodies) == asked
