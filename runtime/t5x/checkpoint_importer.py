"""Import of Mesh TensorFlow checkpoints: the page of its public names."""

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
