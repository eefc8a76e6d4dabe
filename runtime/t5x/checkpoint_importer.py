"""Public names for the import of Mesh TensorFlow checkpoints."""
# ruff: noqa: F401

from t5x.checkpoint.importer import (
    CheckpointTranslator,
    LazyArray,
    TensorFlowSource,
    load_tf_ckpt,
    restore_from_t5_checkpoint,
    t5_importer,
)
