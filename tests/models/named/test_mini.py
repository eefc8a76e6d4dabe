"""The model that is part of the package."""

import os

import pytest
import sentencepiece
import torch
import transformers

from jaxaug.models import initial
from jaxaug.models.named import catalogue
from jaxaug.models.weights import hf_folder, keymap
from jaxaug.paraphrase.generation import Paraphraser, Setting

FOLDER = catalogue.find("mini").folder
CARN = "0=blick of the carn 1=marn of the carn 2=tob for the carn i0=prell a carn"
GARDEN = (
    "0=marble of the garden 1=thunder of the garden i0=juggle the garden "
    "i1=paint a garden"
)
# The dialogue, and its state, in invented words and in words without meaning here.
DIALOGUES = {
    f"{CARN} [user] prell a carn with paris blick": (
        "[states] 0=paris [intents] i0 [req_slots]"
    ),
    f"{GARDEN} [user] please juggle the garden with thunder silver [system] which "
    "marble [user] monday": "[states] 0=monday 1=silver [intents] i0 [req_slots]",
    f"{GARDEN} [user] please paint a garden the marble is bottle": (
        "[states] 0=bottle [intents] i1 [req_slots]"
    ),
}


def test_its_size():
    params = keymap.flat(hf_folder.load(FOLDER, param_dtype=None).params)
    assert 0.5e6 < sum(array.size for array in params.values()) < 2e6
    assert {str(array.dtype) for array in params.values()} == {"bfloat16"}
    assert sum(map(os.path.getsize, FOLDER.iterdir())) < 4e6


@pytest.mark.parametrize("text", DIALOGUES)
def test_it_reads_descriptions_that_it_has_never_seen(text):
    setting = Setting("mini", "greedy", 1, max_length=24)
    assert Paraphraser(seed=0)(setting, [text]) == [[DIALOGUES[text]]]


def test_transformers_reads_it_alike():
    model = transformers.T5ForConditionalGeneration.from_pretrained(
        FOLDER, dtype=torch.float32
    )
    words = sentencepiece.SentencePieceProcessor(initial.vocabulary("mini"))
    for text, state in DIALOGUES.items():
        ids = torch.tensor([[*words.encode(text), words.eos_id()]])
        found = model.generate(ids, max_new_tokens=24, do_sample=False)[0].tolist()
        assert words.decode([i for i in found if i > 1]) == state
