import pytest

from jaxaug.augment.schemes import registry
from tests.support import appended_words


@pytest.fixture
def out(sgd_tree, tmp_path, monkeypatch):
    """Returns the folder of a finished run of the scheme of `appended_words`."""
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setitem(registry.SCHEMES, "fake", appended_words.jobs)
    appended_words.go(sgd_tree, tmp_path / "out")
    return tmp_path / "out"
