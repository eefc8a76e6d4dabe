"""Public names for the import of Mesh TensorFlow checkpoints."""

from t5x.checkpoint.importer import (
    CheckpointTranslator,
    LazyArray,
    TensorFlowSource,
    load_tf_ckpt,
    restore_from_t5_checkpoint,
    t5_importer,
)

__all__ = [
    "CheckpointTranslator",
    "LazyArray",
    "TensorFlowSource",
    "load_tf_ckpt",
    "restore_from_t5_checkpoint",
    "t5_importer",
]
