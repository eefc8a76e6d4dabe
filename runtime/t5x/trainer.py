"""Public names of the trainer, for gin files and user code."""
# ruff: noqa: F401

from t5x.logs.metrics_writer import MetricsManager
from t5x.training.actions import (
    ActionMapType,
    ActionMode,
    BaseAction,
    EarlyStoppingAction,
    TerminateOnNanAction,
)
from t5x.training.learning_rate import LearningRateCallable
from t5x.training.step import (
    PartitionedEvalCallable,
    PartitionedTrainCallable,
    WeightMetricsComputer,
    accumulate_grads_microbatched,
    apply_grads,
    eval_step,
    merge_metrics,
    train_with_lr,
)
from t5x.training.trainer import (
    BaseTrainer,
    BaseTrainerConstructor,
    PreemptionError,
    Trainer,
)
