"""Messages if the cache folder disappears while a program runs."""

import re
import shutil

import pytest

from jaxaug.core.errors import UserError
from jaxaug.data import folders, sgd
from jaxaug.feed import cache, parallel, tokens, vocabulary
from jaxaug.formats import d3st
from jaxaug_papers import minisgd

AGAIN = (
    "It was in the cache folder when the program started, and was removed or changed "
    "since then. Run the same command again: caches are made again."
)


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Writes a small MiniSGD where the program puts it."""
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "cache" / "minisgd-0123456789abcdef"
    sizes = {"train_dialogues": 2, "dev_dialogues": 1, "test_dialogues": 1}
    return minisgd.write(folder, **sizes)


def test_missing_files_of_minisgd_are_made_again(data):
    schema = sgd.read_schema_of(data, "train")
    (dialogues,) = folders.dialogue_paths(data, "train")
    dialogues.unlink()
    with pytest.raises(UserError, match=re.escape(f"no such file. {AGAIN}") + "$"):
        sgd.read_dialogue_json(dialogues, schema)
    with pytest.raises(UserError, match=re.escape(f"are missing. {AGAIN}") + "$"):
        folders.dialogue_paths(data, "train")
    shutil.rmtree(data)
    with pytest.raises(UserError, match=re.escape(f"is missing. {AGAIN}") + "$"):
        folders.schema_path(data, "train")


def test_other_data_in_the_cache_folder_is_fetched(data):
    with pytest.raises(UserError, match="Get it with `jaxaug data fetch sgd --out "):
        folders.schema_path(data.parent / "sgd", "train")


def test_vocabularies_of_data_are_made_again(data):
    path = vocabulary.train_words(data)
    path.unlink()
    with pytest.raises(UserError, match=re.escape(f"expected a model. {AGAIN}") + "$"):
        vocabulary.load(path)
    with pytest.raises(UserError, match="Name one with .JAXAUG_VOCABULARY"):
        vocabulary.load(data.parent / "mine.model")


def test_missing_caches_are_made_again(data, tmp_path):
    recipe = cache.Recipe(parallel.Corpus(data, "train"), d3st.D3STOptions())
    records = cache.build(recipe, workers=1)
    shutil.rmtree(records.folder)
    expected = re.escape(f"{records.paths[0]}: no such file. {AGAIN}")
    with pytest.raises(UserError, match=f"^{expected}$"):
        next(records.read())
    with pytest.raises(
        UserError, match=r"inputs.npy: no such file\. It was in the cache"
    ):
        tokens.open_cache(records.folder)
