"""Batches from tokenised caches: seeded, resumable, without TensorFlow.

All hosts walk through one order of examples, of which a global batch is a piece; each
host takes its rows of it. So the order does not depend on the number of hosts, and all
of them end at the same batch. The state of the iterator is one counter per cache.
Batches have the features that encoder-decoder models of T5X take.
"""

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_json, shown, write_text

_BLOCK = 1024
_EOS = 1
_ORDER = 2  # Part of a saved position: raise it when the same seed gives another order.
_MOST = 2**62  # Examples that can be counted; nobody reads so many.
_EXAMPLES, _CHOICES = 0, 1  # Second number of a seed: what is drawn with it.


@dataclass(frozen=True, slots=True)
class TokenCache:
    """Token ids of a record cache, in its order, without end of sequence.

    Example i of field f is `ids[f][offsets[f][i]:offsets[f][i + 1]]`.
    """

    name: str
    ids: Mapping[str, Int[np.ndarray, " tokens"]]
    offsets: Mapping[str, Int[np.ndarray, " examples+1"]]

    def __len__(self) -> int:
        return len(self.offsets["inputs"]) - 1

    def get(self, field: str, index: int) -> Int[np.ndarray, " length"]:
        """Tokens of one field of one example."""
        start, stop = self.offsets[field][index : index + 2]
        return self.ids[field][start:stop]


class ArraySpec(NamedTuple):
    """Shape and type of one array of a batch."""

    shape: tuple[int, ...]
    dtype: np.dtype


def known_to_clu(batches: Any) -> Any:
    """The same batches; clu then counts their class among its `DatasetIterator`s.

    Upstream T5X takes no other data from a `get_dataset_fn`. clu needs JAX, and these
    batches do not: where it cannot be imported, nobody asks.
    """
    with contextlib.suppress(ImportError):
        from clu.data import dataset_iterator

        dataset_iterator.DatasetIterator.register(type(batches))
    return batches


class TokenBatches:
    """Endless (or counted) batches from tokenised caches; can be saved and restored.

    The order is a function of the arguments alone. With several caches each example
    comes from a cache drawn by the rates. A batch is a dict of int32 arrays
    [batch, length]: encoder_input_tokens, decoder_target_tokens, decoder_input_tokens
    (targets shifted right) and decoder_loss_weights (1 on real targets).
    """

    def __init__(
        self,
        caches: Sequence[TokenCache],
        lengths: Mapping[str, int],
        batch_size: int,
        *,
        rates: Sequence[float] | None = None,
        seed: int = 0,
        shuffle: bool = True,
        shard: tuple[int, int] = (0, 1),
        num_epochs: int | None = None,
    ):
        """Prepares the iterator.

        Args:
          caches: where examples come from.
          lengths: of `inputs` and `targets`, end of sequence included. Longer inputs
            lose their left end, longer targets their right end.
          batch_size: examples in a batch of this host.
          rates: relative frequency of each cache; None is equal.
          seed: of the order.
          shuffle: whether each epoch is in a new random order.
          shard: (index, number) of this host among those that share the data.
          num_epochs: stop when a cache was read so often; None is never. What does
            not fill a batch of every host is left out.

        Raises:
          UserError: a cache has fewer examples than there are hosts, or the seed is
            negative.
        """
        self._caches = list(caches)
        self._lengths = dict(lengths)
        self._batch_size = batch_size
        rates = [1.0] * len(self._caches) if rates is None else list(rates)
        self._rates = np.asarray(rates, float) / sum(rates)
        self._seed, self._shuffle, self._shard = seed, shuffle, shard
        self._num_epochs = num_epochs
        if seed < 0:
            raise UserError(f"seed {seed} of the data order: use 0 or more.")
        for item in self._caches:
            if len(item) < shard[1]:
                raise UserError(
                    f"tokenised cache {item.name} has {len(item)} examples for "
                    f"{shard[1]} hosts. Use at most one host per example."
                )
        self._drawn = [0] * len(self._caches)
        self._orders: dict[int, tuple[int, np.ndarray]] = {}
        self._choices: tuple[int, np.ndarray] = (-1, np.zeros(0, int))
        self._peeked: tuple[dict[str, np.ndarray], list[int]] | None = None

    @property
    def element_spec(self) -> dict[str, ArraySpec]:
        """Shape and type of every array of a batch."""
        encoder = ArraySpec(
            (self._batch_size, self._lengths["inputs"]), np.dtype(np.int32)
        )
        decoder = ArraySpec(
            (self._batch_size, self._lengths["targets"]), np.dtype(np.int32)
        )
        return {
            "encoder_input_tokens": encoder,
            "decoder_target_tokens": decoder,
            "decoder_input_tokens": decoder,
            "decoder_loss_weights": decoder,
        }

    def __iter__(self) -> "TokenBatches":
        return self

    def __next__(self) -> dict[str, np.ndarray]:
        if self._peeked is not None:
            batch, _ = self._peeked
            self._peeked = None
            return batch
        examples = self._draw()
        batch = {
            name: np.zeros(spec.shape, spec.dtype)
            for name, spec in self.element_spec.items()
        }
        for row, (inputs, targets) in enumerate(examples):
            batch["encoder_input_tokens"][row, : len(inputs)] = inputs
            batch["decoder_target_tokens"][row, : len(targets)] = targets
            batch["decoder_loss_weights"][row, : len(targets)] = 1
        # The end of sequence is shifted, too, as SeqIO does: nothing learns from it.
        targets = batch["decoder_target_tokens"]
        batch["decoder_input_tokens"][:, 1:] = targets[:, :-1]
        return batch

    def peek(self) -> dict[str, np.ndarray]:
        """The next batch, which stays the next one."""
        if self._peeked is None:
            before = list(self._drawn)
            self._peeked = (next(self), before)
        return self._peeked[0]

    def reset(self) -> None:
        """Starts again from the first batch."""
        self._drawn = [0] * len(self._caches)
        self._peeked = None

    def save(self, path: PathLike) -> None:
        """Writes the position to the file `path` + `.json`."""
        drawn = self._peeked[1] if self._peeked else self._drawn
        state = {"drawn": drawn, "stream": self._stream()}
        write_text(f"{path}.json", json.dumps(state))

    def restore(self, path: PathLike) -> None:
        """Continues where the iterator that wrote `path` stood.

        Raises:
          UserError: the file is missing or damaged, or comes from other data, another
            seed, batch size, length or number of hosts.
        """
        source, fix = (
            f"{path}.json",
            "Start the data anew by not restoring the dataset.",
        )
        state = read_json(source, fix)
        state = state if isinstance(state, dict) else {}
        drawn, stream = state.get("drawn"), state.get("stream")
        if not isinstance(drawn, list) or not isinstance(stream, dict):
            raise UserError(
                f"{source}: is no saved position of a token iterator. {fix}"
            )
        ours = self._stream()
        for name in sorted({*ours, *stream}):
            if name not in ours or stream.get(name) != ours[name]:
                raise UserError(
                    f"{source}: was saved with {shown(name)} {shown(stream.get(name))}, "
                    f"this run has {shown(ours.get(name))}. Use the same settings, or do "
                    "not restore the dataset."
                )
        if (
            len(drawn) != len(self._caches)
            or not all(type(count) is int and count >= 0 for count in drawn)
            or sum(drawn) > _MOST
        ):
            raise UserError(
                f"{source}: is no saved position of a token iterator: {shown(drawn)} "
                f"are no numbers of examples of {len(self._caches)} caches. {fix}"
            )
        self._drawn, self._peeked = drawn, None

    def _stream(self) -> dict[str, Any]:
        """What the order depends on."""
        return {
            "order": _ORDER,
            "caches": [item.name for item in self._caches],
            "rates": self._rates.tolist(),
            "lengths": self._lengths,
            "batch_size": self._batch_size,
            "seed": self._seed,
            "shuffle": self._shuffle,
            "shard": list(self._shard),
        }

    def _draw(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """(inputs, targets) of the rows that this host has of the next global batch."""
        shard, shards = self._shard
        caches = len(self._caches)
        chosen = self._choose(sum(self._drawn), self._batch_size * shards)
        drawn = np.add(self._drawn, np.bincount(chosen, minlength=caches)).tolist()
        if self._num_epochs is not None and any(
            count > self._num_epochs * len(item)
            for count, item in zip(drawn, self._caches, strict=True)
        ):
            raise StopIteration
        first = shard * self._batch_size
        # Of every cache, how many examples come before these rows.
        place = np.add(self._drawn, np.bincount(chosen[:first], minlength=caches))
        examples = []
        for which in chosen[first : first + self._batch_size]:
            examples.append(self._example(int(which), int(place[which])))
            place[which] += 1
        self._drawn = drawn
        return examples

    def _example(self, which: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The example of a cache that is its number `count` in the order."""
        item, index = self._caches[which], self._index(which, count)
        # Room for the end of sequence; inputs keep their end, where the last turn is.
        limit = self._lengths["inputs"] - 1
        inputs = item.get("inputs", index)
        inputs = inputs[max(len(inputs) - limit, 0) :]
        targets = item.get("targets", index)[: self._lengths["targets"] - 1]
        return np.append(inputs, _EOS), np.append(targets, _EOS)

    def _choose(self, position: int, number: int) -> Int[np.ndarray, " number"]:
        """The caches that examples `position`, `position + 1`, ... come from."""
        if len(self._caches) == 1:
            return np.zeros(number, int)
        first, offset = divmod(position, _BLOCK)
        blocks = -(-(offset + number) // _BLOCK)
        drawn = [self._block(first + index) for index in range(blocks)]
        return np.concatenate(drawn)[offset : offset + number]

    def _block(self, block: int) -> Int[np.ndarray, " block"]:
        if self._choices[0] != block:
            generator = np.random.default_rng((self._seed, _CHOICES, block))
            drawn = generator.choice(len(self._caches), _BLOCK, p=self._rates)
            self._choices = (block, drawn)
        return self._choices[1]

    def _index(self, which: int, count: int) -> int:
        """The example of a cache that is its number `count` in the order."""
        size = len(self._caches[which])
        epoch, offset = divmod(count, size)
        if not self._shuffle:
            return offset
        known = self._orders.get(which)
        if known is None or known[0] != epoch:
            generator = np.random.default_rng((self._seed, _EXAMPLES, which, epoch))
            known = (epoch, generator.permutation(size))
            self._orders[which] = known
        return int(known[1][offset])
