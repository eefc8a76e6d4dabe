"""Public names of `t5x.utils`; the code is in modules named by role.

`TensorBoardLogger` is seqio's logger of that name, which needs no TensorBoard here.
"""
# ruff: noqa: F401

from collections.abc import Callable, Sequence
from typing import Any

from absl import app

from t5x.checkpoint.retention import (
    find_first_checkpoint_step,
    find_next_checkpoint_step,
)
from t5x.checkpoint.settings import (
    CheckpointConfig,
    RestoreCheckpointConfig,
    SaveCheckpointConfig,
)
from t5x.checkpoint.state_init import (
    InitFnCallable,
    LegacyCheckpointManager,
    TrainStateInitializer,
    create_checkpoint_manager_and_restore,
    create_orbax_checkpoint_manager,
    get_fallback_state,
    get_first_valid_restore_config_and_paths,
    log_model_info,
    restore,
)
from t5x.distributed import get_local_data, multihost_assert_equal, sync_global_devices
from t5x.feed.datasets import (
    GetDatasetCallable,
    GetEvalDatasetCallable,
    get_dataset,
    get_dataset_inner,
    get_training_eval_datasets,
    get_zeros_batch_like_dataset,
    get_zeros_batch_like_spec,
)
from t5x.feed.iterators import (
    PrefetchIterator,
    ShardedDatasetIterator,
    prepare_train_iter,
)
from t5x.feed.registered import DatasetConfig, import_module
from t5x.feed.vocabularies import (
    get_vocabulary,
    round_vocab_size_to_multiple,
    verify_matching_vocabs,
)
from t5x.inference.evaluator import EvaluatorConstructor, TensorBoardLogger
from t5x.inference.runner import InferFnCallable, get_infer_fn
from t5x.state_utils import flatten as flatten_dict_string_keys
from t5x.train_state import override_params_axes_names, set_hardware_rng_ops
from t5x.training.learning_rate import (
    LearningRateCallable,
    create_learning_rate_scheduler,
)


def run_main(
    main: Callable[[Sequence[str]], Any],
    flags_parser: Callable[[Sequence[str]], Sequence[str]],
) -> None:
    """Runs a main function under absl with its own flags parser."""
    app.run(main, flags_parser=flags_parser)
