"""Public names of decoding, for gin files and user code."""
# ruff: noqa: F401

from t5x.search.beam_search import beam_init, beam_search, brevity_penalty
from t5x.search.decode_state import (
    NEG_INF,
    NEG_INF_VALUE,
    BeamState,
    DecodingState,
    SamplingLoopState,
    add_beam_dim,
    cache_gather_beams,
    cache_map,
    flat_batch_beam_expand,
    flatten_beam_dim,
    gather_beams,
    gather_topk_beams,
    share_history,
    top_k_two_stage,
    unflatten_beam_dim,
)
from t5x.search.temperature_sample import (
    MIN_TEMPERATURE,
    LogitCallbackFn,
    StateCallbackFn,
    temperature_sample,
)
