"""Configuration of a dataset, shared by all programs."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from t5x import checks
from t5x.errors import UserError

AUTO = "auto"
"""Marks feature lengths that a program derives from its data.

See `start.feature_lengths`.
"""


@dataclasses.dataclass
class DatasetConfig:
    """Configuration of a dataset made from a SeqIO Task or Mixture.

    Attributes:
        mixture_or_task_name: registered name, or a Task or Mixture object. A custom
            `get_dataset_fn` may interpret the name differently.
        task_feature_lengths: maximum length of each feature in tokens. In gin files it
            may be 'auto', which the program replaces at startup.
        split: name of the split.
        batch_size: examples in a global batch (over all processes).
        shuffle: whether the examples are shuffled.
        seed: seed of shuffling and of random preprocessors; None picks a new one.
        use_cached: whether to read the offline cache of the task.
        pack: whether to put several examples into one row.
        use_custom_packing_ops: passed to the feature converter.
        module: module to import first (preferably import it in the gin file).
        use_memory_cache: whether to keep evaluation examples in memory.
        trim_output_features: whether to cut features to `task_feature_lengths`.
        runtime_preprocessors: preprocessors for datasets that apply them at run time;
            SeqIO tasks have their own.
        num_prefetch_threads, num_workers: hints for custom `get_dataset_fn` functions.

    Raises:
        UserError: the batch size or a length is not a positive whole number.
    """

    mixture_or_task_name: Any
    task_feature_lengths: Any
    split: str
    batch_size: int
    shuffle: bool
    seed: int | None
    use_cached: bool = False
    pack: bool = False
    use_custom_packing_ops: bool = False
    module: str | None = None
    use_memory_cache: bool = True
    trim_output_features: bool = True
    runtime_preprocessors: Sequence[Any] | None = None
    num_prefetch_threads: int | None = None
    num_workers: int | None = 0

    def __post_init__(self) -> None:
        checks.whole_number("DatasetConfig.batch_size", self.batch_size, least=1)
        name, lengths = "DatasetConfig.task_feature_lengths", self.task_feature_lengths
        if lengths is None or lengths == AUTO:
            return
        if not isinstance(lengths, Mapping):
            raise UserError(
                f"{name} = {lengths!r}: give a length for each feature, such as "
                "{'inputs': 512, 'targets': 64}, 'auto' or None."
            )
        for feature, length in lengths.items():
            # SeqIO allows tuples for features with several axes, and None for any
            # length.
            if length is not None and not isinstance(length, (tuple, list)):
                checks.whole_number(f"{name}[{feature!r}]", length, least=1)

    @property
    def name(self) -> str:
        """Name of the task or mixture, also if an object is given."""
        given = self.mixture_or_task_name
        return given if isinstance(given, str) else getattr(given, "name", str(given))
