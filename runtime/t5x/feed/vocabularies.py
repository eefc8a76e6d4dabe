"""Vocabularies of tasks and models."""

import sys
from typing import Any

from t5x.errors import UserError
from t5x.feed.registered import DatasetConfig, import_module, task_or_mixture


def get_vocabulary(cfg: DatasetConfig) -> tuple[Any, Any]:
    """Returns the (input, output) vocabularies of the configured Task or Mixture."""
    features = task_or_mixture(cfg).output_features
    if "inputs" in features and "targets" in features:
        return features["inputs"].vocabulary, features["targets"].vocabulary
    import seqio

    found = [feature.vocabulary for feature in features.values()]
    real = [v for v in found if not isinstance(v, seqio.PassThroughVocabulary)]
    candidates = real or found
    if not candidates:
        raise ValueError(
            f"Task or mixture {cfg.name!r} has no feature with a vocabulary."
        )
    first = candidates[0]
    if any(other != first for other in candidates[1:]):
        raise ValueError(
            f"Task or mixture {cfg.name!r} lacks 'inputs' or 'targets', and its "
            f"features {sorted(features)} have different vocabularies; name them "
            "'inputs' and 'targets'."
        )
    return first, first


def verify_matching_vocabs(cfg: DatasetConfig, model: Any) -> None:
    """Checks that the model and the task have the same vocabularies.

    The embedding of the model must have a row for each of their ids. If seqio was never
    imported, no task can be registered and nothing is compared. This is the case for
    training on a user-defined iterator.

    Raises:
        ValueError: the vocabularies differ, or are larger than the embedding.
    """
    check_rows(model, "MODEL")
    if cfg.module:
        import_module(cfg.module)
    if isinstance(cfg.mixture_or_task_name, str) and "seqio" not in sys.modules:
        return
    inputs, outputs = get_vocabulary(cfg)
    if inputs != model.input_vocabulary or outputs != model.output_vocabulary:
        raise UserError(
            f"The vocabularies of the model and of {cfg.name!r} do not match:\n"
            f"  inputs:  task {inputs}, model {model.input_vocabulary}\n"
            f"  targets: task {outputs}, model {model.output_vocabulary}\n"
            "Give the model (usually the macro VOCABULARY) the vocabulary of the task."
        )


def check_rows(model: Any, source: Any) -> None:
    """Checks that the embedding of a model has a row for each id of its vocabularies.

    Reading a row beyond the table is no error on devices: the last row is used.

    Args:
        model: has `module`, whose `config` may have `vocab_size` and other sizes, and
            `input_vocabulary` and `output_vocabulary`, `vocabulary`, or `tokenizer`.

    Raises:
        UserError: a vocabulary has more ids than the embedding has rows.
    """
    config = getattr(getattr(model, "module", None), "config", None)
    inputs = getattr(config, "vocab_size", None)
    targets = getattr(config, "decoder_vocab_size", None) or inputs
    offset = getattr(config, "id_offset", 0)
    for name, rows in (
        ("vocabulary", inputs),
        ("tokenizer", inputs),
        ("input_vocabulary", inputs),
        ("output_vocabulary", targets),
    ):
        size = getattr(getattr(model, name, None), "vocab_size", None)
        # Vocabularies without pieces, such as SeqIO's for features of ids, have none.
        if isinstance(rows, int) and isinstance(size, int) and size > rows + offset:
            raise UserError(
                f"{source}: its vocabulary has {size - offset} ids, but the embedding "
                f"has {rows} rows. Take the tokenizer that the model was trained with, "
                "or a model with more rows (vocab_size)."
            )


def round_vocab_size_to_multiple(vocabulary: Any, divisor: int = 128) -> int:
    """Returns the vocabulary size rounded up to a multiple of `divisor`."""
    return -(-vocabulary.vocab_size // divisor) * divisor
