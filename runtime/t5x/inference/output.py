"""Results of inference: JSON lines in chunks, their origin, and the data position."""

import dataclasses
import itertools
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from absl import logging
from etils import epath
from jaxaug_base.files import naming, read_json, replacing

from t5x.errors import UserError

# (predictions, auxiliary values)
Inferences = tuple[Sequence[Any], Mapping[str, Any]]
WriteFn = Callable[[str, Inferences, Any, str, Any], None]
MergeFn = Callable[[str, str, str, int | None], None]

MODES = ("predict", "score", "predict_with_aux")


def check_mode(mode: str) -> None:
    """Raises UserError for an unknown mode."""
    if mode not in MODES:
        raise UserError(
            "`mode` must be one of 'predict', 'score' or 'predict_with_aux'. "
            f"Got '{mode}'"
        )


def write_inferences_to_file(
    path: str,
    inferences: Inferences,
    task_ds: Any,
    mode: str,
    vocabulary: Any = None,
    json_encoder_cls: type[json.JSONEncoder] | None = None,
    include_all_inputs: bool = False,
    input_fields_to_include: Sequence[str] | None = None,
    output_ids: bool = False,
) -> None:
    """Writes one JSON object per example.

    Args:
        inferences: (predictions, auxiliary values): token ids, or scores.
        task_ds: the examples, a `tf.data.Dataset` or an iterable of dicts.
        vocabulary: decodes token ids; needed for predictions.
        json_encoder_cls: encoder; None means seqio's encoder, which supports arrays.
        include_all_inputs: whether to write all features instead of only those named
            *_pretokenized.
        input_fields_to_include: features to write (with their pretokenized forms).
        output_ids: whether to write the token ids as well.

    Raises:
        UserError: the mode is wrong, the vocabulary is missing, or both choices of
            inputs are set.
    """
    check_mode(mode)
    if mode != "score" and vocabulary is None:
        raise UserError(
            "The `vocabulary` parameter is required in `predict` and "
            "`predict_with_aux` modes"
        )
    if include_all_inputs and input_fields_to_include is not None:
        raise UserError(
            "include_all_inputs and input_fields_to_include should not be set "
            "simultaneously."
        )
    if json_encoder_cls is None:
        import seqio

        json_encoder_cls = seqio.TensorAndNumpyEncoder
    predictions, aux = inferences
    examples = (
        task_ds.as_numpy_iterator()
        if hasattr(task_ds, "as_numpy_iterator")
        else task_ds
    )
    with replacing(path) as temporary, temporary.open("w") as file:
        for i, example in enumerate(examples):
            names = _chosen(example, include_all_inputs, input_fields_to_include)
            line: dict[str, Any] = {"inputs": {k: _plain(example[k]) for k in names}}
            if mode == "score":
                line["score"] = _plain(predictions[i])
            else:
                line["prediction"] = _text(vocabulary, predictions[i])
                if output_ids:
                    ids = np.asarray(predictions[i]).tolist()
                    line["prediction_tokens"] = list(itertools.takewhile(bool, ids))
            if aux and mode != "predict":
                line["aux"] = jax.tree.map(
                    lambda v, i=i: _plain(v[i]),
                    aux,
                    is_leaf=lambda v: isinstance(v, (np.ndarray, list)),
                )
            file.write(json.dumps(line, cls=json_encoder_cls) + "\n")


def _chosen(
    example: Mapping[str, Any], everything: bool, fields: Sequence[str] | None
) -> list[str]:
    if everything:
        return list(example)
    if fields is not None:
        return [k for k in example if k.removesuffix("_pretokenized") in fields]
    return [k for k in example if k.endswith("_pretokenized")]


def _plain(value: Any) -> Any:
    """Converts bytes and numpy and jax values to JSON types."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (np.ndarray, np.generic, jax.Array)):
        array = np.asarray(value)
        if array.dtype == object:
            return _plain(array.tolist())
        return array.astype(float).item() if array.ndim == 0 else array.tolist()
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return value


def _text(vocabulary: Any, ids: Any) -> Any:
    """Returns the text of the ids, cut after the first end-of-sequence token."""
    import tensorflow as tf

    return _plain(vocabulary.decode_tf(tf.constant(ids)).numpy())


def merge_chunks_to_file(
    output_dir: str, output_fname: str, tmp_dir: str, step: int | None
) -> None:
    """Joins the chunk files of a task; raises FileNotFoundError if none exist."""
    del step
    pattern = re.compile(re.escape(output_fname) + r"-chunk(\d{5,})")
    chunks = {}
    for path in epath.Path(tmp_dir).iterdir():
        if found := pattern.fullmatch(path.name):
            chunks[int(found.group(1))] = path
    if not chunks:
        raise FileNotFoundError(
            f"No chunk results found in {tmp_dir}: did the input contain any examples?"
        )
    missing = sorted(set(range(max(chunks) + 1)) - set(chunks))
    if missing:
        raise UserError(
            f"Chunks {missing} of {output_fname} are missing in {tmp_dir}; delete that "
            "folder and run inference again."
        )
    target = epath.Path(output_dir) / output_fname
    with replacing(target) as temporary, temporary.open("wb") as merged:
        for number in sorted(chunks):
            with chunks[number].open("rb") as chunk:
                shutil.copyfileobj(chunk, merged)


def split_outputs(outputs: Any) -> Inferences:
    """Splits the result of an `infer_fn`: (predictions in order, auxiliary values)."""
    indexed, aux = outputs if isinstance(outputs, tuple) else (outputs, {})
    return [prediction for _, prediction in indexed], aux


def chunk_name(
    task: str, mode: str, extension: str, shard_id: int, num_shards: int
) -> str:
    """Returns the name of the output file of one shard."""
    return f"{task}-{mode}.{extension}-{shard_id:05}-of-{num_shards:05}"


_FILE = "origin.json"


@dataclasses.dataclass(frozen=True)
class Origin:
    """Origin of the results of one task.

    Finished chunks and complete tasks are not computed again, so they must come from
    the same checkpoint and the same data.

    Attributes:
        facts: JSON values on which the results depend.
        rows: examples per chunk.
    """

    output_dir: str
    name: str
    chunks: str
    facts: Mapping[str, Any]
    rows: int

    @property
    def marker(self) -> str:
        """Path of the file that marks the task as complete."""
        return os.path.join(self.output_dir, f"{self.name}.COMPLETED")

    @property
    def tmp_dir(self) -> str:
        """Path of the folder of chunks."""
        return os.path.join(self.output_dir, self.chunks)

    def check(self) -> None:
        """Compares the origin with the origin of existing results, if it is noted."""
        self._compare(_read(epath.Path(self.marker)), self.marker)
        folder = epath.Path(self.tmp_dir)
        known = _read(folder / _FILE)
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        if not any(name.endswith(".COMPLETED") for name in names):
            return
        self._compare(known, self.tmp_dir)
        rows = known.get("rows", self.rows)
        has_position = any(name.startswith("input.ckpt") for name in names)
        if rows != self.rows and not has_position:
            raise UserError(
                f"{self.tmp_dir}: its chunks have {rows} examples, those of this job "
                f"{self.rows} (checkpoint_period * batch size), and the position in "
                "the data was not saved. Go on with the old values, or remove the "
                "folder."
            )

    def _compare(self, known: Mapping[str, Any], place: str) -> None:
        for name, value in self.facts.items():
            if known.get(name, value) != value:
                raise UserError(
                    f"{place}: results of {name} {known[name]!r:.80}, this job has "
                    f"{value!r:.80}. "
                    "Name another output_dir, or remove the old results."
                )

    def note(self) -> None:
        """Writes the origin next to the chunks."""
        text = json.dumps({**self.facts, "rows": self.rows})
        with naming(os.path.join(self.tmp_dir, _FILE)):
            epath.Path(self.tmp_dir, _FILE).write_text(text)

    def complete(self) -> None:
        """Marks the task as complete."""
        with naming(self.marker):
            epath.Path(self.marker).write_text(json.dumps(self.facts))


def _read(path: epath.Path) -> Mapping[str, Any]:
    if not path.exists():
        return {}
    try:
        found = read_json(path)
    except ValueError:  # Older versions and T5X write empty files.
        return {}
    return found if isinstance(found, dict) else {}


def facts_of(checkpoint: str, dataset_cfg: Any) -> Mapping[str, Any]:
    """Returns the facts on which results depend: checkpoint, split, and lengths."""
    local = "://" not in checkpoint
    facts = {
        "checkpoint": os.path.normpath(checkpoint) if local else checkpoint,
        "split": dataset_cfg.split,
        "lengths": dataset_cfg.task_feature_lengths,
    }

    # Equal to what is read back: JSON turns tuples into lists and gin mappings into
    # objects.
    def plain(value: Any) -> Any:
        return dict(value) if isinstance(value, Mapping) else str(value)

    return json.loads(json.dumps(facts, default=plain))


class Position:
    """Position in the data, saved as a TensorFlow checkpoint `<tmp_dir>/input.ckpt`."""

    def __init__(self, iterator: Any, tmp_dir: str):
        import tensorflow as tf

        self._checkpoint = tf.train.Checkpoint(ds=iterator)
        self._folder = epath.Path(tmp_dir)
        self._usable = True

    def restore(self) -> None:
        """Moves to the saved position, if there is one."""
        if any(self._folder.glob("input.ckpt*")):
            prefix = os.fspath(self._folder / "input.ckpt")
            self._checkpoint.read(prefix).assert_consumed()

    def save(self, chunk: int) -> Callable[[], None] | None:
        """Saves the position; the returned function makes it the one to restore.

        Returns None if the position cannot be saved.
        """
        import tensorflow as tf

        if not self._usable:
            return None
        prefix = os.fspath(self._folder / f"{chunk}.ckpt")
        try:
            self._checkpoint.write(prefix)
        except (tf.errors.FailedPreconditionError, tf.errors.UnimplementedError):
            self._usable = False
            logging.warning(
                "The position in the data cannot be saved (its source is a Python "
                "generator); after a stop the finished chunks are skipped one by one."
            )
            for path in self._folder.glob(f"{chunk}.ckpt*"):
                path.unlink()
            return None

        def move() -> None:
            for path in self._folder.glob(f"{chunk}.ckpt*"):
                suffix = path.name.removeprefix(f"{chunk}.ckpt")
                path.replace(self._folder / f"input.ckpt{suffix}")

        return move
