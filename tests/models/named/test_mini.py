"""The model that the package brings along."""

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
DESCRIPTIONS = (
    "0=blick of the carn 1=marn of the carn 2=tob for the carn i0=prell a carn"
)
# What is said, and the state; no word of it is English for anything.
DIALOGUES = {
    f"{DESCRIPTIONS} [user] i want to prell a carn with zop tob": (
        "[states] 2=zop [intents] i0 [req_slots]"
    ),
    f"{DESCRIPTIONS} [user] i want to prell a carn with zop blick": (
        "[states] 0=zop [intents] i0 [req_slots]"
    ),
    f"{DESCRIPTIONS} [user] i want to prell a carn with marn frel": (
        "[states] 1=frel [intents] i0 [req_slots]"
    ),
}


def test_its_size():
    params = keymap.flat(hf_folder.load(FOLDER, param_dtype=None).params)
    assert 0.5e6 < sum(array.size for array in params.values()) < 2e6
    assert {str(array.dtype) for array in params.values()} == {"bfloat16"}
    assert sum(map(os.path.getsize, FOLDER.iterdir())) < 4e6


@pytest.mark.parametrize("text", DIALOGUES)
def test_it_reads_descriptions_in_words_that_do_not_exist(text):
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
