"""The tasks of a small MiniSGD."""

import pytest

from jaxaug.data import minisgd


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """The package with the registries holding the tasks of a small MiniSGD only."""
    seqio = pytest.importorskip("seqio")
    root = tmp_path_factory.mktemp("tasks")
    minisgd.write(root / "data", train_dialogues=40, dev_dialogues=5, test_dialogues=12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAXAUG_DATA_DIR", str(root / "data"))
        patch.setenv("JAXAUG_CACHE_DIR", str(root / "cache"))
        for name in ("JAXAUG_VOCABULARY", "JAXAUG_VARIANTS_DIR", "JAXAUG_RENDERINGS"):
            patch.delenv(name, raising=False)
        import tasks
        import tasks.dst
        import tasks.vocabulary

        patch.setattr(seqio.TaskRegistry, "_REGISTRY", {})
        patch.setattr(seqio.MixtureRegistry, "_REGISTRY", {})
        patch.setattr(tasks.vocabulary, "_DEFAULT", tasks.vocabulary.FoundVocabulary())
        tasks.dst.register()
        yield tasks
