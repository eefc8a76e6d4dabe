"""The `config.gin` of a tiny run, as `t5x.train` writes it."""

# It has bindings of the training function; `{words}` is the path of the vocabulary.
CONFIG = """from __gin__ import dynamic_registration
import __main__ as train_script
from jaxaug.feed import vocabulary
from t5x import models
from t5x.examples.t5 import network

MODEL = @models.EncoderDecoderModel()
VOCABULARY = @vocabulary.TokenVocabulary()
MODEL_DIR = 'somewhere'
vocabulary.TokenVocabulary.path = '{words}'
models.EncoderDecoderModel:
  module = @network.Transformer()
  input_vocabulary = %VOCABULARY
  output_vocabulary = %VOCABULARY
  optimizer_def = None
network.Transformer.config = @network.T5Config()
network.T5Config:
  vocab_size = 1152
  emb_dim = 8
  num_heads = 2
  num_encoder_layers = 1
  num_decoder_layers = 1
  head_dim = 4
  mlp_dim = 8
train_script.train:
  model = %MODEL
  model_dir = %MODEL_DIR
"""
