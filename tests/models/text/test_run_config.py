"""The configuration of a run: only allowed parts of it are built, nothing else runs."""

import functools
import importlib
import json
import os
import re
import types

import gin
import pytest
import seqio
from t5x import gin_utils, models
from t5x.examples.t5 import network
from t5x.logs import metrics_writer
from t5x.start import gin_config

from jaxaug import cli
from jaxaug.core import digests
from jaxaug.core.errors import UserError
from jaxaug.models.text import run_config
from jaxaug.models.weights import families

IMPORTS = """from __gin__ import dynamic_registration
from t5x import models as m
from t5x.examples.t5 import network
import seqio
"""
NETWORK = """SIZE = 8
WORDS = @seqio.PassThroughVocabulary()
seqio.PassThroughVocabulary.size = 30
NETWORK = @small/network.Transformer()
network.Transformer.config = @network.T5Config()
network.T5Config:
  vocab_size = 1152
  emb_dim = 16
  num_encoder_layers = 3
  mlp_activations = ('gelu', 'linear')
small/network.T5Config:
  emb_dim = %SIZE
MODEL = @m.EncoderDecoderModel()
m.EncoderDecoderModel:
  module = %NETWORK
  input_vocabulary = %WORDS
  output_vocabulary = %WORDS
  optimizer_def = @unknown.Optimizer()
  z_loss = 0.5
"""


def build(folder, text, name="MODEL", **options):
    path = folder / "config.gin"
    path.write_text(text)
    return run_config.build(path, name, **options)


def test_a_configuration_that_was_changed_is_refused(tmp_path, monkeypatch, capsys):
    path, note = tmp_path / "config.gin", tmp_path / "config_digest.json"
    monkeypatch.setattr(gin_utils, "get_gin_config_str", lambda: "A = 1\n")
    monkeypatch.delenv("JAXAUG_ACCEPT_CHANGED_CONFIG", raising=False)
    monkeypatch.setattr(gin_config, "get_gin_config_str", lambda: "A = 1\n")
    gin_utils.summarize_gin_config(str(tmp_path), metrics_writer.NullWriter(), 0)
    assert run_config.build(path, "A") == 1
    written = json.loads(note.read_text())["digest"]

    changed = digests.file_digest(_with(tmp_path / "other", "A = 2\n"))
    expected = (
        f"{path} was changed after training wrote it. It has digest {changed}, but "
        f"{note} has {written}. Restore it from a copy of the run. If the change is "
        "intended, give --accept_changed_config, or set "
        "$JAXAUG_ACCEPT_CHANGED_CONFIG=1."
    )
    with pytest.raises(UserError, match=f"^{re.escape(expected)}$"):
        build(tmp_path, "A = 2\n", "A")
    monkeypatch.setenv("JAXAUG_ACCEPT_CHANGED_CONFIG", "1")
    assert build(tmp_path, "A = 2\n", "A") == 2
    warning = (
        f"warning: {path} was changed after training wrote it, and is used as it is"
    )
    assert capsys.readouterr().err == f"{warning} now\n"


def _with(path, text):
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "verb",
    [
        ["predict", "--run", "R"],
        ["serve", "R"],
        ["convert", "--from", "R", "--to", "O"],
        ["paraphrase", "--model", "R", "--sampler", "beam", "--in", "I", "--out", "O"],
        ["levels", "--model", "R", "--in", "I", "--out", "O"],
    ],
)  # fmt: skip
def test_verbs_that_load_a_run_accept_a_changed_configuration(verb, monkeypatch):
    monkeypatch.delenv("JAXAUG_ACCEPT_CHANGED_CONFIG", raising=False)
    noted = []
    target = types.SimpleNamespace(
        run=lambda parsed: noted.append(os.environ.get("JAXAUG_ACCEPT_CHANGED_CONFIG"))
    )
    monkeypatch.setattr(cli.importlib, "import_module", lambda name: target)
    assert cli.main(verb) == 0
    # Restores the variable of the verb for other tests.
    monkeypatch.setenv("JAXAUG_ACCEPT_CHANGED_CONFIG", "")
    assert cli.main([*verb, "--accept_changed_config"]) == 0
    assert noted == [None, "1"]


def test_builds_the_same_as_gin(tmp_path):
    text = IMPORTS + NETWORK.replace("@unknown.Optimizer()", "None")
    model = build(tmp_path, text)
    # gin keeps the first name of a class for the whole process, so an alias is not
    # used.
    plain = text.replace("models as m", "models").replace("m.Enc", "models.Enc")
    try:
        gin.parse_config(plain)
        expected = gin.query_parameter("MODEL/macro.value").scoped_configurable_fn()
    finally:
        gin.clear_config()
    assert type(model) is type(expected) is models.EncoderDecoderModel
    assert model.module == expected.module
    assert model.module.config.emb_dim == 8
    assert model.module.config.num_encoder_layers == 3
    assert model.module.config.mlp_activations == ("gelu", "linear")
    assert model.input_vocabulary == seqio.PassThroughVocabulary(30)
    assert model._z_loss == 0.5


def test_arguments_that_are_not_wanted_are_not_built(tmp_path):
    with pytest.raises(UserError, match=r"@unknown.Optimizer, but has no line that"):
        build(tmp_path, IMPORTS + NETWORK)
    model = build(
        tmp_path,
        IMPORTS + NETWORK,
        without=["z_loss"],
        arguments={"optimizer_def": None},
    )
    assert model.optimizer_def is None
    assert model._z_loss == 0.0


def test_references_that_are_not_called(tmp_path):
    text = f"{IMPORTS}A = [@network.T5Config, @x/network.T5Config]\n"
    text += "x/network.T5Config.emb_dim = 4\n"
    plain, bound = build(tmp_path, text, "A")
    assert plain is network.T5Config
    assert isinstance(bound, functools.partial)
    assert bound(vocab_size=2) == network.T5Config(vocab_size=2, emb_dim=4)


@pytest.mark.parametrize("call", ["", "()"])
@pytest.mark.parametrize(
    ("imported", "reference", "target"),
    [
        ("import os", "os.system", "os.system"),
        ("from t5x import models", "models.os.system", "t5x.models.os.system"),
        ("import shutil as network", "network.rmtree", "shutil.rmtree"),
        ("import t5x.examples.t5.network", "t5x.utils.run", "t5x.utils.run"),
        ("import builtins", "builtins.open", "builtins.open"),
        ("from jaxaug.models import t5", "t5.SourceEncoderDecoderModel.mro",
         "jaxaug.models.t5.SourceEncoderDecoderModel.mro"),
    ],
)  # fmt: skip
def test_unknown_code_does_not_run(tmp_path, imported, reference, target, call):
    with pytest.raises(UserError) as error:
        build(tmp_path, f"{imported}\nMODEL = @{reference}{call}\n")
    assert str(error.value) == (
        f"{tmp_path}/config.gin refers to @{reference} ({target}), which is not a "
        "network, model, or vocabulary of jaxaug or T5X, so it is not run. If you "
        "trust the authors of this folder, set $JAXAUG_TRUSTED_MODULES="
        f"{target.rpartition('.')[0]} and run the command again."
    )


def test_only_modules_of_the_model_are_imported(tmp_path, monkeypatch):
    """A module in the folder, or any other; importing it would run it."""
    (tmp_path / "hostile.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    text = f"import hostile\n{IMPORTS}A = 3\nB = @hostile.run()\nhostile.run.x = 1\n"
    assert build(tmp_path, text, "A") == 3
    with pytest.raises(UserError, match="so it is not run"):
        build(tmp_path, text, "B")


def test_trusted_modules(tmp_path, monkeypatch):
    (tmp_path / "my_network.py").write_text("def make(size):\n    return size + 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    text = "import my_network\nMODEL = @my_network.make()\nmy_network.make.size = 2\n"
    for trusted in ("", "my_net", "my_network.other"):
        monkeypatch.setenv(run_config.TRUSTED_VARIABLE, trusted)
        with pytest.raises(UserError, match="JAXAUG_TRUSTED_MODULES=my_network and"):
            build(tmp_path, text)
    monkeypatch.setenv(run_config.TRUSTED_VARIABLE, "other, my_network")
    assert build(tmp_path, text) == 3
    monkeypatch.setenv(run_config.TRUSTED_VARIABLE, "my_network")
    with pytest.raises(UserError, match=r"@my_network.mak cannot be imported \(module"):
        build(tmp_path, text.replace("make", "mak"))


def test_includes_of_the_folder_only(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "outside.gin").write_text("A = 1\n")
    (tmp_path / "run" / "inside.gin").write_text("A = 2\n")
    assert build(tmp_path / "run", "include 'inside.gin'\n", "A") == 2
    (tmp_path / "run" / "link.gin").symlink_to(tmp_path / "outside.gin")
    for name in ("../outside.gin", str(tmp_path / "outside.gin"), "link.gin"):
        with pytest.raises(UserError) as error:
            build(tmp_path / "run", f"include '{name}'\n", "A")
        assert str(error.value) == (
            f"{tmp_path}/run/config.gin includes {name}, which is outside of its "
            "folder, so it is not read. Write its lines into the file instead."
        )
    with pytest.raises(UserError, match=r"config.gin includes itself\. Remove that"):
        build(tmp_path / "run", "include 'config.gin'\n", "A")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "config.gin does not define MODEL."),
        ("MODEL = %OTHER\n", "it needs %OTHER, which it does not define."),
        ("MODEL = %gin.REQUIRED\n", "it needs a value that every user must give"),
        ("MODEL = %A\nA = [%MODEL]\n", "config.gin: MODEL is needed to build itself."),
        ("MODEL = @(\n", "config.gin: line 1: Unexpected token"),
        ("MODEL = (1,\n", "config.gin: .*EOF in multi-line statement"),
        ("MODEL = {[1]: 2}\n", r"config.gin is not a gin file \(unhashable type"),
        (f"MODEL = {'(' * 5000}\n",
         "config.gin: .*too many nested parentheses|is not a gin"),
        (f"{IMPORTS}MODEL = @network.T5Config()\nnetwork.T5Config.emb_dims = 2\n",
         r"network.T5Config\(\) cannot be built: .*keyword argument 'emb_dims'"),
        (f"{IMPORTS}MODEL = @seqio.PassThroughVocabulary()\n",
         r"seqio.PassThroughVocabulary\(\) cannot be built: .*'size'"),
    ],
)  # fmt: skip
def test_mistakes(tmp_path, text, message):
    with pytest.raises(UserError, match=message) as error:
        build(tmp_path, text)
    assert str(tmp_path / "config.gin") in str(error.value)


def test_messages_of_a_vocabulary_come_with_the_configuration(tmp_path):
    text = (
        "from jaxaug.feed import vocabulary\nMODEL = @vocabulary.TokenVocabulary()\n"
        f"vocabulary.TokenVocabulary.path = '{tmp_path}/%s'\n"
    )
    where = f"{tmp_path}/config.gin: vocabulary.TokenVocabulary() cannot be built: "
    with pytest.raises(UserError) as error:
        build(tmp_path, text % "no.model")
    assert str(error.value) == (
        f"{where}{tmp_path}/no.model: no such file, expected a model. Name one with "
        "$JAXAUG_VOCABULARY, such as the one of the pretrained T5."
    )
    with pytest.raises(UserError) as error:
        build(tmp_path, text % ("x" * 5000))
    assert str(error.value).startswith(f"{where}[Errno 36] File name too long: ")
    assert len(str(error.value)) == len(where) + 600


def test_long_values_are_not_quoted_whole(tmp_path):
    for text in (f"from t5x {'9' * 5000}\n", f"MODEL = {{[{'9' * 4000}]: 2}}\n"):
        with pytest.raises(UserError) as error:
            build(tmp_path, text)
        assert len(str(error.value)) < 1000


@pytest.mark.parametrize("name", families.FAMILIES.data)
def test_classes_of_converted_folders_are_known(name, tmp_path):
    """`network.gin` names the classes by their defining modules."""
    code = families.FAMILIES[name].code
    for cls in (code.NETWORK, code.Config):
        package, _, module = cls.__module__.rpartition(".")
        text = f"from {package} import {module}\nA = @{module}.{cls.__qualname__}\n"
        (tmp_path / "network.gin").write_text(text)
        assert run_config.build(tmp_path / "network.gin", "A") is cls


def test_the_list_of_known_names_is_right():
    for module, names in run_config.KNOWN.items():
        for name in names:
            assert callable(getattr(importlib.import_module(module), name))
