"""Valid function calls from any logits, with three kinds of vocabularies."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxaug.core.errors import UserError
from jaxaug.data import sgd
from jaxaug.feed import vocabulary
from jaxaug.formats.json_tools import JSONFormatter, JSONOptions, parse
from jaxaug.models.text import json_calls
from jaxaug.models.tokenizers import hf, spelling
from jaxaug_papers import minisgd


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("data") / "data"
    minisgd.write(made, train_dialogues=4, dev_dialogues=2, test_dialogues=3)
    return made


@pytest.mark.parametrize("variant", [None, "v1"])
def test_prompts_choose_the_service_and_outputs_are_states(folder, tiny_lm, variant):
    words = hf.load(tiny_lm, id_offset=1)
    decode = json_calls.decoder(tiny_lm, folder, variants=("v1",))
    formatter = JSONFormatter(
        sgd.read_schema_of(folder, "test", variant), JSONOptions()
    )
    examples = [
        one
        for dialogue in sgd.read_dialogues(folder, "test", variant)
        for one in formatter.dialogue(dialogue)
    ][:12]
    source = np.zeros((len(examples), 128), np.int32)
    for row, example in zip(source, examples, strict=True):
        row[:] = words.encode(example.inputs)[:128]
    rows = len(examples)
    shape = (rows, 150, words.vocab_size)
    noise = jax.random.normal(jax.random.PRNGKey(0), shape)

    def model(state):
        return noise[jnp.arange(rows), state.cur_index], state.cache

    decodes, _ = decode(
        inputs=jnp.zeros((rows, 150), jnp.int32),
        cache={},
        tokens_to_logits=model,
        eos_id=words.eos_id,
        source=jnp.asarray(source),
    )
    for example, tokens in zip(examples, np.asarray(decodes)[:, 0], strict=True):
        answer = words.decode(tokens)
        assert answer.startswith(f'{{"name": "{example.service}"')
        assert parse(answer, example.key).malformed == 0


def test_pieces_of_sentencepiece_are_bytes(folder):
    processor = vocabulary.load(vocabulary.model_file(folder))
    spelled = spelling.of_sentencepiece(processor)
    text = '{"tour_city": "caf\u00e9 \U0001f600"}'
    found = b"".join(spelled[token] or b"" for token in processor.encode(text))
    assert found.decode().strip() == text
    assert spelled[0] is spelled[1] is None


def test_a_tokenizer_without_bytes_is_refused(tmp_path):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "name", "{"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n")
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(UserError, match="cannot be joined byte by byte"):
        spelling.of_tokenizer(hf.load(tmp_path))
