"""New inputs take the rows of finished ones: the same outputs, in fewer steps."""

import dataclasses

import jax
import numpy as np
import pytest

from jaxaug.core.buckets import Batch
from jaxaug.core.errors import UserError
from jaxaug.models.text import language, registry
from jaxaug.paraphrase import run, samplers, stream
from jaxaug.paraphrase.decoder import Decoder, _short
from tests.support import grids

LINES = ["city", "a hotel", "date", "the bus", "day", "find it", "name", "a hotel", "x"]
LENGTH = 40


def build(name, num=3, **options):
    chosen = samplers.find(name)
    return chosen.build(num, chosen.complete(options))


@pytest.fixture(params=grids.first(1, ["language_model", "encoder_decoder"]))
def model(request, small_world, tiny_lm, tmp_path):
    if request.param == "encoder_decoder":
        loaded = registry.load("random-tiny")

        def louder(path, leaf):
            is_output = path[-2].key == "logits_dense"
            return (
                np.where(np.arange(leaf.shape[-1]) == 1, 5, 1) * leaf
                if is_output
                else leaf
            )

        params = jax.tree_util.tree_map_with_path(louder, loaded.params)
        # Its outputs end more often, at all lengths.
        return dataclasses.replace(loaded, params=params)
    path = tmp_path / "prompt"
    path.write_text("{text} >")
    return language.load(tiny_lm, "tiny", str(path))


def test_outputs_equal_batches(model):
    fn = build("bottom_k", repetition_penalty=1.5)
    decoder = Decoder(model, fn, num=3, max_length=LENGTH, seed=3)
    sequences = [model.encode(text) for text in LINES]
    length = max(map(len, sequences)) + 1
    batch = Batch(tuple(range(9)), 9, length)
    expected = [*decoder.batch(sequences, batch).values()]
    found = {}
    for part in decoder.stream(list(enumerate(sequences)), length, rows=2):
        assert not found.keys() & part.keys()
        found |= part
    assert [found[i] for i in range(9)] == expected
    lengths = [len(output.text) for own in expected for output in own]
    assert max(lengths) > 2 * min(lengths)


def test_search_decoders_cannot_stream(model):
    assert not Decoder(model, build("beam"), num=3, max_length=4, seed=0).can_stream


def test_the_file_is_the_same(small_world, tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(LINES) + "\n")

    def paraphrase(refill, batch_size=3):
        out = tmp_path / f"{refill} {batch_size}.jsonl"
        settings = {"model": "random-tiny", "sampler": "sampling", "num": 2}
        settings |= {"max_length": 6, "batch_size": batch_size, "refill": refill}
        run.paraphrase(lines, out, **settings)
        return out.read_bytes()

    assert paraphrase("on") == paraphrase("off") == paraphrase("auto")


def test_inputs_that_all_have_rows_are_a_batch(small_world, tmp_path, monkeypatch):
    lines = tmp_path / "lines.txt"
    lines.write_text("city\ndate\n")
    monkeypatch.setattr(stream, "decodes", None)
    settings = {"model": "random-tiny", "sampler": "sampling", "max_length": 6}
    run.paraphrase(lines, tmp_path / "out", batch_size=2, **settings)
    with pytest.raises(TypeError):
        run.paraphrase(lines, tmp_path / "on", refill="on", **settings)


def test_wrong_choices(small_world, tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("city\n")

    def paraphrase(sampler, refill):
        settings = {"model": "random-tiny", "sampler": sampler, "refill": refill}
        run.paraphrase(lines, tmp_path / "out", **settings)

    with pytest.raises(UserError, match="--refill is 'no': give one of auto, on, off"):
        paraphrase("bottom_k", "no")
    with pytest.raises(UserError, match="--refill on: sampler 'beam' searches"):
        paraphrase("beam", "on")


def test_scores_do_not_look_beyond_the_last_end():
    outputs = np.zeros((2, 40), np.int32)
    outputs[0, :9] = [5, 5, 5, 5, 5, 5, 5, 5, 1]
    outputs[1, :3] = [5, 0, 1]
    assert _short(outputs, eos_id=1).shape == (2, 10)
    outputs[0, 8:11] = [0, 0, 1]
    assert _short(outputs, eos_id=1).shape == (2, 20)
    # Zeros that the model chose up to the limit count.
    outputs[1, 2] = 0
    assert _short(outputs, eos_id=1).shape == (2, 40)
    assert _short(outputs[:, :8], eos_id=1).shape == (2, 8)
