"""A table of config.json in both directions."""

import pytest

from jaxaug.core.errors import UserError
from jaxaug.models.weights import hf_config

TABLE = (
    hf_config.Field("n_embd", "emb_dim"),
    hf_config.Field("n_layer", "num_layers"),
    hf_config.Field("drop", "rate", 0.1, float),
    hf_config.Field("sizes", "widths", (), tuple, list),
)


def test_parsed_files_are_written_back():
    told = {"n_embd": 8, "n_layer": 2, "drop": 0, "sizes": [3, 4], "other": 1}
    read = hf_config.read_fields(TABLE, told)
    assert read == {"emb_dim": 8, "num_layers": 2, "rate": 0.0, "widths": (3, 4)}
    del told["other"]
    assert hf_config.written_fields(TABLE, read | {"dtype": "float32"}) == told


def test_defaults():
    read = hf_config.read_fields(TABLE, {"n_embd": 8, "n_layer": 2})
    assert (read["rate"], read["widths"]) == (0.1, ())


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"n_embd": None}, "config.json: lacks n_embd, n_layer. Use the config.json"),
        ({"n_embd": 8, "n_layer": 2, "drop": 10**400}, "a number is too large"),
    ],
)
def test_unreadable_files(told, message):
    with pytest.raises(UserError, match=message):
        hf_config.read_fields(TABLE, told)
