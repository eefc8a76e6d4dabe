"""Models of the registry: lower precision, and the model `minisgd`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from flax import traverse_util

from jaxaug.core.errors import UserError
from jaxaug.models.text import registry
from jaxaug.models.text.registry import with_precision
from tests.support import compiled, grids


def logits(model):
    tokens = jnp.asarray([[3, 9, 4, 7]])
    inputs = [tokens] * (3 if hasattr(model.module, "encode") else 2)
    return compiled.apply(model.module, model.params, *inputs, enable_dropout=False)


def kinds(model):
    """Returns type -> last name of the parameters of that type."""
    flat = traverse_util.flatten_dict(dict(model.params))
    return {(path[-1], str(jnp.asarray(x).dtype)) for path, x in flat.items()}


@pytest.mark.parametrize("which", grids.first(1, ["decoder-only", "encoder-decoder"]))
def test_weights_and_computation_are_bfloat16(which, tiny_lm):
    """Statistics of norms, logits, and scales stay float32."""
    name = str(tiny_lm) if which == "decoder-only" else "random-tiny"
    model = registry.load(name)
    half = with_precision(model, "bfloat16")
    assert half.module.config.dtype == jnp.bfloat16
    assert kinds(half) - {("rel_embedding", "float32")} == {
        ("embedding", "bfloat16"), ("kernel", "bfloat16"), ("scale", "float32"),
    }  # fmt: skip
    expected, got = logits(model), logits(half)
    assert got.dtype == jnp.float32
    assert not np.array_equal(got, expected)
    real = expected > -1e6
    error = np.linalg.norm((got - expected)[real]) / np.linalg.norm(expected[real])
    assert error < 0.03


def test_float32_is_the_model_itself():
    model = registry.load("random-tiny")
    assert with_precision(model, "float32") is model


def test_a_network_without_a_dtype():
    """Networks of other packages may have a config of any kind, or no config."""

    class Other(nn.Module):
        @nn.compact
        def __call__(self, *tokens, enable_dropout):
            return nn.Embed(50, 4)(tokens[0])

    module = Other()
    tokens = [jnp.ones((1, 4), jnp.int32)] * 3
    params = module.init(jax.random.key(0), *tokens, enable_dropout=False)["params"]
    model = registry.TextModel("mine", module, params, None, None, False)
    with pytest.raises(
        UserError, match="'mine': its network has no config with a dtype"
    ):
        with_precision(model, "bfloat16")


def test_minisgd_tells_how_to_train_it(tmp_path, monkeypatch):
    checkout, here = tmp_path / "check out", tmp_path / "here"
    (checkout / "configs").mkdir(parents=True)
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(registry, "_CHECKOUT", checkout)
    with pytest.raises(UserError) as error:
        registry.load("minisgd")
    assert str(error.value) == (
        "model 'minisgd' is not trained yet: there is no folder "
        f"{here}/runs/paraphrase_minisgd and no folder {checkout}/runs/"
        f"paraphrase_minisgd. Train it with `cd '{checkout}' && python -m t5x.train "
        "--gin_file=configs/paraphrase_minisgd.gin`, or name the folder of another run."
    )
    # A wheel has no such folder, and trains in any working folder.
    monkeypatch.setattr(registry, "_CHECKOUT", tmp_path)
    with pytest.raises(UserError) as error:
        registry.load("minisgd")
    assert str(error.value) == (
        "model 'minisgd' is not trained yet: there is no folder "
        f"{here}/runs/paraphrase_minisgd. Train it with `python -m t5x.train "
        "--gin_file=configs/paraphrase_minisgd.gin`, or name the folder of another run."
    )
    monkeypatch.setattr(registry, "_CHECKOUT", checkout)
    # Found in the checkout, but first in the current folder.
    for folder in (checkout, here):
        run_folder = folder / registry.MINISGD_RUN
        run_folder.mkdir(parents=True)
        with pytest.raises(UserError) as error:
            registry.load("minisgd")
        assert f"{run_folder}/config.gin: no such file." in str(error.value)
