"""Public names of the models, for gin files and user code."""
# ruff: noqa: F401

from t5x.metrics import MetricsMap
from t5x.model.base_model import (
    BaseModel,
    BaseTransformerModel,
    DecodeFnCallable,
    compute_base_metrics,
    compute_metrics,
    compute_weighted_accuracy,
    count_packed_examples,
    get_input_vocabulary,
    get_output_vocabulary,
)
from t5x.model.decoder_only import DecoderOnlyModel, remove_prefix
from t5x.model.encoder_decoder import DecoderParams, EncoderDecoderModel
