"""Ad-hoc tasks for inference on user files."""

import functools
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from t5x.errors import UserError


def create_task_from_tfexample_file(
    paths: Sequence[str],
    file_type: str,
    inputs_key: str,
    targets_key: str | None,
    features: Mapping[str, Any],
    task_id: str | None = None,
) -> str:
    """Registers a SeqIO task over TFExample files, with the single split 'infer'.

    Args:
        paths: file patterns.
        file_type: 'tfrecord'.
        inputs_key: feature that holds the input text.
        targets_key: feature that holds the target text, for scoring; or None.
        features: 'inputs' (and 'targets') -> `seqio.Feature`.
        task_id: last part of the name; default: a hash of paths and keys.

    Returns:
        The name of the task, `infer_<task_id>`.

    Raises:
        UserError: no file matches, or the file type is not 'tfrecord'.
    """
    import seqio
    import tensorflow as tf

    if file_type != "tfrecord":
        raise UserError(f"file_type must be 'tfrecord', got {file_type!r}.")
    if not tf.io.gfile.glob(list(paths)):
        raise UserError(f"Missing or invalid paths: {list(paths)}")
    keys = [inputs_key] + ([targets_key] if targets_key else [])
    if task_id is None:
        text = ":".join([*paths, inputs_key, targets_key or ""])
        task_id = hashlib.md5(text.encode()).hexdigest()[:10]
    task = seqio.TaskRegistry.add(
        name=f"infer_{task_id}",
        source=seqio.TFExampleDataSource(
            {"infer": list(paths)},
            feature_description={
                key: tf.io.FixedLenFeature([], tf.string) for key in keys
            },
            reader_cls=tf.data.TFRecordDataset,
        ),
        preprocessors=[
            functools.partial(
                seqio.preprocessors.rekey,
                key_map={"inputs": inputs_key, "targets": targets_key},
            ),
            seqio.preprocessors.tokenize_and_append_eos,
        ],
        output_features=dict(features),
    )
    return task.name
