import jax
import numpy as np
import pytest
from etils import epath

from jaxaug.augment.judge.round_trip import RoundTrip
from jaxaug.models.text import language
from jaxaug.paraphrase import causal
from tests.support import grids


@pytest.mark.parametrize("prompt", grids.first(1, ["few", "plain"]))
def test_log_likelihoods_equal_the_decoder(tiny_lm, tmp_path, prompt):
    """The likelihoods equal the single scores of `jaxaug paraphrase`."""
    (tmp_path / "few").write_text("a -> b\n{text} ->")
    name = prompt if prompt == "plain" else str(tmp_path / "few")
    model = language.load(epath.Path(tiny_lm), "tiny", name)
    pairs = [("a b", "b"), ("car", "car you rent"), ("a b", "a b c d e f g h i")]
    trips = RoundTrip(model, batch_size=2)(*zip(*pairs, strict=True))
    words, params = model.vocabulary, jax.device_put(model.params)
    for (source, output), trip in zip(pairs, trips, strict=True):
        tokens = np.array([[*words.encode(f" {output}"), words.eos_id]], np.int32)
        given = np.array([model.encode(source)], np.int32)
        none = np.array([[*model.before, *model.behind]], np.int32)
        for prompted, found in ((given, trip.given), (none, trip.alone)):
            expected = causal.log_probabilities(model.bare, params, prompted, tokens)
            assert found.shape == tokens[0].shape
            assert found.sum() == pytest.approx(float(expected[0]), abs=1e-3)
