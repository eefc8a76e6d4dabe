"""Evaluation examples that are read from TensorFlow only once.

In each evaluation, a SeqIO evaluator iterates three times over the examples of a task:
for targets, for other metric inputs, and for logging. Each pass calls TensorFlow once
per example, which takes longer than most metrics.
"""

import functools
from collections.abc import Iterator
from typing import Any

MOST_EXAMPLES = 16384
"""Maximum number of examples to keep; larger datasets are read again in each pass.

A cached dataset is in memory anyway, but a Python copy of an example with ten features
takes another 9 kB.
"""


def held(dataset: Any) -> Any:
    """Returns a `tf.data.Dataset` of dictionaries that Python reads only once.

    The tensors of the first complete pass are kept and reused, unless there are more
    than `MOST_EXAMPLES`. Transformations start from the dataset itself.
    """
    return _held_dataset()(dataset)


@functools.cache
def _held_dataset() -> Any:
    import tensorflow as tf

    class HeldDataset(tf.data.Dataset):
        def __init__(self, dataset: Any):
            self._dataset = dataset
            self._held: list[dict[str, Any]] | None = None
            super().__init__(dataset._variant_tensor)

        def _inputs(self) -> list[Any]:
            return [self._dataset]

        @property
        def element_spec(self) -> Any:
            return self._dataset.element_spec

        def __iter__(self) -> Iterator[dict[str, Any]]:
            if self._held is not None:
                yield from map(dict, self._held)
                return
            # Autotuning of a cached dataset costs more threads than it saves time.
            options = tf.data.Options()
            options.autotune.enabled = False
            found = []
            for number, example in enumerate(self._dataset.with_options(options)):
                if number <= MOST_EXAMPLES:
                    found.append(example)
                yield dict(example)
            if len(found) <= MOST_EXAMPLES:
                self._held = found

    return HeldDataset
