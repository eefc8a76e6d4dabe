"""Evaluation by decoding or scoring: a SeqIO evaluator around a model."""

import functools
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from typing import Any, Self

import jax
from etils import epath
from jaxaug_base.files import replacing

from t5x.feed import registered
from t5x.feed.datasets import unpacked_of
from t5x.feed.iterators import in_thread, is_tf_dataset
from t5x.feed.registered import DatasetConfig
from t5x.feed.vocabularies import verify_matching_vocabs
from t5x.inference.runner import get_infer_fn
from t5x.logs.metrics_writer import TensorBoardWriter, to_host, write_values

# Kinds of task metrics; each kind needs one pass over the examples.
_METRIC_FNS = ("predict_metric_fns", "predict_with_aux_metric_fns", "score_metric_fns")


EvaluatorConstructor = Callable[..., Any]
"""Constructor of an evaluator, such as `seqio.Evaluator`.

It is called by keyword with `mixture_or_task_name`, `feature_converter`, `eval_split`,
`use_cached`, `seed`, `sequence_length`, and `use_memory_cache`; and with `log_dir` if
results are written, or else with `logger_cls=()`.
"""


class InferenceEvaluator:
    """Evaluates a train state on a SeqIO Task or Mixture.

    Attributes:
        on_done: called with the number of examples whenever some are predicted.
    """

    def __init__(
        self,
        infer_eval_dataset_cfg: DatasetConfig,
        inference_evaluator_cls: EvaluatorConstructor | None,
        model: Any,
        partitioner: Any,
        log_dir: str | None = None,
        verify_matching_vocabs_fn: Callable[..., None] | None = verify_matching_vocabs,
        trim_padding: bool = True,
    ):
        """Loads the evaluation data.

        Results go to `<log_dir>/inference_eval`; None writes no results. The evaluator
        is `seqio.Evaluator` if no class is given. For `trim_padding` see
        `get_infer_fn`.
        """
        if inference_evaluator_cls is None:
            import seqio

            inference_evaluator_cls = seqio.Evaluator
        if "seqio" in sys.modules:
            registered.names()  # The evaluator looks up its tasks itself.
        if verify_matching_vocabs_fn is not None and hasattr(model, "input_vocabulary"):
            verify_matching_vocabs_fn(
                registered.resolved(infer_eval_dataset_cfg, inference_evaluator_cls),
                model,
            )
        logs: dict[str, Any] = {"logger_cls": ()}
        if log_dir:
            folder = os.path.join(log_dir, "inference_eval")
            # Some loggers (JSONLogger) do not create the folder.
            epath.Path(folder).mkdir(parents=True, exist_ok=True)
            logs = {"log_dir": folder}
        cfg = infer_eval_dataset_cfg
        self._cfg = cfg
        self.on_done: Callable[[int], None] = lambda count: None
        self._trim_padding = trim_padding
        self._model = model
        self._partitioner = partitioner
        self._evaluator = inference_evaluator_cls(
            mixture_or_task_name=cfg.mixture_or_task_name,
            feature_converter=unpacked_of(model),
            eval_split=cfg.split,
            use_cached=cfg.use_cached,
            seed=cfg.seed,
            sequence_length=cfg.task_feature_lengths,
            use_memory_cache=cfg.use_memory_cache,
            **logs,
        )
        _adapt_loggers(self._evaluator)
        if cfg.use_memory_cache:
            _hold_examples(self._evaluator)
        # Built at the first evaluation, because they need the axes of its train state.
        self._infer_fns: dict[str, Any] | None = None

    @property
    def model_feature_shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Shapes of the model features of one example."""
        return self._evaluator.model_feature_shapes

    @property
    def eval_tasks(self) -> Sequence[Any]:
        """Tasks that have the split and metrics."""
        return self._evaluator.eval_tasks

    @property
    def num_examples(self) -> int | None:
        """Number of examples per evaluation; None if unknown."""
        try:
            return sum(
                len(self._evaluator.cached_model_datasets[task.name])
                * sum(bool(getattr(task, name, ())) for name in _METRIC_FNS)
                for task in self.eval_tasks
            )
        # User-defined evaluators may lack these, and a dataset may have unknown length.
        except (AttributeError, KeyError, TypeError):
            return None

    def close(self) -> None:
        """Waits for pending metrics."""
        self._evaluator.close()

    def evaluate(self, train_state: Any, train_state_axes: Any) -> Any:
        """Predicts with PRNGKey(0), and scores; metrics follow in the background.

        Returns:
            Future of task name -> metric name -> value; None on processes other than 0.
        """
        if self._infer_fns is None:
            self._infer_fns = {
                name: get_infer_fn(
                    infer_step=step,
                    batch_size=self._cfg.batch_size,
                    train_state_axes=train_state_axes,
                    partitioner=self._partitioner,
                    trim_padding=self._trim_padding,
                    on_done=lambda count: self.on_done(count),
                )
                for name, step in (
                    ("predict_fn", self._model.predict_batch),
                    ("predict_with_aux_fn", self._model.predict_batch_with_aux),
                    ("score_fn", self._model.score_batch),
                )
            }
        kwargs = {}
        for name, infer_fn in self._infer_fns.items():
            rng = {} if name == "score_fn" else {"rng": jax.random.PRNGKey(0)}
            kwargs[name] = functools.partial(infer_fn, train_state=train_state, **rng)
        metrics, _ = self._evaluator.evaluate(
            compute_metrics=jax.process_index() == 0,
            step=int(to_host(train_state.step)),
            **kwargs,
        )
        return metrics


def _adapt_loggers(evaluator: Any) -> None:
    """Makes loggers work here.

    An evaluator with an attribute `events_dir` gets a TensorBoard logger for it.
    SeqIO's `TensorBoardLogger` writes only with the help of the TensorBoard package, so
    it is replaced where that is missing. A `JSONLogger` appends, so a step that is
    trained or evaluated again would have two lines.
    """
    seqio, loggers = sys.modules.get("seqio"), getattr(evaluator, "_loggers", None)
    if folder := getattr(evaluator, "events_dir", None):
        loggers = (TensorBoardLogger(folder), *evaluator._loggers)
    if not loggers:
        return
    has_tensorboard = importlib.util.find_spec("tensorboard") is not None

    def adapted(logger: Any) -> Any:
        kind = type(logger)
        if seqio and kind is seqio.TensorBoardLogger and not has_tensorboard:
            return TensorBoardLogger(logger.output_dir)
        if any(each.__name__ == "JSONLogger" for each in kind.__mro__):
            return functools.partial(_replace_step, logger)
        return logger

    evaluator._loggers = tuple(map(adapted, loggers))


def _replace_step(
    logger: Any, task_name: str, step: int | None, *args: Any, **kwargs: Any
) -> None:
    path = epath.Path(logger.output_dir) / f"{task_name}-metrics.jsonl"
    number = -1 if step is None else step
    if path.exists():
        lines = path.read_text().splitlines(keepends=True)
        kept = [line for line in lines if _step_of(line) != number]
        if kept != lines:
            with replacing(path) as temporary:
                temporary.write_text("".join(kept))
    logger(task_name, step, *args, **kwargs)


def _step_of(line: str) -> Any:
    """Returns the step of a metrics line; None for a damaged line, which is kept."""
    try:
        return json.loads(line)["step"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _hold_examples(evaluator: Any) -> None:
    """Makes `seqio.Evaluator` read the examples of each task only once."""
    datasets = getattr(evaluator, "_cached_task_datasets", None) or {}
    if datasets and all(map(is_tf_dataset, datasets.values())):
        evaluator._cached_task_datasets = {n: held(ds) for n, ds in datasets.items()}


class TensorBoardLogger:
    """Writes metrics under the tags `eval/<metric>`, like seqio's logger of that name.

    It has the interface of `seqio.Logger` and needs neither TensorFlow nor TensorBoard.
    """

    def __init__(self, output_dir: str):
        self.output_dir = output_dir
        self._writers: dict[str, Any] = {}

    def __call__(
        self,
        task_name: str,
        step: int | None,
        metrics: Mapping[str, Any],
        dataset: Any = None,
        inferences: Any = None,
        targets: Any = None,
    ) -> None:
        """Writes the metrics of one task."""
        del dataset, inferences, targets
        if task_name not in self._writers:
            folder = os.path.join(self.output_dir, task_name)
            self._writers[task_name] = TensorBoardWriter(folder)
        writer = self._writers[task_name]
        tagged = {f"eval/{name}": _plain(value) for name, value in metrics.items()}
        write_values(writer, -1 if step is None else step, tagged)
        writer.flush()


def _plain(value: Any) -> Any:
    """Converts seqio's text, image, audio, and histogram types to clu's."""
    from jaxaug_base import clu_names as clu

    if hasattr(value, "textdata"):
        text = value.textdata
        return clu.values.Text(text.decode() if isinstance(text, bytes) else text)
    if hasattr(value, "image"):
        return clu.values.Image(value.image[: value.max_outputs])
    if hasattr(value, "audiodata"):
        return clu.values.Audio(value.audiodata, value.sample_rate)
    if hasattr(value, "values"):
        return clu.values.Histogram(value.values, value.bins)
    return value


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


class BackgroundEvaluator:
    """Builds an evaluator in a thread, from the first step on.

    The first evaluation waits for it. An error of the thread is raised unchanged, by
    the next step or by the evaluation, whichever comes first.
    """

    def __init__(self, build: Callable[[], Any]):
        """Stores the function that returns the evaluator, or None."""
        self._build = build
        self._built: futures.Future | None = None

    def start(self) -> futures.Future:
        """Starts the build; later calls do nothing. Returns the evaluator's future."""
        if self._built is None:
            self._built = in_thread(self._build, "evaluator")
        return self._built

    def check(self) -> None:
        """Raises the error of the thread, if there is one; does not wait."""
        if self._built is not None and self._built.done():
            self._built.result()

    def join(self) -> Any:
        """Waits for the evaluator (or None); starts the build, and raises its error."""
        return self.start().result()

    def before_step(self, asked: Callable[[int], bool]) -> Callable[[int], bool]:
        """Returns a `BaseTrainer.preempted` that starts the thread after one step."""
        seen = 0

        def before(step: int) -> bool:
            nonlocal seen
            seen += 1
            # The first step takes priority over the build.
            if seen == 2:
                self.start()
            self.check()
            return asked(step)

        return before

    def __exit__(self, exc_type: object, *exc_info: object) -> None:
        """Closes the evaluator; after an error it does not wait for the thread."""
        built = self._built
        if built is None or (exc_type and (not built.done() or built.exception())):
            return
        if (evaluator := built.result()) is not None:
            evaluator.close()

    def __enter__(self) -> Self:
        return self
