"""A run from a converted Hugging Face folder, on a tiny model."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import torch
import transformers
from t5x import checkpoints

from jaxaug.feed import vocabulary
from jaxaug.models import convert
from jaxaug_papers import minisgd

ROOT = Path(__file__).resolve().parents[2]

# These settings shorten the run; all others are as for the real model.
TINY = """
from __gin__ import dynamic_registration
import __main__ as train_script
from t5x import checkpoints
from t5x import utils
from t5x.examples.t5 import network

network.T5Config:
  vocab_size = {words}
  emb_dim = 8
  num_heads = 2
  head_dim = 4
  mlp_dim = 16
  num_encoder_layers = 1
  num_decoder_layers = 1
TASK_FEATURE_LENGTHS = {{'inputs': 128, 'targets': 32}}
BATCH_SIZE = 2
MAX_FINETUNING_STEPS = 1
train_script.train:
  infer_eval_dataset_cfg = None
  train_eval_dataset_cfg = None
  actions = {{}}
utils.SaveCheckpointConfig.checkpointer_cls = @checkpoints.Checkpointer
"""


@pytest.mark.slow
@pytest.mark.long
def test_a_run_starts_from_a_converted_folder(python, tmp_path):
    data, folder = tmp_path / "data", tmp_path / "t5"
    minisgd.write(data, train_dialogues=2, dev_dialogues=1, test_dialogues=1)
    words = vocabulary.train_words(data, tmp_path)
    size = sentencepiece.SentencePieceProcessor(model_file=str(words)).vocab_size()
    torch.manual_seed(1)
    model = transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            vocab_size=size, d_model=8, d_kv=4, d_ff=16, num_layers=1, num_heads=2,
            feed_forward_proj="gated-gelu", tie_word_embeddings=False,
        )
    )  # fmt: skip
    model.save_pretrained(folder)
    shutil.copy(words, folder / "spiece.model")
    convert.convert(folder, folder / "checkpoint_0")
    (tmp_path / "tiny.gin").write_text(TINY.format(words=size))

    done = subprocess.run(
        [*(python, "-m", "t5x.train", "--gin_file=configs/d3st.gin"),
         "--gin_file=configs/scale/small_hf.gin", f"--gin_file={tmp_path}/tiny.gin",
         f"--gin.MODEL_DIR='{tmp_path}/run'",
         f"--gin.INITIAL_CHECKPOINT_PATH='{folder}/checkpoint_0'",
         f"--gin.VOCABULARY_FILE='{folder}/spiece.model'"],
        cwd=ROOT,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "JAXAUG_DATA_DIR": str(data),
         "JAXAUG_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"step 0  restored {folder}/checkpoint_0" in done.stderr
    state = checkpoints.load_t5x_checkpoint(str(tmp_path / "run"))
    # One warm-up step hardly changes it.
    np.testing.assert_allclose(
        state["target"]["token_embedder"]["embedding"],
        model.shared.weight.detach().numpy(),
        atol=1e-3,
    )
