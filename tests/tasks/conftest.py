"""The tasks of a small MiniSGD."""

import contextlib

import pytest

from jaxaug.feed import sets
from jaxaug_papers import minisgd


@pytest.fixture(scope="session")
def small_minisgd():
    """Context manager with empty registries and a small data folder."""
    seqio = pytest.importorskip("seqio")

    @contextlib.contextmanager
    def enter(root, **dialogues):
        minisgd.write(root / "data", **dialogues)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("JAXAUG_DATA_DIR", str(root / "data"))
            patch.setenv("JAXAUG_CACHE_DIR", str(root / "cache"))
            for name in ("VOCABULARY", "VARIANTS_DIR", "RENDERINGS"):
                patch.delenv(f"JAXAUG_{name}", raising=False)
            import tasks.vocabulary

            patch.setattr(seqio.TaskRegistry, "_REGISTRY", {})
            patch.setattr(seqio.MixtureRegistry, "_REGISTRY", {})
            patch.setattr(sets, "_SETS", {})
            patch.setattr(sets, "_PROVIDERS", [])
            found = tasks.vocabulary.FoundVocabulary()
            patch.setattr(tasks.vocabulary, "_DEFAULT", found)
            yield patch

    return enter


@pytest.fixture(scope="module")
def tasks(tmp_path_factory, small_minisgd):
    """Returns the package with only the tasks of a small MiniSGD, and their views."""
    root = tmp_path_factory.mktemp("tasks")
    sizes = {"train_dialogues": 40, "dev_dialogues": 5, "test_dialogues": 12}
    with small_minisgd(root, **sizes):
        import tasks

        tasks.dialogues.register()
        tasks.register()
        yield tasks
