"""Evaluation examples that are read from TensorFlow once.

A SeqIO evaluator goes over the examples of a task three times in each evaluation: for
the targets, for what metrics look at besides, and for what is logged. Each pass costs a
call into TensorFlow per example, which takes longer than most metrics.
"""

import functools
from collections.abc import Iterator
from typing import Any

MOST_EXAMPLES = 16384
"""More are read again in each pass: a cached dataset is in memory anyway, but to keep an
example of ten features for Python takes 9 kB more."""


def held(dataset: Any) -> Any:
    """A `tf.data.Dataset` of dictionaries, the same to Python in every pass.

    The tensors of the first complete pass are kept and read from then on, unless they
    are too many. Transformations start from the dataset itself.
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
            # Threads that tune what comes out of a cache cost more than they bring.
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
