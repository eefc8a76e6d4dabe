import sys

import pytest

from jaxaug.augment.schemes import registry
from tests.augment import runs_kit
from tests.support import appended_words


@pytest.fixture
def out(sgd_tree, tmp_path, monkeypatch):
    """Returns the folder of a finished run of the scheme of `appended_words`."""
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setitem(registry.SCHEMES, "fake", appended_words.jobs)
    appended_words.go(sgd_tree, tmp_path / "out")
    return tmp_path / "out"


# Loaded functions are cached, and their code is found through `sys.modules`.
@pytest.fixture(scope="session")
def own_metrics(tmp_path_factory):
    """Puts the metrics of a user on the path."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "own_metrics.py").write_text(runs_kit.METRICS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield
    sys.modules.pop("own_metrics", None)


@pytest.fixture
def fake(own_metrics, monkeypatch, tmp_path):
    """Returns the scheme, with a separate cache."""
    made = runs_kit.Fake()
    monkeypatch.setitem(registry.SCHEMES, "fake", made.jobs)
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    return made
