"""A model writes no variants of services whose variants it was trained on."""

import pytest

from jaxaug import cli
from jaxaug.core import cache_folder
from jaxaug.data import minisgd, seen
from jaxaug.models.text import registry

CONFIG = """
import ml_collections
def get_config():
    return ml_collections.ConfigDict({{
        "scheme": "paraphrase",
        "options": {{
            "grid": [{{"model": "smollm2+{adapter}", "sampler": "greedy", "num": 1}}]
        }},
    }})
"""


@pytest.fixture(scope="module")
def data_dir():
    return minisgd.materialise(cache_folder.cache_dir())


def command(tmp_path, data_dir, *more):
    words = ["augment", "--data_dir", str(data_dir), "--out", str(tmp_path / "out")]
    return cli.main([*words, "--dry_run", *more])


def test_services_of_the_training_data_are_refused(tmp_path, data_dir, capsys):
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (tmp_path / "mine.py").write_text(CONFIG.format(adapter=adapter))
    chosen = "--config", str(tmp_path / "mine.py")
    assert command(tmp_path, data_dir, *chosen) == 0
    seen.write(data_dir, adapter)
    assert command(tmp_path, data_dir, *chosen) == 1
    said = capsys.readouterr().err
    assert f"smollm2+{adapter} was trained on the wordings of" in said
    assert "(Books_1, Cars_1, Couriers_1, ...)" in said
    assert "add --allow_seen" in said
    assert command(tmp_path, data_dir, *chosen, "--allow_seen") == 0


SCHEMA_TREE = "--config", "configs/augment/schema_tree.py"


def test_the_shipped_adapter_has_not_seen_minisgd(tmp_path, data_dir, capsys):
    assert len(registry.seen_services("schema-paraphraser")) > 100
    assert registry.seen_services("smollm2") == frozenset()
    assert command(tmp_path, data_dir, *SCHEMA_TREE) == 0
    assert "schema-paraphraser" in capsys.readouterr().out


def test_the_shipped_adapter_has_seen_sgd(tmp_path, real_data, capsys):
    assert command(tmp_path, real_data / "sgd", *SCHEMA_TREE) == 1
    said = capsys.readouterr().err
    assert "schema-paraphraser was trained on the wordings of 45 services" in said
