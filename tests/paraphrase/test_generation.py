import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from jaxaug.core.errors import UserError
from jaxaug.models.named import catalogue
from jaxaug.models.text import registry
from jaxaug.paraphrase import generation, version
from jaxaug.paraphrase.generation import Paraphraser, Setting, grid

TEXTS = ["city", "the date of the trip", "name", "who drives"]


def block(**fields):
    return {"model": "m", "sampler": "sampling", "num": 3} | fields


def test_lists_are_alternatives():
    blocks = [
        block(num=[1, 2], options={"temperature": [0.5, 1.0]}),
        block(sampler="dips", options={"mu": (1.0, 2.0, 3.0, 4.0)}),
    ]
    settings = grid(blocks)
    assert [(s.num, s.options.get("temperature")) for s in settings] == [
        (1, 0.5), (1, 1.0), (2, 0.5), (2, 1.0), (3, None),
    ]  # fmt: skip
    assert settings[4].options["mu"] == (1.0, 2.0, 3.0, 4.0)
    assert settings[0].label == "m sampling temperature=0.5 num=1"


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([], "grid: holds no setting"),
        ([{"model": "m", "num": 1}], "lacks 'sampler'"),
        ([block(temperature=1.0)], "grid: unknown key 'temperature'"),
        ([block(sampler="samplin")], "'samplin' is not a sampler; did you mean"),
        ([block(options={"tempo": 1})], "has no option 'tempo'"),
        ([block(options={"temperature": -1.0})],
         "temperature: t=-1.0: .* of at least 0"),
        ([block(num=0)], "grid: num=0: expected a whole number of at least 1"),
        ([block(max_length=0)],
         "max_length=0: expected a whole number from 1 to 4,096"),
        ([block(sampler="greedy")], "gives one output"),
        ([block(), block()], "'m sampling num=3' comes twice"),
        ([block(prompt="no_such")], "no_such"),
        ([7], "grid: 7 is not a block: write a mapping with"),
        ([block(options=[1])], r"grid: options=\[1\]: expected a mapping"),
        ([block(num="3")], "grid: num='3': expected a whole number"),
        ([block(model=None)], "grid: model=None: expected a text"),
        ([block(precision="half")], "precision 'half': use one of float32, bfloat16"),
        ([block(max_length=10**9)], "max_length=1000000000: expected a whole"),
        ([block(num=100_000)], "--num is 100000: the outputs of an input"),
        ([block(options={"temperature": float("inf")})], "temperature=inf: expected"),
    ],
)  # fmt: skip
def test_wrong_grids(blocks, message):
    with pytest.raises(UserError, match=message):
        grid(blocks)


def test_the_key_holds_the_text_of_the_prompt(tmp_path, tiny_lm):
    path = tmp_path / "p.txt"
    path.write_text("Say {text} so:")
    keys = []
    for prompt in ("Say {text} so:", "Tell {text} so:"):
        path.write_text(prompt)
        (setting,) = grid([block(model=str(tiny_lm), prompt=str(path))])
        keys.append(setting.key())
    assert keys[0] != keys[1]
    assert keys[0]["prompt"] == ["Say", " ", " so:"]


def test_weights_identify_a_model(tmp_path, tiny_lm):
    """A copy has the same key, draws, and outputs, unlike other weights."""
    copy, other = tmp_path / "another_name", tmp_path / "other" / tiny_lm.name
    shutil.copytree(tiny_lm, copy)
    shutil.copytree(tiny_lm, other)
    settings = []
    for folder in (tiny_lm, copy, other):
        settings += grid([block(model=str(folder), max_length=6, prompt="persona")])
    outputs = [Paraphraser(0)(one, TEXTS) for one in settings]
    assert settings[0].key() == settings[1].key() == settings[2].key()
    assert outputs[0] == outputs[1] == outputs[2]
    reweigh(other)
    assert settings[2].key() != settings[0].key()
    assert settings[2].draws(0).tolist() != settings[0].draws(0).tolist()
    assert Paraphraser(0)(settings[2], TEXTS) != outputs[0]


def test_a_prompt_is_part_of_a_named_model(tmp_path, tiny_lm, monkeypatch):
    """The same folder by name and by path: the name determines the prompt."""
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path))
    folders = {
        name: catalogue.find(name).folder for name in ("t5-paws", "smollm2-135m")
    }
    for folder in folders.values():
        shutil.copytree(tiny_lm, folder)
        (folder / catalogue.SOURCE_FILE).write_text('{"commit": "abc"}')
    weights = generation.identity(str(tiny_lm))
    assert generation.identity(str(folders["t5-paws"])) == weights
    assert generation.identity("smollm2-135m") == weights
    assert generation.identity("t5-paws") == f"{weights} paraphrase:  </s>"


def test_the_key_holds_the_code(tiny_lm, monkeypatch):
    (setting,) = grid([block(model=str(tiny_lm))])
    before, draws = setting.key(), setting.draws(0).tolist()
    monkeypatch.setattr(version, "of_outputs", lambda: "other code")
    assert setting.key() == before | {"code": ["other code", before["code"][1]]}
    assert setting.draws(0).tolist() == draws


def test_precision_changes_the_key_and_no_draw(tiny_lm):
    both = grid([block(model=str(tiny_lm), precision=["float32", "bfloat16"])])
    one, other = both
    assert one.key() | {"precision": "bfloat16"} == other.key()
    assert one.draws(0).tolist() == other.draws(0).tolist()
    assert other.label == f"{one.label.removesuffix(' num=3')} bfloat16 num=3"
    models = [generation._asked(setting)[0] for setting in both]
    types = [np.dtype(model.module.config.dtype).name for model in models]
    assert types == ["float32", "bfloat16"]
    assert all(len(o) == 3 for o in Paraphraser(0)(other, TEXTS))


def reweigh(folder):
    """Writes other weights to the same files."""
    for path in folder.glob("*.safetensors"):
        save_file({k: -v for k, v in load_file(path).items()}, path, {"format": "pt"})


@pytest.fixture(scope="module")
def outputs(tiny_lm, tmp_path_factory):
    """Returns a function (texts, ...) -> text -> outputs of a random model."""
    folder = tmp_path_factory.mktemp("prompts")
    for name in ("one", "two"):
        (folder / name).write_text("{text} >")

    def run(texts, seed=0, batch_size=12, prompt="one", **changes):
        fields = changes | {
            "model": str(tiny_lm),
            "max_length": 6,
            "prompt": str(folder / prompt),
        }
        (setting,) = grid([block(**fields)])
        found = Paraphraser(seed, batch_size)(setting, texts)
        assert [len(own) for own in found] == [setting.num] * len(texts)
        return dict(zip(texts, found, strict=True))

    return run


def test_an_output_depends_on_text_setting_and_seed_alone(outputs):
    one = outputs(TEXTS)
    assert len({text for own in one.values() for text in own}) > 4
    assert outputs(TEXTS[::-1]) == one
    assert outputs(TEXTS[1:2])[TEXTS[1]] == one[TEXTS[1]]
    assert outputs(TEXTS, batch_size=1) == one
    assert outputs(TEXTS, seed=1) != one


def test_settings_draw_different_numbers(outputs):
    assert outputs(TEXTS) != outputs(TEXTS, options={"temperature": 1.0001})
    # The prompts are the same; the names of their files do not matter.
    assert outputs(TEXTS) == outputs(TEXTS, prompt="two")


def test_no_prompt_for_an_encoder_decoder(monkeypatch):
    monkeypatch.setattr(registry, "load", lambda name: object())
    monkeypatch.setattr(registry, "published_identity", lambda name: "")
    setting = Setting("m", "sampling", 1, {"temperature": 1.0}, "schema")
    with pytest.raises(UserError, match="model 'm' takes no prompt; it reads the text"):
        Paraphraser(0)(setting, ["city"])
