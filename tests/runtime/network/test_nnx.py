"""T5 behind `flax.nnx.bridge`: the way for the day on which Flax drops Linen."""

import numpy as np
from flax import nnx

from tests.runtime import network_kit


def test_t5_in_nnx_has_the_same_logits():
    module, params = network_kit.build(network_kit.TINY)
    batch = network_kit.make_batch()

    def start():
        model = nnx.bridge.ToNNX(module)
        rngs = nnx.Rngs(0)
        return nnx.bridge.lazy_init(model, *batch, rngs=rngs, enable_dropout=False)

    graph, state, axes = nnx.split(nnx.eval_shape(start), nnx.Param, ...)
    nnx.replace_by_pure_dict(state, params)
    model = nnx.merge(graph, state, axes)
    found = nnx.jit(lambda model: model(*batch, enable_dropout=False))(model)
    expected = network_kit.apply(module, params, *batch)
    np.testing.assert_allclose(found, expected, atol=1e-5)
