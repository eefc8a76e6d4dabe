"""`python -m t5x.infer`: writes predictions or scores for a dataset as JSON lines."""

if __name__ == "__main__":
    # Before imports that take seconds.
    import sys

    from t5x.start import macros

    macros.check(sys.argv)

import dataclasses
import functools
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from typing import Any

import jax
from absl import logging
from etils import epath
from jaxaug_base import libraries

from t5x import checks, distributed
from t5x.checkpoint import state_init
from t5x.checkpoint.settings import RestoreCheckpointConfig, with_absolute_path
from t5x.errors import UserError
from t5x.feed import registered, vocabularies
from t5x.feed.registered import DatasetConfig
from t5x.inference import runner
from t5x.inference.output import (
    Inferences,
    MergeFn,
    Origin,
    Position,
    WriteFn,
    check_mode,
    chunk_name,
    facts_of,
    merge_chunks_to_file,
    split_outputs,
    write_inferences_to_file,
)
from t5x.logs.metrics_writer import to_host
from t5x.logs.progress import Work, announce
from t5x.start import gin_config, program


def infer(
    *,
    mode: str,
    model: Any,
    dataset_cfg: DatasetConfig,
    restore_checkpoint_cfg: RestoreCheckpointConfig,
    partitioner: Any,
    output_dir: str,
    checkpoint_period: int,
    shard_id: int = 0,
    num_shards: int = 1,
    merge_chunked_results: bool = True,
    write_fn: WriteFn = write_inferences_to_file,
    checkpoint_ds_iter: bool = True,
    train_state_initializer_cls: Callable[..., Any] = state_init.TrainStateInitializer,
    fallback_init_rng: int | None = None,
    merge_fn: MergeFn = merge_chunks_to_file,
    summarize_config_fn: Callable[..., None] = gin_config.summarize_gin_config,
    verify_matching_vocabs_fn: Callable[..., None]
    | None = vocabularies.verify_matching_vocabs,
    output_vocab_feature_name: str = "targets",
    file_extension: str = "jsonl",
    keep_aux_as_numpy: bool = False,
    use_orbax: bool = True,
    trim_padding: bool = True,
) -> None:
    """Runs inference on every task of a dataset; a rerun resumes an interrupted one.

    The examples are processed in chunks. A chunk is written to a folder
    `tmp-<task>-<shard>` together with the position in the data. At the end the chunks
    are merged into `<output_dir>/<task>-<mode>.<extension>-<shard>-of-<shards>`, and a
    file `....COMPLETED` marks the task as complete.

    Args:
        mode: 'predict' | 'score' | 'predict_with_aux'.
        checkpoint_period: batches per chunk.
        shard_id, num_shards: this job's part of the examples.
        merge_chunked_results: whether to merge the chunks at the end.
        write_fn: (path, (predictions, aux), examples, mode, vocabulary) writes a chunk.
        checkpoint_ds_iter: whether to save the position in the data. If that is
            impossible, existing chunks are still skipped.
        fallback_init_rng: seed for parameters that the checkpoint lacks, if
            RestoreCheckpointConfig.fallback_to_scratch is set.
        merge_fn: (output_dir, file name, tmp_dir, step) merges chunks.
        summarize_config_fn: called with model_dir, summary_writer (None), and step.
        verify_matching_vocabs_fn: raises an error if data and model do not match, or
            None.
        output_vocab_feature_name: feature whose vocabulary decodes predictions.
        keep_aux_as_numpy: whether to leave auxiliary values as arrays.
        use_orbax: without effect; gin files of T5X set it.
        trim_padding: see `runner.get_infer_fn`.

    Raises:
        UserError: the mode is wrong, or there is no such checkpoint or task.
    """
    import seqio

    check_mode(mode)
    if isinstance(output_dir, str):
        # A doubled slash would give one folder two names.
        output_dir = re.sub(r"(?<!:)/{2,}", "/", output_dir)
    output_dir = checks.output_folder("infer.output_dir", output_dir)
    source = registered.task_or_mixture(dataset_cfg)
    restore_cfg, checkpoint = _checkpoint(restore_checkpoint_cfg)
    origins = {}
    for task in seqio.get_subtasks(source):
        origins[task.name] = Origin(
            output_dir,
            chunk_name(task.name, mode, file_extension, shard_id, num_shards),
            f"tmp-{task.name}-{shard_id:05}-of-{num_shards:05}",
            facts_of(checkpoint, dataset_cfg),
            checkpoint_period * dataset_cfg.batch_size,
        )
        origins[task.name].check()
    if shard_id == 0:
        summarize_config_fn(model_dir=output_dir, summary_writer=None, step=0)
    libraries.keep_in(output_dir, jax.process_index())
    if verify_matching_vocabs_fn is not None:
        verify_matching_vocabs_fn(dataset_cfg, model)
    reader = _Reader(
        dataset_cfg,
        model.FEATURE_CONVERTER_CLS(pack=False),
        seqio.ShardInfo(index=shard_id, num_shards=num_shards),
        rows=checkpoint_period * dataset_cfg.batch_size,
    )
    spec = reader.model_spec(source)
    batch_size = dataset_cfg.batch_size
    initializer = train_state_initializer_cls(
        optimizer_def=None,  # The optimizer state is not read.
        init_fn=model.get_initial_variables,
        input_shapes={k: (batch_size, *s.shape) for k, s in spec.items()},
        input_types={k: s.dtype.as_numpy_dtype for k, s in spec.items()},
        partitioner=partitioner,
    )
    if shard_id == 0:
        state_init.log_model_info(
            os.path.join(output_dir, "model-info.txt"),
            initializer.global_train_state_shape,
            partitioner,
        )
    init_rng = (
        None if fallback_init_rng is None else jax.random.PRNGKey(fallback_init_rng)
    )
    train_state, _ = state_init.create_checkpoint_manager_and_restore(
        initializer, partitioner, restore_cfg, checkpoint, init_rng
    )
    steps = {
        "predict": model.predict_batch,
        "predict_with_aux": model.predict_batch_with_aux,
        "score": model.score_batch,
    }
    tasks = list(seqio.get_subtasks(source))
    counts = [reader.count(task) for task in tasks]
    known = [count or 0 for count in counts]
    work = Work("inference", None if None in counts else sum(known))
    infer_fn = runner.get_infer_fn(
        infer_step=steps[mode],
        batch_size=batch_size,
        train_state_axes=initializer.train_state_axes,
        partitioner=partitioner,
        keep_aux_as_numpy=keep_aux_as_numpy,
        trim_padding=trim_padding,
        on_done=work.add,
    )
    for number, task in enumerate(tasks):
        _run_task(
            task,
            origins[task.name],
            reader,
            functools.partial(infer_fn, train_state=train_state),
            mode,
            task.output_features[output_vocab_feature_name].vocabulary,
            write_fn,
            merge_fn if merge_chunked_results else None,
            int(to_host(train_state.step)),
            checkpoint_ds_iter,
            work,
            before=sum(known[:number]),
        )
    announce(f"finished; results are in {output_dir}")


def _checkpoint(cfg: RestoreCheckpointConfig) -> tuple[RestoreCheckpointConfig, str]:
    """Returns the single requested checkpoint and how to restore it."""
    cfg = with_absolute_path(cfg)
    found, paths = state_init.get_first_valid_restore_config_and_paths([cfg])
    if not paths:
        raise UserError(f"No checkpoint found at {cfg.path} (mode {cfg.mode!r}).")
    if len(paths) > 1:
        raise UserError(f"Inference needs one checkpoint, got {list(paths)}.")
    assert found is not None
    return found, paths[0]


@dataclasses.dataclass
class _Reader:
    """Reads the examples of a task in chunks, as task and model features."""

    cfg: DatasetConfig
    converter: Any
    shard_info: Any
    rows: int

    def _task_dataset(self, provider: Any) -> Any:
        splits = getattr(provider, "splits", None)
        if splits and self.cfg.split not in splits:
            raise UserError(
                f"{provider.name!r} has no split {self.cfg.split!r}; it has "
                f"{sorted(splits)}."
            )
        return provider.get_dataset(
            sequence_length=self.cfg.task_feature_lengths,
            split=self.cfg.split,
            shuffle=False,
            num_epochs=1,
            shard_info=self.shard_info,
            use_cached=self.cfg.use_cached,
            seed=self.cfg.seed,
        )

    def count(self, task: Any) -> int | None:
        """Returns the number of examples in this job's shard; None if unknown."""
        try:
            number = task.num_input_examples(self.cfg.split)
        except (ValueError, NotImplementedError, AttributeError):
            number = None
        return None if number is None else -(-number // self.shard_info.num_shards)

    def model_spec(self, provider: Any) -> Any:
        """Returns the shapes of the model features of one example."""
        return self.converter(
            self._task_dataset(provider), self.cfg.task_feature_lengths
        ).element_spec

    def chunks(self, provider: Any) -> Any:
        """Returns padded (chunk number, (task features, model features)) items."""
        import tensorflow as tf

        task_ds = self._task_dataset(provider)
        model_ds = self.converter(
            task_ds, task_feature_lengths=self.cfg.task_feature_lengths
        )
        both = tf.data.Dataset.zip((task_ds, model_ds))
        return both.padded_batch(self.rows, drop_remainder=False).enumerate()


def _run_task(
    task: Any,
    origin: Origin,
    reader: _Reader,
    infer_fn: Callable[..., Any],
    mode: str,
    vocabulary: Any,
    write_fn: WriteFn,
    merge_fn: MergeFn | None,
    step: int,
    save_position: bool,
    work: Work,
    before: int,
) -> None:
    """Runs inference on one task; `before` counts the examples of earlier tasks."""
    name, tmp_dir = origin.name, origin.tmp_dir
    if epath.Path(origin.marker).exists():
        announce(f"{name} is complete already: skipped")
        return
    first = jax.process_index() == 0
    if first:
        epath.Path(tmp_dir).mkdir(parents=True, exist_ok=True)
        origin.note()
    distributed.sync_global_devices(f"{name}:start")

    def finish_chunk(path: str, result: Inferences, examples: Any, move: Any) -> None:
        write_fn(path, result, examples, mode, vocabulary)
        epath.Path(f"{path}.COMPLETED").write_text("")
        if move is not None:
            move()

    count = 0
    # A single thread writes chunks in order while the next one is computed.
    with futures.ThreadPoolExecutor(1) as writer:
        pending: list[futures.Future] = []
        todo = _todo(reader.chunks(task), origin, save_position)
        for chunk, path, examples, model_ds, keep_position in todo:
            work.skip_to(before + chunk * reader.rows)
            rng = jax.random.fold_in(jax.random.PRNGKey(0), chunk)
            result = split_outputs(infer_fn(model_ds, rng=rng))
            count += len(result[0])
            announce(f"{name}: chunk {chunk}, {count:,} examples done")
            if first:
                move = keep_position() if keep_position else None
                pending.append(
                    writer.submit(finish_chunk, path, result, examples, move)
                )
            for done in [f for f in pending if f.done()]:
                done.result()
                pending.remove(done)
            distributed.sync_global_devices(f"{name}:chunk{chunk:05}")
        for future in pending:
            future.result()
    if first:
        if merge_fn is not None:
            merge_fn(origin.output_dir, name, tmp_dir, step)
            epath.Path(tmp_dir).rmtree()
        origin.complete()
    distributed.sync_global_devices(f"{name}:complete")


def _todo(
    chunks: Any, origin: Origin, save_position: bool
) -> Iterator[tuple[int, str, Any, Any, Any]]:
    """Yields chunks without results, each with a function to save the position."""
    import tensorflow as tf

    iterator = iter(chunks)
    position = Position(iterator, origin.tmp_dir) if save_position else None
    if position is not None:
        position.restore()
    for chunk_tensor, (task_batch, model_batch) in iterator:
        chunk = int(chunk_tensor)
        path = os.path.join(origin.tmp_dir, f"{origin.name}-chunk{chunk:05}")
        if epath.Path(f"{path}.COMPLETED").exists() and epath.Path(path).exists():
            logging.info("Chunk %d exists already.", chunk)
            continue
        examples = tf.data.Dataset.from_tensor_slices(task_batch)
        model_ds = tf.data.Dataset.from_tensor_slices(model_batch).enumerate()
        save = functools.partial(position.save, chunk) if position else None
        yield chunk, path, examples, model_ds, save


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


if __name__ == "__main__":
    program.define_flags()
    program.run(lambda: infer)
