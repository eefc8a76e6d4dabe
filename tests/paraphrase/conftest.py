"""A model that decodes in a second: `random-tiny` of fewer layers and words."""

import dataclasses

import pytest

from jaxaug.data import minisgd
from jaxaug.models.text import registry


@pytest.fixture(scope="session")
def small_world(tmp_path_factory):
    """A small MiniSGD, whose words and one layer make the model `random-tiny`."""
    root = tmp_path_factory.mktemp("paraphrase")
    world = minisgd.write(
        root / "data", train_dialogues=5, dev_dialogues=2, test_dialogues=2
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAXAUG_CACHE_DIR", str(root / "cache"))
        patch.setattr(minisgd, "materialise", lambda cache: world)
        model = registry.random_tiny()
        config = dataclasses.replace(
            model.module.config, num_encoder_layers=1, num_decoder_layers=1
        )
        module = type(model.module)(config)
        params = registry.random_parameters(module, model.input_vocabulary)
        model = dataclasses.replace(model, module=module, params=params)
        patch.setitem(registry.MODELS, "random-tiny", lambda: model)
        yield world
