"""A model that decodes in a second, and a scripted server of a model."""

import contextlib
import dataclasses
import json

import pytest

from jaxaug import cli
from jaxaug.models.endpoint import asking
from jaxaug.models.text import registry
from jaxaug.models.text.registry import draw_parameters
from jaxaug_papers import minisgd
from tests.support.chat_server import LINES


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
        patch.setattr("jaxaug.data.minisgd.materialise", lambda cache: world)
        yield patch


# Other files of the same process have MiniSGD itself.
@pytest.fixture(scope="module")
def small_world(_made):
    """A small MiniSGD, whose words and one layer make the model `random-tiny`."""
    root, world, model = _made
    with _patched(root, world) as patch:
        patch.setitem(registry.MODELS, "random-tiny", lambda: model)
        yield world


@pytest.fixture
def call(server, tmp_path, capsys):
    """Runs the command; returns its exit status, output and records."""
    lines, out = tmp_path / "lines.txt", tmp_path / "out.jsonl"

    def run(*more, texts=LINES, num=2, url=server.url):
        asking.of.cache_clear()  # As in a new process.
        lines.write_text("\n".join(texts) + "\n")
        arguments = ["paraphrase", "--model", "openai:tiny", "--endpoint", url]
        arguments += ["--in", str(lines), "--out", str(out), "--num", str(num)]
        arguments += ["--prompt", "plain"]
        status = cli.main([*arguments, *more])
        said = capsys.readouterr()
        records = out.read_text().splitlines() if out.exists() else []
        return status, said.out + said.err, [json.loads(line) for line in records]

    return run
