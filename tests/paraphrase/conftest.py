"""A model that decodes in a second: `random-tiny` of fewer layers and words."""

import contextlib
import dataclasses

import pytest

from jaxaug.data import minisgd
from jaxaug.models.text import registry
from jaxaug.models.text.random_parameters import draw_parameters


@pytest.fixture(scope="session")
def _made(tmp_path_factory):
    """(folder, world, model), made once."""
    root = tmp_path_factory.mktemp("paraphrase")
    world = minisgd.write(
        root / "data", train_dialogues=5, dev_dialogues=2, test_dialogues=2
    )
    with _patched(root, world):
        model = registry.random_tiny()
    config = dataclasses.replace(
        model.module.config, num_encoder_layers=1, num_decoder_layers=1
    )
    module = type(model.module)(config)
    params = draw_parameters(module, model.input_vocabulary)
    return root, world, dataclasses.replace(model, module=module, params=params)


@contextlib.contextmanager
def _patched(root, world):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAXAUG_CACHE_DIR", str(root / "cache"))
        patch.setattr(minisgd, "materialise", lambda cache: world)
        yield patch


# Other files of the same process have MiniSGD itself.
@pytest.fixture(scope="module")
def small_world(_made):
    """A small MiniSGD, whose words and one layer make the model `random-tiny`."""
    root, world, model = _made
    with _patched(root, world) as patch:
        patch.setitem(registry.MODELS, "random-tiny", lambda: model)
        yield world
