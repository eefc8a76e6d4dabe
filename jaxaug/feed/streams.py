"""Batches in the order and the layout of SeqIO, from tokenised caches.

What `jaxaug.feed.replay` draws is cut, packed and laid out as SeqIO's encoder-decoder
features, to the bit, and without TensorFlow. Rows are fuller with `packing.OpenRows`.
"""

import json
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath
from jaxtyping import Int

from jaxaug.core import cache_folder
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_json, shown, write_text
from jaxaug.feed.batches import ArraySpec, TokenCache
from jaxaug.feed.cache import RecordCache
from jaxaug.feed.packing import OpenRows

_EOS = 1
_FEATURES = ("inputs", "targets")
_FIX = "Start the data anew by not restoring the dataset."


def lines_of(records: RecordCache, shard: tuple[int, int] = (0, 1)) -> list[range]:
    """The numbers of the examples in each file that a host reads.

    Args:
      records: the cache.
      shard: (index, number) of this host.
    """
    counts = []
    for path in records.paths:
        with cache_folder.reading(path):
            counts.append(epath.Path(path).read_bytes().count(b"\n"))
    ends = np.cumsum([0, *counts]).tolist()
    files = [range(ends[n], ends[n + 1]) for n in range(len(counts))]
    return files[shard[0] :: shard[1]]


class StreamBatches:
    """Endless batches of a stream of examples; can be saved and restored.

    A batch is a dict of int32 arrays [batch, length]: encoder_input_tokens,
    decoder_target_tokens, decoder_input_tokens, decoder_loss_weights; and with packing
    encoder_segment_ids, encoder_positions, decoder_segment_ids, decoder_positions.
    """

    def __init__(
        self,
        stream: Any,
        caches: Sequence[TokenCache],
        lengths: Mapping[str, int],
        batch_size: int,
        pack: bool,
        identity: Mapping[str, Any],
        open_rows: int = 1,
    ):
        """Prepares the iterator.

        Args:
          stream: yields (number of the cache, number of the example), see
            `jaxaug.feed.replay`.
          caches: where the examples are.
          lengths: of `inputs` and `targets`, end of sequence included. Longer inputs
            lose their left end, longer targets their right end.
          batch_size: rows of a batch of this host.
          pack: whether a row holds as many examples as follow each other into it.
          identity: what the order depends on; a saved position must have the same.
          open_rows: rows that packing chooses from, see `packing.OpenRows`; with 1 the
            batches are SeqIO's.
        """
        self._stream, self._caches = stream, list(caches)
        self._lengths = {name: lengths[name] for name in _FEATURES}
        self._batch_size, self._pack = batch_size, pack
        self._num_open = open_rows if pack else 1
        self._open = OpenRows(self._lengths, self._num_open)
        self._identity = json.loads(
            json.dumps(
                {
                    **identity,
                    "caches": [item.name for item in caches],
                    "lengths": self._lengths,
                    "batch_size": batch_size,
                    "pack": self._num_open if self._num_open > 1 else pack,
                }
            )
        )
        self._start = json.dumps(stream.state())
        # Rows of examples that are drawn but not in a batch yet.
        self._rows: deque[list[list[int]]] = deque()

    @property
    def element_spec(self) -> dict[str, ArraySpec]:
        """Shape and type of every array of a batch."""
        kinds = {"encoder": "inputs", "decoder": "targets"}
        names = [
            ("encoder", "input_tokens"),
            *(
                ("decoder", n)
                for n in ("target_tokens", "input_tokens", "loss_weights")
            ),
        ]
        if self._pack:
            names += [(k, n) for k in kinds for n in ("segment_ids", "positions")]
        return {
            f"{kind}_{name}": ArraySpec(
                (self._batch_size, self._lengths[kinds[kind]]), np.dtype(np.int32)
            )
            for kind, name in names
        }

    def __iter__(self) -> "StreamBatches":
        return self

    def __next__(self) -> dict[str, np.ndarray]:
        while len(self._rows) < self._batch_size:
            self._draw()
        batch = {
            name: np.zeros(spec.shape, spec.dtype)
            for name, spec in self.element_spec.items()
        }
        for number in range(self._batch_size):
            self._fill(batch, number, self._rows.popleft())
        return batch

    def examples_per_row(self, rows: int) -> float:
        """Mean number of examples in the next rows, which are then used up.

        The first rows to close are fuller than later ones. They are not counted.

        Args:
          rows: number of rows to count.
        """
        first = 10 * self._num_open if self._num_open > 1 else 0
        counts: list[int] = []
        while len(counts) < first + rows:
            while not self._rows:
                self._draw()
            counts.append(len(self._rows.popleft()))
        return float(np.mean(counts[first:]))

    def _draw(self) -> None:
        if not self._pack:
            self._rows.append([list(next(self._stream))])
            return
        if self._num_open > 1:
            example = list(next(self._stream))
            closed = self._open.add(example, self._sizes(example))
            self._rows.extend([closed] if closed else [])
            return
        # SeqIO packs chunks of as many examples as the longest feature has tokens.
        row: list[list[int]] = []
        free = dict(self._lengths)
        for _ in range(max(self._lengths.values())):
            example = list(next(self._stream))
            sizes = self._sizes(example)
            if any(sizes[name] > free[name] for name in _FEATURES):
                self._rows.append(row)
                row, free = [], dict(self._lengths)
            row.append(example)
            for name in _FEATURES:
                free[name] -= sizes[name]
        self._rows.append(row)

    def _sizes(self, example: list[int]) -> dict[str, int]:
        return {name: len(self._tokens(name, *example)) for name in _FEATURES}

    def _tokens(self, name: str, cache: int, example: int) -> Int[np.ndarray, " n"]:
        tokens = self._caches[cache].get(name, example)
        limit = self._lengths[name] - 1
        if name == "inputs":
            # The last turns are at the right end.
            tokens = tokens[max(len(tokens) - limit, 0) :]
        return np.append(tokens[:limit], _EOS)

    def _fill(
        self, batch: Mapping[str, np.ndarray], number: int, row: list[list[int]]
    ) -> None:
        for name, kind in zip(_FEATURES, ("encoder", "decoder"), strict=True):
            main = batch[f"{kind}_{'input' if kind == 'encoder' else 'target'}_tokens"]
            start = 0
            for segment, example in enumerate(row, 1):
                tokens = self._tokens(name, *example)
                place = slice(start, start + len(tokens))
                main[number, place] = tokens
                if kind == "decoder":
                    # Rows of one example keep the end of sequence, as in SeqIO.
                    end = place.stop if self._pack else len(main[number])
                    shifted = batch["decoder_input_tokens"][number]
                    shifted[start + 1 : end] = main[number, start : end - 1]
                    batch["decoder_loss_weights"][number, place] = 1
                if self._pack:
                    batch[f"{kind}_segment_ids"][number, place] = segment
                    batch[f"{kind}_positions"][number, place] = np.arange(len(tokens))
                start = place.stop

    def reset(self) -> None:
        """Starts again from the first batch."""
        self._stream.restore(json.loads(self._start))
        self._rows.clear()
        self._open = OpenRows(self._lengths, self._num_open)

    def save(self, path: PathLike) -> None:
        """Writes the position to the file `path` + `.json`."""
        state = {
            "identity": self._identity,
            "rows": list(self._rows),
            "open": self._open.state(),
            "stream": self._stream.state(),
        }
        write_text(f"{path}.json", json.dumps(state))

    def restore(self, path: PathLike) -> None:
        """Continues where the iterator that wrote `path` stood.

        Raises:
          UserError: the file is missing or damaged, or comes from other data or other
            settings.
        """
        source = f"{path}.json"
        state = read_json(source, _FIX)
        state = state if isinstance(state, dict) else {}
        identity = state.get("identity")
        if not isinstance(identity, dict):
            raise UserError(f"{source}: is no saved position of this feed. {_FIX}")
        for name in sorted({*identity, *self._identity}):
            if identity.get(name) != self._identity.get(name):
                raise UserError(
                    f"{source}: was saved with {name} {shown(identity.get(name))}, this "
                    f"run has {shown(self._identity.get(name))}. Use the same settings, "
                    "or do not restore the dataset."
                )
        try:
            self._stream.restore(state["stream"])
            self._rows = deque(state["rows"])
            if self._num_open > 1:
                self._open.restore(state["open"])
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise UserError(
                f"{source}: is no saved position of this feed ({error}). {_FIX}"
            ) from error
